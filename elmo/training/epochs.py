"""Trains by epochs, with a score after each, early stopping, decay on a plateau, and exact resumption.

- The batches of an epoch and the random numbers of a step are functions of the seed and of the epoch or step, so a
  resumed run does the same.
- The learning rate falls when the score stops rising, or to zero over all epochs. The weights of the best epoch are
  kept, in checkpoints, too, since epochs that a resumed run repeats may give other scores (a time limit, a GPU).
"""

import dataclasses
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

import torch
from safetensors.torch import save
from torch import Tensor, nn

from elmo.config import check_range
from elmo.disk.files import write_run_file
from elmo.training.checkpoint import BEST_SO_FAR, RankProgress, load_checkpoint, newest_checkpoint, save_checkpoint
from elmo.training.distributed import Fabric
from elmo.training.loop import TrainingError, check_finite, seed_step
from elmo.training.monitor import Monitor
from elmo.training.stopping import RunStopped, requests_to_stop

BEST = "model.safetensors"
"""The file of the best epoch's weights in the run's folder."""

T = TypeVar("T")


@dataclass(frozen=True)
class EpochConfig:
    """The length of training, the optimizer and the schedule."""

    epochs: int = 50
    """The most epochs."""
    patience: int = 10
    """The epochs without a better score after which training stops; 0 never stops."""
    minutes: float | None = None
    """The time limit over all parts of a resumed run, after which the current epoch is cut short and scored."""
    optimizer: Literal["adam", "adamw", "adadelta", "adagrad"] = "adam"
    """The optimizer; only Adam and AdamW use `betas`, and only Adadelta uses `rho`."""
    lr: float = 1e-3
    """The learning rate at the start."""
    betas: tuple[float, float] = (0.9, 0.999)
    """The coefficients of Adam's running averages."""
    rho: float = 0.95
    """The coefficient of Adadelta's running averages."""
    weight_decay: float = 0.0
    """The decay of weight matrices, but not of biases, embeddings, a pretrained encoder and the weights that mix its
    layers. AdamW shrinks the matrices; the other optimizers add `weight_decay * W` to the gradient, as the penalty
    `weight_decay / 2 * ||W||^2` would."""
    clip_norm: float = 5.0
    """The largest global norm of the gradient; 0 means no limit."""
    clip_value: float = 0.0
    """The largest absolute value in the gradient; 0 means no limit. If both limits are set, the norm comes first."""
    schedule: Literal["plateau", "linear"] = "plateau"
    """How the learning rate falls: by `decay`, or linearly to zero at the end of the last epoch."""
    decay: float = 0.5
    """The factor for the learning rate when the score has not risen for `decay_patience` epochs."""
    decay_patience: int = 0
    """The epochs without a better score before the rate falls; 0 means no decay."""
    checkpoint_minutes: float = 2.0
    """The minutes between two checkpoints."""

    def __post_init__(self) -> None:
        where = "training."
        check_range(self, ("epochs",), 1, where=where)
        numbers = ("patience", "lr", "weight_decay", "clip_norm", "clip_value", "decay", "decay_patience")
        check_range(self, (*numbers, "checkpoint_minutes", "minutes"), 0, where=where)
        check_range(self, ("betas", "rho"), 0, 1, where)


@dataclass(frozen=True)
class EpochState:
    """The progress of a run, as plain JSON values."""

    rate: float
    epoch: int = 0
    """The number of finished epochs."""
    batch: int = 0
    """The number of finished batches of the current epoch."""
    step: int = 0
    loss: float = 0.0
    """The sum over the batches of the current epoch."""
    best: float = -math.inf
    best_epoch: int = 0
    since_decay: int = 0
    """The number of epochs since the score rose or the rate fell."""
    seconds: float = 0.0
    """The seconds of training, evaluation included."""
    train_seconds: float = 0.0
    """The seconds of training steps alone."""
    stopped: str = ""
    """The reason why training ended."""


def fit_epochs(
    fabric: Fabric,
    model: nn.Module,
    batches_of: Callable[[int], Sequence[T]],
    loss_of: Callable[[T], Tensor],
    evaluate: Callable[[], dict[str, float]],
    metric: str,
    folder: Path,
    config: EpochConfig,
    seed: int,
    quiet: bool = False,
    label: str = "",
    undecayed: Iterable[Tensor] = (),
) -> EpochState:
    """Trains `model`, which is on the fabric's device, from the checkpoint in `folder` or from the beginning.

    `batches_of(epoch)` gives an epoch's batches; `evaluate()` is called after each epoch in evaluation mode, and
    `metric` names the score to maximize. `undecayed` are matrices without weight decay. The best epoch's weights go
    to `folder/model.safetensors`. Raises RunStopped after a checkpoint if a signal asked to stop.
    """
    optimizer = _optimizer([p for p in model.parameters() if p.requires_grad], frozenset(undecayed), config)
    state = _begin(fabric, model, optimizer, folder, config)
    saver = _Saver(fabric, model, optimizer, folder / "checkpoints", config.checkpoint_minutes)
    total = config.epochs * len(batches_of(0))
    # The line of an unfinished epoch is written again, even if all its steps were done.
    with (
        Monitor(folder, total, state.step, quiet, state.step - state.batch, label) as monitor,
        requests_to_stop(prints=True) as must_stop,
    ):
        while not state.stopped:
            for batch in batches_of(state.epoch)[state.batch :]:
                if config.schedule == "linear":
                    state = replace(state, rate=config.lr * max(0.0, 1 - state.step / total))
                state = _step(model, optimizer, loss_of, batch, config, seed, state)
                monitor.advance(state.step)
                saver.save_if_due(state, must_stop() and not state.stopped)  # an ended run is scored first
                if state.stopped:
                    break
            began = time.monotonic()
            model.eval()
            scores = evaluate()
            model.train()
            _check_finite(model, scores, state, label or str(folder))
            numbers = {"epoch": state.epoch + 1, "loss": state.loss / max(1, state.batch), "lr": state.rate, **scores}
            monitor.record(state.step, numbers)
            state = next_epoch(state, scores[metric], config)
            if state.best_epoch == state.epoch:
                weights = {name: tensor.detach().contiguous() for name, tensor in model.state_dict().items()}
                write_run_file(folder / BEST, save(weights))
            state = replace(state, seconds=state.seconds + time.monotonic() - began)
            saver.save_if_due(state, must_stop())
    return state


def _begin(
    fabric: Fabric, model: nn.Module, optimizer: torch.optim.Optimizer, folder: Path, config: EpochConfig
) -> EpochState:
    checkpoint = newest_checkpoint(folder / "checkpoints")
    if checkpoint is None:
        return EpochState(config.lr)
    _, progress = load_checkpoint(checkpoint, fabric, model, optimizer)
    assert progress.position is not None
    if (checkpoint / BEST_SO_FAR).is_file():  # the run's own file may be that of an epoch after the checkpoint
        write_run_file(folder / BEST, (checkpoint / BEST_SO_FAR).read_bytes())
    return EpochState(**progress.position)


def _step(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    loss_of: Callable[[T], Tensor],
    batch: T,
    config: EpochConfig,
    seed: int,
    state: EpochState,
) -> EpochState:
    """Makes one update."""
    began = time.monotonic()
    seed_step(seed, state.step, 0)
    for group in optimizer.param_groups:
        group["lr"] = state.rate
    loss = loss_of(batch)
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), config.clip_norm or math.inf)
    if not (torch.isfinite(loss) and torch.isfinite(norm)):
        raise TrainingError(
            f"step {state.step + 1}: the loss is {float(loss.detach()):.4g} and its gradient norm {float(norm):.4g};"
            f" try a smaller training.lr (now {state.rate:.3g}) or training.clip_norm"
        )
    if config.clip_value:  # it comes after the check, since it would hide an infinite number
        nn.utils.clip_grad_value_(model.parameters(), config.clip_value)
    optimizer.step()
    optimizer.zero_grad()
    spent = time.monotonic() - began
    seconds = state.seconds + spent
    late = config.minutes is not None and seconds > 60 * config.minutes
    return replace(
        state,
        step=state.step + 1,
        batch=state.batch + 1,
        loss=state.loss + float(loss.detach()),
        seconds=seconds,
        train_seconds=state.train_seconds + spent,
        stopped="minutes" if late else "",
    )


def _check_finite(model: nn.Module, scores: dict[str, float], state: EpochState, what: str) -> None:
    try:
        check_finite(model, scores, f"after epoch {state.epoch + 1}")
    except TrainingError as error:
        remedy = f"try a smaller training.lr (now {state.rate:.3g}) or training.clip_norm"
        raise TrainingError(f"{what}: {error}; {remedy}") from error


def next_epoch(state: EpochState, score: float, config: EpochConfig) -> EpochState:
    """Returns the state at the start of the next epoch, or at the end, after an epoch with this score."""
    epoch = state.epoch + 1
    is_best = score > state.best
    since_decay = 0 if is_best else state.since_decay + 1
    falls = config.schedule == "plateau" and 0 < config.decay_patience <= since_decay
    best_epoch = epoch if is_best else state.best_epoch
    stopped = state.stopped
    if config.patience and epoch - best_epoch >= config.patience:
        stopped = stopped or "patience"
    if epoch >= config.epochs:
        stopped = stopped or "epochs"
    return replace(
        state,
        rate=state.rate * config.decay if falls else state.rate,
        epoch=epoch,
        batch=0,
        loss=0.0,
        best=max(score, state.best),
        best_epoch=best_epoch,
        since_decay=0 if falls else since_decay,
        stopped=stopped,
    )


class _Saver:
    """Writes a checkpoint every few minutes."""

    def __init__(
        self, fabric: Fabric, model: nn.Module, optimizer: torch.optim.Optimizer, folder: Path, minutes: float
    ) -> None:
        self._fabric, self._model, self._optimizer, self._folder = fabric, model, optimizer, folder
        self._interval, self._saved = 60 * minutes, time.monotonic()

    def save_if_due(self, state: EpochState, must_stop: bool) -> None:
        """Writes a checkpoint if one is due or the run must stop; in the latter case raises RunStopped."""
        is_due = not state.stopped and time.monotonic() - self._saved >= self._interval
        if not (is_due or must_stop):
            return
        progress = RankProgress(state.step, dataclasses.asdict(state))
        best = self._folder.parent / BEST if state.best_epoch else None
        save_checkpoint(self._folder, self._fabric, self._model, self._optimizer, (), progress, best=best)
        self._saved = time.monotonic()
        if must_stop:
            raise RunStopped(
                f"{self._folder.parent}: stopped after step {state.step}, with a checkpoint; to continue, run the"
                " command again, with --resume if it has that"
            )


def _optimizer(
    parameters: list[nn.Parameter], undecayed: frozenset[Tensor], config: EpochConfig
) -> torch.optim.Optimizer:
    groups: list[dict[str, Any]] = [{"params": parameters}]
    if config.weight_decay:  # without decay there is one group: checkpoints number parameters in the order of groups
        decayed = [p for p in parameters if p.ndim > 1 and p not in undecayed]
        rest = [p for p in parameters if p.ndim <= 1 or p in undecayed]
        groups = [{"params": rest, "weight_decay": 0.0}, {"params": decayed}]
    if config.optimizer == "adadelta":
        return torch.optim.Adadelta(groups, config.lr, config.rho, weight_decay=config.weight_decay)
    if config.optimizer == "adagrad":
        return torch.optim.Adagrad(groups, config.lr, weight_decay=config.weight_decay)
    kind = torch.optim.Adam if config.optimizer == "adam" else torch.optim.AdamW
    return kind(groups, config.lr, config.betas, weight_decay=config.weight_decay, fused=True)
