"""Writes a run's files; errors name the file and say how to resume."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from elmo import locks
from elmo.errors import InputError


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Adds the file's name and the remedy to an OSError of the block, such as a full disk."""
    try:
        yield
    except OSError as error:
        problem = f"{error.strerror}; fix this, then continue with --resume"
        raise OSError(error.errno, problem, str(path)) from error


def write(path: Path, content: bytes) -> None:
    """Writes a file and syncs it to disk."""
    with naming(path), path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def write_whole(path: Path, content: bytes) -> None:
    """Writes a file under a temporary name, then moves it into place: a reader finds the old file or the new one."""
    temporary = path.with_name(f"{path.name}.part")
    write(temporary, content)
    with naming(path):
        temporary.replace(path)


@contextmanager
def locked(path: Path, wait: bool = False) -> Iterator[bool]:
    """`elmo.locks.locked`, but creates the lock file's folder; an error says how to resume."""
    with ExitStack() as stack:
        with naming(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            mine = stack.enter_context(locks.locked(path, wait))
        yield mine


@contextmanager
def alone(folder: Path, does: str = "trains") -> Iterator[None]:
    """Creates a run's folder and locks it for the block; removes it if it is empty afterwards.

    Raises InputError if another process uses it: it says that the process `does` here.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder) as mine:
        if not mine:
            raise InputError(f"{folder}: another process {does} here; wait until it ends, or name another --output")
        try:
            yield
        finally:
            with suppress(OSError):
                folder.rmdir()


def holds_run(record: Path) -> bool:
    """Whether the folder of `record`, a run's first file, holds a run; False if there is none yet, or it is empty.

    Raises InputError if the folder is a file or holds anything else; unfinished `.part` files do not count.
    """
    folder = record.parent
    try:
        str(folder).encode()
    except UnicodeEncodeError as error:  # safetensors would write its files there, but not read them
        raise InputError(f"{folder}: the name is not UTF-8; name another --output") from error
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: is a file; name a folder for the run as --output")
    # Checked before the record, since another job of the queue may start the run meanwhile.
    used = folder.exists() and any(path.suffix != ".part" for path in folder.iterdir())
    if record.exists():
        return True
    if used:
        raise InputError(f"{folder}: the folder exists but holds no run; name another --output, or empty it")
    return False


class Appended:
    """A file to append whole records to, each written at once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with naming(path):
            self._file = path.open("ab", buffering=0)

    def write(self, record: bytes) -> None:
        with naming(self._path):
            while record:
                record = record[self._file.write(record) :]

    def flush(self) -> None:
        """Does nothing: there is no buffer."""

    def close(self) -> None:
        self._file.close()
