"""Memory of a training process: what it keeps between steps."""

import ctypes
import os

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8  # of <malloc.h>
GIBIBYTE = 2**30


def keep_freed_memory() -> None:
    """Tells glibc to keep large freed blocks for the next step instead of returning them to the system.

    The system clears every new block page by page, which takes a tenth of a training step, or half on some virtual
    machines. All threads share one arena, since other threads' arenas cannot hold large blocks. Does nothing with
    another C library.
    """
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return
    mallopt(M_MMAP_THRESHOLD, GIBIBYTE)
    mallopt(M_TRIM_THRESHOLD, 2 * GIBIBYTE - 1)
    mallopt(M_ARENA_MAX, 1)


def keep_few_programs() -> None:
    """Tells oneDNN to cache the programs of 64 products, not 1,024; must be called before its first product.

    For batches whose numbers of rows rarely recur: a program is for one shape and takes up to some MB. A user's own
    ONEDNN_PRIMITIVE_CACHE_CAPACITY takes precedence.
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")
