"""The files of a corpus of vectors: the manifest, the receipts, and files that are written whole on any file system."""

import dataclasses
import hashlib
import io
import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fsspec.implementations.local import LocalFileSystem

from elmo.config import check_regular, parse_json
from elmo.disk.files import ABANDONED, atomic_path
from elmo.embedding.corpus_rows import Part
from elmo.errors import InputError

MANIFEST, VECTORS, ERRORS, DONE = "manifest.json", "vectors", "errors", "done"
FORMAT = 1


@dataclass(frozen=True)
class Receipt:
    """The record of a part that was written."""

    part: int
    vectors: int
    """The number of rows with vectors."""
    errors: int
    """The number of rows that could not be embedded."""
    tokens: int
    bytes: int
    sha256: str
    """The hash of the file of vectors."""


class HashedFile(io.RawIOBase):
    """A file for writing that hashes its content. Its owner closes the file behind it."""

    def __init__(self, file: Any) -> None:
        self._file, self._digest, self.size = file, hashlib.sha256(), 0

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    def write(self, data: Any) -> int:
        self._digest.update(data)
        self.size += len(data)
        self._file.write(data)
        return len(data)

    def tell(self) -> int:
        return self.size

    def writable(self) -> bool:
        return True


def own_manifest(files: Any, path: str, output: str, identity: dict[str, Any]) -> dict[str, Any] | None:
    """Reads the manifest, and checks that it is of this job; returns None if the folder is missing or empty."""
    files.invalidate_cache()
    if not files.exists(path):
        return None
    if not files.isdir(path):
        raise InputError(f"{output}: is a file; name a folder as the output")
    if not files.exists(f"{path}/{MANIFEST}"):
        # A job that is killed before it writes its manifest leaves only these.
        others = [name for name in files.find(path) if not Path(name).name.startswith((".lock", f".{MANIFEST}."))]
        if others:
            raise InputError(f"{output}: holds {Path(min(others)).name!r} but no {MANIFEST}; name a new folder")
        return None
    manifest = read_json(files, f"{path}/{MANIFEST}")
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise InputError(f"{output}: its {MANIFEST} is not from this program and version; name a new folder")
    for name, value in identity.items():
        was = manifest["job"].get(name)
        if was != value:
            shown = [_shown(part) for part in (was, value)]
            raise InputError(
                f"{output}: holds another job: {name} was {shown[0]} and is {shown[1]} now; give the same, or name"
                " another folder"
            )
    return manifest


def _shown(value: Any) -> str:
    if isinstance(value, dict) and all(isinstance(size, int) for size in value.values()):
        return f"{len(value):,} files of {sum(value.values()):,} bytes"
    return repr(value)


def parts_of(manifest: dict[str, Any]) -> list[Part]:
    """Returns the parts that a manifest lists."""
    names = [part.name for part in dataclasses.fields(Part)]
    return [Part(**{name: part[name] for name in names}) for part in manifest["parts"]]


def name_of(part: Part) -> str:
    """Returns the name of a part's files, without a suffix."""
    return f"{part.number:08}"


def read_json(files: Any, path: str) -> Any:
    """Reads a file of JSON. Raises InputError if it is damaged."""
    try:
        if is_local(files):
            check_regular(Path(path))
        return parse_json(files.cat_file(path))
    except ValueError as error:
        raise InputError(f"{path}: damaged ({error}); remove it to redo its part") from error


def write_json(files: Any, path: str, value: Any) -> None:
    """Writes a file of JSON whole."""
    with whole_file(files, path) as file:
        file.write((json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode())


@contextmanager
def whole_file(files: Any, path: str) -> Iterator[Any]:
    """Yields a binary file that appears at `path` only if the block succeeds."""
    if is_local(files):
        with atomic_path(Path(path), overwrite=True) as temporary, temporary.open("wb") as file:
            yield file
        return
    folder, _, name = path.rpartition("/")
    temporary = f"{folder}/.{name}.{uuid.uuid4().hex}.partial"
    try:
        with files.open(temporary, "wb") as file:
            yield file
        files.mv(temporary, path)
    except BaseException:
        with suppress(OSError):
            files.rm(temporary)
        raise


def tidy(files: Any, path: str) -> None:
    """Removes files that killed processes left; without a lock only old ones, since newer ones may be in use."""
    for name in files.find(path):
        if name.endswith(".partial"):
            with suppress(FileNotFoundError):
                if is_local(files) or _is_abandoned(files, name):
                    files.rm(name)


def _is_abandoned(files: Any, name: str) -> bool:
    """Returns whether a file is old enough to be removed; False if the file system has no times."""
    try:
        modified = files.modified(name)
    except NotImplementedError:
        return False
    age = datetime.now(UTC) - modified.replace(tzinfo=modified.tzinfo or UTC)
    return age.total_seconds() > ABANDONED


def is_local(files: Any) -> bool:
    """Returns whether a file system is that of this machine."""
    return isinstance(files, LocalFileSystem)
