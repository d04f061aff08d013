"""Sets which memory a training process keeps between steps."""

import ctypes
import os

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8  # of <malloc.h>
GIBIBYTE = 2**30


def keep_freed_memory() -> None:
    """Tells glibc to keep large freed blocks for the next step instead of returning them to the system.

    The system clears every new block page by page, which takes a tenth of a training step, or half on some virtual
    machines. All threads share one arena, since the arenas of other threads cannot hold large blocks. With another C
    library this does nothing.
    """
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return
    mallopt(M_MMAP_THRESHOLD, GIBIBYTE)
    mallopt(M_TRIM_THRESHOLD, 2 * GIBIBYTE - 1)
    mallopt(M_ARENA_MAX, 1)


def keep_few_programs() -> None:
    """Tells oneDNN to cache the programs of 64 products instead of 1,024. It must be called before the first product.

    This is for batches whose numbers of rows rarely recur: a program is for one shape and takes up to some MB. The
    user's own ONEDNN_PRIMITIVE_CACHE_CAPACITY takes precedence.
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")
