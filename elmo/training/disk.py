"""Writing what a run keeps: errors say which file they are about and how to go on."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from elmo import locks
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


@contextmanager
def locked(path: Path, wait: bool = False) -> Iterator[bool]:
    """`elmo.locks.locked`, where the folder that a file for the lock is in is made; an error says how to go on."""
    with ExitStack() as stack:
        with naming(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            mine = stack.enter_context(locks.locked(path, wait))
        yield mine


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
