"""Writes and reads checkpoints, which hold everything that a run needs to resume exactly. Nothing is pickled.

A checkpoint is a folder `step-000001200/` with these files:

- `model.safetensors` and `optimizer.safetensors` are the same on every rank; rank 0 writes them.
- `table-R.safetensors` has the state of a sharded optimizer for rank R's part of the tables.
- `rank-R.safetensors` has the state carried between batches (for a biLM, its LSTM state).
- `rank-R.json` is the rank's `RankProgress`.
- `best.safetensors` has the weights of the best epoch so far, in training by epochs.
- `sha256.json` has the sums of all these, so that no damaged file is resumed from.

It is written under a temporary name and renamed when complete. Random numbers are a function of seed, step and rank, so
no random state is stored.
"""

import dataclasses
import json
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from elmo import config as configs
from elmo.disk.files import PARTIAL, remove, run_path, write_run_file
from elmo.disk.sums import check_sums, write_sums
from elmo.disk.tensors import write_tensors
from elmo.errors import InputError
from elmo.training.distributed import Fabric
from elmo.training.sharding import Shard, join_parts, take_part

BEST_SO_FAR = "best.safetensors"
KEPT = 2
NAME = re.compile("step-[0-9]+")
OF_SHAPES = re.compile(r"Error\(s\) in loading state_dict|[Tt]ensors must (match|have)")
"""Matches torch's messages for tensors that do not fit."""


@dataclass(frozen=True)
class RankProgress:
    """The progress of a process, as plain JSON values."""

    step: int = 0
    """The number of finished steps."""
    position: dict[str, Any] | None = None
    """The position of the last batch in the data; None before the first batch."""
    losses: Sequence[float] = ()
    """The losses of the steps since the last line of metrics."""


START = RankProgress()
Saved = tuple[list[Tensor], RankProgress]
"""The part of a checkpoint that a process saves for itself: the carried tensors and its progress."""


def save_checkpoint(
    folder: Path,
    fabric: Fabric,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    carried: Sequence[Tensor],
    progress: RankProgress,
    shards: Sequence[Shard] = (),
    best: Path | None = None,
) -> Path:
    """Writes `folder/step-N` for `progress.step` and removes all but the newest ones; `best` is a file to copy."""
    target = folder / f"step-{progress.step:09d}"
    temporary = folder / f".{target.name}.0{PARTIAL}"  # all processes know this name
    whole, sharded = _optimizer_tensors(optimizer, shards)
    if fabric.is_global_zero:
        for left_over in folder.glob(f".step-*{PARTIAL}"):  # a run that was killed here left them
            shutil.rmtree(left_over)
        temporary.mkdir(parents=True)
        _write(temporary / "model.safetensors", model.state_dict())
        _write(temporary / "optimizer.safetensors", whole)
        if best is not None:
            write_run_file(temporary / BEST_SO_FAR, best.read_bytes())
    fabric.barrier()
    name = f"rank-{fabric.global_rank}"
    _write(temporary / f"{name}.safetensors", {str(i): tensor for i, tensor in enumerate(carried)})
    if shards:
        _write(temporary / f"table-{fabric.global_rank}.safetensors", sharded)
    write_run_file(temporary / f"{name}.json", json.dumps(dataclasses.asdict(progress)).encode())
    fabric.barrier()
    if fabric.is_global_zero:
        write_sums(temporary, sorted(file.name for file in temporary.iterdir()))
        shutil.rmtree(target, ignore_errors=True)
        temporary.replace(target)
        for old in _checkpoints(folder)[:-KEPT]:
            remove(old)
    fabric.barrier()
    return target


def _write(path: Path, tensors: Mapping[str, Tensor]) -> None:
    with run_path(path) as temporary:
        write_tensors({name: tensor.detach().contiguous() for name, tensor in tensors.items()}, temporary)


def newest_checkpoint(folder: Path) -> Path | None:
    """Returns the checkpoint with the highest step, if there is one."""
    return next(reversed(_checkpoints(folder)), None)


def _checkpoints(folder: Path) -> list[Path]:
    """The checkpoints in the order of their steps. Other names, such as `step-000001200.bak`, do not count."""
    found = (path for path in folder.glob("step-*") if NAME.fullmatch(path.name))
    return sorted(found, key=lambda path: int(path.name.removeprefix("step-")))


def load_checkpoint(
    checkpoint: Path,
    fabric: Fabric,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    divide: Callable[[Sequence[Saved], int, int], Saved] | None = None,
    shards: Sequence[Shard] = (),
) -> Saved:
    """Loads model and optimizer; returns the carried tensors and the progress of this rank.

    If the number of processes has changed, `divide(saved, rank, world)` gives this rank's part of what each one saved.
    Raises InputError if a file is missing or damaged, or belongs to another network; MemoryError and OSError if the
    machine is at fault.
    """
    rank, world = fabric.global_rank, fabric.world_size
    try:
        check_sums(checkpoint)
        model.load_state_dict(load_file(checkpoint / "model.safetensors"))
        _load_optimizer(optimizer, _optimizer_state(checkpoint, optimizer, shards, rank, world))
        before = len(list(checkpoint.glob("rank-*.json")))
        if not before:
            raise FileNotFoundError("no rank-0.json")
        if divide is None or before == world:
            return _kept(checkpoint, rank, str(fabric.device))
        return divide([_kept(checkpoint, other, str(fabric.device)) for other in range(before)], rank, world)
    except (SafetensorError, FileNotFoundError, ValueError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "Cannot allocate memory" in str(error):  # mapping a file failed
            raise MemoryError(str(error)) from error
        if isinstance(error, RuntimeError) and not OF_SHAPES.search(str(error)):
            raise
        raise InputError(
            f"{checkpoint}: cannot be resumed ({error}); remove this folder to resume from the previous checkpoint"
        ) from error
    except OSError as error:
        problem = f"{error.strerror or error}; fix this, then continue with --resume"
        raise OSError(error.errno, problem, str(checkpoint)) from error


def _kept(checkpoint: Path, rank: int, device: str) -> Saved:
    carried = _copies(load_file(checkpoint / f"rank-{rank}.safetensors", device=device))
    progress = configs.load_json(checkpoint / f"rank-{rank}.json")
    return [carried[str(i)] for i in range(len(carried))], RankProgress(**progress)


def _copies(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Copies memory-mapped tensors, which would keep the file on disk, and on Windows prevent its removal."""
    return {name: tensor.clone() for name, tensor in tensors.items()}


def _optimizer_tensors(
    optimizer: torch.optim.Optimizer, shards: Sequence[Shard]
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The optimizer state that is the same on every rank, and that of this rank's shards."""
    sharded = _numbers_of(optimizer, shards)
    state = optimizer.state_dict()["state"]
    parts: tuple[dict[str, Tensor], dict[str, Tensor]] = {}, {}
    for i, values in state.items():
        parts[i in sharded].update({f"{i}.{name}": tensor for name, tensor in values.items()})
    return parts


def _optimizer_state(
    checkpoint: Path, optimizer: torch.optim.Optimizer, shards: Sequence[Shard], rank: int, world: int
) -> dict[str, Tensor]:
    """The optimizer state for this rank, from a checkpoint of any number of ranks, sharded or whole."""
    tensors = _copies(load_file(checkpoint / "optimizer.safetensors"))
    files = [checkpoint / f"table-{other}.safetensors" for other in range(len(list(checkpoint.glob("table-*"))))]
    parts = [load_file(file) for file in files]
    tensors |= {name: join_parts(each[name] for each in parts) for name in (parts[0] if parts else {})}
    sharded = _numbers_of(optimizer, shards)
    return {
        name: take_part(tensor, rank, world) if int(name.partition(".")[0]) in sharded else tensor
        for name, tensor in tensors.items()
    }


def _numbers_of(optimizer: torch.optim.Optimizer, shards: Sequence[Shard]) -> set[int]:
    """The shards' indices among the optimizer's parameters."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    return {i for i, parameter in enumerate(parameters) if any(parameter is shard.own for shard in shards)}


def _load_optimizer(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    state: dict[int, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        index, name = key.split(".", 1)
        state.setdefault(int(index), {})[name] = tensor
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
