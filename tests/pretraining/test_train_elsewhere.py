"""`elmo train` as a whole on a device that is not the CPU (`other_device`): evaluation, checkpoint, model, resumption.

The kernels give zeros, so the losses mean nothing.
"""

import importlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from idle_kernels import use_idle_kernels
from other_device import DEVICE, Lists, OtherDevice
from safetensors.torch import load_file
from small_corpus import write_corpus
from tiny import CONFIG
from torch import Tensor, nn

from elmo.pretraining.objective import ObjectiveConfig
from elmo.pretraining.settings import TrainConfig
from elmo.pretraining.train import pretrain
from elmo.text.tokenizer import WHITESPACE
from elmo.training.distributed import Fabric
from elmo.training.loop import LoopConfig
from elmo.training.optim import OptimConfig


def zeros(*arguments: Any) -> None:
    for each in arguments:
        if isinstance(each, Tensor):
            each.zero_()


class There(Fabric):
    """Fabric itself does not know the device."""

    def __init__(self, *_: Any) -> None:
        super().__init__(accelerator="cpu", devices=1)
        self.launch()

    @property
    def device(self) -> torch.device:
        return DEVICE

    def setup_module(self, module: nn.Module) -> nn.Module:
        return module.to(DEVICE)

    def setup_optimizers(self, optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
        return optimizer

    def all_reduce(self, data: Tensor, group: object = None, reduce_op: str = "mean") -> Tensor:
        return data


@pytest.fixture
def device(monkeypatch):
    use_idle_kernels(monkeypatch, zeros)
    monkeypatch.setattr("elmo.pretraining.train.launch", There)
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda kind=None: False)
    optimizers = importlib.import_module("torch.optim.optimizer")  # the module, which torch.optim hides
    monkeypatch.setattr(optimizers, "_get_fused_kernels_supported_devices", lambda: [DEVICE.type])
    # safetensors does not know the device.
    monkeypatch.setattr(
        "elmo.training.checkpoint.load_file",
        lambda path, device="cpu": {name: tensor.to(device) for name, tensor in load_file(path).items()},
    )
    with Lists(), OtherDevice():
        yield DEVICE


@pytest.mark.filterwarnings("ignore:.*copying from a non-meta parameter")
def test_a_run_on_a_device_stops_and_goes_on(device, tmp_path):
    train, heldout = write_corpus(tmp_path / "train.txt", 12, seed=1), write_corpus(tmp_path / "heldout.txt", 1, seed=2)
    plan = TrainConfig(
        (str(train),), str(tmp_path / "run"), (str(heldout),), text=WHITESPACE, model=CONFIG, streams=2, window=2,
        objective=ObjectiveConfig(8, 0.1, 0.5), optim=OptimConfig("muon", 0.01, warmup_steps=1, decay=0.0), epochs=9.0,
        max_words=8, accelerator="cpu", evaluate_words=20, compiled=False, loop=LoopConfig(1, 1, 1000, 1000),
        store="int8",
    )  # fmt: skip
    pretrain(replace(plan, max_words=4), quiet=True)
    done = pretrain(plan, resume=True, quiet=True)
    assert done["steps"] == 2
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [line["step"] for line in lines if "loss" in line] == [1, 2]
    assert [line["step"] for line in lines if "carry_mean" in line] == [1, 2]
    assert (Path(done["model"]) / "model.safetensors").exists()
