"""Stores rows of vectors in a `.safetensors` file: tensors "0", "1", ... and, in its metadata, the tokens.

The format starts with a header that names every tensor, so numbers first go to a temporary file. A header has at most
100 MB (https://github.com/huggingface/safetensors), of which a row takes some 70 bytes plus its tokens.
"""

import json
import shutil
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import safetensors

from elmo.embedding.store_rows import stored_pieces, without_tokens
from elmo.errors import InputError
from elmo.forking import cached_property

TOKENS = "tokens"
DTYPES = {"float32": "F32", "float16": "F16"}
MOST_HEADER_BYTES = 100_000_000


class SafetensorsWriter:
    """Writes rows to a safetensors file."""

    def __init__(self, path: Path, dtype: np.dtype) -> None:
        self._path = path
        self._dtype = dtype
        self._header: dict[str, Any] = {}
        self._tokens: list[str] = []
        self._size = self._header_bytes = 0
        self._numbers = tempfile.TemporaryFile(dir=path.parent)  # noqa: SIM115

    def append(self, sentence: str, tokens: Sequence[str], vectors: np.ndarray) -> None:
        """Adds a row."""
        row, begin = str(len(self._header)), self._size
        self._size += vectors.size * self._dtype.itemsize
        offsets = [begin, self._size]
        self._header[row] = {"dtype": DTYPES[self._dtype.name], "shape": vectors.shape, "data_offsets": offsets}
        self._tokens.append(json.dumps(tokens))
        # The header holds the tokens as a JSON string, in which every quote and backslash is escaped again.
        self._header_bytes += len(json.dumps(self._header[row])) + len(json.dumps(self._tokens[-1])) + len(row) + 8
        if self._header_bytes > MOST_HEADER_BYTES:
            raise InputError(
                f"row {row}: names and tokens of all rows exceed the {MOST_HEADER_BYTES:,} bytes of a safetensors"
                " header; use .hdf5"
            )
        for piece in stored_pieces(vectors, self._dtype):
            self._numbers.write(piece)

    def __enter__(self) -> "SafetensorsWriter":
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        with self._numbers:
            if error is None:
                self._write()

    def _write(self) -> None:
        header = json.dumps({"__metadata__": {TOKENS: "\n".join(self._tokens)}} | self._header).encode()
        header += b" " * (-len(header) % 8)
        self._numbers.seek(0)
        with self._path.open("wb") as file:
            file.write(len(header).to_bytes(8, "little") + header)
            shutil.copyfileobj(self._numbers, file, 1 << 20)


class SafetensorsVectors:
    """Reads rows of such a file, or of any other file with tensors "0", "1", ..."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with ExitStack() as stack:
            try:
                self._file: Any = stack.enter_context(safetensors.safe_open(path, framework="numpy"))
            except safetensors.SafetensorError as error:
                raise ValueError(str(error)) from error
            self._close: Callable[[], None] = stack.pop_all().close
        self._rows = len(self._file.keys())

    def __len__(self) -> int:
        return self._rows

    def __getitem__(self, row: int) -> np.ndarray:
        return self._file.get_tensor(str(row))

    def tokens(self, row: int) -> list[str]:
        """Returns the tokens of a row; the first call reads all rows' tokens."""
        return json.loads(self._lines[row])

    def close(self) -> None:
        self._close()

    @cached_property
    def _lines(self) -> list[str]:
        metadata = self._file.metadata() or {}
        if TOKENS not in metadata:
            raise without_tokens(self._path)
        return metadata[TOKENS].split("\n")
