"""Stores rows of vectors in a zip of `.npy` files: see `elmo.embedding.store`."""

import json
import tempfile
import zipfile
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import numpy as np

from elmo.embedding.store_rows import closing_errors, stored_pieces, to_json, without_tokens
from elmo.forking import cached_property, renew_at_fork

TOKENS = "tokens.jsonl"


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
        with self._zip.open(f"{self._rows}.npy", "w", force_zip64=vectors.nbytes >= 1 << 31) as member:
            np.lib.format.write_array_header_1_0(member, header)
            for piece in stored_pieces(vectors, self._dtype):
                member.write(piece)
        self._tokens.write(f"{to_json(tokens)}\n".encode())
        self._rows += 1

    def __enter__(self) -> "NpzWriter":
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        # After an error nothing more can be written. Closing would try it, and its error would hide the first one.
        with suppress(*closing_errors(error)), ExitStack() as stack:
            for part in (self._file, self._tokens, self._zip):  # they are closed in reverse order
                stack.callback(part.close)
            if error is None:
                self._write_tokens()

    def _write_tokens(self) -> None:
        self._tokens.seek(0)
        with self._zip.open(TOKENS, "w", force_zip64=True) as member:
            while part := self._tokens.read(1 << 20):
                member.write(part)


class NpzVectors:
    """Reads rows of an `.npz` file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._open()
        renew_at_fork(self, lambda vectors: setattr(vectors, "_is_inherited", True))
        self._rows = len(self._arrays.files) - (TOKENS in self._arrays.files)

    def __len__(self) -> int:
        return self._rows

    def __getitem__(self, row: int) -> np.ndarray:
        found = self._own()[str(row)]
        if not isinstance(found, np.ndarray):  # np.load gives the bytes of a member that is no array
            raise TypeError("no array")
        return found

    def tokens(self, row: int) -> list[str]:
        """Returns the tokens of a row; the first call reads all rows' tokens."""
        return json.loads(self._lines[row])

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

    def _own(self) -> Any:
        """The arrays. A forked process opens them again: an inherited file has one position for all processes."""
        if self._is_inherited:
            self._open()
        return self._arrays

    @cached_property
    def _lines(self) -> list[bytes]:
        if TOKENS not in self._arrays.files:
            raise without_tokens(self._path)
        return self._own()[TOKENS].split(b"\n")
