"""Sentences -> padded batches of character ids.

- `to_batch`: boundaries added, what a biLM reads
- `by_length`: which sentences to batch together; `in_parts`: a stream in parts of a given number of tokens
- `batch_to_ids`: without boundaries, with AllenNLP's name and layout
"""

import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import partial
from typing import Any, TypeVar

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from elmo.errors import InputError
from elmo.text.characters import encode_words
from elmo.text.lexicon import Lexicon
from elmo.text.marks import BOS, EOS
from elmo.text.normalization import respell_before
from elmo.text.vocabulary import Vocabulary
from elmo.types import Batch

S = TypeVar("S", bound=Sequence[str])
Item = TypeVar("Item")
Result = TypeVar("Result")
SPLIT = "elmo.load().split(text) has those of each sentence of a text"
"""Where tokens come from: not from white space, which leaves a word and its full stop together."""


def to_batch(
    sentences: Iterable[Iterable[str]],
    max_characters: int = 50,
    vocabulary: Vocabulary | Lexicon | None = None,
    normalize: tuple[str, ...] = (),
) -> Batch:
    """Tokenised sentences as a batch, with `<S>` and `</S>` around each; an empty sentence has only these two.

    Pass a `Vocabulary` for a model that reads words (each token is one id), a `Lexicon` for one that reads words and
    code points, and `model.text.normalize` for one that reads another spelling.
    """
    lists = token_lists(sentences)
    encode = partial(encode_words, max_characters=max_characters) if vocabulary is None else vocabulary.encode
    return _pad([[BOS, *sentence, EOS] for sentence in lists], respell_before(encode, normalize))


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
    """Raises InputError for what is not a list of lists of tokens, as `check_sentence` does for each sentence."""
    token_lists(sentences)


def token_lists(sentences: Any) -> list[list[str]]:
    """The sentences as lists, since iterators can be read only once. Raises InputError as `check_sentence` does."""
    return list(check_sentences(sentences))


def check_sentences(sentences: Any) -> Iterator[list[str]]:
    """The sentences as lists, one at a time. Warns of the first text that was not split.

    Raises InputError for a string, whose letters would be read as sentences, for a set, and as `check_sentence` does.
    """
    is_told = False
    for number, sentence in enumerate(check_outer(sentences)):
        tokens = check_sentence(sentence, number)
        if not is_told and len(tokens) == 1 and " " in tokens[0].strip():
            is_told = True
            warnings.warn(
                f"sentence {number} is one token with spaces, {tokens[0][:40]!r}, read as one word; give a text as a"
                f" string, or its tokens: {SPLIT}",
                stacklevel=2,
            )
        yield tokens


def pair_results(
    items: Iterable[Item], part: Callable[[Item], Any], read: Callable[[Iterator[Any]], Iterator[Result]]
) -> Iterator[tuple[Item, Result]]:
    """Every item with what `read` gives for its part: one result a part, in order; it may read some parts ahead."""
    waiting: deque[Item] = deque()  # what is read ahead

    def parts() -> Iterator[Any]:
        for item in items:
            waiting.append(item)
            yield part(item)

    def given_back(results: Iterator[Result]) -> Iterator[tuple[Item, Result]]:
        for result in results:
            yield waiting.popleft(), result
            del result  # the vectors of a long line, before the next ones are computed

    return given_back(read(parts()))


def check_outer(sentences: Any) -> Any:
    """The sentences. Raises InputError for a string, whose letters would be read as sentences, and for a set."""
    if isinstance(sentences, str):
        raise InputError(f"{sentences[:40]!r} is a string; a list of tokenised sentences is expected: {SPLIT}")
    if isinstance(sentences, Set | Mapping):
        raise InputError(f"the sentences are a {type(sentences).__name__}, which has no order; a list is expected")
    return sentences


def check_sentence(sentence: Any, number: int) -> list[str]:
    """The tokens of sentence `number`.

    Raises InputError for a string, whose letters would be read as tokens, for tokens that are not strings, for a set,
    whose order changes from process to process, and for what is no sentence, such as None.
    """
    if isinstance(sentence, str):
        raise InputError(f"sentence {number} is the string {sentence[:40]!r}; a list of tokens is expected: {SPLIT}")
    if not isinstance(sentence, Iterable):
        raise InputError(f"sentence {number} is {sentence!r}; a list of tokens is expected: leave it out, or give []")
    if isinstance(sentence, Set | Mapping):
        raise InputError(f"sentence {number} is a {type(sentence).__name__}, which has no order; a list is expected")
    tokens = list(sentence)
    for token in tokens:
        if not isinstance(token, str):
            raise InputError(f"sentence {number} has the token {token!r}; tokens are strings: use str(token)")
    return tokens


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
