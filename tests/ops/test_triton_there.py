"""A GPU without Triton's kernels gets a warning with the remedy. These tests need no GPU."""

import importlib.util
import os
import subprocess
import sys

import pytest

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
INSTALLED = importlib.util.find_spec("triton") is not None


@pytest.mark.parametrize(
    ("before", "variable", "remedy"),
    [
        pytest.param(
            "", "1", "unset TRITON_INTERPRET", marks=pytest.mark.skipif(not INSTALLED, reason="Triton is not installed")
        ),
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
