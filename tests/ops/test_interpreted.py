"""What a GPU runs, on the CPU by Triton's interpreter: in a process of its own, since it must be chosen at import."""

import importlib.util
import os
import subprocess
import sys

import pytest
from command import TIMEOUT
from places import TESTS


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
@pytest.mark.parametrize("name", [path.name for path in sorted(TESTS.glob("interpreted_*.py"))])
def test_by_the_interpreter(name):
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", TESTS / name],
        env={**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"},
        cwd=TESTS.parent, capture_output=True, text=True, timeout=TIMEOUT, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
