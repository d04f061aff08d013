"""Sentences -> padded batches of character ids.

- `to_batch`: boundaries added, what a biLM reads
- `by_length`: which sentences to batch together; `in_parts`: a stream in parts of a given number of tokens
- `batch_to_ids`: without boundaries, with AllenNLP's name and layout
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from elmo.errors import InputError
from elmo.text.characters import BOS, EOS, encode_words
from elmo.text.lexicon import Lexicon
from elmo.text.vocabulary import Vocabulary
from elmo.types import Batch

S = TypeVar("S", bound=Sequence[str])


def to_batch(
    sentences: Iterable[Iterable[str]], max_characters: int = 50, vocabulary: Vocabulary | Lexicon | None = None
) -> Batch:
    """Tokenised sentences as a batch, with `<S>` and `</S>` around each; an empty sentence has only these two.

    Pass a `Vocabulary` for a model that reads words (each token is one id), a `Lexicon` for one that reads words and
    code points.
    """
    sentences = token_lists(sentences)
    encode = partial(encode_words, max_characters=max_characters) if vocabulary is None else vocabulary.encode
    return _pad([[BOS, *sentence, EOS] for sentence in sentences], encode)


def batch_to_ids(sentences: Iterable[Iterable[str]]) -> Int[Tensor, "B T 50"]:
    """Character ids of tokenised sentences without boundaries, padded with 0."""
    return _pad(token_lists(sentences), encode_words).char_ids


def by_length(lengths: Sequence[int], token_budget: int) -> list[list[int]]:
    """Indices in batches of similar length, shortest first, each of at most `token_budget` tokens including padding.

    A sentence longer than the budget is a batch of its own.
    """
    batches: list[list[int]] = []
    for index in sorted(range(len(lengths)), key=lambda i: lengths[i]):
        if batches and (len(batches[-1]) + 1) * lengths[index] <= token_budget:
            batches[-1].append(index)
        else:
            batches.append([index])
    return batches


def check_tokens(sentences: Any) -> None:
    """Raises InputError for a string instead of a list: its letters would be read as tokens."""
    if isinstance(sentences, str):
        raise InputError(f"{sentences[:40]!r} is a string; a list of tokenised sentences is expected: [text.split()]")
    for number, sentence in enumerate(sentences):
        if isinstance(sentence, str):
            raise InputError(
                f"sentence {number} is the string {sentence[:40]!r}; a list of tokens is expected: text.split()"
            )
        for token in sentence:
            if not isinstance(token, str):
                raise InputError(f"sentence {number} has the token {token!r}; tokens are strings: use str(token)")


def token_lists(sentences: Iterable[Iterable[str]]) -> list[Sequence[str]]:
    """The sentences as lists, since iterators can be read only once. Raises InputError as `check_tokens` does."""
    if isinstance(sentences, str):
        check_tokens(sentences)
    lists: list[Sequence[str]] = [sentence if isinstance(sentence, str) else list(sentence) for sentence in sentences]
    check_tokens(lists)
    return lists


def _pad(sentences: Sequence[Sequence[str]], encode: Callable[[Sequence[str]], np.ndarray]) -> Batch:
    lengths = np.array([len(sentence) for sentence in sentences], dtype=np.int64)
    steps = int(lengths.max(initial=0))
    ids = encode([word for sentence in sentences for word in sentence])
    char_ids = np.zeros((len(sentences), steps, ids.shape[1]), dtype=np.int64)
    char_ids[np.arange(steps) < lengths[:, None]] = ids
    return Batch(torch.from_numpy(char_ids), torch.from_numpy(lengths))


def in_parts(sentences: Iterable[S], tokens: int) -> Iterator[list[S]]:
    """The sentences in order, in parts of at least `tokens` tokens; the last part has the rest."""
    part: list[S] = []
    size = 0
    for sentence in sentences:
        part.append(sentence)
        size += len(sentence)
        if size >= tokens:
            yield part
            part, size = [], 0
    if part:
        yield part
