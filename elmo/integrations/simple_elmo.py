"""The `ElmoModel` of simple_elmo, for programs written for it, with the behaviour that its README describes.

Two errors of the original are corrected: the average of all layers uses each layer's own vectors, and padding is never
counted. Every sentence starts from zero; the original warmed up and carried the LSTM state.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from elmo.embedding.embedder import Embedder
from elmo.embedding.pooling import Pool
from elmo.errors import InputError

CHOICES = ("average", "top", "all")


class ElmoModel:
    """A model, after `load`."""

    def __init__(self) -> None:
        self._embedder: Embedder | None = None

    def load(self, directory: str | Path, max_batch_size: int = 32, limit: int = 100, full: bool = False) -> None:
        """Opens a model: a folder of options and weights, a ZIP of the NLPL repository, or what `elmo.load` opens.

        The other arguments are accepted but have no effect: sentence lengths determine batches, words are encoded once
        regardless of `limit`, and `elmo.formats` loads a model with its softmax.
        """
        self._embedder = Embedder.load(directory)

    def get_elmo_vectors(
        self,
        texts: Sequence[Sequence[str]],
        warmup: bool = True,
        layers: str = "average",
        session: Any = None,
    ) -> np.ndarray:
        """Vectors of all tokens: (sentences, T of the longest, D); for layers "all", (sentences, N, T, D).

        Zero after a sentence's last token. `layers` is "average", "top" or "all"; `warmup` and `session` have no
        effect.
        """
        arrays = self._embed(texts, layers)
        longest = max((array.shape[-2] for array in arrays), default=0)
        vectors = np.zeros((len(arrays), *self._shape(layers, longest)), np.float32)
        for row, array in zip(vectors, arrays, strict=True):
            row[..., : array.shape[-2], :] = array
        return vectors

    def get_elmo_vector_average(
        self,
        texts: Sequence[Sequence[str]],
        warmup: bool = True,
        layers: str = "average",
        session: Any = None,
    ) -> np.ndarray:
        """The mean of a sentence's vectors, scaled to length 1: (sentences, D); for layers "all", (sentences, N, D).

        For "all", the whole matrix has length 1. Zero for an empty sentence. The arguments are those of
        `get_elmo_vectors`.
        """
        means = self._embed(texts, layers, "mean")
        lengths = [float(np.linalg.norm(mean)) or 1.0 for mean in means]
        units = [mean / length for mean, length in zip(means, lengths, strict=True)]
        return np.stack(units) if units else np.zeros((0, *self._shape(layers)), np.float32)

    @property
    def vector_size(self) -> int:
        """D."""
        return self._loaded.dim

    @property
    def n_layers(self) -> int:
        """N."""
        return self._loaded.n_layers

    def _embed(self, texts: Sequence[Sequence[str]], layers: str, pool: Pool | None = None) -> list[np.ndarray]:
        if layers not in CHOICES:
            raise InputError(f"layers is {layers!r}; one of {', '.join(CHOICES)} is expected")
        return self._loaded.embed(texts, layers, pool)

    def _shape(self, layers: str, *tokens: int) -> tuple[int, ...]:
        every = (self._loaded.n_layers,) if layers == "all" else ()
        return (*every, *tokens, self._loaded.dim)

    @property
    def _loaded(self) -> Embedder:
        if self._embedder is None:
            raise InputError("no model is loaded; call load(path) first")
        return self._embedder
