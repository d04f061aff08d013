"""WordVectors: the context-free vector of every word, computed once and kept for the words that come again."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from elmo.model.bilm import BiLM
from elmo.text.characters import encode_words

CACHE_BYTES = 32_000_000


class WordVectors:
    """A cache of about `cache_bytes` in front of a model's token encoder. When it is full it begins anew.

    Memory only: a vector from here is the one that the encoder gives.
    """

    def __init__(self, bilm: BiLM, device: torch.device, cache_bytes: int = CACHE_BYTES) -> None:
        self._bilm = bilm
        self._device = device
        size = bilm.config.lstm.projection_dim
        self._table = torch.empty(max(1, cache_bytes // (4 * size)), size, device=device)
        self._rows: dict[str, int] = {}

    def __call__(self, words: Sequence[str]) -> Float[Tensor, "W P"]:
        """The vectors of distinct `words`."""
        new = [word for word in words if word not in self._rows]
        if len(self._rows) + len(new) > len(self._table):
            self._rows.clear()
            new = list(words)
        if len(new) > len(self._table):
            return self._encode(new)
        if new:
            begin = len(self._rows)
            self._table[begin : begin + len(new)] = self._encode(new)
            self._rows.update(zip(new, range(begin, begin + len(new)), strict=True))
        rows = np.fromiter(map(self._rows.__getitem__, words), np.int64, len(words))
        return self._table[torch.from_numpy(rows).to(self._device)]

    def _encode(self, words: Sequence[str]) -> Float[Tensor, "W P"]:
        char_ids = encode_words(words, self._bilm.config.char_cnn.max_characters_per_token)
        return self._bilm.encode_words(torch.from_numpy(char_ids).long().to(self._device))
