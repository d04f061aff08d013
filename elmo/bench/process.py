"""Measures in separate processes: peak memory, and times from the start of a process.

This module does not import torch, so the parent process stays small and starts quickly.
"""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

SENTENCE = "The quick answer surprised everyone who had waited for it ."
IMPORT = "import time; t = time.perf_counter(); import elmo; print(time.perf_counter() - t)"
FIRST_VECTOR = (
    "import sys, elmo;elmo.load(sys.argv[1], device=sys.argv[2]).embed([sys.argv[3].split()]);print(flush=True)"
)


@dataclass(frozen=True)
class FinishedCommand:
    """What a finished command printed and took."""

    seconds: float
    peak_bytes: int
    """The peak memory of the command or of the largest process that it started; 0 on Windows.

    The system counts from the parent's size, so a smaller command seems as large as the parent.
    """
    output: str


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


def run_measured(command: Sequence[str]) -> FinishedCommand:
    """Runs a command and returns its time, memory and output. It shares stderr with this process.

    Raises subprocess.CalledProcessError if it fails.
    """
    began = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        output = process.stdout.read()
        most = _wait(process)
        seconds = time.perf_counter() - began
    if process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, list(command), output)
    return FinishedCommand(seconds, most, output)


def _wait(process: "subprocess.Popen[str]") -> int:
    """Waits for a process to end and returns its peak memory; 0 if the system does not say."""
    if sys.platform == "win32":
        process.wait()
        return 0
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_maxrss if sys.platform == "darwin" else 1024 * usage.ru_maxrss


def _seconds_to_first_line(command: Sequence[str]) -> float:
    began = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        seconds = time.perf_counter() - began
    if not line or process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, list(command))
    return seconds
