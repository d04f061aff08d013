"""Starts the processes that tokenize a text or read it ahead, and ends them with the process that they work for."""

import multiprocessing
import os
import signal
import sys
import threading
from typing import Literal


def start_method() -> Literal["fork", "spawn"]:
    """Returns how other processes start: forked on Linux, unless the program has chosen "spawn".

    The default of Python 3.14 on Linux is another, which runs a program without `if __name__ == "__main__":` once more.
    """
    is_forked = sys.platform == "linux" and multiprocessing.get_start_method(allow_none=True) != "spawn"
    return "fork" if is_forked else "spawn"


def end_with_parent() -> None:
    """Ends this process when its parent is gone, and not before it, so that a killed run leaves none behind.

    DataLoader watches too, but finally waits for someone to take the windows that it has sent.
    """
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        parent.join()
        os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))  # Windows has only SIGTERM, which also kills

    # A signal to stop may reach all processes of a run. The parent first writes a checkpoint, then ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: signal.signal(signal.SIGTERM, signal.SIG_DFL))
    threading.Thread(target=watch, daemon=True).start()
