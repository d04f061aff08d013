"""Writing what a run keeps: errors say which file they are about and how to go on."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from elmo.errors import InputError


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Gives an OSError of the block, such as that of a full disk, the name of the file and the remedy."""
    try:
        yield
    except OSError as error:
        problem = f"{error.strerror}; when that is mended go on with --resume"
        raise OSError(error.errno, problem, str(path)) from error


def write(path: Path, content: bytes) -> None:
    """Writes a file that is on the disk when this returns."""
    with naming(path), path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def write_whole(path: Path, content: bytes) -> None:
    """Writes a file under a temporary name, then moves it to its place: a reader finds the old one or the new one."""
    temporary = path.with_name(f"{path.name}.part")
    write(temporary, content)
    with naming(path):
        temporary.replace(path)


_HELD: set[int] = set()
"""Descriptors of locks. A forked child, such as one that reads data ahead, lets go of them: it may outlive its parent,
and a lock ends when nobody has it open any more."""


def _let_go() -> None:
    for descriptor in _HELD:
        os.close(descriptor)
    _HELD.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)


@contextmanager
def locked(path: Path, wait: bool = False) -> Iterator[bool]:
    """Whether the block may do what only one process at a time may; True if none has the path locked, or after it.

    `path` is a folder that is there, or a file for this alone. The lock ends with the process, however that ends. Where
    the system (Windows) or the file system has no such locks it is always True.
    """
    try:
        import fcntl
    except ImportError:
        yield True
        return
    with naming(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR | os.O_CREAT, 0o666)
    _HELD.add(descriptor)
    try:
        free = True
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            free = False
        except OSError:  # no locks here, as on some file systems of networks
            pass
        yield free
    finally:
        _HELD.discard(descriptor)
        os.close(descriptor)


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """The block has the folder of a run, which is made, for itself; where it leaves it empty, none is left.

    Raises InputError where another process is at work in it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder) as mine:
        if not mine:
            raise InputError(f"{folder}: another process trains here; wait for its end, or name another --output")
        try:
            yield
        finally:
            with suppress(OSError):
                folder.rmdir()


class Appended:
    """A file to which whole records are added, each written at once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with naming(path):
            self._file = path.open("ab", buffering=0)

    def write(self, record: bytes) -> None:
        with naming(self._path):
            while record:
                record = record[self._file.write(record) :]

    def flush(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        self._file.close()
