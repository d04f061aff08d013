"""Memory of a process that allocates the same large tensors at every step."""

import ctypes

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
