"""`elmo train` as on a GPU, by Triton's interpreter and the stand-in for a CUDA graph (`test_interpreted.py`)."""

import multiprocessing
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from interpreted_kernels import CONFIG
from refusals import refused
from safetensors.torch import load_file
from small_corpus import write_corpus
from small_run import losses

from elmo.errors import Failure
from elmo.pretraining import train as module
from elmo.pretraining.objective import ObjectiveConfig
from elmo.pretraining.settings import TrainConfig
from elmo.pretraining.train import pretrain
from elmo.text.tokenizer import WHITESPACE
from elmo.training.loop import LoopConfig
from elmo.training.optim import OptimConfig


@pytest.fixture(scope="module")
def config(tmp_path_factory) -> TrainConfig:
    folder = tmp_path_factory.mktemp("run")
    train, heldout = write_corpus(folder / "train.txt", 20, seed=1), write_corpus(folder / "heldout.txt", 2, seed=2)
    return TrainConfig(
        (str(train),), str(folder / "whole"), (str(heldout),), text=WHITESPACE, model=CONFIG, streams=2, window=2,
        objective=ObjectiveConfig(8, 0.1, 0.5), optim=OptimConfig("muon", 0.01, warmup_steps=1, decay=0.0), epochs=9.0,
        max_words=12, accelerator="cpu", evaluate_words=20, compiled=False, loop=LoopConfig(1, 1, 1000, 1000),
        ids=str(folder / "ids"),
    )  # fmt: skip


@pytest.fixture(scope="module")
def whole(config) -> Path:
    """The folder of the run that was not interrupted."""
    pretrain(config, quiet=True)
    return Path(config.output)


def equal(output: str, whole: Path) -> bool:
    assert len(losses(whole)) == 3
    assert losses(Path(output)) == losses(whole)
    one, other = (load_file(Path(folder) / "model" / "model.safetensors") for folder in (output, whole))
    return all(one[name].equal(other[name]) for name in one)


def test_a_run_that_went_on_is_the_run_that_was_not_interrupted(config, whole, monkeypatch):
    made = []
    monkeypatch.setattr(module, "Replay", lambda *a, real=module.Replay: made.append(real(*a)) or made[-1])
    parts = replace(config, output=f"{config.output}-parts")
    pretrain(replace(parts, max_words=8), quiet=True)
    pretrain(parts, resume=True, quiet=True)
    assert len(made) == 2
    assert equal(parts.output, whole)
    assert (Path(config.ids) / "tokens.bin").exists()
    assert not (whole / "text").exists()
    with refused("streams", "2", "4"):
        pretrain(replace(parts, streams=4, max_words=16), resume=True, quiet=True)


@pytest.mark.parametrize("fault", ["killed", "no memory"])
def test_a_run_that_broke_off_goes_on_from_its_last_checkpoint(config, whole, fault, monkeypatch):
    plan = replace(config, output=f"{config.output}-{fault}", loop=replace(config.loop, checkpoint_steps=1))
    step = module.Replay.step

    def broken(replay, number, rate):
        if number == 2 and fault == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        elif number == 2:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return step(replay, number, rate)

    monkeypatch.setattr(module.Replay, "step", broken)
    if fault == "killed":
        process = multiprocessing.get_context("fork").Process(target=pretrain, args=(plan,), kwargs={"quiet": True})
        process.start()
        process.join()
        assert process.exitcode == -signal.SIGKILL
    else:
        with refused("2.00 GiB", "--resume", error=Failure):
            pretrain(plan, quiet=True)
    assert not (Path(plan.output) / "model").exists()
    monkeypatch.setattr(module.Replay, "step", step)
    pretrain(plan, resume=True, quiet=True)
    assert equal(plan.output, whole)


def test_a_dry_run_measures_captured_steps_together(config, tmp_path, monkeypatch):
    """The CPU prepares a step while the GPU makes the one before, as in a run."""
    made, step = [], module.Replay.step
    monkeypatch.setattr(module, "REPLAYS", 2)
    monkeypatch.setattr(module.Replay, "step", lambda replay, *given: made.append(given) or step(replay, *given))
    found = pretrain(replace(config, output=str(tmp_path / "run")), dry_run=True, quiet=True)
    assert found["steps"] == 3
    assert found["words per step"] == 4
    assert made == [(0, 0.0), *[(0, 0.0), (1, 0.0)] * 3]
    assert not (tmp_path / "run").exists()
