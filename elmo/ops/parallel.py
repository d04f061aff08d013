"""Both reading directions at once on a CPU: one thread for either, so that no product waits for a partner."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import torch


def both(work: Callable[[int], None], device: torch.device) -> None:
    """Runs `work(0)` and `work(1)`, in parallel where torch may use two CPU threads or more.

    Gradients are not recorded inside `work`.
    """
    threads = torch.get_num_threads()
    if device.type != "cpu" or threads < 2 or threading.current_thread() is not threading.main_thread():
        with torch.no_grad():
            work(0)
            work(1)
        return
    inference = torch.is_inference_mode_enabled()

    def other() -> None:
        # Modes and thread counts belong to a thread; the worker takes over the caller's.
        torch.set_num_threads(threads // 2)
        with torch.inference_mode(inference), torch.no_grad():
            work(1)

    torch.set_num_threads(threads // 2)
    try:
        running = _worker().submit(other)
        with torch.no_grad():
            work(0)
        running.result()
    finally:
        torch.set_num_threads(threads)


@cache
def _worker() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, "elmo-direction")
