"""Locks: what one process at a time may do. A lock ends with its process, however that ends.

Unix locks files and folders with `flock`. Windows locks bytes of a file, but cannot open a folder: a folder's lock is a
file beside it, `NAME.in-use`, which exists as long as the lock.
"""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PAUSE = 0.1
"""Seconds between attempts to get a lock on Windows."""

_HELD: set[int] = set()
"""Descriptors of locks. A forked child, such as one that reads ahead, closes them: it may outlive its parent, and a
lock ends only when no process has it open."""


def _let_go() -> None:
    for descriptor in _HELD:
        os.close(descriptor)
    _HELD.clear()


if sys.platform != "win32":  # without fork
    os.register_at_fork(after_in_child=_let_go)


@contextmanager
def locked(path: Path, wait: bool = False) -> Iterator[bool]:
    """Locks `path` for the block; yields False if another process has it. With `wait`, waits for the lock.

    `path` is an existing folder, or a file only for this, which is created. Always True if the file system has no
    locks. Raises OSError if the file cannot be created or opened.
    """
    beside = Path(f"{path.resolve()}.in-use") if sys.platform == "win32" and path.is_dir() else None
    file = beside or path
    descriptor = os.open(file, os.O_RDONLY if file.is_dir() else os.O_RDWR | os.O_CREAT, 0o666)
    _HELD.add(descriptor)
    try:
        yield _lock(descriptor, wait)
    finally:
        _HELD.discard(descriptor)
        _unlock(descriptor)
        os.close(descriptor)
        if beside is not None:
            with suppress(OSError):  # another process has it open
                beside.unlink()


def _lock(descriptor: int, wait: bool) -> bool:
    if sys.platform == "win32":
        import msvcrt

        while True:
            try:
                msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
                return True
            except PermissionError:
                if not wait:
                    return False
                time.sleep(PAUSE)
            except OSError:  # no locks here, as on some file systems of networks
                return True
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # no locks here
        pass
    return True


def _unlock(descriptor: int) -> None:
    """Needed on Windows; elsewhere closing the file is enough."""
    if sys.platform == "win32":
        import msvcrt

        with suppress(OSError):  # it was not locked
            msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)
