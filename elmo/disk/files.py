"""Output that is written whole or not at all: under a temporary name beside the target, moved when complete."""

import ctypes
import errno
import os
import re
import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from fnmatch import fnmatch
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO

from elmo.errors import InputError

DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
PARTIAL, OLD = ".partial", ".old"
"""Suffixes of unfinished output, and of a folder that is being replaced."""
ABANDONED = 86_400
"""Age in seconds at which an unfinished file is removed; a newer one may be another writer's."""


def check_output(
    path: Path, overwrite: bool = False, holds: Sequence[str] = (), inputs: Iterable[str | Path | None] = ()
) -> None:
    """Raises InputError if `path` is one of `inputs`, holds one or is in one, also by links.

    Raises OSError if `path` exists and may not be overwritten or is a device, or if its folder does not exist.

    `holds` are the names, or name patterns, of the content of an output folder; empty for a file. A folder with other
    content is never replaced.
    """
    for each in inputs:
        if each is not None and _overlap(Path(each), path):
            raise InputError(f"{path}: is also the input ({each}), which would be lost; name another output")
    if str(path) == "-":
        raise InputError("the output is '-', but standard output is not supported here; name a file")
    if _is_loop(path):
        raise OSError(errno.ELOOP, "is a link that leads back to itself; remove it, or name another output", str(path))
    if path.exists() and not path.is_file() and not path.is_dir():
        raise FileExistsError(errno.EEXIST, "is neither a file nor a folder; name another output", str(path))
    if path.exists() and not overwrite:
        raise FileExistsError(
            errno.EEXIST,
            "the output exists; remove it, name another, or add --overwrite to replace it",
            str(path),
        )
    if path.is_dir():
        if not holds:
            raise IsADirectoryError(errno.EISDIR, "is a folder; name a file", str(path))
        for entry in sorted(path.iterdir()):
            if not any(fnmatch(entry.name, pattern) for pattern in holds):
                raise FileExistsError(
                    errno.EEXIST, f"is not replaced, since it also holds {entry.name!r}; name another", str(path)
                )
    elif holds and path.exists():
        raise NotADirectoryError(errno.ENOTDIR, "is a file; name a folder", str(path))
    if not path.absolute().parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "the output's folder does not exist; create it", str(path.parent))


@contextmanager
def atomic_path(path: Path, overwrite: bool = False, holds: Sequence[str] = ()) -> Iterator[Path]:
    """A temporary path beside `path`, for a file or a folder, which becomes `path` if the block succeeds.

    Otherwise it is removed, and `path` is untouched. What killed processes left of writing `path` is removed after a
    day. On a full disk, the OSError names `path`. `overwrite` and `holds` are those of `check_output`.
    """
    check_output(path, overwrite, holds)
    path = path.resolve()  # replace the target of a link, not the link
    remove_abandoned(_left_of(path))
    temporary = _temporary(path)
    try:
        yield temporary
        check_output(path, overwrite, holds)  # again: it may be there by now
        move_into_place(temporary, path)
    except OSError as error:
        is_of_another = error.filename is not None and not str(error.filename).startswith(str(temporary))
        if error.errno not in DISK_FULL or is_of_another:
            raise
        problem = f"{os.strerror(error.errno)}; free some space, or name an output elsewhere"
        raise OSError(error.errno, problem, str(path)) from error
    finally:
        _delete(temporary)


@contextmanager
def run_file(path: Path) -> Iterator[BinaryIO]:
    """A file of a run, which it becomes or replaces if the block succeeds. An error says how to resume."""
    path = path.resolve()
    remove_abandoned(_left_of(path))
    temporary = _temporary(path)
    try:
        with advise_resume(path):
            with temporary.open("wb") as file:
                yield file
            move_into_place(temporary, path)
    finally:
        _delete(temporary)


def write_run_file(path: Path, content: bytes) -> None:
    """Writes or replaces a file of a run, as `run_file` does."""
    with run_file(path) as file:
        file.write(content)


@contextmanager
def advise_resume(path: Path) -> Iterator[None]:
    """Adds the file's name and the remedy to an OSError of the block, such as a full disk, in a run that can resume."""
    try:
        yield
    except OSError as error:
        problem = f"{error.strerror}; fix this, then continue with --resume"
        raise OSError(error.errno, problem, str(path)) from error


class AppendedFile:
    """A file to append whole records to, each written at once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with advise_resume(path):
            self._file = path.open("ab", buffering=0)

    def write(self, record: bytes) -> None:
        with advise_resume(self._path):
            while record:
                record = record[self._file.write(record) :]

    def flush(self) -> None:
        """Does nothing: there is no buffer."""

    def close(self) -> None:
        self._file.close()


def move_into_place(finished: Path, path: Path) -> None:
    """Moves a finished file or folder to its target, which it replaces."""
    _sync(finished)
    _move(finished, path.resolve())


def remove_leftovers(path: Path) -> None:
    """Removes what killed processes left of writing `path`, or puts a folder back that they had moved aside.

    Only for the one process that may write `path` now.
    """
    path = path.resolve()
    for left in _left_of(path):
        if left.suffix == OLD and not path.exists():
            left.replace(path)
        else:
            _delete(left)


def remove(path: Path) -> None:
    """Removes a file or a folder: after one rename it is gone for all others, however long the rest takes."""
    hidden = _temporary(path)
    try:
        path.replace(hidden)
    except FileNotFoundError:
        return
    _delete(hidden)


def is_unfinished(path: Path) -> bool:
    """Whether a file or folder is unfinished output, by its name."""
    return path.name.startswith(".") and path.suffix == PARTIAL


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.{token_hex(6)}{PARTIAL}")  # threads and containers share process numbers


def _left_of(path: Path) -> list[Path]:
    """What unfinished writers of `path` have beside it."""
    name = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]+\.(partial|old)")
    return [entry for entry in path.parent.iterdir() if name.fullmatch(entry.name)]


def remove_abandoned(lefts: Iterable[Path]) -> None:
    """Removes those that killed processes left unfinished a day ago."""
    with suppress(OSError):  # another writer may remove them, too, or they are another user's
        for left in list(filter(is_unfinished, lefts)):
            newest = max(part.lstat().st_mtime for part in (left, *left.rglob("*")))
            if time.time() - newest > ABANDONED:
                _delete(left)


def _is_loop(path: Path) -> bool:
    try:
        path.stat()
    except OSError as error:
        return error.errno == errno.ELOOP
    return False


def _sync(path: Path) -> None:
    """Flushes to disk before the move; else a power cut could leave an empty file of the final name."""
    for part in _files(path):
        with part.open("rb+") as file:
            os.fsync(file.fileno())


def _move(source: Path, target: Path) -> None:
    try:
        _replace(source, target)
    except PermissionError as error:
        if sys.platform != "win32" or not target.exists():
            raise
        problem = "is open in a program, or a file in it is; close it there, or name another output"
        raise PermissionError(error.errno, problem, str(target)) from error


def _replace(source: Path, target: Path) -> None:
    if not target.is_dir():
        source.replace(target)
    elif _exchange(source, target):
        _delete(source)
    else:  # a folder cannot replace a non-empty one, so the old one is moved aside until the new one is in place
        old = target.with_name(f".{target.name}.{token_hex(6)}{OLD}")
        target.replace(old)
        try:
            source.replace(target)
        except BaseException:
            old.replace(target)
            raise
        _delete(old)


def _exchange(one: Path, other: Path) -> bool:
    """Exchanges two folders in one step, by Linux's `renameat2`; False where there is none."""
    if sys.platform != "linux":
        return False
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return rename is not None and rename(here, os.fsencode(one), here, os.fsencode(other), exchange) == 0


def _overlap(one: Path, other: Path) -> bool:
    """Whether two paths are the same file or folder, or one is in the other, also by links. False if one is missing."""
    try:
        found = one.resolve(strict=True), other.resolve(strict=True)
        status = [path.stat() for path in found]
        return any(
            os.path.samestat(mine, folder.stat())
            for mine, path in zip(status, reversed(found), strict=True)
            for folder in (path, *path.parents)
        )
    except OSError:
        return False


def _delete(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _files(path: Path) -> list[Path]:
    """The file, or all files below the folder; empty if nothing exists."""
    return [file for file in (path.rglob("*") if path.is_dir() else [path]) if file.is_file()]
