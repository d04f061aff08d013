"""Memory of a process that trains: what is kept between steps, and what is not."""

import ctypes
import os

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8  # of <malloc.h>
GIBIBYTE = 2**30


def keep_freed_memory() -> None:
    """Tells glibc to keep large freed blocks for the next step instead of giving them back to the system.

    A block that comes back from the system is cleared page by page: a tenth of a training step's time, and half of
    it on some virtual machines. All threads share one arena: those of other threads cannot hold large blocks. Where the
    C library is another one, nothing happens.
    """
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return
    mallopt(M_MMAP_THRESHOLD, GIBIBYTE)
    mallopt(M_TRIM_THRESHOLD, 2 * GIBIBYTE - 1)
    mallopt(M_ARENA_MAX, 1)


def keep_few_programs() -> None:
    """Tells oneDNN to keep the programs of 64 products, not of 1,024; it hears before its first product only.

    For batches whose numbers of rows hardly come again: a program is of one shape, and holds up to some MB. A user's
    own ONEDNN_PRIMITIVE_CACHE_CAPACITY stands.
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")
