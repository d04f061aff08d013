"""Writes files and folders whole or not at all: under a temporary name beside the target, which a rename replaces."""

import ctypes
import errno
import io
import os
import re
import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from fnmatch import fnmatch
from itertools import combinations
from pathlib import Path
from secrets import token_hex
from typing import Any, BinaryIO

from elmo.errors import InputError

DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
PARTIAL, OLD = ".partial", ".old"
"""Suffixes of unfinished output, and of a folder that is being replaced."""
LONGEST_NAME = 233
"""The most bytes of an output's name: of the 255 of a file system, the name of its unfinished file needs 22 more."""
NO_REPLACE, EXCHANGE = 1, 2
"""Flags of Linux's `renameat2`."""
ABANDONED = 86_400
"""The age in seconds at which an unfinished file is removed; a newer one may belong to a writer that still runs."""


def check_output(
    path: Path, overwrite: bool = False, holds: Sequence[str] = (), inputs: Iterable[str | Path | None] = ()
) -> None:
    """Raises an error if `path` cannot be written: call it before any work is done.

    `holds` are the names, or name patterns, of the content of an output folder; it is empty for a file. A folder with
    other content is never replaced.

    Raises InputError as `check_not_input` does. Raises OSError if `path` exists and `overwrite` is False, if it is a
    device, or if its parent folder does not exist or takes no files.
    """
    check_not_input(path, inputs)
    if str(path) == "-":
        raise InputError("the output is '-', but standard output is not supported here; name a file")
    real = real_path(path)
    if (size := len(os.fsencode(real.name))) > LONGEST_NAME:
        problem = f"the name has {size} bytes; name an output of at most {LONGEST_NAME}"
        raise OSError(errno.ENAMETOOLONG, problem, str(path))
    if any(part.is_symlink() for part in (real, *real.parents)):
        raise OSError(errno.ELOOP, "is a link that leads back to itself; remove it, or name another output", str(path))
    if path.exists() and not path.is_file() and not path.is_dir():
        raise FileExistsError(errno.EEXIST, "is neither a file nor a folder; name another output", str(path))
    if path.exists() and not overwrite:
        problem = "the output exists; remove it, name another, or add --overwrite to replace it"
        raise FileExistsError(errno.EEXIST, problem, str(path))
    if path.is_dir():
        if not holds:
            raise IsADirectoryError(errno.EISDIR, "is a folder; name a file", str(path))
        for entry in sorted(path.iterdir()):
            if not any(fnmatch(entry.name, pattern) for pattern in holds):
                problem = f"is not replaced, since it also holds {entry.name!r}; name another"
                raise FileExistsError(errno.EEXIST, problem, str(path))
    elif holds and path.exists():
        raise NotADirectoryError(errno.ENOTDIR, "is a file; name a folder", str(path))
    if not path.absolute().parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "the output's folder does not exist; create it", str(path.parent))
    if not os.access(real.parent, os.W_OK | os.X_OK):
        problem = "you may not write in the output's folder; name an output elsewhere"
        raise PermissionError(errno.EACCES, problem, str(path.parent))


def check_not_input(path: Path, inputs: Iterable[str | Path | None]) -> None:
    """Raises InputError if the output `path` is one of `inputs`, contains one or lies in one, also through links.

    The links in a folder are inputs, too: a folder in the cache of the Hugging Face Hub holds nothing else.
    """
    if not os.path.lexists(path):  # nothing would be lost
        return
    for each in (Path(each) for each in inputs if each is not None):
        for part in (each, *(inner for inner in each.rglob("*") if inner.is_symlink())):
            if _overlap(part, path):
                raise InputError(f"{path}: is also the input ({part}), which would be lost; name another output")


def real_path(path: str | Path) -> Path:
    """Returns the absolute path without links. A loop of links stays; `Path.resolve` raises RuntimeError for it."""
    return Path(os.path.realpath(path))


def check_distinct(*outputs: str | Path | None) -> None:
    """Raises InputError if two outputs of a command are the same, or one lies in another; None is no output."""
    places = [real_path(each) for each in outputs if each is not None]
    for one, other in combinations(places, 2):
        if one == other or one in other.parents or other in one.parents:
            raise InputError(f"{other}: two outputs are named so, and one would be lost; name another for one of them")


@contextmanager
def atomic_path(path: Path, overwrite: bool = False, holds: Sequence[str] = ()) -> Iterator[Path]:
    """Yields a temporary path beside `path`, for a file or a folder, which becomes `path` if the block succeeds.

    If the block fails, what it wrote is removed and `path` stays as it was. Unfinished files of killed processes are
    removed after a day. `overwrite` and `holds` are those of `check_output`. Raises the errors of `check_output`; an
    OSError about the temporary path, such as a full disk, names `path`.
    """
    check_output(path, overwrite, holds)
    path = real_path(path)  # replace the target of a link, not the link
    remove_abandoned(_left_of(path))
    temporary = _temporary(path)
    try:
        yield temporary
        place_output(temporary, path, overwrite, holds)
    except OSError as error:
        is_full = error.errno in DISK_FULL
        is_own = is_full if error.filename is None else str(error.filename).startswith(str(temporary))
        if not is_own:
            raise
        reason, space = os.strerror(error.errno or errno.EIO), "free some space, or " if is_full else ""
        raise OSError(error.errno, f"{reason}; {space}name an output elsewhere", str(path)) from error
    finally:
        _delete(temporary)


@contextmanager
def run_path(path: Path) -> Iterator[Path]:
    """Yields a temporary path, whose file replaces the run's file `path` if the block succeeds.

    Errors say how to resume.
    """
    path = real_path(path)
    remove_abandoned(_left_of(path))
    temporary = _temporary(path)
    try:
        with advise_resume(path):
            yield temporary
            move_into_place(temporary, path)
    finally:
        _delete(temporary)


@contextmanager
def run_file(path: Path) -> Iterator[BinaryIO]:
    """Yields the file of `run_path`, open to be written."""
    with run_path(path) as temporary, temporary.open("wb") as file:
        yield file


def write_run_file(path: Path, content: bytes) -> None:
    """Writes or replaces the run's file `path`, as `run_file` does."""
    with run_file(path) as file:
        file.write(content)


@contextmanager
def advise_resume(path: Path) -> Iterator[None]:
    """Adds the file's name and the advice to resume to an OSError of the block, such as a full disk."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or f"cannot be written whole ({error})"  # numpy's own errors have no reason
        problem = f"{reason}; fix this, then continue with --resume"
        raise OSError(error.errno, problem, str(path)) from error


class AppendedFile(io.FileIO):
    """A file to which whole records are appended, each written at once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with advise_resume(path):
            super().__init__(path, "ab")

    def write(self, record: Any) -> int:
        left = memoryview(record)
        with advise_resume(self._path):
            while left:
                left = left[super().write(left) :]
        return len(record)


def move_into_place(finished: Path, path: Path) -> None:
    """Moves a finished file or folder to its target, which it replaces."""
    _sync(finished)
    _move(finished, real_path(path))


def place_output(finished: Path, path: Path, overwrite: bool = False, holds: Sequence[str] = ()) -> None:
    """Moves a finished output to its target. Raises the errors of `check_output`: another process may have written it.

    Without `overwrite` nothing is replaced, not even what appears at this moment, where the system can do so.
    """
    _sync(finished)
    path = real_path(path)
    if overwrite or not _rename(finished, path, NO_REPLACE):
        check_output(path, overwrite, holds)
        _move(finished, path)


def remove_leftovers(path: Path) -> None:
    """Removes unfinished output of `path` by killed processes, or restores a folder that they had moved aside.

    Only the process that may write `path` now may call this.
    """
    path = real_path(path)
    for left in _left_of(path):
        if left.suffix == OLD and not path.exists():
            left.replace(path)
        else:
            _delete(left)


def remove(path: Path) -> None:
    """Removes a file or a folder. It is renamed first, so it is gone for all others before the deletion begins."""
    hidden = _temporary(path)
    try:
        path.replace(hidden)
    except FileNotFoundError:
        return
    _delete(hidden)


def is_unfinished(path: Path) -> bool:
    """Returns whether the name of a file or folder is that of unfinished output."""
    return path.name.startswith(".") and path.suffix == PARTIAL


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.{token_hex(6)}{PARTIAL}")  # threads and containers share process numbers


def _left_of(path: Path) -> list[Path]:
    """The unfinished files and folders that writers of `path` have left beside it."""
    name = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]+\.(partial|old)")
    return [entry for entry in path.parent.iterdir() if name.fullmatch(entry.name)]


def remove_abandoned(lefts: Iterable[Path]) -> None:
    """Removes unfinished files and folders that are a day old: their processes were killed."""
    for left in list(filter(is_unfinished, lefts)):
        with suppress(OSError):  # another writer may remove it at the same time, or it belongs to another user
            newest = max(part.lstat().st_mtime for part in (left, *left.rglob("*")))
            if time.time() - newest > ABANDONED:
                _delete(left)


def _sync(path: Path) -> None:
    """Flushes to disk before the move, since a power cut could otherwise leave an empty file of the final name."""
    for part in filter(Path.is_file, path.rglob("*") if path.is_dir() else [path]):
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
    elif _rename(source, target, EXCHANGE):  # in one step
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


def _rename(one: Path, other: Path, how: int) -> bool:
    """Renames by Linux's `renameat2`; returns False if that fails, or where the system has none."""
    if sys.platform != "linux":
        return False
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    here = -100  # AT_FDCWD
    return rename is not None and rename(here, os.fsencode(one), here, os.fsencode(other), how) == 0


def _overlap(one: Path, other: Path) -> bool:
    """Whether two paths are the same, or one lies in the other, also through links; False if one is missing."""
    try:
        found = [Path(os.path.realpath(path, strict=True)) for path in (one, other)]
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
