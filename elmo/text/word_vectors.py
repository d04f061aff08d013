"""Reads word vectors in GloVe's text format: each line has a word and its numbers, separated by spaces."""

import re
from collections.abc import Collection, Iterator
from pathlib import Path

import numpy as np
from jaxtyping import Float

from elmo.errors import InputError
from elmo.text import corpus

LONGEST_LINE = 1 << 20
NUMBER = r"[-+]?[\d.]*\d[\d.]*(?:e[-+]?\d+)?"
TOO_LONG = re.compile(rf"(?!{NUMBER} ).+ {NUMBER}")
"""Matches the fields before a vector in a line with too many numbers. Words may have spaces, such as "10 000"."""


def read_entries(path: Path, wanted: Collection[str] | None = None) -> Iterator[tuple[str, Float[np.ndarray, " E"]]]:
    """Yields the `wanted` words of a file (None means all of them) and their vectors, in order.

    A first line of two numbers (word2vec's) is skipped. A word may contain spaces. Raises InputError, which names file
    and line, if there is no file, or if a line has more or fewer numbers than the first, or anything but numbers.
    """
    check_file(path)
    dim = 0
    for number, line in _numbered(path):
        dim = dim or _dim(path, number, line)
        word, *rest = line.rsplit(" ", dim)
        if len(rest) != dim or not word or TOO_LONG.fullmatch(word):
            raise InputError(
                f"{path}: line {number} has {len(line.split()) - 1} numbers after its word; the first line has"
                f" {dim}; fix or remove the line"
            )
        if wanted is None or word in wanted:
            yield word, _numbers(path, number, rest)


def check_file(path: Path) -> None:
    """Raises InputError if there is no file."""
    if not path.is_file():
        raise InputError(f"{path}: no such file; word vectors in GloVe's text format are expected")


def _numbered(path: Path) -> Iterator[tuple[int, str]]:
    """The lines with vectors, and their numbers, from 1."""
    for number, line in enumerate(corpus.file_lines(path, LONGEST_LINE), 1):
        line = line.rstrip()
        if number == 1 and len(parts := line.split()) == 2 and all(part.isdigit() for part in parts):
            continue
        if line:
            yield number, line


def _dim(path: Path, number: int, line: str) -> int:
    """The size of a vector by the first line: the number of its fields without the first, which is a word."""
    dim = len(line.split(" ")) - 1
    if dim < 2:
        raise InputError(
            f"{path}: line {number} is {line[:40]!r}; a word and its vector, separated by spaces, are expected"
        )
    return dim


def _numbers(path: Path, number: int, fields: list[str]) -> Float[np.ndarray, " E"]:
    try:
        vector = np.array(fields, dtype=np.float32)
    except ValueError as error:
        raise InputError(f"{path}: line {number}: {error}; numbers separated by single spaces are expected") from error
    if not np.isfinite(vector).all():
        raise InputError(f"{path}: line {number} has a number that is not finite; fix or remove the line")
    return vector
