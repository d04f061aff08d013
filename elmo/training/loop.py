"""The training loop by steps: accumulation, clipping, schedule, evaluation, checkpoints, and exact resumption.

- A step comes from `Steps`, which runs it in Python, or from whatever else has the same methods (a CUDA graph).
- The batch carries the position to resume from; the state carried between batches is passed in and out.
- Random numbers are a function of seed, step and rank, so a resumed run draws the same ones.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

import torch
from torch import Tensor, nn

from elmo.config import LARGEST_WEIGHT
from elmo.errors import Failure, lack_of_memory
from elmo.training.checkpoint import START, RankProgress, newest_checkpoint, save_checkpoint
from elmo.training.distributed import Fabric, average_rows
from elmo.training.monitor import Logger, Monitor
from elmo.training.optim import OptimConfig, learning_rate
from elmo.training.sharding import Shard
from elmo.training.stopping import RunStopped, requests_to_stop


class Positioned(Protocol):
    """A batch that knows the position of its reader after it."""

    @property
    def position(self) -> dict[str, Any]: ...


B = TypeVar("B", bound=Positioned)
NOTHING, CHECKPOINT, STOP = range(3)
"""The events that may follow a step: none, a checkpoint, or a checkpoint and the end of this process."""
Carried = Sequence[Tensor]
"""The state that a model passes from one batch to the next."""
LossOf = Callable[[nn.Module, B, Carried, torch.Generator | None], tuple[Tensor, Carried]]


@dataclass(frozen=True)
class LoopConfig:
    """The intervals of logging, evaluation and checkpoints."""

    accumulate: int = 1
    """The number of batches per step."""
    log_steps: int = 50
    """The steps between two entries of the log."""
    evaluate_steps: int = 1000
    """The steps between two evaluations on held-out text."""
    checkpoint_steps: int = 1000
    """The steps between two checkpoints."""
    checkpoint_minutes: float = 10.0
    """A checkpoint is written when either interval has passed, and before the first evaluation."""


class TrainingError(Failure):
    """Training failed; the message names the step, the place and a remedy."""


def check_finite(model: nn.Module, numbers: Mapping[str, Any], when: str) -> None:
    """Raises TrainingError if a weight or a number is not finite, so that no such model is written.

    So does a trained weight beyond `LARGEST_WEIGHT`, which no reader of the model takes. The loss of the step that made
    a weight so large does not show it.
    """
    trained = {name for name, weight in model.named_parameters() if weight.requires_grad}
    for name, tensor in model.state_dict().items():
        if not (tensor.is_floating_point() and tensor.numel()):
            continue
        low, high = map(float, tensor.aminmax())  # both are NaN if any number is
        if not (math.isfinite(low) and math.isfinite(high)):
            raise TrainingError(f"{name} is not finite {when}")
        if name in trained and max(-low, high) > LARGEST_WEIGHT:
            raise TrainingError(f"{name} has values beyond {LARGEST_WEIGHT:,.0f} {when}")
    for name, number in numbers.items():
        if isinstance(number, float) and not math.isfinite(number):
            raise TrainingError(f"{name} is {number} {when}")


@contextmanager
def with_remedy(folder: Path) -> Iterator[None]:
    """Adds the remedy to a TrainingError of the block: to continue from a checkpoint in `folder`, or to begin again.

    A lack of memory becomes a Failure if there is a checkpoint: smaller batches would be another run.
    """
    try:
        yield
    except TrainingError as error:
        begun = newest_checkpoint(folder / "checkpoints") is not None
        remedy = "continue from the last checkpoint with --resume and" if begun else "start again with"
        raise TrainingError(f"{error}; {remedy} a lower optim.lr or a smaller optim.clip_norm") from error
    except (RuntimeError, MemoryError) as error:
        lack = lack_of_memory(error)
        if lack is None or newest_checkpoint(folder / "checkpoints") is None:
            raise
        remedy = "free some, then continue from the last checkpoint with --resume"
        raise Failure(f"{lack.partition(';')[0]}; {remedy}", is_reported=True) from error


def seed_step(seed: int, step: int, rank: int) -> None:
    """Makes all random numbers of a step a function of seed, step and rank."""
    torch.manual_seed(_seed_of(seed, step) + rank)


def _seed_of(seed: int, step: int) -> int:
    return (seed * 1_000_003 + step) * 1_009


@dataclass(frozen=True)
class Training(Generic[B]):
    """The objects and settings that all steps of a run share."""

    fabric: Fabric
    model: nn.Module
    """The model, which `fabric` has set up, as it has the optimizer."""
    optimizer: torch.optim.Optimizer
    loss_of: LossOf[B]
    """`loss_of(model, batch, carried, common)` returns the batch's mean loss and the state to carry, a named tuple of
    tensors; `common` draws the same numbers in all processes (None with one process)."""
    config: LoopConfig
    optim: OptimConfig
    seed: int
    tables: Sequence[nn.Parameter] = ()
    """The tables whose gradients `average_rows` averages."""
    shards: Sequence[Shard] = ()
    """The shards of tables that `optimizer` updates in parts."""


@runtime_checkable
class Stepper(Protocol):
    """The source of the steps of `fit`."""

    carried: Carried
    """The state after the last step."""

    def step(self, number: int, rate: float) -> tuple[Tensor, Tensor | float]:
        """Makes step `number`, from 0; returns the loss and the gradient's norm before clipping.

        On a GPU both may not be computed yet.
        """
        ...

    def check(self) -> None:
        """Raises TrainingError if a step since the last check had a loss or a gradient that is not finite."""
        ...

    def position(self) -> dict[str, Any]:
        """Returns the position in the data after the last step."""
        ...


class Steps(Generic[B]):
    """Makes steps in Python, one operation after another."""

    def __init__(self, training: Training[B], batches: Iterator[B], carried: Carried) -> None:
        self._training, self._batches, self.carried = training, batches, carried
        self._position: dict[str, Any] = {}

    def step(self, number: int, rate: float) -> tuple[Tensor, Tensor | float]:
        for group in self._training.optimizer.param_groups:
            group["lr"] = rate
        loss, norm, self.carried, self._position = train_step(self._training, self._batches, self.carried, number)
        return loss, norm

    def check(self) -> None:
        """Does nothing, since `train_step` has checked every step."""

    def position(self) -> dict[str, Any]:
        return self._position


def fit(
    training: Training[B],
    steps: Stepper,
    evaluate: Callable[[int], dict[str, Any]],
    folder: Path,
    total_steps: int,
    tokens_a_step: int,
    begin: RankProgress = START,
    quiet: bool = False,
    loggers: Sequence[Logger] = (),
) -> Carried:
    """Trains from `begin` to `total_steps`.

    `evaluate(step)` returns numbers to log, of which `loggers` are told, too. Checkpoints go to `folder/checkpoints`,
    the last one when training ends. Raises RunStopped after a checkpoint if a signal asked any process to stop.
    """
    fabric, model, config = training.fabric, training.model, training.config
    checkpoints, saved_at, saved_step = folder / "checkpoints", time.monotonic(), begin.step
    losses = [torch.tensor(loss, device=fabric.device) for loss in begin.losses]
    with (
        Monitor(folder if fabric.is_global_zero else None, total_steps, begin.step, quiet, loggers=loggers) as monitor,
        requests_to_stop(fabric.is_global_zero) as must_stop,
        with_remedy(folder),
    ):
        since, since_step = time.perf_counter(), begin.step  # Windows' other clock stands still for 16 ms
        for step in range(begin.step, total_steps):
            rate = learning_rate(training.optim, step, total_steps)
            loss, norm = steps.step(step, rate)
            losses.append(loss)
            done = step + 1
            monitor.advance(done)
            if done % config.log_steps == 0 or done == total_steps:
                steps.check()
                mean = _average(fabric, torch.stack(losses).mean())  # waits for the GPU, and so comes before the time
                speed = round((done - since_step) * tokens_a_step / (time.perf_counter() - since))
                numbers = {"tokens": done * tokens_a_step, "loss": mean, "norm": float(norm), "lr": rate}
                monitor.record(done, numbers | {"tokens_per_s": speed})
                losses = []
            if done % config.evaluate_steps == 0 or done == total_steps:
                steps.check()
                model.eval()
                try:
                    monitor.record(done, {"tokens": done * tokens_a_step, **evaluate(done)})
                except (RuntimeError, MemoryError) as error:
                    if fabric.world_size == 1 and lack_of_memory(error):  # other programs may fill a GPU meanwhile
                        _save(checkpoints, training, steps, done, losses)
                    raise
                model.train()
            is_due = _is_due(config, done, total_steps, saved_step, saved_at)
            asked = _agreed(fabric, STOP if must_stop() else CHECKPOINT if is_due else NOTHING)
            if asked:
                steps.check()
                _save(checkpoints, training, steps, done, losses)
                saved_at, saved_step = time.monotonic(), done
            if asked == STOP and done < total_steps:
                of = f"step {done} of {total_steps}"
                raise RunStopped(f"stopped after {of}, with a checkpoint; continue with --resume")
            if not losses:
                since, since_step = time.perf_counter(), done
    return steps.carried


def _save(folder: Path, training: Training[B], steps: Stepper, done: int, losses: Sequence[Tensor]) -> None:
    """Writes a checkpoint after step `done`; `losses` are those since the last line of metrics."""
    progress = RankProgress(done, steps.position(), [float(loss) for loss in losses])
    of = training.model, training.optimizer, steps.carried, progress, training.shards
    save_checkpoint(folder, training.fabric, *of)


def _average(fabric: Fabric, loss: Tensor) -> float:
    """Returns the mean over all processes."""
    return float(fabric.all_reduce(loss, reduce_op="mean"))  # type: ignore[arg-type]


def _is_due(config: LoopConfig, done: int, total_steps: int, saved_step: int, saved_at: float) -> bool:
    """Returns whether a checkpoint is due after step `done`; the last one was written after `saved_step`."""
    if done - saved_step >= config.checkpoint_steps or done == total_steps:
        return True
    if saved_step == 0 and ((done + 1) % config.evaluate_steps == 0 or done + 1 == total_steps):
        return True  # the first evaluation may write a model, and a model without a checkpoint is not resumed
    return time.monotonic() - saved_at > 60 * config.checkpoint_minutes


def _agreed(fabric: Fabric, asked: int) -> int:
    """Returns what all processes do after a step: the most that one of them asks for."""
    if fabric.world_size == 1:  # nothing is read back from the GPU
        return asked
    wish = torch.tensor(asked, device=fabric.device)
    return int(fabric.all_reduce(wish, reduce_op="max"))  # type: ignore[arg-type]


def train_step(
    training: Training[B], batches: Iterator[B], carried: Carried, step: int
) -> tuple[Tensor, float, Carried, dict[str, Any]]:
    """Makes one update from `config.accumulate` batches.

    Returns the loss, the gradient's norm before clipping, the state to carry and the position in the data. Raises
    TrainingError if the loss or the gradient is not finite.
    """
    fabric, model, accumulate = training.fabric, training.model, training.config.accumulate
    seed_step(training.seed, step, fabric.global_rank)
    common = torch.Generator().manual_seed(_seed_of(training.seed, step)) if fabric.world_size > 1 else None
    total = torch.zeros((), device=fabric.device)
    position: dict[str, Any] = {}
    for part in range(accumulate):
        batch = fabric.to_device(next(batches))
        position = batch.position
        with fabric.no_backward_sync(model, enabled=part < accumulate - 1):  # type: ignore[arg-type]
            loss, carried = training.loss_of(model, batch, carried, common)
            fabric.backward(loss / accumulate)
        carried = type(carried)(*(tensor.detach() for tensor in carried))
        total += loss.detach() / accumulate
    if training.tables and fabric.world_size > 1:
        average_rows(training.tables)
    learned = [parameter for parameter in model.parameters() if parameter.grad is not None]
    gradients = [_numbers(parameter) for parameter in learned]
    norm = nn.utils.get_total_norm(gradients)
    if not (torch.isfinite(total) and torch.isfinite(norm)):
        raise TrainingError(_explain(model, step, total))
    limit = training.optim.clip_norm
    if limit and norm > limit:
        for gradient in gradients:
            gradient.mul_(limit / norm)
    for shard in training.shards:
        shard.take_gradient()
    training.optimizer.step()
    for shard in training.shards:
        shard.send_rows()
    training.optimizer.zero_grad()
    return total, float(norm), carried, position


def _numbers(parameter: nn.Parameter) -> Tensor:
    """The gradient's values; a sparse gradient is coalesced."""
    assert parameter.grad is not None
    if not parameter.grad.is_sparse:
        return parameter.grad
    parameter.grad = parameter.grad.coalesce()
    return parameter.grad._values()


def _explain(model: nn.Module, step: int, loss: Tensor) -> str:
    where = ""
    for what, tensor_of in (("weights", lambda p: p), ("gradients", _numbers)):
        bad = [
            name.removeprefix("_forward_module.").removeprefix("module.")
            for name, parameter in model.named_parameters()
            if parameter.grad is not None and not torch.isfinite(tensor_of(parameter)).all()
        ]
        more = f" and {len(bad) - 3} more" if len(bad) > 3 else ""
        where += f"; {what} are not finite in {', '.join(bad[:3])}{more}" if bad else ""
    return f"step {step + 1}: the loss is {float(loss)}{where}; this step was discarded"
