"""Turns sentences into padded batches of character ids.

- `to_batch` adds the boundaries, as a biLM reads them.
- `by_length` says which sentences to batch together; `in_parts` divides a stream into parts of so many tokens.
- `batch_to_ids` adds no boundaries; it has AllenNLP's name and layout.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from elmo.text.characters import encode_words
from elmo.text.given import token_lists
from elmo.text.lexicon import Lexicon
from elmo.text.marks import BOS, EOS
from elmo.text.normalization import respell_before
from elmo.text.vocabulary import Vocabulary
from elmo.types import Batch

Item = TypeVar("Item")
Result = TypeVar("Result")


def to_batch(
    sentences: Iterable[Iterable[str]],
    max_characters: int = 50,
    vocabulary: Vocabulary | Lexicon | None = None,
    normalize: tuple[str, ...] = (),
) -> Batch:
    """Returns tokenised sentences as a batch, with `<S>` and `</S>` around each; an empty sentence has only these two.

    Pass a `Vocabulary` for a model that reads words (each token is one id), a `Lexicon` for one that reads words and
    code points, and `normalize`, as in `TextConfig`, for one that reads another spelling. `elmo.formats.Model.to_batch`
    passes what its model needs.
    """
    lists = token_lists(sentences)
    encode = partial(encode_words, max_characters=max_characters) if vocabulary is None else vocabulary.encode
    return _pad([[BOS, *sentence, EOS] for sentence in lists], respell_before(encode, normalize))


def batch_to_ids(sentences: Iterable[Iterable[str]]) -> Int[Tensor, "B T 50"]:
    """Returns the character ids of tokenised sentences without boundaries, padded with 0."""
    return _pad(token_lists(sentences), encode_words).char_ids


def by_length(lengths: Sequence[int], token_budget: int) -> list[list[int]]:
    """Returns the indices of sentences in batches of similar length, of at most `token_budget` tokens with padding.

    A sentence longer than the budget is a batch of its own.
    """
    batches: list[list[int]] = []
    for index in sorted(range(len(lengths)), key=lambda i: lengths[i]):
        if batches and (len(batches[-1]) + 1) * lengths[index] <= token_budget:
            batches[-1].append(index)
        else:
            batches.append([index])
    return batches


def pair_results(
    items: Iterable[Item], part: Callable[[Item], Any], read: Callable[[Iterator[Any]], Iterator[Result]]
) -> Iterator[tuple[Item, Result]]:
    """Yields every item with the result of `read` for its part. `read` gives one result per part, in order.

    `part` returns the part of an item. `read` may read some parts ahead.
    """
    waiting: deque[Item] = deque()  # the items that are read ahead

    def parts() -> Iterator[Any]:
        for item in items:
            waiting.append(item)
            yield part(item)

    def given_back(results: Iterator[Result]) -> Iterator[tuple[Item, Result]]:
        for result in results:
            yield waiting.popleft(), result
            del result  # frees the vectors of a long line before the next ones are computed

    return given_back(read(parts()))


def _pad(sentences: Sequence[Sequence[str]], encode: Callable[[Sequence[str]], np.ndarray]) -> Batch:
    lengths = np.array([len(sentence) for sentence in sentences], dtype=np.int64)
    steps = int(lengths.max(initial=0))
    ids = encode([word for sentence in sentences for word in sentence])
    char_ids = np.zeros((len(sentences), steps, ids.shape[1]), dtype=np.int64)
    char_ids[np.arange(steps) < lengths[:, None]] = ids
    return Batch(torch.from_numpy(char_ids), torch.from_numpy(lengths))


def in_parts(sentences: Iterable[Item], tokens: int, length: Callable[[Any], int] = len) -> Iterator[list[Item]]:
    """Yields the sentences in order, in parts of at least `tokens` tokens; the last part has the rest.

    `length` returns the number of tokens of a sentence, which need not be a list of them.
    """
    part: list[Item] = []
    size = 0
    for sentence in sentences:
        part.append(sentence)
        size += length(sentence)
        if size >= tokens:
            yield part
            part, size = [], 0
    if part:
        yield part
