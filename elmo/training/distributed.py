"""Devices and processes: lightning-fabric, set up once."""

import logging
import os
import warnings
from collections.abc import Sequence
from datetime import timedelta
from typing import Literal

import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

from elmo.errors import InputError
from elmo.training.memory import keep_freed_memory

try:
    from lightning_fabric import Fabric as Fabric
    from lightning_fabric.strategies.ddp import DDPStrategy
    from lightning_fabric.utilities.exceptions import MisconfigurationException
except ImportError as error:  # pragma: no cover
    raise InputError(f"training needs lightning-fabric ({error}): pip install 'elmo-torch[train]'") from error


LONGEST_WAIT = timedelta(days=1)
"""What a process waits for the others, while the first one counts the words of a large corpus."""


def processes(devices: int, nodes: int) -> tuple[int, int]:
    """Devices of a node and nodes: as given, but under `torchrun` what it has started."""
    if not torch.distributed.is_torchelastic_launched():
        return devices, nodes
    local = int(os.environ["LOCAL_WORLD_SIZE"])
    return local, int(os.environ["WORLD_SIZE"]) // local


def launch(accelerator: str, devices: int, nodes: int, precision: Literal["32-true", "bf16-mixed"]) -> Fabric:
    """A Fabric that runs; one process a device, gradients averaged; of `torchrun` or started here."""
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)
    keep_freed_memory()
    strategy = DDPStrategy(timeout=LONGEST_WAIT) if devices * nodes > 1 else "auto"
    if accelerator == "auto":  # Fabric's own would take an Apple GPU, which has no float64 and no sparse gradients
        accelerator = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fabric = Fabric(
                accelerator=accelerator, devices=devices, num_nodes=nodes, precision=precision, strategy=strategy
            )
    except (ValueError, RuntimeError, MisconfigurationException) as error:
        why = " ".join(str(error).split())
        raise InputError(f"accelerator {accelerator!r} with {devices} devices: {why}") from error
    # Of a filter of width 1, whose gradient has the same numbers in the same order whichever stride it names.
    warnings.filterwarnings("ignore", "Grad strides do not match bucket view strides", UserWarning)
    # Of torch's own Adagrad, which makes sparse tensors out of those that it was given.
    warnings.filterwarnings("ignore", "Sparse invariant checks", UserWarning)
    fabric.launch()
    return fabric


def leave_out(module: nn.Module, tables: Sequence[nn.Parameter]) -> None:
    """`fabric.setup` of the module leaves averaging the gradients of `tables` to `average_rows`."""
    names = [name for name, parameter in module.named_parameters() if any(parameter is table for table in tables)]
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(module, names)


def average_rows(tables: Sequence[nn.Parameter]) -> None:
    """Averages the gradients of `tables` over all processes: the rows that any of them has touched, and no others.

    The first table has a sparse gradient. The others have a number for each of its rows, and dense gradients, which are
    zero elsewhere. The result is the same in all processes, bit for bit.
    """
    first, *others = tables
    gradient, world = first.grad, distributed.get_world_size()
    assert gradient is not None
    assert gradient.is_sparse
    own = gradient._indices()[0]
    touched = own.new_zeros(
        len(first), dtype=torch.uint8
    )  # a byte a row: less than the rows' numbers of many processes
    touched[own] = 1
    distributed.all_reduce(touched, distributed.ReduceOp.MAX)
    rows = touched.nonzero().squeeze(1)
    wide = first[0].numel()
    sums = gradient._values().new_zeros(len(rows) * (wide + len(others)))  # one message
    values, *columns = sums.split([len(rows) * wide, *([len(rows)] * len(others))])
    values = values.view(-1, *first.shape[1:])
    values.index_add_(0, torch.searchsorted(rows, own), gradient._values())
    for column, other in zip(columns, others, strict=True):
        column.copy_(_dense(other)[rows])
    distributed.all_reduce(sums)
    sums /= world
    first.grad = torch.sparse_coo_tensor(rows[None], values, first.shape, is_coalesced=True, check_invariants=False)
    for column, other in zip(columns, others, strict=True):
        _dense(other)[rows] = column


def _dense(parameter: nn.Parameter) -> Tensor:
    assert parameter.grad is not None
    return parameter.grad
