"""Measures in separate processes, and times from the start of a process.

This module does not import torch, so the parent process stays small and starts quickly.
"""

import multiprocessing
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

SENTENCE = "The quick answer surprised everyone who had waited for it ."
IMPORT = "import time; t = time.perf_counter(); import elmo; print(time.perf_counter() - t)"
FIRST_VECTOR = (
    "import sys, elmo;elmo.load(sys.argv[1], device=sys.argv[2]).embed([sys.argv[3].split()]);print(flush=True)"
)


def in_fresh_process(function: Callable[..., T], *arguments: object) -> T:
    """Runs `function(*arguments)` in a new interpreter, which ends afterwards; re-raises its exception."""
    ends_silently = signal.SIGINT, signal.SIG_DFL  # Ctrl-C reaches both processes, and the parent reports it
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, context, signal.signal, ends_silently) as pool:
        return pool.submit(function, *arguments).result()


def import_seconds(rounds: int = 5) -> float:
    """Returns the seconds of `import elmo` in a new interpreter, the fastest of `rounds`."""
    command = [sys.executable, "-c", IMPORT]
    runs = (subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(rounds))
    return min(map(float, runs))


def first_vector_seconds(model: str | Path, device: str, rounds: int = 2) -> float:
    """Returns the seconds from the start of a process to the model's first vector, the fastest of `rounds`."""
    command = [sys.executable, "-c", FIRST_VECTOR, str(model), device, SENTENCE]
    return min(_seconds_to_first_line(command) for _ in range(rounds))


def _seconds_to_first_line(command: Sequence[str]) -> float:
    began = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        seconds = time.perf_counter() - began
    if not line or process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, list(command))
    return seconds
