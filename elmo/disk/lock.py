"""Locks for what only one process at a time may do. A lock is a file, and ends with its process, even a killed one."""

import errno
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

LOCK = ".lock"
"""The name of a folder's lock, a file in it: network file systems may be able to lock files but not folders."""
NO_LOCKS = {errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP}


@contextmanager
def locked(file: Path, wait: bool = False) -> Iterator[bool]:
    """Locks `file` for the block; yields whether it is locked, which is False if another process or thread has it.

    With `wait`, waits for the lock. The folder of `file` is created, and `file` itself exists only as long as the
    lock. On a file system without locks, the block always runs, with True. Raises OSError if the file cannot be
    created.
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
            # Before the release, so that a process that waits sees that the file is gone, and creates it again.
            with suppress(OSError):
                file.unlink()
            lock.release()
