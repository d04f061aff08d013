"""Trainings in several processes, and what they must come to."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from command import TIMEOUT
from safetensors.torch import load_file
from small_run import TINY, losses, metrics

SAMPLED = ("objective.dropout=0.0", "objective.reset_probability=0.0")
SETTINGS = (*TINY, "max_words=800", "loop.log_steps=1", "loop.evaluate_steps=20", "loop.checkpoint_steps=15")


def start(*arguments: object, launcher: str = "elmo", processes: int = 2) -> "subprocess.Popen[str]":
    """A command in a session of its own, so that all of its processes can be killed together."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    begin = [*torchrun, "-m"] if launcher == "torchrun" else [sys.executable, "-m"]
    variables = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [*begin, "elmo", "train", *map(str, arguments)],
        env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


def finish(process: "subprocess.Popen[str]") -> tuple[int, str, str]:
    try:
        printed, errors = process.communicate(timeout=TIMEOUT)
    finally:
        kill(process)
    return process.returncode, printed, errors


def kill(process: "subprocess.Popen[str]") -> None:
    """With all of its processes."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def weights(run: Path) -> dict[str, torch.Tensor]:
    return load_file(run / "model" / "model.safetensors")


def check_curve(one: Path, other: Path) -> None:
    assert losses(one) == pytest.approx(losses(other), rel=1e-5)
    for line, expected in zip(metrics(one), metrics(other), strict=True):
        assert line.pop("measured_on", None) == expected.pop("measured_on", None)  # approx refuses nested dictionaries
        assert line == pytest.approx(expected, rel=1e-4)
    for name, weight in weights(one).items():
        torch.testing.assert_close(weight, weights(other)[name], rtol=1e-3, atol=2e-5)
