"""Atomic output: written to a temporary name beside the target, moved when complete, removed on failure."""

import errno
import os
import re
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from fnmatch import fnmatch
from pathlib import Path
from secrets import token_hex

from elmo import locks
from elmo.errors import InputError

DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
ABANDONED = 86_400
"""Age in seconds at which an unfinished file is removed; a newer one may be another writer's."""


def check_output(path: Path, overwrite: bool = False, holds: Sequence[str] = ()) -> None:
    """Raises OSError if `path` exists and may not be overwritten or is a device, or if its folder does not exist.

    `holds` are the names, or name patterns, of the content of an output folder; empty for a file. A folder with other
    content is never replaced.
    """
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
def whole(path: Path, overwrite: bool = False, holds: Sequence[str] = ()) -> Iterator[Path]:
    """A temporary path beside `path`, for a file or a folder, which becomes `path` if the block succeeds.

    Otherwise it is removed, and `path` is untouched. What killed processes left of writing `path` is removed after a
    day. On a full disk, the OSError says how much was written and how much is free. `overwrite` and `holds` are those
    of `check_output`.
    """
    check_output(path, overwrite, holds)
    path = path.resolve()  # replace the target of a link, not the link
    _remove_abandoned(path)
    temporary = path.with_name(f".{path.name}.{token_hex(6)}.partial")  # threads and containers share process numbers
    try:
        yield temporary
        check_output(path, overwrite, holds)  # again: it may be there by now
        put_whole(temporary, path)
    except OSError as error:
        is_of_another = error.filename is not None and not str(error.filename).startswith(str(temporary))
        if error.errno not in DISK_FULL or is_of_another:
            raise
        written, free = _size(temporary), shutil.disk_usage(path.parent).free
        problem = f"{os.strerror(error.errno)}: more than the {written:,} bytes written so far are needed, {free:,} are"
        raise OSError(error.errno, f"{problem} free; free some, or name another output", str(path)) from error
    finally:
        _remove(temporary)


def put_whole(finished: Path, path: Path) -> None:
    """Moves a finished file or folder to its target, which it replaces."""
    _sync(finished)
    _move(finished, path.resolve())


def tidy(path: Path) -> None:
    """Removes what killed processes left of writing `path`, or puts a folder back that they had moved aside.

    Only for the one process that may write `path` now.
    """
    path = path.resolve()
    for left in _left_of(path):
        if left.suffix == ".old" and not path.exists():
            left.replace(path)
        else:
            _remove(left)


@contextmanager
def locked(folder: Path, busy: str) -> Iterator[None]:
    """Keeps a second process from writing the same files, if the file system supports locks.

    Raises InputError with the text `busy` if another process holds the folder.
    """
    # Network file systems may lock files but not folders. Windows removes no folder with an open file.
    with locks.locked(folder if sys.platform == "win32" else folder / ".lock") as mine:
        if not mine:
            raise InputError(f"{folder}: {busy}")
        yield


def _left_of(path: Path) -> list[Path]:
    """What unfinished writers of `path` have beside it."""
    name = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]+\.(partial|old)")
    return [entry for entry in path.parent.iterdir() if name.fullmatch(entry.name)]


def _remove_abandoned(path: Path) -> None:
    with suppress(OSError):  # another writer may remove them, too, or they are another user's
        for left in [left for left in _left_of(path) if left.suffix == ".partial"]:
            newest = max(part.lstat().st_mtime for part in (left, *left.rglob("*")))
            if time.time() - newest > ABANDONED:
                _remove(left)


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
        return
    # A folder cannot replace a non-empty one, so the old one is moved aside until the new one is in place.
    old = target.with_name(f".{target.name}.{token_hex(6)}.old")
    target.replace(old)
    try:
        source.replace(target)
    except BaseException:
        old.replace(target)
        raise
    _remove(old)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _size(path: Path) -> int:
    return sum(file.stat().st_size for file in _files(path))


def _files(path: Path) -> list[Path]:
    """The file, or all files below the folder; empty if nothing exists."""
    return [file for file in (path.rglob("*") if path.is_dir() else [path]) if file.is_file()]
