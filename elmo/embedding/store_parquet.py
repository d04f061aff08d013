"""Stores rows of vectors in a Parquet file: see `elmo.embedding.store`."""

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np

from elmo.embedding.store_rows import as_stored, closing_errors
from elmo.errors import InputError, pip_line
from elmo.forking import held_elsewhere, renew_at_fork
from elmo.text.characters import is_utf8

GROUP_BYTES = 16_000_000
MOST_NUMBERS = (1 << 31) - 1


class ParquetWriter:
    """Writes rows to a Parquet file, some rows at a time."""

    def __init__(self, path: Path, dtype: np.dtype) -> None:
        self._arrow = import_pyarrow()
        self._dtype = dtype
        self._rows = self._size = 0
        self._group: dict[str, list[Any]] = {"row": [], "tokens": [], "vectors": [], "shape": []}
        arrow = self._arrow
        kinds = [arrow.int64(), arrow.list_(arrow.string()), arrow.list_(arrow.from_numpy_dtype(dtype))]
        columns = zip(self._group, [*kinds, arrow.list_(arrow.int32())], strict=True)
        self._schema = arrow.schema(list(columns))
        self._file = arrow.OSFile(os.fsencode(path), "wb")  # Arrow takes a string such as "a:b" for an address
        self._writer = arrow.parquet.ParquetWriter(self._file, self._schema, use_dictionary=["tokens"])

    def append(self, sentence: str, tokens: Sequence[str], vectors: np.ndarray) -> None:
        """Adds a row."""
        if vectors.size > MOST_NUMBERS:
            raise InputError(f"row {self._rows} has {vectors.size:,} numbers, too many for Parquet; use .hdf5 or .npz")
        words = [token if is_utf8(token) else token.encode("utf-8", "replace").decode() for token in tokens]
        row = (self._rows, words, as_stored(vectors, self._dtype).ravel(), vectors.shape)
        for column, value in zip(self._group.values(), row, strict=True):
            column.append(value)
        self._rows += 1
        self._size += vectors.nbytes + sum(map(len, tokens)) + 64
        if self._size >= GROUP_BYTES:
            self._write_group()

    def __enter__(self) -> "ParquetWriter":
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        with suppress(*closing_errors(error)), closing(self._file), closing(self._writer):
            if error is None:
                self._write_group()

    def _write_group(self) -> None:
        self._writer.write_table(self._arrow.table(self._group, schema=self._schema))
        for column in self._group.values():
            column.clear()
        self._size = 0


class ParquetVectors:
    """Reads rows of a Parquet file; one row group at a time is in memory."""

    def __init__(self, path: Path) -> None:
        arrow = import_pyarrow()
        with ExitStack() as stack:
            # Forked processes can share this kind of file; the name is in bytes for the reason given in the writer.
            self._file = arrow.parquet.ParquetFile(stack.enter_context(arrow.OSFile(os.fsencode(path))))
            self._close: Callable[[], None] = stack.pop_all().close
        groups = range(self._file.num_row_groups)
        self._ends = np.cumsum([self._file.metadata.row_group(group).num_rows for group in groups], dtype=np.int64)
        self._group: tuple[int, Any] = (-1, None)
        self.lock = RLock()  # pyarrow crashes if two threads read one file
        renew_at_fork(self, ParquetVectors._renew)

    def _renew(self) -> None:
        if held_elsewhere(self.lock):
            self.lock = RLock()
            self._group = (-1, None)

    def __len__(self) -> int:
        return self._file.metadata.num_rows

    def __getitem__(self, row: int) -> np.ndarray:
        table, place = self._find(row)
        vectors = table["vectors"][place].values.to_numpy(zero_copy_only=False)
        return vectors.reshape(table["shape"][place].as_py())

    def tokens(self, row: int) -> list[str]:
        """Returns the tokens of a row."""
        table, place = self._find(row)
        return table["tokens"][place].as_py()

    def close(self) -> None:
        self._close()

    def _find(self, row: int) -> tuple[Any, int]:
        """The row group that contains `row`, and its index there."""
        number = int(np.searchsorted(self._ends, row, side="right"))
        with self.lock:
            if number != self._group[0]:
                self._group = (number, self._file.read_row_group(number).combine_chunks())
            table = self._group[1]
        return table, row - int(self._ends[number - 1] if number else 0)


def import_pyarrow() -> Any:
    """Imports pyarrow, with its module for Parquet. Raises InputError if it is not installed."""
    try:
        import pyarrow
        import pyarrow.parquet  # noqa: F401 - it becomes an attribute of pyarrow
    except ImportError as error:
        raise InputError(f"Parquet and corpora need pyarrow ({error}): {pip_line('store')}, or use .hdf5") from error
    return pyarrow
