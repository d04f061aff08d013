"""The loop that trains anything: its steps against torch's own, its schedule, its checkpoints, its guard."""

import json
import math
import os
import shutil
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from refusals import refused
from small_run import metrics
from torch import Tensor, nn

from elmo.errors import Failure, InputError, in_one_line
from elmo.training import checkpoint, loop
from elmo.training.checkpoint import START, load_checkpoint, newest_checkpoint, save_checkpoint
from elmo.training.distributed import launch, processes_to_start
from elmo.training.loop import LoopConfig, Steps, Training, TrainingError, fit, seed_step
from elmo.training.monitor import Monitor
from elmo.training.optim import OptimConfig, build_optimizer, learning_rate

PLAIN = OptimConfig(lr=0.1, weight_decay=0.0, warmup_steps=0, decay=0.0, clip_norm=0.0)
EVERY_STEP = LoopConfig(log_steps=1, evaluate_steps=1000, checkpoint_steps=1000)


class Carry(NamedTuple):
    total: Tensor


@dataclass(frozen=True)
class Rows:
    """A batch of the regression that is learned here."""

    x: Tensor
    y: Tensor
    position: dict[str, Any] = field(default_factory=dict)

    def to(self, device: torch.device) -> "Rows":
        return Rows(self.x.to(device), self.y.to(device), self.position)


def rows(number: int, size: int = 8) -> Rows:
    generator = torch.Generator().manual_seed(number)
    x = torch.randn(size, 3, generator=generator)
    return Rows(x, x @ torch.tensor([[1.0], [-2.0], [0.5]]) + 0.1, {"next": number + 1})


def squared_error(model: nn.Module, batch: Rows, carried: Any) -> tuple[Tensor, Carry]:
    """With what is carried in the loss, and random numbers, so that either shows when it is lost."""
    noise = 0.01 * torch.rand(())
    carry = Carry(0.5 * carried.total + batch.x.mean())
    return ((model(batch.x) - batch.y) ** 2).mean() * (1 + noise) + 0.01 * carry.total, carry


def plain_error(model: nn.Module, batch: Rows, carried: Any) -> tuple[Tensor, Any]:
    return ((model(batch.x) - batch.y) ** 2).mean(), carried


@dataclass
class Run:
    """A network under training in a folder."""

    folder: Path
    optim: OptimConfig = PLAIN
    config: LoopConfig = EVERY_STEP
    loss: Any = squared_error
    evaluations: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        torch.manual_seed(0)
        self.folder.mkdir(exist_ok=True)
        self.fabric = launch("cpu", 1, 1, "32-true")
        self.network = nn.Linear(3, 1)
        optimizer = build_optimizer(self.network.parameters(), self.optim, matrices={self.network.weight: (1, 3)})
        self.model, self.optimizer = self.fabric.setup(self.network, optimizer)

    def fit(self, steps: int, resume: bool = False, batches: Any = None) -> None:
        carried, begin = Carry(torch.zeros(())), START
        if resume:
            newest = newest_checkpoint(self.folder / "checkpoints")
            assert newest is not None
            tensors, begin = load_checkpoint(newest, self.fabric, self.network, self.optimizer)
            carried = Carry(*tensors)
        first = begin.position["next"] if begin.position else 0
        training = Training(
            fabric=self.fabric,
            model=self.model,
            optimizer=self.optimizer,
            loss_of=lambda model, batch, carried, _: self.loss(model, batch, carried),
            config=self.config,
            optim=self.optim,
            seed=5,
        )
        fit(
            training,
            Steps(training, map(rows, count(first)) if batches is None else iter(batches), carried),
            evaluate=self.evaluate,
            folder=self.folder,
            total_steps=steps,
            tokens_a_step=10,
            begin=begin,
            quiet=True,
        )

    def evaluate(self, step: int) -> dict[str, Any]:
        self.evaluations.append(step)
        return {"quality": step}

    def metrics(self) -> list[dict[str, Any]]:
        return metrics(self.folder)

    def weights(self) -> list[Tensor]:
        return [parameter.detach().clone() for parameter in self.network.parameters()]


def equal(one: list[Tensor], other: list[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


# Steps


@pytest.mark.parametrize("name", ["adamw", "adagrad"])
def test_steps_are_those_of_torch(tmp_path, name):
    optim = OptimConfig(name, lr=0.1, weight_decay=0.01, warmup_steps=0, decay=0.0, clip_norm=0.5)
    run = Run(tmp_path, optim, loss=plain_error)
    network = nn.Linear(3, 1)
    network.load_state_dict(run.network.state_dict())
    if name == "adagrad":
        own: Any = torch.optim.Adagrad(network.parameters(), 0.1, initial_accumulator_value=1.0, eps=1e-10)
    else:
        own = torch.optim.AdamW(network.parameters(), 0.1, (0.9, 0.98), weight_decay=0.01)
    run.fit(12)
    for step in range(12):
        own.zero_grad()
        plain_error(network, rows(step), None)[0].backward()
        nn.utils.clip_grad_norm_(network.parameters(), 0.5)
        own.step()
    torch.testing.assert_close(run.weights(), list(network.parameters()), rtol=1e-5, atol=1e-6)


def test_accumulated_gradient_is_the_mean_of_the_parts(tmp_path):
    parts = [rows(0), rows(1)]
    together = Rows(torch.cat([part.x for part in parts]), torch.cat([part.y for part in parts]))
    two = Run(tmp_path / "two", config=LoopConfig(accumulate=2, log_steps=1), loss=plain_error)
    one = Run(tmp_path / "one", loss=plain_error)
    two.fit(1, batches=parts)
    one.fit(1, batches=[together])
    torch.testing.assert_close(two.weights(), one.weights())
    assert two.metrics()[0]["loss"] == pytest.approx(one.metrics()[0]["loss"])
    assert two.metrics()[0]["norm"] == pytest.approx(one.metrics()[0]["norm"])


@pytest.mark.parametrize("sparse", [False, True])
def test_gradients_are_clipped_together_and_their_norm_before_that_is_recorded(tmp_path, sparse):
    """A row that a batch has twice has one gradient, the sum; as in the sampled softmax of one process.

    Steps are of known size: Adagrad's accumulator is so large that it divides all alike.
    """

    class Looked(nn.Module):
        def __init__(self, sparse: bool) -> None:
            super().__init__()
            torch.manual_seed(3)
            self.table, self.linear = nn.Embedding(6, 3, sparse=sparse), nn.Linear(3, 1)

        def forward(self, x: Tensor) -> Tensor:
            return self.linear(self.table(torch.tensor([2, 2, 4])) * x[:3]).sum()

    optim = OptimConfig("adagrad", lr=1e6, initial_accumulator=1e12, warmup_steps=0, decay=0.0, clip_norm=0.25)
    run = Run(tmp_path, optim, loss=lambda model, batch, carried: (model(batch.x), carried))
    network: Any = Looked(sparse)
    run.network = network
    optimizer = build_optimizer(network.linear.parameters(), optim, network.table.parameters())
    run.model, run.optimizer = run.fabric.setup(run.network, optimizer)
    before = run.weights()
    run.fit(1, batches=[rows(0)])
    twin = Looked(sparse=False)
    twin(rows(0).x).backward()
    norm = nn.utils.clip_grad_norm_(twin.parameters(), 0.25)
    assert norm > 0.25
    assert run.metrics()[0]["norm"] == pytest.approx(float(norm), rel=1e-5)
    expected = [weight - torch.as_tensor(each.grad) for weight, each in zip(before, twin.parameters(), strict=True)]
    torch.testing.assert_close(run.weights(), expected, rtol=1e-4, atol=1e-5)


def test_every_step_has_the_rate_of_the_schedule(tmp_path):
    """A gradient that is always the same, and an accumulator that divides all alike: what moves is the rate."""
    optim = OptimConfig("adagrad", lr=1e6, initial_accumulator=1e12, warmup_steps=4, decay=0.5, clip_norm=0.0)
    seen: list[Tensor] = []

    def total(model: nn.Module, batch: Rows, carried: Any) -> tuple[Tensor, Any]:
        seen.append(run.network.bias.detach().clone())
        return model(torch.ones(1, 3)).sum(), carried

    run = Run(tmp_path, optim, loss=total)
    run.fit(12)
    moved = [float(a - b) for a, b in zip(seen, [*seen[1:], run.network.bias.detach()], strict=True)]
    assert moved == pytest.approx([learning_rate(optim, step, 12) / 1e6 for step in range(12)], rel=1e-4)
    assert len({round(each, 6) for each in moved}) > 6


def test_networks_are_measured_as_they_are_used(tmp_path):
    run = Run(tmp_path, config=LoopConfig(log_steps=1, evaluate_steps=1))
    run.evaluate = lambda step: {"training": float(run.model.training)}  # type: ignore[method-assign]
    run.fit(2)
    assert [line["training"] for line in run.metrics() if "training" in line] == [0.0, 0.0]
    assert run.model.training


def test_rate_warms_up_stays_and_falls():
    optim = OptimConfig(lr=1.0, warmup_steps=10, decay=0.4)
    rates = [learning_rate(optim, step, 100) for step in range(100)]
    assert rates[:10] == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0])
    assert rates[10:61] == [1.0] * 51
    assert rates[61:] == pytest.approx([(100 - step) / 40 for step in range(61, 100)])
    assert [learning_rate(optim, step, 1000) for step in range(600)] == [*rates[:60], *[1.0] * 540]
    assert learning_rate(OptimConfig(lr=1.0, warmup_steps=0, decay=0.0), 99, 100) == 1.0
    assert learning_rate(OptimConfig(lr=1.0, warmup_steps=0, decay=0.4), 999, 1000) == 0.01  # and no lower
    assert learning_rate(OptimConfig(lr=1.0, warmup_steps=0, decay=0.4, lowest=0.0), 999, 1000) == 1 / 400


def test_random_numbers_are_a_function_of_seed_step_and_rank():
    drawn = {}
    for seed in range(3):
        for step in (-1, 0, 1, 2):
            for rank in range(3):
                seed_step(seed, step, rank)
                drawn[seed, step, rank] = float(torch.rand(()))
    assert len(set(drawn.values())) == len(drawn)
    seed_step(1, 2, 0)
    assert float(torch.rand(())) == drawn[1, 2, 0]


# Records, evaluations, checkpoints


def test_metrics_are_means_of_the_steps_since_the_last_record(tmp_path):
    each, third = Run(tmp_path / "each"), Run(tmp_path / "third", config=LoopConfig(log_steps=3, evaluate_steps=4))
    each.fit(8)
    third.fit(8)
    losses = [line["loss"] for line in each.metrics() if "loss" in line]
    recorded = [(line["step"], line["loss"]) for line in third.metrics() if "loss" in line]
    means = [(3, sum(losses[:3]) / 3), (6, sum(losses[3:6]) / 3), (8, sum(losses[6:]) / 2)]
    assert recorded == [(step, pytest.approx(mean)) for step, mean in means]
    assert [line["tokens"] for line in third.metrics()] == [30, 40, 60, 80, 80]
    assert third.evaluations == [4, 8]


@pytest.mark.parametrize(
    ("stopped", "accumulate", "name"),
    [
        (1, 1, "adamw"),
        (5, 1, "muon"),
        (6, 1, "adamw"),
        (9, 1, "adagrad"),
        (2, 2, "muon"),
        (7, 2, "adamw"),
        (12, 3, "adamw"),
    ],
)
def test_resumed_run_is_the_run_that_was_not_interrupted(tmp_path, stopped, accumulate, name):
    """Also where the checkpoint lies between two records; losses, weights and optimizer bit for bit."""
    config, optim = LoopConfig(accumulate, log_steps=3, evaluate_steps=4, checkpoint_steps=1), replace(PLAIN, name=name)
    whole = Run(tmp_path / "whole", optim, config)
    whole.fit(10)
    first = Run(tmp_path / "parts", optim, config)
    with pytest.raises(RuntimeError, match="stopped"):
        first.fit(10, batches=stopping(stopped))
    second = Run(tmp_path / "parts", optim, config)
    second.fit(10, resume=True)
    assert equal(whole.weights(), second.weights())
    assert whole.metrics() == second.metrics()
    kept, loaded = (run.optimizer.state_dict()["state"] for run in (whole, second))
    assert kept.keys() == loaded.keys()
    assert all(torch.equal(tensor, loaded[i][name]) for i in kept for name, tensor in kept[i].items())


def stopping(after: int):
    yield from map(rows, range(after))
    raise RuntimeError("stopped")


def test_checkpoints_come_by_step_and_by_time_and_the_last_two_are_kept(tmp_path, monkeypatch):
    steps: list[int] = []
    clock = [0.0]

    def save(folder, fabric, model, optimizer, carried, progress, shards):
        steps.append(progress.step)
        return save_checkpoint(folder, fabric, model, optimizer, carried, progress, shards)

    def take_time(model, batch, carried):
        clock[0] += 100.0 if batch.position["next"] in (3, 11) else 1.0
        return squared_error(model, batch, carried)

    monkeypatch.setattr(loop, "save_checkpoint", save)
    monkeypatch.setattr(loop.time, "monotonic", lambda: clock[0])
    config = LoopConfig(log_steps=5, checkpoint_steps=4, checkpoint_minutes=1.0)
    run = Run(tmp_path, config=config, loss=take_time)
    run.fit(13)
    assert steps == [3, 7, 11, 13]
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["step-000000011", "step-000000013"]


def test_steps_between_two_ticks_of_the_clock_are_made(tmp_path, monkeypatch):
    monkeypatch.setattr(loop.time, "monotonic", lambda: 0.0)
    Run(tmp_path).fit(2)


@pytest.mark.parametrize(("evaluate_steps", "expected"), [(1000, 5), (4, 3)])
def test_a_checkpoint_comes_before_the_first_evaluation(tmp_path, evaluate_steps, expected):
    """Also if that is the last one: it writes a model, and a model without a checkpoint is not resumed."""
    run = Run(tmp_path, config=LoopConfig(evaluate_steps=evaluate_steps))
    run.evaluate = lambda step: 1 / 0  # type: ignore[method-assign, assignment, return-value]
    with pytest.raises(ZeroDivisionError):
        run.fit(6)
    assert newest_checkpoint(tmp_path / "checkpoints") == tmp_path / "checkpoints" / f"step-{expected:09d}"


def test_a_lack_of_memory_in_an_evaluation_loses_no_step(tmp_path):
    """Other programs may fill a GPU after the run has begun."""

    def full(step):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    run = Run(tmp_path, config=LoopConfig(evaluate_steps=2))
    run.fit(3)
    run = Run(tmp_path, config=LoopConfig(evaluate_steps=2))
    run.evaluate = full  # type: ignore[method-assign, assignment]
    with refused("2.00 GiB", "--resume", error=Failure):
        run.fit(6, resume=True)
    assert newest_checkpoint(tmp_path / "checkpoints") == tmp_path / "checkpoints" / "step-000000004"


def test_only_steps_are_checkpoints(tmp_path):
    """A copy of one, or what else is named alike, is neither resumed nor removed, and drives none out.

    What is half-written is no checkpoint, either, and goes with the next.
    """
    Run(tmp_path).fit(3)
    folder = tmp_path / "checkpoints"
    shutil.copytree(folder / "step-000000003", folder / ".step-000000009.0.partial")
    mine = ["step-000000003 (copy)", "step-000000009.bak", "step-best"]
    for name in mine:
        shutil.copytree(folder / "step-000000003", folder / name)
    assert newest_checkpoint(folder) == folder / "step-000000003"
    Run(tmp_path).fit(4, resume=True)
    Run(tmp_path).fit(5, resume=True)
    kept = ["step-000000004", "step-000000005"]
    assert sorted(path.name for path in folder.iterdir()) == sorted([*kept, *mine])
    (folder / kept[-1]).rename(folder / "step-1000000000")  # a digit more
    assert newest_checkpoint(folder) == folder / "step-1000000000"


def test_checkpoint_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    """A power cut must not leave an empty file in the newest checkpoint."""
    seen = []
    fsync, replace = os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda file: seen.append(os.fstat(file).st_ino) or fsync(file))
    monkeypatch.setattr(Path, "replace", lambda path, target: seen.append(target) or replace(path, target))
    Run(tmp_path).fit(3)
    written = tmp_path / "checkpoints" / "step-000000003"
    assert {path.stat().st_ino for path in written.iterdir()} <= set(seen[: seen.index(written)])


@pytest.mark.parametrize(
    "failing", ["model.safetensors", "optimizer.safetensors", "rank-0.safetensors", "rank-0.json", "sha256.json"]
)
def test_full_disk_at_a_checkpoint_keeps_the_one_before(tmp_path, monkeypatch, failing):
    Run(tmp_path).fit(3)
    before = {path: path.read_bytes() for path in (tmp_path / "checkpoints").rglob("*") if path.is_file()}
    move = Path.replace

    def replace(path: Path, target: Path) -> Path:
        if target.name == failing:
            raise OSError(28, "No space left on device")
        return move(path, target)

    with monkeypatch.context() as patch, refused("No space left", "--resume", failing, error=OSError):
        patch.setattr(Path, "replace", replace)
        Run(tmp_path).fit(5, resume=True)
    assert newest_checkpoint(tmp_path / "checkpoints") == tmp_path / "checkpoints" / "step-000000003"
    assert all(path.read_bytes() == content for path, content in before.items())
    Run(tmp_path).fit(5, resume=True)


@pytest.mark.parametrize(
    ("problem", "raised"),
    [
        (torch.OutOfMemoryError("CUDA out of memory"), torch.OutOfMemoryError),
        (RuntimeError("unable to mmap 9 bytes from file <a>: Cannot allocate memory (12)"), MemoryError),
        (MemoryError("Cannot allocate memory (os error 12)"), MemoryError),
        (RuntimeError("CUDA error: device-side assert triggered"), RuntimeError),
        (PermissionError(13, "Permission denied"), PermissionError),
        (OSError(5, "Input/output error"), OSError),
    ],
)
def test_a_fault_of_the_machine_is_not_the_checkpoints(tmp_path, monkeypatch, problem, raised):
    """Else it would be removed, as its error says."""

    def load(*_, **__):
        raise problem

    Run(tmp_path).fit(3)
    monkeypatch.setattr(checkpoint, "load_file", load)
    with pytest.raises(raised) as caught:
        Run(tmp_path).fit(5, resume=True)
    assert not isinstance(problem, OSError) or "step-000000003: " in in_one_line(caught.value)
    assert "remove" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("rank-0.json", lambda raw: b"[]"),
        ("rank-0.json", lambda raw: raw.replace(b'"step": 3', b'"step": 2')),
        ("rank-0.safetensors", lambda raw: raw[:-1] + b"\x7f"),
        ("optimizer.safetensors", lambda raw: raw[:-4] + b"\0\0\x80\x3f"),
        ("model.safetensors", lambda raw: raw[:-4] + b"\0\0\x80\x3f"),
        ("model.safetensors", lambda raw: raw[:20]),
        ("sha256.json", lambda raw: b"[]"),
        ("sha256.json", lambda raw: raw[:9]),
        ("optimizer.safetensors", None),
    ],
)
def test_a_damaged_checkpoint_is_not_resumed_from(tmp_path, name, damage):
    """Most damages would go unnoticed, and train another network. The last one is that the file is not there."""
    Run(tmp_path, OptimConfig(name="adamw")).fit(3)
    file = tmp_path / "checkpoints" / "step-000000003" / name
    content = file.read_bytes()
    file.unlink()
    if damage is not None:
        file.write_bytes(damage(content))
    with refused("step-000000003", name if name != "sha256.json" else "", "remove this folder"):
        Run(tmp_path, OptimConfig(name="adamw")).fit(5, resume=True)


def test_a_checkpoint_of_another_network_is_named(tmp_path):
    run = Run(tmp_path)
    run.fit(3)
    with pytest.raises(InputError, match=r"(?s)step-000000003.*remove this folder"):
        load_checkpoint(tmp_path / "checkpoints" / "step-000000003", run.fabric, nn.Linear(4, 1), run.optimizer)


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="asks Linux for the files that are open")
def test_a_resumed_run_keeps_no_file_of_its_checkpoint(tmp_path):
    """Windows could not remove it later; and it would take room until the end, though removed."""
    Run(tmp_path, OptimConfig(name="adamw")).fit(3)
    run = Run(tmp_path, OptimConfig(name="adamw"))
    found = load_checkpoint(tmp_path / "checkpoints" / "step-000000003", run.fabric, run.network, run.optimizer)
    assert run.optimizer.state
    assert str(tmp_path) not in Path("/proc/self/maps").read_text(encoding="utf-8"), found


def test_metrics_drop_what_came_after_the_checkpoint_and_a_cut_line(tmp_path):
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "loss": 3.0}\n{"step": 2, "loss": 2.0}\n{"step": 3, "lo')
    with Monitor(tmp_path, 9, first_step=1, quiet=True) as writer:
        writer.record(2, {"loss": 2.5, "carry_mean": math.inf})
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [(line["step"], line["loss"]) for line in lines] == [(1, 3.0), (2, 2.5)]
    assert lines[1]["carry_mean"] is None  # JSON has no infinite numbers
    (tmp_path / "metrics.jsonl").write_text('{"step": 1}')  # the disk was full before the end of the line
    with Monitor(tmp_path, 9, first_step=1, quiet=True) as writer:
        writer.record(2, {})
    assert [line["step"] for line in metrics(tmp_path)] == [1, 2]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="has no named pipes")
def test_metrics_that_never_end_are_refused(tmp_path):
    os.mkfifo(tmp_path / "metrics.jsonl")
    with refused("metrics.jsonl", "regular file"):
        Monitor(tmp_path, 9, quiet=True)


def test_progress_shows_counts_in_full(tmp_path, capsys):
    with Monitor(tmp_path, 9) as monitor:
        monitor.record(2, {"tokens": 15_360, "loss": 6.31876, "lr": 2e-05, "carry_mean": 48_912.3})
    shown = capsys.readouterr().err
    assert shown.startswith("2 of 9 steps  ")
    assert "  tokens 15,360  loss 6.319  lr 2e-05  carry_mean 48,912\n" in shown


def test_tensorboard_shows_a_resumed_run_as_one(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    with Monitor(tmp_path, 9, quiet=True) as first:
        for step, loss in ((1, 3.0), (2, 2.0), (3, 1.0)):
            first.record(step, {"loss": loss, "norm": 1})
    with Monitor(tmp_path, 9, first_step=1, quiet=True) as second:
        second.record(2, {"loss": 2.5})
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert events.Tags()["scalars"] == ["loss", "norm"]
    assert [(event.step, event.value) for event in events.Scalars("loss")] == [(1, 3.0), (2, 2.5)]


# The guard


def test_run_that_diverges_stops_and_keeps_the_last_checkpoint(tmp_path):
    optim = OptimConfig("adagrad", lr=1e30, warmup_steps=0, decay=0.0, clip_norm=1.0)
    run = Run(tmp_path, optim, LoopConfig(log_steps=1, checkpoint_steps=1))
    with refused("step 2", "--resume", "optim.lr", error=TrainingError):
        run.fit(10)
    assert newest_checkpoint(tmp_path / "checkpoints") == tmp_path / "checkpoints" / "step-000000001"
    assert [line["step"] for line in run.metrics()] == [1]


def test_guard_names_weights_that_are_not_finite(tmp_path):
    run = Run(tmp_path)
    with torch.no_grad():
        run.network.bias[0] = math.nan
    with refused("step 1", "bias", error=TrainingError):
        run.fit(2)


def test_guard_names_the_gradient_that_is_not_finite_and_no_other(tmp_path):
    def loss(model, batch, carried):
        value, carried = squared_error(model, batch, carried)
        model.bias.register_hook(lambda gradient: gradient * math.inf)
        return value, carried

    run = Run(tmp_path, PLAIN, loss=loss)
    with refused("bias", "discarded", error=TrainingError):
        run.fit(2)
    torch.manual_seed(0)
    assert equal(run.weights(), list(nn.Linear(3, 1).parameters()))


# Devices


def test_devices_that_are_not_there_are_an_error_of_one_line(monkeypatch):
    for accelerator, devices in (("abacus", 1), ("cuda", 64)):
        with refused(accelerator, f"{devices} devices"):
            launch(accelerator, devices, 1, "32-true")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with refused("'cuda'", "2 devices", "[0]"):
        launch("cuda", 2, 1, "32-true")


def test_with_bfloat16_products_a_model_gets_the_state_as_it_was():
    """Rounded memory cells would also keep an LSTM from its compiled steps."""
    fabric, seen = launch("cpu", 1, 1, "bf16-mixed"), []

    class Model(nn.Linear):
        def forward(self, state):
            seen.append(state)
            return super().forward(state)

    state = torch.full((1, 3), 1 / 3)
    result = fabric.setup_module(Model(3, 1))(state)
    assert seen[0] is state
    assert result.dtype == torch.float32
    assert torch.equal(result, result.bfloat16().float())  # of a rounded product


def test_a_gpu_that_cannot_be_used_is_one_line(monkeypatch):
    """CUDA says so only when it is first used, with advice for programmers on further lines."""

    def busy(self):
        raise RuntimeError("CUDA error: CUDA-capable device(s) is/are busy or unavailable\nadvice")

    monkeypatch.setattr("elmo.training.distributed.Fabric.launch", busy)
    with refused("'cpu'", "unavailable", "accelerator=cpu") as caught:
        launch("cpu", 1, 1, "32-true")
    assert "advice" not in str(caught.value)


def test_machines_on_which_nothing_has_started_the_run_are_not_waited_for(monkeypatch):
    """A resumed run goes on without them."""
    for name in ("MASTER_ADDR", "SLURM_NTASKS", "LSB_JOBID", "TORCHELASTIC_RUN_ID"):
        monkeypatch.delenv(name, raising=False)
    with refused("nodes is 2", "torchrun --nnodes 2 --nproc-per-node 4"):
        processes_to_start(4, 2)
    for _ in range(2):
        with pytest.warns(UserWarning, match="2 machines"):
            assert processes_to_start(4, 2, resumed=True) == (4, 1)
        monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")  # as in the processes that it starts
    monkeypatch.setenv("MASTER_ADDR", "10.0.0.1")
    assert processes_to_start(4, 2, resumed=True) == processes_to_start(4, 2) == (4, 2)


def test_a_resumed_run_takes_the_gpus_that_are_there(monkeypatch):
    """As many as divide its streams as before."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    assert processes_to_start(8, 1, "auto", resumed=True) == (2, 1)
    assert processes_to_start(2, 1, "auto", resumed=True) == (2, 1)
    assert processes_to_start(0, 0, "auto", resumed=True) == (0, 0)  # refused later
    assert processes_to_start(8, 1, "cpu", resumed=True) == processes_to_start(8, 1, "auto") == (8, 1)
