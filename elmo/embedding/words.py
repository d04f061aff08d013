"""Caches the context-free vectors of words."""

from collections.abc import Callable, Sequence
from functools import partial
from threading import RLock

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from elmo.embedding.graphs import GraphReader
from elmo.errors import InputError
from elmo.forking import held_elsewhere, renew_at_fork, settle_child
from elmo.model.bilm import BiLM
from elmo.model.config import BiLMConfig
from elmo.text.characters import encode_words
from elmo.text.lexicon import Lexicon
from elmo.text.normalization import respell_before
from elmo.text.vocabulary import Vocabulary

CACHE_BYTES = 32_000_000
Encode = Callable[[Sequence[str]], np.ndarray]
"""A function from words to their rows (W, C) in `Batch.char_ids`."""


def word_encoder(
    config: BiLMConfig, vocabulary: Vocabulary | Lexicon | None, normalize: tuple[str, ...] = ()
) -> Encode:
    """Returns the function that turns words into a model's ids: of bytes, of a vocabulary, or of words and characters.

    `normalize` names the steps to the spelling that the model reads, as in `TextConfig`.
    """
    if config.word_cnn is not None:
        if not isinstance(vocabulary, Lexicon):
            raise InputError("the model reads words and characters as ids in a lexicon, but no lexicon is given")
        encode: Encode = vocabulary.encode
    elif config.char_cnn is not None:
        encode = partial(encode_words, max_characters=config.char_cnn.max_characters_per_token)
    elif not isinstance(vocabulary, Vocabulary):
        raise InputError("the model reads words as ids in its vocabulary, but no vocabulary is given")
    elif len(vocabulary) != config.n_tokens_vocab:
        raise InputError(f"the vocabulary has {len(vocabulary):,} words; the model has {config.n_tokens_vocab:,}")
    else:
        encode = vocabulary.encode
    return respell_before(encode, normalize)


class WordVectors:
    """A cache of about `cache_bytes` in front of a model's token encoder, which is emptied when it is full.

    Its vectors are exactly those of the encoder. Threads may share it.
    """

    def __init__(
        self, bilm: BiLM | GraphReader, encode: Encode, device: torch.device, cache_bytes: int = CACHE_BYTES
    ) -> None:
        self._bilm = bilm
        self._encode_ids = encode
        self._device = device
        size = bilm.config.lstm.projection_dim
        self._table = torch.empty(max(1, cache_bytes // (4 * size)), size, dtype=torch.float32, device=device)
        self._rows: dict[str, int] = {}
        self._most_characters = cache_bytes // 4  # the words themselves are bounded, too; a character has 1 to 4 bytes
        self._characters = 0
        self.lock = RLock()  # the encoder lets other threads run while it computes
        self.times_emptied = 0
        renew_at_fork(self, WordVectors._renew)

    def __call__(self, words: Sequence[str]) -> Float[Tensor, "W P"]:
        """Returns the vectors (W, P) of distinct `words`."""
        settle_child()
        with self.lock:
            new = [word for word in words if word not in self._rows]
            if not self._fit(new):
                self.clear()
                new = list(words)
                if not self._fit(new):
                    return self._encode(new)
            if new:
                self._add(new, self._encode(new))
            rows = np.fromiter(map(self._rows.__getitem__, words), np.int64, len(words))
            return self._table[torch.from_numpy(rows).to(self._device)]

    def __len__(self) -> int:
        return len(self._rows)

    def clear(self) -> None:
        """Forgets all words."""
        with self.lock:
            self._rows.clear()
            self._characters = 0
            self.times_emptied += 1

    def known(self, begin: int = 0) -> tuple[list[str], Float[np.ndarray, "W P"]]:
        """Returns the cached words from index `begin` on, and their vectors."""
        with self.lock:
            return list(self._rows)[begin:], self._table[begin : len(self._rows)].cpu().numpy()

    def keep(self, words: Sequence[str], vectors: Float[np.ndarray, "W P"]) -> None:
        """Adds words and vectors that `known` returned."""
        with self.lock:
            self._add(words, torch.from_numpy(vectors).to(self._device))

    def fresh(self, words: Sequence[str]) -> Float[Tensor, "W P"]:
        """Computes the vectors of `words` without the cache."""
        settle_child()
        return self._encode(words)

    def _renew(self) -> None:
        if held_elsewhere(self.lock):
            self.lock = RLock()
            self.clear()  # a word may be half added

    def _fit(self, new: Sequence[str]) -> bool:
        few = len(self._rows) + len(new) <= len(self._table)
        return few and self._characters + sum(map(len, new)) <= self._most_characters

    def _add(self, new: Sequence[str], vectors: Float[Tensor, "W P"]) -> None:
        begin = len(self._rows)
        self._table[begin : begin + len(new)] = vectors
        self._rows.update(zip(new, range(begin, begin + len(new)), strict=True))
        self._characters += sum(map(len, new))

    def _encode(self, words: Sequence[str]) -> Float[Tensor, "W P"]:
        ids = self._encode_ids(words)
        return self._bilm.encode_words(torch.from_numpy(ids).long().to(self._device))
