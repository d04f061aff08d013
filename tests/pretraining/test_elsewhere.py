"""Training on a device that is not the CPU (`other_device`): what a captured step takes from the CPU, and a whole run.

The kernels give zeros, so Triton is not needed, and the numbers mean nothing.
"""

import importlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from graph_stand_in import CaptureError, put_in_place
from idle_kernels import use_idle_kernels
from other_device import DEVICE, Lists, OtherDevice
from refusals import refused
from safetensors.torch import load_file
from small_corpus import write_corpus
from small_run import metrics
from tiny import CONFIG
from torch import Tensor, nn

from elmo import ops
from elmo.errors import Failure
from elmo.pretraining.batches import ReaderConfig
from elmo.pretraining.ids import make_ids
from elmo.pretraining.objective import LanguageModel, ObjectiveConfig, muon_shapes
from elmo.pretraining.replay import Replay
from elmo.pretraining.resident import copy_to_device
from elmo.pretraining.settings import TrainConfig
from elmo.pretraining.train import pretrain
from elmo.text.tokenizer import WHITESPACE
from elmo.text.vocabulary import SPECIAL, Vocabulary
from elmo.training.distributed import Fabric, launch
from elmo.training.loop import LoopConfig, Training
from elmo.training.optim import OptimConfig, build_optimizer

ADAMW = OptimConfig("adamw")


def zeros(*arguments: Any) -> None:
    for each in arguments:
        if isinstance(each, Tensor):
            each.zero_()


@pytest.fixture(params=[torch.float32])
def device(request, monkeypatch):
    """With products of this type, as under autocast, which the device does not have."""
    use_idle_kernels(monkeypatch, zeros)
    put_in_place(monkeypatch.setattr)
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda kind=None: kind == DEVICE.type)
    monkeypatch.setattr(torch, "get_autocast_dtype", lambda kind: request.param)
    optimizers = importlib.import_module("torch.optim.optimizer")  # the module, which torch.optim hides
    monkeypatch.setattr(optimizers, "_get_fused_kernels_supported_devices", lambda: [DEVICE.type])
    with Lists(), OtherDevice():
        yield DEVICE


def replayed(device, folder, optim=ADAMW, negatives=8, sorts=False, position=None) -> Replay:
    ids = make_ids([write_corpus(folder / "text.txt", 12)], WHITESPACE)
    vocabulary = Vocabulary((*SPECIAL, *(word for word, count in ids.ranked() if count > 1)))
    model = LanguageModel(CONFIG, len(vocabulary), ObjectiveConfig(negatives, 0.1, 0.5)).to(device)
    rate = torch.zeros((), device=device)
    optimizer = build_optimizer(
        model.bilm.parameters(), optim, model.lm_head.parameters(), muon_shapes(model.bilm), rate
    )
    fabric = launch("cpu", 1, 1, "32-true")
    training = Training(fabric, model, optimizer, lambda *_: pytest.fail("a step in Python"), LoopConfig(), optim, 5)
    reader = ReaderConfig(streams=2, window=3, seed=3, max_characters=CONFIG.ids_per_token)
    state = model.bilm.initial_state(2)
    return Replay(training, model, rate, ids, vocabulary, reader, state, position, sorts)


@pytest.mark.parametrize(
    ("device", "optim", "negatives", "sorts"),
    [
        (torch.bfloat16, OptimConfig("muon", vector_decay=0.0), 8, False),
        (torch.float32, OptimConfig("adagrad"), 8, True),
        (torch.float32, ADAMW, 0, False),
    ],
    indirect=["device"],
)
def test_a_captured_step_takes_nothing_from_the_cpu(optim, negatives, sorts, device, tmp_path):
    loss, norm = replayed(device, tmp_path, optim, negatives, sorts).step(0, 0.01)
    assert loss.device == norm.device == device


def test_the_text_on_the_device_is_that_of_the_ids_both_ways(device, tmp_path, monkeypatch):
    monkeypatch.setattr("elmo.pretraining.resident.AT_ONCE", 100)
    ids = make_ids([write_corpus(tmp_path / "text.txt", 12)], WHITESPACE)
    text = copy_to_device(ids, Vocabulary(SPECIAL), CONFIG.ids_per_token, 2, device)
    places = np.arange(len(ids.tokens))
    assert len(places) > 200
    assert text.forward.cpu().tolist() == text.number[ids.tokens].tolist()
    assert text.backward.cpu().tolist() == text.number[ids.tokens[ids.mirrored(places)]].tolist()


def test_the_stand_in_refuses_what_comes_from_the_cpu(device):
    there, here = torch.zeros(3, device=device), torch.ones(3)

    def step():
        there.copy_(here)

    run = ops.capture(step, device, lambda: [there])
    with refused("copy_", "cpu", error=CaptureError):
        run()


def test_a_resumed_run_has_the_shapes_of_the_run_before(device, tmp_path, monkeypatch):
    """Other shapes would sum in another order, and `deterministic` promises the same bits."""
    with monkeypatch.context() as roomy:
        roomy.setattr("elmo.pretraining.resident.ResidentText.slots", lambda self, distinct, positions: [9])
        before = replayed(device, tmp_path)
        before.step(0, 0.01)
    after = replayed(device, tmp_path, position=before.position())
    after.step(1, 0.01)
    assert after.slots == before.slots == [9]
    assert after.distinct[0] >= before.distinct[0] > 0


@pytest.mark.parametrize(
    ("problem", "words", "kind"),
    [
        ("operation not permitted when stream is capturing\nadvice", ["not permitted", "replayed=false"], Failure),
        ("out of memory", ["out of memory"], RuntimeError),
    ],
)
def test_a_step_that_cannot_be_captured_has_a_remedy(problem, words, kind, device, tmp_path, monkeypatch):
    """A lack of memory has that of any lack."""

    def fail(*_):
        raise RuntimeError(f"CUDA error: {problem}")

    monkeypatch.setattr("elmo.ops.capture", fail)
    with refused(*words, error=kind) as caught:
        replayed(device, tmp_path).step(0, 0.01)
    assert type(caught.value) is kind


# A whole run


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


@pytest.mark.filterwarnings("ignore:.*copying from a non-meta parameter")
def test_a_run_on_a_device_stops_and_goes_on(device, tmp_path, monkeypatch):
    """Evaluation, checkpoint, model and resumption."""
    monkeypatch.setattr("elmo.pretraining.train.launch", There)
    monkeypatch.setattr(
        "elmo.training.checkpoint.load_file",  # safetensors does not know the device
        lambda path, device="cpu": {name: tensor.to(device) for name, tensor in load_file(path).items()},
    )
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
    lines = metrics(tmp_path / "run")
    assert [line["step"] for line in lines if "loss" in line] == [1, 2]
    assert [line["step"] for line in lines if "carry_mean" in line] == [1, 2]
    assert (Path(done["model"]) / "model.safetensors").exists()
