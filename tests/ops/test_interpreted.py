"""What a GPU runs, on the CPU by Triton's interpreter: in a process of its own, since it must be chosen at import.

And what a GPU without Triton's kernels is told.
"""

import importlib.util
import os
import subprocess
import sys

import pytest
from command import TIMEOUT
from places import TESTS

needs_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")


@needs_triton
@pytest.mark.parametrize("name", [path.name for path in sorted(TESTS.glob("interpreted_*.py"))])
def test_by_the_interpreter(name):
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", TESTS / name],
        env={**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"},
        cwd=TESTS.parent, capture_output=True, text=True, timeout=TIMEOUT, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout


PROGRAM = """
import sys, warnings
{}
import torch
from elmo import ops
warnings.simplefilter("always")
with torch._subclasses.FakeTensorMode():
    assert not ops.has_kernels(torch.zeros(1, device="cuda"))
    assert not ops.has_kernels(torch.zeros(1, device="cuda"))
"""


@pytest.mark.parametrize(
    ("before", "variable", "remedy"),
    [
        pytest.param("", "1", "unset TRITON_INTERPRET", marks=needs_triton),
        ("sys.modules['triton'] = None", "0", "pip install triton"),
    ],
)
def test_a_gpu_without_triton_is_told_once_how_to_get_it(before, variable, remedy):
    """Interpreted kernels would take hours for a step, and cannot be captured."""
    command = [sys.executable, "-c", PROGRAM.format(before)]
    environment = {**os.environ, "TRITON_INTERPRET": variable}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count(remedy) == 1
    assert "more slowly" in done.stderr
