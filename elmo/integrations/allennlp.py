"""The ELMo classes of AllenNLP 0.9, with the same names and results, for programs written for them.

- `Elmo`, `batch_to_ids`: a module for a task's network, biLM and learned mixes
- `ElmoEmbedder`: sentences -> arrays of all layers; `embed_file` writes AllenNLP's HDF5 layout
- files may be given by their published addresses, once `elmo pull` has downloaded them
- state dicts saved from AllenNLP's classes load; inner names that programs use are AllenNLP's

AllenNLP's LSTMs kept their state, so a repeated sentence got different vectors. Here every sentence starts from zero;
`state="carry"` does what AllenNLP did.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from elmo import formats
from elmo.disk.files import whole
from elmo.embedding.embedder import Embedder
from elmo.embedding.layers import selection
from elmo.errors import InputError
from elmo.formats import allennlp_state
from elmo.formats.hdf5 import Hdf5Output
from elmo.formats.stored import Model, check_shapes
from elmo.machine import usable_device
from elmo.model.bilm import BiLM
from elmo.model.scalar_mix import ScalarMix
from elmo.text.batching import batch_to_ids as batch_to_ids
from elmo.text.batching import token_lists
from elmo.text.characters import BOS, END_WORD, EOS, PADDING, encode_words
from elmo.types import Batch, LstmState

ADDRESS = "https://s3-us-west-2.amazonaws.com/allennlp/models/elmo/2x4096_512_2048cnn_2xhighway"
DEFAULT_OPTIONS_FILE = f"{ADDRESS}/elmo_2x4096_512_2048cnn_2xhighway_options.json"
DEFAULT_WEIGHT_FILE = f"{ADDRESS}/elmo_2x4096_512_2048cnn_2xhighway_weights.hdf5"
DEFAULT_BATCH_SIZE = 64

PathLike = str | Path
StatePolicy = Literal["reset", "carry"]


class Elmo(nn.Module):
    """A biLM and `num_output_representations` learned mixes of its layers.

    `options_file` and `weight_file` are those of a published model. `requires_grad` also trains the biLM; the mixes are
    always trained, unless `scalar_mix_parameters` (before the softmax) fixes them. `vocab_to_cache` lists words to
    encode once; inputs then give their index in this list. `module` replaces the biLM: it has `num_layers`, and a
    `forward` that returns a dictionary of `activations` and `mask`.
    """

    def __init__(
        self,
        options_file: PathLike | None,
        weight_file: PathLike | None,
        num_output_representations: int,
        requires_grad: bool = False,
        do_layer_norm: bool = False,
        dropout: float = 0.5,
        vocab_to_cache: list[str] | None = None,
        keep_sentence_boundaries: bool = False,
        scalar_mix_parameters: Sequence[float | int] | None = None,
        module: nn.Module | None = None,
        *,
        state: StatePolicy = "reset",
    ) -> None:
        super().__init__()
        if module is not None and (options_file is not None or weight_file is not None):
            raise InputError("module was given together with options_file or weight_file; give None for both files")
        self._elmo_lstm: Any = module or _ElmoBiLm(
            options_file, weight_file, requires_grad, vocab_to_cache, state=state
        )
        self._has_cached_vocab = vocab_to_cache is not None
        self._keep_sentence_boundaries = keep_sentence_boundaries
        self._dropout = nn.Dropout(dropout)
        self._mixes = [f"scalar_mix_{k}" for k in range(num_output_representations)]  # as in AllenNLP's state dicts
        for name in self._mixes:
            self.add_module(name, _mix(self._elmo_lstm.num_layers, do_layer_norm, scalar_mix_parameters))
        self.register_load_state_dict_pre_hook(_read_mixes)

    def get_output_dim(self) -> int:
        """The size of a vector (D)."""
        return self._elmo_lstm.get_output_dim()

    def forward(self, inputs: Tensor | None, word_inputs: Tensor | None = None) -> dict[str, Any]:
        """The mixes of a batch: `elmo_representations`, a list of (B, T, D), and `mask` (B, T), int64.

        `inputs` is (B, T, 50) as from `batch_to_ids`, `word_inputs` is (B, T), for `vocab_to_cache`; both may have more
        axes between B and T, which the results keep. Padding is zero. With `keep_sentence_boundaries`, T includes `<S>`
        and `</S>`.
        """
        if self._has_cached_vocab and word_inputs is None and inputs is not None and inputs.ndim == 2:
            inputs, word_inputs = None, inputs
        if not self._has_cached_vocab:
            word_inputs = None
        outer = _outer_shape(inputs, word_inputs)
        output = self._elmo_lstm(
            None if inputs is None else inputs.flatten(0, -3),
            None if word_inputs is None else word_inputs.flatten(0, -2),
        )
        layers, mask = torch.stack(list(output["activations"])), output["mask"] > 0
        mixed = [getattr(self, name)(layers, mask) * mask[:, :, None] for name in self._mixes]
        if not self._keep_sentence_boundaries:
            mixed = [_without_boundaries(vectors, mask) for vectors in mixed]
            mask = mask[:, 2:]  # two tokens fewer: a mask is ones, then zeros
        mixed = [self._dropout(vectors) for vectors in mixed]
        return {
            "elmo_representations": [vectors.view(*outer, *vectors.shape[-2:]) for vectors in mixed],
            "mask": mask.long().view(*outer, mask.shape[-1]),
        }


class _ElmoBiLm(nn.Module):
    """The biLM alone, which adds boundaries: all layers of a batch. AllenNLP's name, which programs import."""

    def __init__(
        self,
        options_file: PathLike | None,
        weight_file: PathLike | None,
        requires_grad: bool = False,
        vocab_to_cache: list[str] | None = None,
        *,
        state: StatePolicy = "reset",
    ) -> None:
        super().__init__()
        self.bilm: BiLM = _load(options_file, weight_file).bilm().requires_grad_(requires_grad)
        self._elmo_lstm = _Memory(state)
        self._word_embedding: nn.Embedding | None = None
        if vocab_to_cache:
            vectors = self._encode(vocab_to_cache).detach()
            self._word_embedding = nn.Embedding.from_pretrained(vectors, freeze=not requires_grad)
        self.register_load_state_dict_pre_hook(_read_weights)

    @property
    def num_layers(self) -> int:
        """Layers of vectors (N), the token layer included."""
        return self.bilm.config.lstm.n_layers + 1

    def get_output_dim(self) -> int:
        """The size of a vector (D)."""
        return 2 * self.bilm.config.lstm.projection_dim

    def forward(self, inputs: Tensor | None, word_inputs: Tensor | None = None) -> dict[str, Any]:
        """`activations`, a list of N tensors (B, T + 2, D), and `mask` (B, T + 2), int64; see `Elmo.forward`.

        `word_inputs` is used if all its words are cached, else `inputs`.
        """
        if word_inputs is not None and self._word_embedding is not None and self._all_known(word_inputs):
            tokens, lengths = self._word_embedding(word_inputs), (word_inputs > 0).sum(dim=1)
            begin, end = self._encode([BOS, EOS])
        elif inputs is not None:
            tokens, lengths = _to_width(inputs, self._characters), (inputs > 0).any(dim=-1).sum(dim=1)
            begin, end = torch.from_numpy(encode_words([BOS, EOS], self._characters)).to(tokens)
        else:
            raise InputError("word_inputs has words that are not in vocab_to_cache; also give inputs, their characters")
        tokens, lengths = _with_boundaries(tokens, lengths, begin, end), lengths + 2
        state = self._elmo_lstm.before(self.bilm, len(tokens))
        if tokens.is_floating_point():
            output = self.bilm.contextualize(tokens, lengths, state)
        else:
            output = self.bilm(Batch(tokens.long(), lengths), state)
        self._elmo_lstm.after(output.state)
        return {"activations": list(output.layers), "mask": output.mask.long()}

    @property
    def _characters(self) -> int:
        return self.bilm.config.ids_per_token

    def _all_known(self, word_inputs: Tensor) -> bool:
        assert self._word_embedding is not None
        return int(word_inputs.max()) < self._word_embedding.num_embeddings if word_inputs.numel() else True

    def _encode(self, words: Sequence[str]) -> Float[Tensor, "W P"]:
        char_ids = torch.from_numpy(encode_words(words, self._characters)).long()
        return self.bilm.encode_words(char_ids.to(self.bilm.token_encoder.embedding.device))


class _Memory:
    """The LSTM state carried between calls, where AllenNLP kept it: `elmo._elmo_lstm._elmo_lstm`.

    Row i of a batch continues from row i of the previous batch. Additional rows start from zero; rows that a smaller
    batch lacks keep their state.
    """

    def __init__(self, state: StatePolicy) -> None:
        if state not in ("reset", "carry"):
            raise InputError(f"state is {state!r}; reset or carry is expected")
        self.stateful = state == "carry"
        self._states: tuple[Tensor, ...] = ()

    def reset_states(self) -> None:
        """Forgets the state."""
        self._states = ()

    def before(self, bilm: BiLM, rows: int) -> LstmState | None:
        """The initial state of a batch with `rows` rows."""
        if not self.stateful:
            return None
        kept = self._states[0].shape[2] if self._states else 0
        new = bilm.initial_state(max(rows, kept))
        for part, old in zip(new, self._states, strict=False):
            part[:, :, :kept] = old
        self._states = tuple(new)
        return LstmState(*(part[:, :, :rows] for part in new))

    def after(self, state: LstmState) -> None:
        """Keeps the state after a batch."""
        if self.stateful:
            for part, left in zip(self._states, state, strict=True):
                part[:, :, : left.shape[2]] = left.detach()


class ElmoEmbedder:
    """Tokenised sentences -> arrays (N, T, D) of all layers, without gradients or boundaries.

    `cuda_device` is a GPU's number, or -1 for the CPU.
    """

    def __init__(
        self,
        options_file: PathLike | None = DEFAULT_OPTIONS_FILE,
        weight_file: PathLike | None = DEFAULT_WEIGHT_FILE,
        cuda_device: int = -1,
        *,
        state: StatePolicy = "reset",
    ) -> None:
        self.cuda_device = cuda_device
        usable_device(self._device)  # refuse it before the weights are read
        self.elmo_bilm = _ElmoBiLm(options_file, weight_file, state=state).to(self._device)
        self._embedder: Embedder | None = None
        self._packed: list[Any] = []  # marks of the weights that it has packed

    def batch_to_embeddings(self, batch: Iterable[Iterable[str]]) -> tuple[Tensor, Tensor]:
        """The layers (B, N, T, D) of a batch, zero at padding, and its mask (B, T), int64."""
        with torch.no_grad():
            output = self.elmo_bilm(batch_to_ids(batch).to(self._device))
        mask = output["mask"] > 0
        layers = [_without_boundaries(layer, mask) for layer in output["activations"]]
        return torch.stack(layers, dim=1), mask[:, 2:].long()

    def embed_sentence(self, sentence: Iterable[str]) -> np.ndarray:
        """All layers of one sentence: (N, T, D), float32. Raises InputError for a string."""
        return self.embed_batch([sentence])[0]

    def embed_batch(self, batch: Iterable[Iterable[str]]) -> list[np.ndarray]:
        """All layers of each sentence, in order: (N, T, D); an empty sentence has T = 0.

        Raises InputError for strings as sentences.
        """
        batch = token_lists(batch)
        if self.elmo_bilm._elmo_lstm.stateful:
            vectors, mask = self.batch_to_embeddings(batch)
            lengths = mask.sum(dim=1).tolist()
            return [row[:, :length].cpu().numpy() for row, length in zip(vectors, lengths, strict=True)]
        weights = [(self._device, weight.data_ptr(), weight._version) for weight in self.elmo_bilm.bilm.parameters()]
        if self._embedder is None or self._packed != weights:  # a program may load others, or train these
            self._embedder, self._packed = Embedder(self.elmo_bilm.bilm, device=self._device), weights
        return self._embedder.embed(batch)

    def embed_sentences(
        self, sentences: Iterable[Iterable[str]], batch_size: int = DEFAULT_BATCH_SIZE
    ) -> Iterator[np.ndarray]:
        """Like `embed_batch`, one array at a time, for any number of sentences."""
        if batch_size < 1:
            raise InputError(f"batch_size is {batch_size}; at least 1 is expected")
        waiting = iter(sentences)
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
        Raises InputError for repeated lines with `use_sentence_keys`.
        """
        if output_format not in ("all", "top", "average"):
            raise InputError(f"output_format is {output_format!r}; all, top or average is expected")
        select = selection(output_format, self.elmo_bilm.num_layers)
        sentences = [line.strip() for line in input_file]
        vectors = self.embed_sentences((sentence.split() for sentence in sentences), batch_size)
        with whole(Path(output_file_path), overwrite=True) as temporary, Hdf5Output(temporary) as output:
            for number, (sentence, array) in enumerate(zip(sentences, vectors, strict=True)):
                key = sentence if use_sentence_keys else str(number)
                try:
                    if not key.strip("./ ") or "\0" in key or key in output.file:
                        raise ValueError("it is empty, repeated or contains the character 0")
                    output.file.create_dataset(key, data=select(torch.from_numpy(array)).numpy())
                except (TypeError, ValueError) as error:  # also from HDF5: a dataset "and" excludes "and/or"
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
        return self.__dict__ | {"_embedder": None}  # the copy packs weights for its own processor


def _read_mixes(module: nn.Module, state_dict: dict[str, Any], prefix: str, *_: Any) -> None:
    """Converts AllenNLP's mixes, which have one parameter per weight, to ours."""
    for mix in (f"{prefix}{name}." for name, _ in module.named_children() if name.startswith("scalar_mix_")):
        scalars = [name for name in state_dict if name.startswith(f"{mix}scalar_parameters.")]
        if scalars:
            scalars.sort(key=lambda name: int(name.rpartition(".")[2]))
            state_dict[f"{mix}scalars"] = torch.cat([state_dict.pop(name).reshape(1) for name in scalars])
        if f"{mix}gamma" in state_dict:
            state_dict[f"{mix}gamma"] = state_dict[f"{mix}gamma"].reshape(())


def _read_weights(module: "_ElmoBiLm", state_dict: dict[str, Any], prefix: str, *_: Any) -> None:
    """Converts weights with AllenNLP's names to ours."""
    theirs = [name for name in state_dict if allennlp_state.is_foreign(name.removeprefix(prefix))]
    if not theirs:
        return
    tensors = {name.removeprefix(prefix): state_dict.pop(name) for name in theirs}
    config = module.bilm.config
    seen = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    check_shapes("the state dict", seen, allennlp_state.state_shapes(config), "it is of a biLM with other options")
    weights = allennlp_state.to_weights(config, tensors)
    state_dict.update({f"{prefix}bilm.{name}": weight for name, weight in weights.items()})


def _load(options_file: PathLike | None, weight_file: PathLike | None) -> Model:
    """The model in two files; without options, anything that `elmo.load` opens."""
    if weight_file is None:
        raise InputError("weight_file is None; a weights file or a module is expected")
    model = formats.load(weight_file) if options_file is None else formats.load(options_file, weight_file)
    if model.config.char_cnn is None:
        raise InputError(f"{weight_file}: its model reads {model.config.reads}; AllenNLP's classes read characters")
    return model


def _mix(n_layers: int, layer_norm: bool, fixed: Sequence[float | int] | None) -> ScalarMix:
    mix = ScalarMix(n_layers, layer_norm)
    if fixed is not None:
        if len(fixed) != n_layers:
            raise InputError(f"scalar_mix_parameters has {len(fixed)} numbers; the model has {n_layers} layers")
        mix.requires_grad_(False)
        mix.scalars.copy_(torch.tensor(fixed, dtype=torch.float32))
    return mix


def _outer_shape(inputs: Tensor | None, word_inputs: Tensor | None) -> torch.Size:
    """The axes before the token axis."""
    if word_inputs is not None:
        return word_inputs.shape[:-1]
    if inputs is None or inputs.ndim < 3:
        shape = None if inputs is None else tuple(inputs.shape)
        raise InputError(f"inputs has shape {shape}; (B, T, 50) is expected, as from batch_to_ids")
    return inputs.shape[:-2]


def _to_width(char_ids: Int[Tensor, "B T c"], width: int) -> Int[Tensor, "B T C"]:
    """The same words with `width` characters, cut or padded as they would have been encoded."""
    missing = width - char_ids.shape[-1]
    if missing > 0:
        padding = torch.where(char_ids[..., :1] > 0, PADDING, 0)
        return torch.cat([char_ids, padding.expand(-1, -1, missing)], dim=-1)
    if missing < 0:
        goes_on = (char_ids[..., width] != PADDING) & (char_ids[..., 0] > 0)
        char_ids = char_ids[..., :width].clone()
        char_ids[..., -1] = torch.where(goes_on, END_WORD, char_ids[..., -1])
    return char_ids


def _with_boundaries(tokens: Tensor, lengths: Int[Tensor, " B"], begin: Tensor, end: Tensor) -> Tensor:
    """(B, T, X) -> (B, T + 2, X): `begin` before and `end` after each row's tokens."""
    rows, steps, size = tokens.shape
    longer = tokens.new_zeros(rows, steps + 2, size)
    longer[:, 1:-1] = tokens
    longer[:, 0] = begin
    longer[torch.arange(rows, device=tokens.device), lengths + 1] = end
    return longer


def _without_boundaries(vectors: Float[Tensor, "B T D"], mask: Tensor) -> Float[Tensor, "B t D"]:
    """(B, T + 2, D) -> (B, T, D): without each row's two boundaries, zeros after its tokens."""
    return vectors[:, 1:-1] * mask[:, 2:, None]
