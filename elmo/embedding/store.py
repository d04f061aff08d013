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

import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args

import numpy as np
from safetensors import SafetensorError

from elmo.disk.files import atomic_path, check_output
from elmo.embedding.store_hdf5 import Hdf5Vectors, Hdf5Writer
from elmo.embedding.store_npz import NpzVectors, NpzWriter
from elmo.embedding.store_parquet import ParquetVectors, ParquetWriter, import_pyarrow
from elmo.embedding.store_rows import row_number
from elmo.embedding.store_safetensors import SafetensorsVectors, SafetensorsWriter
from elmo.errors import InputError, check_choice, in_one_line, path_of
from elmo.types import Dtype


@contextmanager
def write_vectors(path: str | Path, dtype: Dtype = "float32", overwrite: bool = False) -> Iterator["Writer"]:
    """Yields a writer for `path`, whose suffix selects the format; the file appears only if the block succeeds.

    Raises FileExistsError if `path` exists and `overwrite` is False, and OSError if the disk is full.
    """
    path = path_of("the file of vectors", path)
    check_vectors_path(path, overwrite)
    check_choice("dtype", dtype, get_args(Dtype))
    make, _ = FORMATS[path.suffix.lower()]
    with atomic_path(path, overwrite) as temporary, make(temporary, np.dtype(dtype)) as writer:
        yield writer


def check_vectors_path(path: Path, overwrite: bool = False, inputs: Iterable[str | Path | None] = ()) -> None:
    """Raises the errors of `write_vectors` for this path, and those of `check_output`, before any work is done."""
    _check_suffix(path)
    if path.suffix.lower() == ".parquet":
        import_pyarrow()
    check_output(path, overwrite, inputs=inputs)


def _check_suffix(path: Path) -> None:
    if path.suffix.lower() not in FORMATS:
        raise InputError(f"{path}: its suffix is {path.suffix!r}; one of {', '.join(FORMATS)} is expected")


Writer = Hdf5Writer | NpzWriter | ParquetWriter | SafetensorsWriter
FORMATS = {
    ".hdf5": (Hdf5Writer, Hdf5Vectors),
    ".h5": (Hdf5Writer, Hdf5Vectors),
    ".npz": (NpzWriter, NpzVectors),
    ".parquet": (ParquetWriter, ParquetVectors),
    ".safetensors": (SafetensorsWriter, SafetensorsVectors),
}
"""The classes that write and read each format, by the suffix of its files."""


DAMAGE = OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile, zlib.error, SafetensorError
"""The errors of h5py, numpy, pyarrow and safetensors for a damaged row."""


class Vectors:
    """The rows of a file of vectors, by number: -1 is the last one. They can be read inside the `with` block only.

    Raises IndexError for a row that the file does not have, and InputError for a damaged one and after the block.
    """

    def __init__(self, path: Path, rows: Hdf5Vectors | NpzVectors | ParquetVectors | SafetensorsVectors) -> None:
        self._path = path
        self._rows = rows
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, row: int) -> np.ndarray:
        return self._read(self._rows.__getitem__, row)

    def tokens(self, row: int) -> list[str]:
        """Returns the tokens of a row."""
        return self._read(self._rows.tokens, row)

    def close(self) -> None:
        """Closes the file."""
        self._is_closed = True
        self._rows.close()

    def _read(self, read: Callable[[int], Any], row: Any) -> Any:
        if self._is_closed:
            raise InputError(f"{self._path}: is closed; read its rows inside the block `with read_vectors(...)`")
        number = row_number(row, len(self))
        try:
            return read(number)
        except InputError:
            raise
        except DAMAGE as error:
            if isinstance(error, OSError) and error.errno is not None:  # it is the system's
                raise
            reason = in_one_line(error)
            raise InputError(f"{self._path}: row {number} is damaged ({reason}); write the file again") from error


@contextmanager
def read_vectors(path: str | Path) -> Iterator[Vectors]:
    """Opens a file of vectors: `len(vectors)`, `vectors[row]`, `vectors.tokens(row)`.

    Raises InputError if the file is of another kind or truncated, and OSError if the system cannot open it.
    """
    path = path_of("the file of vectors", path)
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file")
    _check_suffix(path)
    path.open("rb").close()  # what the system refuses, such as a missing permission, is no damage
    try:
        _, read = FORMATS[path.suffix.lower()]
        vectors = Vectors(path, read(path))
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(f"{path}: not a complete {path.suffix} file ({in_one_line(error)}); write it again") from error
    try:
        yield vectors
    finally:
        vectors.close()
