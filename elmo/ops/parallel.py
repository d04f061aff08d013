"""Runs both directions in parallel on a CPU, with one thread each, so that neither waits for the other."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import torch

from elmo.forking import renew_at_fork


def run_both(work: Callable[[int], None], device: torch.device) -> None:
    """Runs `work(0)` and `work(1)`, in parallel if torch may use at least two CPU threads.

    `work` records no gradients.
    """
    threads = torch.get_num_threads()
    if device.type != "cpu" or threads < 2 or threading.current_thread() is not threading.main_thread():
        with torch.no_grad():
            work(0)
            work(1)
        return
    inference = torch.is_inference_mode_enabled()

    def other() -> None:
        # torch's modes and thread counts belong to a thread, so the worker copies those of the caller.
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


renew_at_fork(_worker, lambda worker: worker.cache_clear())
