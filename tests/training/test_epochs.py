"""Training by epochs, on a network of one layer: rates, clipping and optimizers against a loop of torch's own parts."""

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save
from small_run import losses
from torch import Tensor, nn

from elmo.training.distributed import launch
from elmo.training.epochs import BEST, EpochConfig, fit_epochs
from elmo.training.loop import TrainingError

BATCHES = [torch.randn(6, 4, generator=torch.Generator().manual_seed(number)) for number in range(3)]
STEEP = 10.0
"""So that the gradients are larger than what they are clipped to."""


def squared(network: nn.Module, batch: Tensor) -> Tensor:
    return STEEP * ((network(batch[:, :3]) - batch[:, 3:]) ** 2).mean()


def fresh() -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(3, 1)


@dataclass
class Trained:
    """A run, and what it was seen to do."""

    folder: Path
    config: EpochConfig
    scores: Sequence[float]
    seed: int = 1
    network: nn.Linear = field(default_factory=fresh)
    after_epochs: list[dict[str, Tensor]] = field(default_factory=list)
    drawn: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        def loss(batch: Tensor) -> Tensor:
            self.drawn.append(float(torch.rand(())))
            return squared(self.network, batch)

        def evaluate() -> dict[str, float]:
            assert not self.network.training
            self.after_epochs.append({name: each.clone() for name, each in self.network.state_dict().items()})
            if len(self.after_epochs) > len(self.scores):
                raise KeyboardInterrupt
            return {"score": self.scores[len(self.after_epochs) - 1]}

        self.folder.mkdir(exist_ok=True)
        fabric = launch("cpu", 1, 1, "32-true")
        given = (self.folder, self.config, self.seed, True)
        with suppress(KeyboardInterrupt):  # as if it was killed
            fit_epochs(fabric, self.network, lambda epoch: BATCHES, loss, evaluate, "score", *given)


def by_hand(
    make: Callable[[Any], torch.optim.Optimizer], rates: Sequence[float], clip_norm: float, clip_value: float = 1e9
) -> nn.Linear:
    """As many steps as there are rates; of the weight and the bias, only the weight decays."""
    network = fresh()
    optimizer = make([{"params": [network.weight]}, {"params": [network.bias], "weight_decay": 0.0}])
    for step, rate in enumerate(rates):
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.zero_grad()
        squared(network, BATCHES[step % len(BATCHES)]).backward()
        norm = nn.utils.clip_grad_norm_(network.parameters(), clip_norm)
        assert norm > clip_norm or clip_norm > 1e6, "else it would not be seen"
        for weights in network.parameters():
            weights.grad.clamp_(-clip_value, clip_value)
        optimizer.step()
    return network


OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "adam": lambda own: torch.optim.Adam(own, betas=(0.7, 0.9), weight_decay=0.3),
    "adamw": lambda own: torch.optim.AdamW(own, betas=(0.7, 0.9), weight_decay=0.3),
    "adadelta": lambda own: torch.optim.Adadelta(own, rho=0.6, weight_decay=0.3),
    "adagrad": lambda own: torch.optim.Adagrad(own, weight_decay=0.3),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_are_those_of_torch(tmp_path: Path, name: Any) -> None:
    config = EpochConfig(
        epochs=4, patience=0, optimizer=name, lr=0.05, betas=(0.7, 0.9), rho=0.6, weight_decay=0.3, clip_norm=0.5
    )
    run = Trained(tmp_path, config, [1.0, 2.0, 3.0, 4.0])
    twin = by_hand(OPTIMIZERS[name], [0.05] * 12, clip_norm=0.5)
    torch.testing.assert_close(run.network.state_dict(), twin.state_dict(), rtol=1e-4, atol=1e-6)


def test_a_gradient_is_clipped_number_by_number(tmp_path: Path) -> None:
    config = EpochConfig(epochs=2, patience=0, optimizer="adagrad", lr=0.05, clip_norm=0.0, clip_value=0.3)
    run = Trained(tmp_path, config, [1.0, 2.0])
    twin, other = (by_hand(torch.optim.Adagrad, [0.05] * 6, 1e9, value) for value in (0.3, 1e9))
    torch.testing.assert_close(run.network.state_dict(), twin.state_dict(), rtol=1e-4, atol=1e-6)
    assert not torch.allclose(other.weight, twin.weight, rtol=1e-2)


def test_a_clipped_gradient_that_is_not_finite_is_still_an_error(tmp_path: Path) -> None:
    network = fresh()
    with torch.no_grad():
        network.weight.fill_(1e30)
    with pytest.raises(TrainingError, match="gradient norm"):
        Trained(tmp_path, EpochConfig(epochs=1, clip_value=1.0), [1.0], network=network)


@pytest.mark.parametrize("schedule", ["linear", "plateau"])
def test_the_rate_is_that_of_the_schedule(tmp_path: Path, schedule: Any) -> None:
    """Falling evenly over all steps; or halved after an epoch that is no better."""
    config = EpochConfig(
        epochs=4, patience=0, lr=0.08, weight_decay=0.0, clip_norm=0.0, schedule=schedule, decay=0.5, decay_patience=1
    )
    run = Trained(tmp_path, config, [3.0, 2.0, 5.0, 1.0])
    even = [0.08 * (1 - step / 12) for step in range(12)]
    rates = even if schedule == "linear" else [0.08] * 6 + [0.04] * 6
    twin = by_hand(lambda own: torch.optim.Adam(own), rates, clip_norm=1e9)
    torch.testing.assert_close(run.network.state_dict(), twin.state_dict(), rtol=1e-4, atol=1e-6)


def test_the_weights_of_the_best_epoch_are_kept(tmp_path: Path) -> None:
    run = Trained(tmp_path, EpochConfig(epochs=3, patience=0), [10.0, 30.0, 20.0])
    kept = load_file(tmp_path / BEST)
    assert all(torch.equal(kept[name], run.after_epochs[1][name]) for name in kept)
    assert not torch.equal(kept["weight"], run.after_epochs[2]["weight"])


def test_a_resumed_run_has_the_best_weights_of_its_checkpoint(tmp_path: Path) -> None:
    """Not those of a better epoch after it, which it may not have again. In the first epoch there are none."""
    config = EpochConfig(epochs=4, patience=0, checkpoint_minutes=0.0)
    Trained(tmp_path, config, [])  # it is killed at the end of an epoch for want of a score
    killed = Trained(tmp_path, config, [10.0, 20.0])
    copies = sorted(tmp_path.glob("checkpoints/step-*/best.safetensors"))
    assert len(copies) == 2
    before = copies[-1].read_bytes()
    assert before == (tmp_path / BEST).read_bytes()
    (tmp_path / BEST).write_bytes(save({name: each + 1 for name, each in killed.after_epochs[1].items()}))
    Trained(tmp_path, config, [5.0, 6.0])
    assert (tmp_path / BEST).read_bytes() == before


def test_the_recorded_loss_is_the_mean_over_the_epochs_batches(tmp_path: Path) -> None:
    run = Trained(tmp_path, EpochConfig(epochs=3, patience=0, lr=0.0), [1.0, 2.0, 3.0])
    mean = sum(float(squared(run.network, batch).detach()) for batch in BATCHES) / len(BATCHES)
    assert losses(tmp_path) == pytest.approx([mean] * 3)


def test_random_numbers_are_of_the_seed_and_the_step(tmp_path: Path) -> None:
    config = EpochConfig(epochs=2, patience=0)
    one, again, other = (Trained(tmp_path / str(n), config, [1.0, 2.0], seed) for n, seed in enumerate((1, 1, 2)))
    assert one.drawn == again.drawn
    assert len({*one.drawn, *other.drawn}) == 12


def _overflow(parameter: nn.Parameter, gradient: Tensor) -> Tensor:
    """What a step that is too large does, after a finite loss with a finite gradient."""
    parameter.data.fill_(math.inf)
    return gradient


@pytest.mark.parametrize("broken", ["weights", "score"])
def test_what_is_not_finite_is_a_failure_and_no_result(tmp_path: Path, broken: str) -> None:
    """Though the losses before were finite."""
    network = fresh()

    def loss(batch: Tensor) -> Tensor:
        if broken == "weights":
            network.bias.register_hook(lambda gradient: _overflow(network.bias, gradient))
        return squared(network, batch)

    given = (loss, lambda: {"score": math.nan if broken == "score" else 1.0}, "score", tmp_path)
    fabric, config = launch("cpu", 1, 1, "32-true"), EpochConfig(epochs=1)
    with pytest.raises(TrainingError, match=r"training\.lr"):
        fit_epochs(fabric, network, lambda _: BATCHES[:1], *given, config, 1, True)
    assert not (tmp_path / BEST).exists()
