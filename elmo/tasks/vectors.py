"""Static word vectors: read from a file in GloVe's text format, or learned with the network.

Row 0 is padding (zero), row 1 is that of unknown words, the mean of the others; the words follow.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from elmo.errors import InputError
from elmo.tasks.inputs import InputConfig
from elmo.text import corpus

LONGEST_LINE = 1 << 20
LEARNED_SCALE = 0.1
"""Standard deviation of learned vectors before the first step."""


@dataclass(frozen=True)
class StaticVectors:
    """Words, and the table of their vectors: row `i + 2` is that of `words[i]`."""

    words: tuple[str, ...]
    table: Float[Tensor, "V E"]


def make(config: InputConfig, train: Iterable[str], other: Iterable[str], seed: int = 0) -> StaticVectors:
    """The vectors that `config` asks for, of the tokens of the training examples and of all `other` ones.

    Without static vectors they have no numbers: (2, 0). Raises InputError where the file of vectors is damaged or has
    none of the words.
    """
    if not config.static:
        return StaticVectors((), torch.zeros(2, 0))
    if config.vectors is None:
        counts = Counter(_spelled(train, config.lowercase))
        return learned([word for word, count in counts.items() if count >= config.min_count], config.vectors_dim, seed)
    wanted = None if config.all_vectors else {*_spelled(train, config.lowercase), *_spelled(other, config.lowercase)}
    return read(Path(config.vectors), wanted)


def learned(words: Iterable[str], dim: int, seed: int = 0) -> StaticVectors:
    """Random vectors, to be trained; of the words in alphabetical order."""
    ordered = tuple(sorted(words))
    draw = torch.Generator().manual_seed(seed)
    table = torch.randn(2 + len(ordered), dim, generator=draw) * LEARNED_SCALE
    table[0] = 0.0
    return StaticVectors(ordered, table)


def read(path: Path, wanted: Collection[str] | None = None) -> StaticVectors:
    """The vectors of the `wanted` words (None: of all) in a text file: a word and its numbers a line, between spaces.

    A first line of two numbers (word2vec's) is skipped. A word may hold spaces; of a word that comes twice the first
    line counts. Raises InputError that names file and line where a line has another number of numbers than the first,
    or what should be a number is none; and where no wanted word is there.
    """
    rows: dict[str, np.ndarray] = {}
    for word, vector in entries(path, wanted):
        rows.setdefault(word, vector)
    if not rows:
        words = "no vectors" if wanted is None else f"none of the {len(wanted):,} words of the examples"
        raise InputError(
            f"{path}: {words} in it; give a file in GloVe's text format (lower-case words: inputs.lowercase)"
        )
    vectors = np.stack(list(rows.values()))
    table = torch.from_numpy(np.concatenate([np.zeros_like(vectors[:1]), vectors.mean(0, keepdims=True), vectors]))
    return StaticVectors(tuple(rows), table)


def entries(path: Path, wanted: Collection[str] | None = None) -> Iterator[tuple[str, Float[np.ndarray, " E"]]]:
    """The `wanted` words (None: all) of such a file and their vectors, one at a time, in order; raises as `read`."""
    if not path.is_file():
        raise InputError(f"{path}: no such file; word vectors in GloVe's text format are expected")
    dim = 0
    for number, line in _numbered(path):
        dim = dim or _dim(path, number, line)
        word, *rest = line.rsplit(" ", dim)
        if len(rest) != dim or not word:
            raise InputError(
                f"{path}: line {number} has {len(line.split()) - 1} numbers after its word, and the first line has"
                f" {dim}; mend or remove the line"
            )
        if wanted is None or word in wanted:
            yield word, _numbers(path, number, rest)


def _spelled(tokens: Iterable[str], lowercase: bool) -> Iterator[str]:
    return (token.lower() for token in tokens) if lowercase else iter(tokens)


def _numbered(path: Path) -> Iterator[tuple[int, str]]:
    """The lines that hold vectors, and their numbers, from 1."""
    for number, line in enumerate(corpus.lines(path, LONGEST_LINE), 1):
        line = line.rstrip()
        if number == 1 and len(parts := line.split()) == 2 and all(part.isdigit() for part in parts):
            continue
        if line:
            yield number, line


def _dim(path: Path, number: int, line: str) -> int:
    """How many numbers end the first line: all fields but the first, which is a word whatever it looks like."""
    dim = len(line.split(" ")) - 1
    if dim < 2:
        raise InputError(
            f"{path}: line {number} is {line[:40]!r}; a word and the numbers of its vector between spaces are expected"
        )
    return dim


def _numbers(path: Path, number: int, fields: list[str]) -> Float[np.ndarray, " E"]:
    try:
        vector = np.array(fields, dtype=np.float32)
    except ValueError as error:
        raise InputError(f"{path}: line {number}: {error}; numbers between single spaces are expected") from error
    if not np.isfinite(vector).all():
        raise InputError(f"{path}: line {number} has a number that is not finite; mend or remove the line")
    return vector
