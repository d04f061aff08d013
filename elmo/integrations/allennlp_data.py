"""The names of AllenNLP's data package that programs for ELMo use: tokens, their indexer and its character ids.

AllenNLP's instances, fields, iterators and configuration files have no stand-ins.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from elmo.errors import InputError
from elmo.formats import cache
from elmo.text.characters import BEGIN_WORD, END_WORD, PADDING, encode_words
from elmo.text.marks import BOS, EOS

WIDTH = 50
"""The number of character ids of a word, including its two marks."""
DEFAULT_PADDING_TOKEN, DEFAULT_OOV_TOKEN = "@@PADDING@@", "@@UNKNOWN@@"
TOKENS = "elmo_tokens"
"""The key of the indices since AllenNLP 1.0."""


class ConfigurationError(InputError):
    """AllenNLP's error for arguments that do not fit together."""

    @property
    def message(self) -> str:
        """The message, under the name that the original has for it."""
        return str(self)


@dataclass
class Token:
    """A token with its text."""

    text: str | None = None

    def __str__(self) -> str:
        return self.text or ""

    def ensure_text(self) -> str:
        """Returns the text. Raises ValueError if the token has none."""
        if self.text is None:
            raise ValueError("the token has no text")
        return self.text


class Vocabulary:
    """A vocabulary, which the indexer accepts but does not use."""


def cached_path(url_or_filename: str | Path, cache_dir: str | Path | None = None, **options: Any) -> str:
    """Returns the path of a file, or for the address of a published file, the path of its copy in elmo's cache.

    Nothing is downloaded: raises FileNotFoundError, which names the command, for a published model that is not in the
    cache. `cache_dir` and other options have no effect.
    """
    del cache_dir, options
    found = cache.local(url_or_filename)
    if found is None:
        raise FileNotFoundError(f"file {url_or_filename} not found")
    return str(found)


@dataclass
class ELMoCharacterMapper:
    """Maps a word to its 50 character ids, which are shifted by one, since 0 stands for no word.

    `tokens_to_add` maps each special token to the character that stands for it; this number is not shifted.
    """

    tokens_to_add: Mapping[str, int] | None = None

    max_word_length = WIDTH
    beginning_of_word_character, end_of_word_character = BEGIN_WORD - 1, END_WORD - 1
    padding_character = PADDING - 1
    beginning_of_sentence_character, end_of_sentence_character = 256, 257
    bos_token, eos_token = BOS, EOS

    def __post_init__(self) -> None:
        self.tokens_to_add = self.tokens_to_add or {}

    def convert_word_to_char_ids(self, word: str) -> list[int]:
        """Returns the ids of one word."""
        assert self.tokens_to_add is not None
        if word in self.tokens_to_add:
            ids = [BEGIN_WORD, self.tokens_to_add[word] + 1, END_WORD]
            return ids + [PADDING] * (WIDTH - len(ids))
        return encode_words([word], WIDTH)[0].tolist()


@dataclass(eq=False)
class ELMoTokenCharactersIndexer:
    """Turns tokens into character ids; it has the methods of AllenNLP 0.9 and those of versions 1 and 2."""

    namespace: str = "elmo_characters"
    tokens_to_add: Mapping[str, int] | None = None
    token_min_padding_length: int = 0
    _mapper: ELMoCharacterMapper = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._mapper = ELMoCharacterMapper(self.tokens_to_add)

    def count_vocab_items(self, token: Any, counter: Any) -> None:
        """Does nothing: characters need no vocabulary."""

    def tokens_to_indices(
        self, tokens: Sequence[Any], vocabulary: Any = None, index_name: str = TOKENS
    ) -> dict[str, list[list[int]]]:
        """Returns the ids of each token under `index_name`. Raises ConfigurationError for a token without text."""
        texts = [token.text for token in tokens]
        if any(text is None for text in texts):
            raise ConfigurationError("ELMoTokenCharactersIndexer needs tokens with their text")
        return {index_name: [self._mapper.convert_word_to_char_ids(text) for text in texts]}

    def get_padding_lengths(self, token: Any) -> dict[str, int]:
        """Returns nothing, since only the number of tokens varies."""
        return {}

    def get_empty_token_list(self) -> dict[str, list[Any]]:
        """Returns the indices of an empty list of tokens."""
        return {TOKENS: []}

    def as_padded_tensor(self, tokens: Any, desired_num_tokens: Any, padding_lengths: Any = None) -> Any:
        """Pads ids to `desired_num_tokens` with zeros: (T, 50). A dictionary gives a dictionary of tensors."""
        if isinstance(tokens, Mapping):
            return {name: _padded(ids, desired_num_tokens[name]) for name, ids in tokens.items()}
        return _padded(tokens, desired_num_tokens)

    def as_padded_tensor_dict(
        self, tokens: Mapping[str, list[list[int]]], padding_lengths: Mapping[str, int]
    ) -> dict[str, Tensor]:
        """Pads ids as `as_padded_tensor` does; AllenNLP has this method since 1.0."""
        return {name: _padded(ids, padding_lengths[name]) for name, ids in tokens.items()}


def _padded(ids: list[list[int]], length: int) -> Tensor:
    return torch.tensor([*ids[:length], *([[0] * WIDTH] * (length - len(ids)))], dtype=torch.long).view(-1, WIDTH)
