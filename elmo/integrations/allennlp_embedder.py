"""The `ElmoEmbedder` of AllenNLP 0.9: it turns sentences into arrays of all layers, or into AllenNLP's HDF5 file.

`dump_bilm_embeddings` is the function of bilm-tf, the original program, that writes such a file.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from torch import Tensor

from elmo.disk.files import atomic_path, check_output
from elmo.embedding.embedder import Embedder
from elmo.embedding.layers import layer_selector
from elmo.errors import InputError, check_whole
from elmo.formats.hdf5 import Hdf5Output
from elmo.integrations.allennlp_bilm import PathLike, _ElmoBiLm, remove_sentence_boundaries
from elmo.integrations.originals import StandIn, StatePolicy
from elmo.machine import usable_device
from elmo.text.batching import batch_to_ids
from elmo.text.given import SENTENCES, check_outer, token_lists

ADDRESS = "https://s3-us-west-2.amazonaws.com/allennlp/models/elmo/2x4096_512_2048cnn_2xhighway"
DEFAULT_OPTIONS_FILE = f"{ADDRESS}/elmo_2x4096_512_2048cnn_2xhighway_options.json"
DEFAULT_WEIGHT_FILE = f"{ADDRESS}/elmo_2x4096_512_2048cnn_2xhighway_weights.hdf5"
DEFAULT_BATCH_SIZE = 64


class ElmoEmbedder(StandIn):
    """Turns tokenised sentences into arrays (N, T, D) of all layers, without gradients and boundaries.

    `cuda_device` is a GPU's number, or -1 for the CPU; `state` and `allennlp` are those of `Elmo`.
    """

    def __init__(
        self,
        options_file: PathLike | None = DEFAULT_OPTIONS_FILE,
        weight_file: PathLike | None = DEFAULT_WEIGHT_FILE,
        cuda_device: int = -1,
        *,
        state: StatePolicy | None = None,
        allennlp: str | None = None,
    ) -> None:
        check_whole("cuda_device", cuda_device, least=-1)
        self.cuda_device = cuda_device
        usable_device(self._device)  # a missing GPU is reported before the weights are read
        self.elmo_bilm = _ElmoBiLm(options_file, weight_file, state=state, allennlp=allennlp).to(self._device)
        self._files = options_file, weight_file
        self._embedder: Embedder | None = None
        self._packed: list[Any] = []  # the state of the weights when the embedder packed them

    def batch_to_embeddings(self, batch: Iterable[Iterable[str]]) -> tuple[Tensor, Tensor]:
        """Returns the layers (B, N, T, D) of a batch, which are zero at padding, and its mask (B, T).

        They have gradients if the program lets `elmo_bilm` be trained.
        """
        is_trained = any(weight.requires_grad for weight in self.elmo_bilm.parameters())
        with torch.set_grad_enabled(is_trained and torch.is_grad_enabled()):
            output = self.elmo_bilm(batch_to_ids(batch).to(self._device))
        parts = [remove_sentence_boundaries(layer, output["mask"]) for layer in output["activations"]]
        return torch.stack([vectors for vectors, _ in parts], dim=1), parts[0][1]

    def embed_sentence(self, sentence: Iterable[str]) -> np.ndarray:
        """Returns all layers of one sentence: (N, T, D), float32. Raises InputError for a string."""
        return self.embed_batch([sentence])[0]

    def embed_batch(self, batch: Iterable[Iterable[str]]) -> list[np.ndarray]:
        """Returns all layers of each sentence, in order: (N, T, D); an empty sentence has T = 0.

        Raises InputError if a sentence is a string.
        """
        batch = token_lists(batch)
        if self.elmo_bilm._elmo_lstm.stateful:
            vectors, mask = self.batch_to_embeddings(batch)
            lengths = mask.sum(dim=1).tolist()
            return [row[:, :length].detach().cpu().numpy() for row, length in zip(vectors, lengths, strict=True)]
        weights = [(self._device, weight.data_ptr(), weight._version) for weight in self.elmo_bilm.bilm.parameters()]
        if self._embedder is None or self._packed != weights:  # a program may load other weights, or train these
            self._embedder, self._packed = Embedder(self.elmo_bilm.bilm, device=self._device), weights
        return self._embedder.embed(batch)

    def embed_sentences(
        self, sentences: Iterable[Iterable[str]], batch_size: int = DEFAULT_BATCH_SIZE
    ) -> Iterator[np.ndarray]:
        """Yields the array of one sentence at a time, as in `embed_batch`, for any number of sentences."""
        check_whole("batch_size", batch_size)
        waiting = iter(check_outer(sentences, SENTENCES))
        while batch := list(islice(waiting, batch_size)):
            yield from self.embed_batch(batch)

    def embed_file(
        self,
        input_file: IO[str] | Iterable[str],
        output_file_path: PathLike,
        output_format: str = "all",
        batch_size: int = DEFAULT_BATCH_SIZE,
        forget_sentences: bool = False,
        use_sentence_keys: bool = False,
        *,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        """Writes the vectors of every line (whitespace-separated tokens) to an HDF5 file; replaces an existing one.

        `output_format` is "all", "top" or "average". A line's dataset is named by its number, or with
        `use_sentence_keys` by the line itself; `sentence_to_index` maps lines to numbers, unless `forget_sentences`.
        An empty line has an empty dataset. `progress` gets the number of lines written.
        Raises InputError for repeated lines with `use_sentence_keys`, and if the output is the input or the
        model.
        """
        if output_format not in ("all", "top", "average"):
            raise InputError(f"output_format is {output_format!r}; all, top or average is expected")
        check_outer(input_file, "an open file or a list of lines is expected: open(path)")
        name = getattr(input_file, "name", None)
        inputs = [*self._files, name if isinstance(name, str) else None]
        check_output(Path(output_file_path), overwrite=True, inputs=inputs)
        select = layer_selector(output_format, self.elmo_bilm.num_layers)
        sentences = [line.strip() for line in input_file]
        vectors = self.embed_sentences((sentence.split() for sentence in sentences), batch_size)
        with atomic_path(Path(output_file_path), overwrite=True) as temporary, Hdf5Output(temporary) as output:
            for number, (sentence, array) in enumerate(zip(sentences, vectors, strict=True)):
                key = sentence if use_sentence_keys else str(number)
                try:
                    if not key.strip("./ ") or "\0" in key or key in output.file:
                        raise ValueError("it is empty, repeated or contains the character 0")
                    output.file.create_dataset(key, data=select(torch.from_numpy(array)).numpy())
                except (TypeError, ValueError) as error:  # HDF5 raises them, too: a dataset "and" excludes "and/or"
                    raise InputError(
                        f"{output_file_path}: line {number} ({key[:40]!r}) cannot be a key ({error}); use line numbers"
                        " (without --use-sentence-keys)"
                    ) from error
                output.check()
                if progress is not None:
                    progress(number + 1)
            if not (forget_sentences or use_sentence_keys):
                index = json.dumps({sentence: str(number) for number, sentence in enumerate(sentences)})
                output.file.create_dataset("sentence_to_index", data=[index])

    @property
    def _device(self) -> torch.device:
        return torch.device("cpu" if self.cuda_device < 0 else f"cuda:{self.cuda_device}")

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_embedder": None}  # the copy packs the weights for its own processor


def dump_bilm_embeddings(
    vocab_file: PathLike,
    dataset_file: PathLike,
    options_file: PathLike,
    weight_file: PathLike,
    outfile: PathLike,
    *,
    state: StatePolicy | None = None,
) -> None:
    """Writes all layers (N, T, D) of every line of a file to HDF5, as the datasets 0, 1, ...; spaces separate tokens.

    `vocab_file` has no effect: every word is encoded once anyway. With `state="carry"` each line is read in a batch of
    its own, from the state after the line before, as the original did.
    """
    del vocab_file
    embedder = ElmoEmbedder(options_file, weight_file, state=state)
    batch_size = 1 if embedder.elmo_bilm._elmo_lstm.stateful else DEFAULT_BATCH_SIZE
    with Path(dataset_file).open(encoding="utf-8") as lines:
        embedder.embed_file(lines, outfile, batch_size=batch_size, forget_sentences=True)
