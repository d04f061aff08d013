"""Locks: what one process at a time may do. A lock ends with its process, however that ends.

Unix locks files and folders by `flock`. Windows locks bytes of a file, and opens no folder: the lock of a folder is a
file beside it, `NAME.in-use`, which is there as long as the lock.
"""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PAUSE = 0.1
"""Seconds after which Windows is asked again for a lock that another process has."""

_HELD: set[int] = set()
"""Descriptors of locks. A forked child, such as one that reads data ahead, lets go of them: it may outlive its parent,
and a lock ends when nobody has it open any more."""


def _let_go() -> None:
    for descriptor in _HELD:
        os.close(descriptor)
    _HELD.clear()


if sys.platform != "win32":  # where no process is forked
    os.register_at_fork(after_in_child=_let_go)


@contextmanager
def locked(path: Path, wait: bool = False) -> Iterator[bool]:
    """Whether the block may do what only one process at a time may; True if none has the path locked, or after it.

    `path` is a folder that is there, or a file for this alone, which is made. Where the file system has no locks it is
    always True. Raises OSError where the file cannot be made or opened.
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
    """What Windows asks for; elsewhere closing the file is enough."""
    if sys.platform == "win32":
        import msvcrt

        with suppress(OSError):  # where it was not locked
            msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)
