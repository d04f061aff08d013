"""The `Embedder` of ELMoForManyLangs, for programs written for it.

The original carried the LSTM state between batches and shuffled them, so its numbers changed from run to run. Here
every sentence starts from zero, like the first batch of a new `Embedder` there; `state="carry"` carries the state.
"""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from elmo.embedding.embedder import Embedder as OurEmbedder
from elmo.embedding.layers import Layers
from elmo.errors import InputError, is_whole
from elmo.integrations.originals import StandIn, StatePolicy, chosen_state
from elmo.model.bilm import BiLM
from elmo.text.given import token_lists
from elmo.text.lexicon import Lexicon


class Embedder(StandIn):
    """Embeds sentences with one model, on a GPU if there is one.

    `model_dir` is a folder of ELMoForManyLangs, or any other model that `elmo.load` opens. `batch_size` only has an
    effect with `state="carry"`: batches of sentences of similar length then run in an order drawn from Python's
    `random`. Each row starts from the state of the same row in the batch before, also across calls.
    """

    def __init__(self, model_dir: str | Path, batch_size: int = 64, *, state: StatePolicy | None = None) -> None:
        state = chosen_state(state)
        self.model_dir = model_dir
        self.batch_size = batch_size
        self._embedder = OurEmbedder.load(model_dir, state=state, batch_size=batch_size, keep_state=state == "carry")

    @property
    def model(self) -> BiLM:
        """The network."""
        return self._embedder.bilm

    @property
    def config(self) -> dict[str, Any]:
        """The sizes that programs read, under the names that the original has for them."""
        lstm = self.model.config.lstm
        encoder = {"name": "elmo", "dim": lstm.dim, "projection_dim": lstm.projection_dim, "n_layers": lstm.n_layers}
        return {"encoder": encoder | {"cell_clip": lstm.cell_clip, "proj_clip": lstm.proj_clip}}

    @property
    def use_cuda(self) -> bool:
        """Whether the model is on a GPU."""
        return self._embedder.device.type == "cuda"

    @property
    def word_lexicon(self) -> dict[str, int] | None:
        """The ids of words, if the model reads words."""
        return _ids(self._embedder.vocabulary, "words")

    @property
    def char_lexicon(self) -> dict[str, int] | None:
        """The ids of characters, if the model has such a table."""
        return _ids(self._embedder.vocabulary, "characters")

    def sents2elmo(self, sents: Sequence[Sequence[str]], output_layer: int = -1) -> list[np.ndarray]:
        """Returns one float32 array per sentence, in order, without boundaries.

        `output_layer` is the number of a layer (0 is the word encoder) or -1 for the average of all layers, which give
        (T, D), or -2 for all layers, which gives (N, T, D). An empty sentence has T = 0.
        """
        layers, lists = self._layers(output_layer), token_lists(sents)
        if self._embedder.state != "carry":
            return self._embedder.embed(lists, layers)
        by_length = sorted(range(len(lists)), key=lambda row: -len(lists[row]))
        starts = range(0, len(by_length), self.batch_size)
        batches = [by_length[start : start + self.batch_size] for start in starts]
        random.shuffle(batches)
        found: dict[int, np.ndarray] = {}
        for batch in batches:
            found |= zip(batch, self._embedder.embed([lists[row] for row in batch], layers), strict=True)
        return [found[row] for row in range(len(lists))]

    def _layers(self, output_layer: int) -> Layers:
        named: dict[int, Layers] = {-1: "average", -2: "all"}
        last = self._embedder.n_layers - 1
        if not is_whole(output_layer) or not -2 <= output_layer <= last:
            raise InputError(
                f"output_layer is {output_layer!r}; -1 (the average), -2 (all) or a number from 0 to {last} is expected"
            )
        return named.get(output_layer, output_layer)


def _ids(vocabulary: object, table: str) -> dict[str, int] | None:
    found = getattr(vocabulary, table) if isinstance(vocabulary, Lexicon) else None
    return None if found is None else dict(found)
