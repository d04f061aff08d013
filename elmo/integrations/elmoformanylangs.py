"""The `Embedder` of ELMoForManyLangs, for programs written for it.

The original carried the LSTM state between batches and shuffled them, so its numbers changed from run to run. Here
every sentence starts from zero, like the first batch of a new `Embedder` there.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from elmo.embedding.embedder import Embedder as OurEmbedder
from elmo.embedding.layers import Layers
from elmo.errors import InputError


class Embedder:
    """One model, on a GPU if there is one.

    `model_dir` is a folder of ELMoForManyLangs, or any other model that `elmo.load` opens. `batch_size` is accepted but
    has no effect: sentence lengths determine batches.
    """

    def __init__(self, model_dir: str | Path, batch_size: int = 64) -> None:
        self.model_dir = model_dir
        self.batch_size = batch_size
        self._embedder = OurEmbedder.load(model_dir)

    def sents2elmo(self, sents: Sequence[Sequence[str]], output_layer: int = -1) -> list[np.ndarray]:
        """One float32 array per sentence, in order, without boundaries.

        `output_layer` is a layer's number (0 is the word encoder): (T, D); -1, the average of all layers: (T, D); or
        -2, all layers: (N, T, D). An empty sentence has T = 0.
        """
        return self._embedder.embed(sents, self._layers(output_layer))

    def _layers(self, output_layer: int) -> Layers:
        named: dict[int, Layers] = {-1: "average", -2: "all"}
        if output_layer not in named and not 0 <= output_layer < self._embedder.n_layers:
            raise InputError(
                f"output_layer is {output_layer!r}; -1 (the average), -2 (all) or a number from 0 to"
                f" {self._embedder.n_layers - 1} is expected"
            )
        return named.get(output_layer, output_layer)
