"""Locks: what one process at a time may do. A lock is a file, and ends with its process, however that ends."""

import errno
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

LOCK = ".lock"
"""The lock of a folder: a file in it, since network file systems may lock files but not folders."""
NO_LOCKS = {errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP}


@contextmanager
def locked(file: Path, wait: bool = False) -> Iterator[bool]:
    """Locks `file`, which exists only as long as the lock; yields False if another process or thread has it.

    With `wait`, waits for the lock. Creates the folder of `file`. Always True if the file system has no locks. Raises
    OSError if the file cannot be created.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(file, timeout=-1 if wait else 0, fallback_to_soft=False)
    mine = True
    try:
        lock.acquire()
    except Timeout:
        mine = False
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
    try:
        yield mine
    finally:
        if lock.is_locked:
            if sys.platform == "win32":  # an open file cannot be removed there
                lock.release()
            with suppress(OSError):  # before the release: whoever waits sees that the name is gone, and makes it anew
                file.unlink()
            lock.release()
