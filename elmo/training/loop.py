"""`fit`: the training loop. Steps, accumulation, clipping, schedule, evaluation, checkpoints, exact resume.

- The batch carries the position to resume from; the state carried from batch to batch is passed in and out.
- Random numbers of a step are a function of seed, step and rank, so a resumed run draws what it would have drawn.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from elmo.training.checkpoint import save_checkpoint
from elmo.training.monitor import Monitor
from elmo.training.optim import OptimConfig, learning_rate


class Positioned(Protocol):
    """A batch that knows where its reader stands after it."""

    @property
    def position(self) -> dict[str, Any]: ...


B = TypeVar("B", bound=Positioned)
Carried = Sequence[Tensor]
"""What a model hands from one batch to the next."""


@dataclass(frozen=True)
class LoopConfig:
    """How often things happen."""

    accumulate: int = 1
    """Batches of a step."""
    log_steps: int = 50
    evaluate_steps: int = 1000
    checkpoint_steps: int = 1000
    checkpoint_minutes: float = 10.0
    """A checkpoint is written at whichever of the two comes first."""


class TrainingError(RuntimeError):
    """Training cannot go on; the message says at which step, where, and what to try."""


def seed_step(seed: int, step: int, rank: int) -> None:
    """Makes all random numbers of a step a function of the three."""
    torch.manual_seed((seed * 1_000_003 + step) * 1_009 + rank)


def fit(
    fabric: Fabric,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    batches: Iterator[B],
    loss_of: Callable[[nn.Module, B, Carried], tuple[Tensor, Carried]],
    evaluate: Callable[[int], dict[str, Any]],
    carried: Carried,
    folder: Path,
    config: LoopConfig,
    optim: OptimConfig,
    total_steps: int,
    tokens_a_step: int,
    seed: int,
    first_step: int = 0,
    quiet: bool = False,
) -> Carried:
    """Trains up to `total_steps`, from `first_step`; `model` and `optimizer` are set up by `fabric`.

    `loss_of(model, batch, carried)` returns the mean loss of the batch and what to carry on, a named tuple of tensors;
    `evaluate(step)` returns numbers to log. Checkpoints go to `folder/checkpoints`, the last one when training ends.
    """
    saved_at, saved_step = time.monotonic(), first_step
    progress: dict[str, Any] = {}
    with Monitor(folder, total_steps, first_step, quiet or not fabric.is_global_zero) as monitor:
        since, losses = time.monotonic(), []
        for step in range(first_step, total_steps):
            seed_step(seed, step, fabric.global_rank)
            rate = learning_rate(optim, step, total_steps)
            for group in optimizer.param_groups:
                group["lr"] = rate
            loss, norm, carried, position = _step(
                fabric, model, optimizer, batches, loss_of, carried, config, optim, step
            )
            losses.append(loss)
            done = step + 1
            progress = {"step": done, "position": position}
            monitor.advance(done)
            if done % config.log_steps == 0 or done == total_steps:
                mean = float(fabric.all_reduce(torch.stack(losses).mean(), reduce_op="mean"))  # type: ignore[arg-type]
                speed = round(len(losses) * tokens_a_step / (time.monotonic() - since))
                numbers = {
                    "tokens": done * tokens_a_step,
                    "loss": mean,
                    "norm": norm,
                    "lr": rate,
                    "tokens_per_s": speed,
                }
                monitor.record(done, numbers)
                losses = []
            if done % config.evaluate_steps == 0 or done == total_steps:
                model.eval()
                monitor.record(done, {"tokens": done * tokens_a_step, **evaluate(done)})
                model.train()
            due = done - saved_step >= config.checkpoint_steps or done == total_steps
            late = time.monotonic() - saved_at > 60 * config.checkpoint_minutes
            if fabric.broadcast(due or late):
                save_checkpoint(folder / "checkpoints", fabric, model, optimizer, carried, progress)
                saved_at, saved_step = time.monotonic(), done
            if not losses:
                since = time.monotonic()
    return carried


def _step(
    fabric: Fabric,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    batches: Iterator[B],
    loss_of: Callable[[nn.Module, B, Carried], tuple[Tensor, Carried]],
    carried: Carried,
    config: LoopConfig,
    optim: OptimConfig,
    step: int,
) -> tuple[Tensor, float, Carried, dict[str, Any]]:
    """One update from `config.accumulate` batches."""
    total = torch.zeros((), device=fabric.device)
    position: dict[str, Any] = {}
    for part in range(config.accumulate):
        batch = fabric.to_device(next(batches))
        position = batch.position
        with fabric.no_backward_sync(model, enabled=part < config.accumulate - 1):  # type: ignore[arg-type]
            loss, carried = loss_of(model, batch, carried)
            fabric.backward(loss / config.accumulate)
        carried = type(carried)(*(tensor.detach() for tensor in carried))
        total += loss.detach() / config.accumulate
    limit = optim.clip_norm or float("inf")
    norm = fabric.clip_gradients(model, optimizer, max_norm=limit, error_if_nonfinite=False)  # type: ignore[arg-type]
    if not (torch.isfinite(total) and torch.isfinite(norm)):  # type: ignore[arg-type]
        raise TrainingError(_explain(model, step, total))
    optimizer.step()
    optimizer.zero_grad()
    return total, float(norm), carried, position  # type: ignore[arg-type]


def _explain(model: nn.Module, step: int, loss: Tensor) -> str:
    names = [n for n, p in model.named_parameters() if p.grad is not None and not torch.isfinite(p.grad).all()]
    where = f"; gradients are not finite in {', '.join(names[:3])} ({len(names)} parameters)" if names else ""
    return (
        f"step {step + 1}: the loss is {float(loss)}{where}; nothing of this step was kept: resume from the last"
        " checkpoint with a lower optim.lr or a smaller optim.clip_norm"
    )
