"""Handles Ctrl-C and SIGTERM in a run, which finishes its step and writes a checkpoint first."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class RunStopped(KeyboardInterrupt):
    """The run was asked to stop, and has written a checkpoint."""


@contextmanager
def requests_to_stop(prints: bool) -> Iterator[Callable[[], bool]]:
    """Yields a function that says whether a signal has asked to stop; a second signal does what it did before.

    The first signal is answered on stderr if this process `prints`. Signals can be handled in the main thread only: in
    another one the function is always false.
    """
    requested = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield requested.is_set
        return

    def request(number: int, frame: FrameType | None) -> None:
        requested.set()
        restore()
        if prints:
            # print must not be called in a signal handler.
            os.write(2, b"\nstopping with a checkpoint after this step; again to stop at once\n")

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    before = {number: signal.signal(number, request) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield requested.is_set
    finally:
        restore()
