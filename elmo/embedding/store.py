"""Writes files of vectors row by row at constant memory, and reads their rows in any order. A row is a sentence.

- `.hdf5` and `.h5` have AllenNLP's layout: datasets "0", "1", ... by row, and `sentence_to_index`, one string of JSON,
  which is omitted beyond 16 MB, since its readers hold it whole. The dataset `tokens` is elmo's addition.
- `.npz` has arrays "0", "1", ... and a member `tokens.jsonl`. Writing it takes 0.5 kB of memory per row, for the
  directory of the zip.
- `.parquet` has the columns row, tokens (a lone surrogate becomes "?"), vectors (flat) and shape. It needs the extra
  `store`.
- `.safetensors` is described in `store_safetensors`.

Tokens are stored as JSON, one list per row, since a token may contain spaces. A sentence without tokens is an array
with T = 0; the array of a pooled sentence has no axis of tokens. A file is complete or does not exist.
"""

import io
import json
import os
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from threading import RLock
from types import TracebackType
from typing import Any, Literal

import h5py
import numpy as np

from elmo.disk.files import atomic_path, check_output
from elmo.embedding.store_safetensors import SafetensorsVectors, SafetensorsWriter, as_stored
from elmo.errors import InputError, path_of, pip_line
from elmo.forking import cached_property, held_elsewhere, renew_at_fork
from elmo.formats.hdf5 import Hdf5Output
from elmo.text.characters import is_utf8

Dtype = Literal["float32", "float16"]

INDEX, TOKENS, NPZ_TOKENS = "sentence_to_index", "tokens", "tokens.jsonl"
MAX_INDEX_CHARACTERS = 16_000_000
ROWS_AT_ONCE = 1024
CHARACTERS_AT_ONCE = 16_000_000
PARQUET_GROUP_BYTES = 16_000_000
NUMBERS_AT_ONCE = 1 << 22
"""A long row is converted in pieces, so there is no second whole copy of it."""
PARQUET_MOST_NUMBERS = (1 << 31) - 1


@contextmanager
def write_vectors(path: str | Path, dtype: Dtype = "float32", overwrite: bool = False) -> Iterator["Writer"]:
    """Yields a writer for `path`, whose suffix selects the format; the file appears only if the block succeeds.

    Raises FileExistsError if `path` exists and `overwrite` is False, and OSError if the disk is full.
    """
    path = path_of("the file of vectors", path)
    check_vectors_path(path, overwrite)
    if dtype not in ("float32", "float16"):
        raise InputError(f"dtype is {dtype!r}; float32 or float16 is expected")
    with atomic_path(path, overwrite) as temporary, WRITERS[path.suffix.lower()](temporary, np.dtype(dtype)) as writer:
        yield writer


def check_vectors_path(path: Path, overwrite: bool = False) -> None:
    """Raises the errors of `write_vectors` for this path, before any work is done."""
    if path.suffix.lower() not in WRITERS:
        raise InputError(f"{path}: its suffix is {path.suffix!r}; one of {', '.join(WRITERS)} is expected")
    if path.suffix.lower() == ".parquet":
        _pyarrow()
    check_output(path, overwrite)


class Hdf5Writer:
    """Writes rows to HDF5 in the layout of AllenNLP."""

    def __init__(self, path: Path, dtype: np.dtype) -> None:
        self._dtype = dtype
        self._rows = 0
        self._tokens: list[str] = []
        self._characters = 0
        self._index: io.StringIO | None = io.StringIO()
        self._output = Hdf5Output(path)
        string = h5py.string_dtype()
        self._stored = self._output.file.create_dataset(TOKENS, (0,), string, maxshape=(None,), chunks=(ROWS_AT_ONCE,))

    def append(self, sentence: str, tokens: Sequence[str], vectors: np.ndarray) -> None:
        """Adds a row. The index lists every row of a repeated sentence; readers of JSON keep the last one."""
        if vectors.size <= NUMBERS_AT_ONCE:
            _create(self._output.file, str(self._rows), as_stored(vectors, self._dtype))
        else:
            self._append_parts(vectors)
        self._tokens.append(_to_json(tokens))
        self._characters += len(self._tokens[-1])
        if self._index is not None:
            begin = ", " if self._rows else "{"
            self._index.write(f'{begin}{_to_json(sentence)}: "{self._rows}"')
            self._index = self._index if self._index.tell() < MAX_INDEX_CHARACTERS else None
        self._rows += 1
        if len(self._tokens) == ROWS_AT_ONCE or self._characters > CHARACTERS_AT_ONCE:
            self._write_tokens()
        self._output.check()

    def _append_parts(self, vectors: np.ndarray) -> None:
        stored = self._output.file.create_dataset(str(self._rows), vectors.shape, self._dtype)
        tokens_of_row = vectors.shape[-2] if vectors.ndim > 1 else 1
        step = max(1, NUMBERS_AT_ONCE * tokens_of_row // vectors.size)
        for begin in range(0, tokens_of_row, step):
            part = (..., slice(begin, begin + step), slice(None)) if vectors.ndim > 1 else ...
            stored[part] = as_stored(vectors[part], self._dtype)
            self._output.check()

    def __enter__(self) -> "Hdf5Writer":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self._write_tokens()
                self._write_index()
        finally:
            self._output.__exit__(kind, error, trace)

    def _write_index(self) -> None:
        if self._index is not None:
            text = self._index.getvalue() + ("}" if self._rows else "{}")
            self._output.file.create_dataset(INDEX, (1,), h5py.string_dtype())[0] = text

    def _write_tokens(self) -> None:
        self._stored.resize((self._rows,))
        self._stored[self._rows - len(self._tokens) :] = self._tokens
        self._tokens.clear()
        self._characters = 0


def _create(file: h5py.File, name: str, array: np.ndarray) -> None:
    """Does what `create_dataset` does in half the time, since there is one call per sentence."""
    space, kind = h5py.h5s.create_simple(array.shape), h5py.h5t.py_create(array.dtype)
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_obj_track_times(False)  # the same rows give the same bytes
    dataset = h5py.h5d.create(file.id, name.encode(), kind, space, properties)
    if array.size:
        dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, array)


class NpzWriter:
    """Writes rows to a zip of `.npy` files."""

    def __init__(self, path: Path, dtype: np.dtype) -> None:
        self._dtype = dtype
        self._rows = 0
        self._file = path.open("wb")
        self._zip = zipfile.ZipFile(self._file, "w")
        self._tokens = tempfile.TemporaryFile(dir=path.parent)  # noqa: SIM115

    def append(self, sentence: str, tokens: Sequence[str], vectors: np.ndarray) -> None:
        """Adds a row."""
        descr = np.lib.format.dtype_to_descr(self._dtype)
        header = {"descr": descr, "fortran_order": False, "shape": vectors.shape}
        numbers = vectors.reshape(-1)
        with self._zip.open(f"{self._rows}.npy", "w", force_zip64=numbers.nbytes >= 1 << 31) as member:
            np.lib.format.write_array_header_1_0(member, header)
            for begin in range(0, numbers.size, NUMBERS_AT_ONCE):
                member.write(as_stored(numbers[begin : begin + NUMBERS_AT_ONCE], self._dtype).data)
        self._tokens.write(f"{_to_json(tokens)}\n".encode())
        self._rows += 1

    def __enter__(self) -> "NpzWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # After an error nothing more can be written. Closing would try it, and its error would hide the first one.
        with suppress(*_closing_errors(error)), ExitStack() as stack:
            for part in (self._file, self._tokens, self._zip):  # they are closed in reverse order
                stack.callback(part.close)
            if error is None:
                self._write_tokens()

    def _write_tokens(self) -> None:
        self._tokens.seek(0)
        with self._zip.open(NPZ_TOKENS, "w", force_zip64=True) as member:
            while part := self._tokens.read(1 << 20):
                member.write(part)


class ParquetWriter:
    """Writes rows to a Parquet file, some rows at a time."""

    def __init__(self, path: Path, dtype: np.dtype) -> None:
        self._arrow, parquet = _pyarrow()
        self._dtype = dtype
        self._rows = self._size = 0
        self._group: dict[str, list[Any]] = {"row": [], "tokens": [], "vectors": [], "shape": []}
        arrow = self._arrow
        kinds = [arrow.int64(), arrow.list_(arrow.string()), arrow.list_(arrow.from_numpy_dtype(dtype))]
        columns = zip(self._group, [*kinds, arrow.list_(arrow.int32())], strict=True)
        self._schema = arrow.schema(list(columns))
        self._file = arrow.OSFile(os.fsencode(path), "wb")  # Arrow takes a string such as "a:b" for an address
        self._writer = parquet.ParquetWriter(self._file, self._schema, use_dictionary=["tokens"])

    def append(self, sentence: str, tokens: Sequence[str], vectors: np.ndarray) -> None:
        """Adds a row."""
        if vectors.size > PARQUET_MOST_NUMBERS:
            raise InputError(f"row {self._rows} has {vectors.size:,} numbers, too many for Parquet; use .hdf5 or .npz")
        words = [token if is_utf8(token) else token.encode("utf-8", "replace").decode() for token in tokens]
        row = (self._rows, words, as_stored(vectors, self._dtype).ravel(), vectors.shape)
        for column, value in zip(self._group.values(), row, strict=True):
            column.append(value)
        self._rows += 1
        self._size += vectors.nbytes + sum(map(len, tokens)) + 64
        if self._size >= PARQUET_GROUP_BYTES:
            self._write_group()

    def __enter__(self) -> "ParquetWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(*_closing_errors(error)), closing(self._file), closing(self._writer):
            if error is None:
                self._write_group()

    def _write_group(self) -> None:
        self._writer.write_table(self._arrow.table(self._group, schema=self._schema))
        for column in self._group.values():
            column.clear()
        self._size = 0


Writer = Hdf5Writer | NpzWriter | ParquetWriter | SafetensorsWriter
WRITERS = {
    ".hdf5": Hdf5Writer,
    ".h5": Hdf5Writer,
    ".npz": NpzWriter,
    ".parquet": ParquetWriter,
    ".safetensors": SafetensorsWriter,
}


class Hdf5Vectors:
    """Reads rows of an HDF5 file. AllenNLP's files can be read, too; they have no tokens.

    All readers index rows like a sequence: -1 is the last row, and an index beyond the end raises IndexError.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = h5py.File(path, "r")
        self._rows = len(self._file) - sum(name in self._file for name in (INDEX, TOKENS))

    def __len__(self) -> int:
        return self._rows

    def __getitem__(self, row: int) -> np.ndarray:
        return self._file[str(range(self._rows)[row])][()]  # type: ignore[index, return-value]

    def tokens(self, row: int) -> list[str]:
        """The tokens of a row."""
        if TOKENS not in self._file:
            raise InputError(f"{self._path}: has no tokens; write it with `elmo embed`")
        return json.loads(self._file[TOKENS][range(self._rows)[row]])  # type: ignore[index, arg-type]

    def close(self) -> None:
        self._file.close()


class NpzVectors:
    """Reads rows of an `.npz` file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._open()
        renew_at_fork(self, NpzVectors._inherit)
        self._rows = len(self._arrays.files) - (NPZ_TOKENS in self._arrays.files)

    def __len__(self) -> int:
        return self._rows

    def __getitem__(self, row: int) -> np.ndarray:
        return self._own()[str(range(self._rows)[row])]

    def tokens(self, row: int) -> list[str]:
        """The tokens of a row; the first call reads all rows' tokens."""
        return json.loads(self._lines[range(self._rows)[row]])

    def close(self) -> None:
        self._arrays.close()
        self._file.close()

    def _open(self) -> None:
        with ExitStack() as stack:  # closes the file at once if it is no zip
            file = stack.enter_context(self._path.open("rb"))
            self._arrays = np.load(file)
            if isinstance(self._arrays, np.ndarray):
                raise ValueError("one array")
            self._file = stack.pop_all()
        self._is_inherited = False

    def _inherit(self) -> None:
        self._is_inherited = True

    def _own(self) -> Any:
        """The arrays. A forked process opens them again: an inherited file has one position for all processes."""
        if self._is_inherited:
            self._open()
        return self._arrays

    @cached_property
    def _lines(self) -> list[bytes]:
        if NPZ_TOKENS not in self._arrays.files:
            raise InputError(f"{self._path}: has no tokens; write it with `elmo embed`")
        return self._own()[NPZ_TOKENS].split(b"\n")


class ParquetVectors:
    """Reads rows of a Parquet file; one row group at a time is in memory."""

    def __init__(self, path: Path) -> None:
        arrow, parquet = _pyarrow()
        with ExitStack() as stack:
            # Forked processes can share this kind of file; the name is in bytes for the reason given in the writer.
            self._file = parquet.ParquetFile(stack.enter_context(arrow.OSFile(os.fsencode(path))))
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
        table, place = self._find(range(len(self))[row])
        vectors = table["vectors"][place].values.to_numpy(zero_copy_only=False)
        return vectors.reshape(table["shape"][place].as_py())

    def tokens(self, row: int) -> list[str]:
        """The tokens of a row."""
        table, place = self._find(range(len(self))[row])
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


Vectors = Hdf5Vectors | NpzVectors | ParquetVectors | SafetensorsVectors
READERS = {
    ".hdf5": Hdf5Vectors,
    ".h5": Hdf5Vectors,
    ".npz": NpzVectors,
    ".parquet": ParquetVectors,
    ".safetensors": SafetensorsVectors,
}


@contextmanager
def read_vectors(path: str | Path) -> Iterator[Vectors]:
    """Opens a file of vectors: `len(vectors)`, `vectors[row]`, `vectors.tokens(row)`.

    Raises InputError if the file is of another kind or truncated. Reading a damaged row raises an error of h5py, numpy,
    pyarrow or safetensors.
    """
    path = path_of("the file of vectors", path)
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file")
    if path.suffix.lower() not in READERS:
        raise InputError(f"{path}: its suffix is {path.suffix!r}; one of {', '.join(READERS)} is expected")
    try:
        vectors = READERS[path.suffix.lower()](path)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(f"{path}: not a complete {path.suffix} file ({error}); write it again") from error
    try:
        yield vectors
    finally:
        vectors.close()


def _closing_errors(error: BaseException | None) -> list[type[Exception]]:
    """The errors to ignore when a file is closed: after another error, any OSError."""
    return [] if error is None else [OSError]


def _to_json(value: str | Sequence[str]) -> str:
    """JSON, which is escaped only if a string contains something that UTF-8 cannot express."""
    text = json.dumps(value, ensure_ascii=False)
    return text if text.isascii() or is_utf8(text) else json.dumps(value)


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise InputError(f"Parquet needs pyarrow ({error}): {pip_line('store')}, or use .hdf5") from error
    return pyarrow, pyarrow.parquet
