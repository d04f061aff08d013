"""Converts rows for all formats of files of vectors."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from elmo.errors import Failure, InputError, is_whole, shown
from elmo.text.characters import is_utf8

NUMBERS_AT_ONCE = 1 << 22
"""A long row is converted in pieces, so there is no second whole copy of it."""


def as_stored(numbers: np.ndarray, dtype: np.dtype, remedy: str = "store float32") -> np.ndarray:
    """Converts numbers to the type of a file.

    Raises InputError, with the remedy, if a number is outside its range, and Failure if a number is not finite.
    """
    with np.errstate(over="ignore"):
        stored = numbers.astype(dtype, order="C", copy=False)
    if not np.isfinite(stored).all():
        if np.isfinite(numbers).all():
            raise InputError(f"a vector has values outside the range of {dtype}; {remedy}")
        raise Failure("a vector has values that are not finite; check the model (elmo info --check) and the layers")
    return stored


def stored_pieces(vectors: np.ndarray, dtype: np.dtype) -> Iterator[memoryview]:
    """Yields the bytes of a row, in pieces."""
    numbers = vectors.reshape(-1)
    for begin in range(0, numbers.size, NUMBERS_AT_ONCE):
        yield as_stored(numbers[begin : begin + NUMBERS_AT_ONCE], dtype).data


def to_json(value: str | Sequence[str]) -> str:
    """Returns JSON, which is escaped only if a string contains something that UTF-8 cannot express."""
    text = json.dumps(value, ensure_ascii=False)
    return text if text.isascii() or is_utf8(text) else json.dumps(value)


def row_number(row: Any, rows: int) -> int:
    """Returns the number of a row of `rows`, where -1 is the last. Raises InputError for a slice, IndexError beyond."""
    if not is_whole(row):
        raise InputError(f"row is {shown(row)}; the number of one row is expected, as in [rows[n] for n in range(9)]")
    return range(rows)[int(row)]


def without_tokens(path: Path) -> InputError:
    """Returns the error for a file of vectors that has no tokens."""
    return InputError(f"{path}: has no tokens; write it with `elmo embed`")


def closing_errors(error: BaseException | None) -> list[type[Exception]]:
    """Returns the errors to ignore when a file is closed: after another error, any OSError, which would hide it."""
    return [] if error is None else [OSError]
