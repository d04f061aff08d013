"""The machine's C compiler, which compiles parts of `elmo.ops` when they are first used. Optional: without one, torch
does the work."""

import ctypes
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import torch

FLAGS = ("-O3", "-std=gnu11", "-fno-math-errno", "-fno-trapping-math", "-fPIC", "-shared")
INSTRUCTIONS = {"AVX512": ("-march=x86-64-v4", "-mprefer-vector-width=512"), "AVX2": ("-march=x86-64-v3",)}
"""The compiler flags for the instructions that torch uses; under emulation, a compiler may see another processor."""


def compiled(source: str, *more: str) -> ctypes.CDLL | None:
    """Compiles a C file of this folder with `more` flags and loads it; returns None if compiling fails."""
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return None
    flags = (*FLAGS, *INSTRUCTIONS.get(torch.backends.cpu.get_cpu_capability(), ()), *more)
    with tempfile.TemporaryDirectory(prefix="elmo-", ignore_cleanup_errors=True) as folder:
        path = Path(folder) / "compiled.so"
        command = [*compiler.split(), *flags, "-o", str(path), str(Path(__file__).with_name(source))]
        try:
            subprocess.run(command, check=True, capture_output=True)
            return ctypes.CDLL(str(path))
        except (OSError, subprocess.CalledProcessError):
            return None


def shared(
    library: ctypes.CDLL, work: Callable[..., None], step: ctypes.Structure, size: int, unit: int, threads: int
) -> None:
    """Calls `work(step, begin, end)` for parts of `size`, multiples of `unit`, by up to `threads` threads of torch."""
    parallel = _parallel() if threads > 1 else None
    if parallel is None:
        work(ctypes.byref(step), ctypes.c_ssize_t(0), ctypes.c_ssize_t(size))
    else:
        sizes = ctypes.c_ssize_t(size), ctypes.c_ssize_t(unit)
        library.shared_by(parallel, ctypes.c_uint(threads), work, ctypes.byref(step), *sizes)


@cache
def _parallel() -> Callable[..., None] | None:
    """GOMP_parallel of torch's OpenMP library; None if torch uses another one."""
    for path in (Path(torch.__file__).parent / "lib").glob("libgomp*.so*"):
        return ctypes.CDLL(str(path)).GOMP_parallel
    return None
