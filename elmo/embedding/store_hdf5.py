"""Stores rows of vectors in HDF5, in the layout of AllenNLP: see `elmo.embedding.store`."""

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from elmo.embedding.store_rows import NUMBERS_AT_ONCE, as_stored, to_json, without_tokens
from elmo.formats.hdf5 import Hdf5Output

INDEX, TOKENS = "sentence_to_index", "tokens"
MAX_INDEX_CHARACTERS = 16_000_000
ROWS_AT_ONCE = 1024
CHARACTERS_AT_ONCE = 16_000_000


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
        self._tokens.append(to_json(tokens))
        self._characters += len(self._tokens[-1])
        if self._index is not None:
            begin = ", " if self._rows else "{"
            self._index.write(f'{begin}{to_json(sentence)}: "{self._rows}"')
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

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        try:
            if error is None:
                self._write_tokens()
                if self._index is not None:
                    text = self._index.getvalue() + ("}" if self._rows else "{}")
                    self._output.file.create_dataset(INDEX, (1,), h5py.string_dtype())[0] = text
        finally:
            self._output.__exit__(kind, error, trace)

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


class Hdf5Vectors:
    """Reads rows of an HDF5 file, from number 0 on. AllenNLP's files can be read, too; they have no tokens."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = h5py.File(path, "r")
        self._rows = len(self._file) - sum(name in self._file for name in (INDEX, TOKENS))

    def __len__(self) -> int:
        return self._rows

    def __getitem__(self, row: int) -> np.ndarray:
        return self._file[str(row)][()]  # type: ignore[index, return-value]

    def tokens(self, row: int) -> list[str]:
        """Returns the tokens of a row."""
        if TOKENS not in self._file:
            raise without_tokens(self._path)
        return json.loads(self._file[TOKENS][row])  # type: ignore[index, arg-type]

    def close(self) -> None:
        self._file.close()
