"""Sets up devices and processes with lightning-fabric, and finds processes that are lost."""

import logging
import os
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor, distributed, nn
from torch.distributed.rendezvous import rendezvous
from torch.nn.parallel import DistributedDataParallel

from elmo.errors import Failure, InputError, in_one_line, pip_line
from elmo.training.memory import keep_freed_memory

try:
    from lightning_fabric import Fabric as Fabric
    from lightning_fabric.plugins import MixedPrecision
    from lightning_fabric.strategies.ddp import DDPStrategy
    from lightning_fabric.utilities.exceptions import MisconfigurationException
except ImportError as error:  # pragma: no cover
    raise InputError(
        f"lightning-fabric is missing ({error}): {pip_line('train')}; task models need the extra tasks,"
        " reports the extra probes"
    ) from error


BEAT, ROLL_CALL = 0.5, 4.0
"""The seconds between signs of life, and the seconds to look for them after a connection breaks."""

HERE = "127.0.0.1"
LONGEST_WAIT = timedelta(days=1)
"""The time that a process waits while others count the words of a large corpus."""

T = TypeVar("T")


class LostProcess(Failure):
    """A process does not answer."""


class _OfProducts(MixedPrecision):
    """Autocast alone, which rounds the inputs of products.

    Fabric's own also rounds all that a model is called with, such as memory cells.
    """

    def convert_input(self, data: T) -> T:
        return data


def processes_to_start(devices: int, nodes: int, accelerator: str = "cpu", resumed: bool = False) -> tuple[int, int]:
    """Returns the devices per node and the number of nodes: as given, or as started by `torchrun`.

    A run that is `resumed` on this machine alone takes the devices of this machine, not those that it had. A new run
    raises InputError if it is meant for several nodes but nothing has started it there, since it would wait for them.
    """
    if torch.distributed.is_torchelastic_launched():
        local = int(os.environ["LOCAL_WORLD_SIZE"])
        return local, int(os.environ["WORLD_SIZE"]) // local
    # These are the other launchers that lightning knows; the processes that it starts have this machine's address.
    if os.environ.get("MASTER_ADDR", HERE) != HERE or os.environ.keys() & {"SLURM_NTASKS", "LSB_JOBID"}:
        return devices, nodes
    if nodes > 1:
        remedy = _torchrun(devices, nodes)
        if not resumed:
            raise InputError(f"nodes is {nodes}, but only this machine was started; start each: {remedy}")
        warnings.warn(f"the run had {nodes} machines and continues on this one; to have more: {remedy}", stacklevel=3)
        nodes = 1
    there = torch.cuda.device_count() if resumed and accelerator != "cpu" else 0
    if 0 < there < devices:
        devices = max(n for n in range(1, there + 1) if devices % n == 0)
    return devices, nodes


def _torchrun(devices: int, nodes: int) -> str:
    return f"torchrun --nnodes {nodes} --nproc-per-node {devices} -m elmo train ..."


def is_one_of_several() -> bool:
    """Returns whether `torchrun` started this process with others, which wait for it in `launch`."""
    return distributed.is_torchelastic_launched() and int(os.environ["WORLD_SIZE"]) > 1


def launch(
    accelerator: str, devices: int, nodes: int, precision: Literal["32-true", "bf16-mixed"], wait_minutes: float = 30.0
) -> Fabric:
    """Returns a launched Fabric with one process per device, which averages gradients.

    The processes come from `torchrun` or are started here. A process that waits for another longer than `wait_minutes`
    raises RuntimeError (see `naming_lost`), or LostProcess if the other one never came.
    """
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)
    keep_freed_memory()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch 2.9 warns of a newer name
        # torch's default lets a GPU round the inputs of convolutions to 10 bits
        torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False  # sums of products stay in float32
    strategy = DDPStrategy(timeout=timedelta(minutes=wait_minutes)) if devices * nodes > 1 else "auto"
    if accelerator == "auto":  # Fabric would choose an Apple GPU, which lacks float64 and sparse gradients
        accelerator = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            on = "cpu" if accelerator == "cpu" else "cuda"
            plugins: list[Any] = [] if precision == "32-true" else [_OfProducts(precision, on)]
            fabric = Fabric(
                accelerator=accelerator, devices=devices, num_nodes=nodes, plugins=plugins, strategy=strategy
            )
    except (ValueError, RuntimeError, MisconfigurationException) as error:
        raise _unusable(accelerator, devices, in_one_line(error)) from error
    # From a filter of width 1, whose gradient has the same layout with either stride.
    warnings.filterwarnings("ignore", "Grad strides do not match bucket view strides", UserWarning)
    # From DDP, which Fabric makes on a CUDA stream of its own.
    warnings.filterwarnings("ignore", "The AccumulateGrad node's stream", UserWarning)
    # From torch's own Adagrad, which makes new sparse tensors from those it gets.
    warnings.filterwarnings("ignore", "Sparse invariant checks", UserWarning)
    try:
        _meet_again("nccl" if accelerator == "cuda" else "gloo", timedelta(minutes=wait_minutes))
        fabric.launch()
    except distributed.DistError as error:
        why = in_one_line(error)
        message = f"not all of {devices * nodes} processes met ({why}); start them together: "
        raise LostProcess(message + _torchrun(devices, nodes), is_reported=True) from error
    except RuntimeError as error:  # the first use of the GPU
        if not str(error).startswith("CUDA"):
            raise
        why = str(error).partition("\n")[0]
        raise _unusable(accelerator, devices, f"{why}; free the GPU, or compute with accelerator=cpu") from error
    return fabric


def _unusable(accelerator: str, devices: int, why: str) -> InputError:
    return InputError(f"accelerator {accelerator!r} with {devices} devices: {why}")


def _meet_again(kind: str, wait: timedelta) -> None:
    """Connects processes that torchrun has restarted. Its store still has the addresses of lost processes, for which
    the others would wait."""
    attempt = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
    if attempt:
        store, rank, world = next(rendezvous("env://", timeout=wait))
        store = distributed.distributed_c10d.PrefixStore(f"attempt {attempt}", store)
        distributed.init_process_group(kind, store=store, rank=rank, world_size=world, timeout=wait)


@contextmanager
def naming_lost(fabric: Fabric) -> Iterator[None]:
    """Raises LostProcess with the ranks of lost processes if the block fails because of them.

    A connection to a killed process breaks at once; one that hangs times out as set in `launch`.
    """
    if fabric.world_size == 1:
        yield
        return
    with _showing_life(fabric) as store:
        try:
            yield
        except RuntimeError as error:
            lost = _lost(fabric, store)
            if not lost:
                raise
            present = [rank for rank in range(fabric.world_size) if rank not in lost]
            one = len(lost) == 1
            message = (
                f"process{'' if one else 'es'} {', '.join(map(str, lost))} of {fabric.world_size} (the first is 0)"
                f" no longer answer{'s' if one else ''}; continue from the last checkpoint with --resume"
            )
            raise LostProcess(message, fabric.global_rank == min(present)) from error


def _lost(fabric: Fabric, store: Any) -> list[int]:
    """The ranks of processes that show no sign of life."""
    names = [_sign(rank) for rank in range(fabric.world_size)]
    try:
        before, missing = store.multi_get(names), set(range(fabric.world_size))
        deadline = time.monotonic() + ROLL_CALL
        while missing and time.monotonic() < deadline:
            time.sleep(BEAT / 2)
            missing -= {rank for rank, now in enumerate(store.multi_get(names)) if now != before[rank]}
        return sorted(missing)
    except RuntimeError:  # the first process, which holds the store, is gone
        return [0]


@contextmanager
def _showing_life(fabric: Fabric) -> Iterator[Any]:
    """Keeps updating this process's sign in the store from a thread.

    Yields a connection to the store: if the store is gone, opening a new one would take long to fail.
    """
    whole: Any = distributed.distributed_c10d._get_default_store()
    store, name = whole.clone(), _sign(fabric.global_rank)
    ended = threading.Event()

    def beat() -> None:
        with suppress(RuntimeError):  # until the store is gone
            while True:
                store.set(name, str(time.monotonic()))
                if ended.wait(BEAT):
                    return

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        # On another connection: the thread cannot use one that waits.
        whole.wait([_sign(rank) for rank in range(fabric.world_size)])
        yield whole.clone()
    finally:
        ended.set()
        # A process aborts if it ends while its thread is inside `set`, but `set` waits for a store that hangs.
        thread.join(ROLL_CALL)


def _sign(rank: int) -> str:
    return f"elmo: sign of life of {rank}"


def gather(fabric: Fabric, value: T, group: distributed.ProcessGroup | None = None) -> list[T]:
    """Returns the values of all processes, by rank."""
    if fabric.world_size == 1:
        return [value]
    values: list[Any] = [None] * fabric.world_size
    distributed.all_gather_object(values, value, group)
    return values


def patient_group(fabric: Fabric) -> distributed.ProcessGroup | None:
    """Returns a group of all processes with a timeout long enough to read a large corpus; None for one process."""
    if fabric.world_size == 1:
        return None
    group = distributed.new_group(timeout=LONGEST_WAIT, backend="gloo")
    assert isinstance(group, distributed.ProcessGroup)
    return group


def leave_out(module: nn.Module, tables: Sequence[nn.Parameter]) -> None:
    """Makes `fabric.setup` of the module leave the gradients of `tables` to `average_rows`."""
    names = [name for name, parameter in module.named_parameters() if any(parameter is table for table in tables)]
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(module, names)


def average_rows(tables: Sequence[nn.Parameter]) -> None:
    """Averages the gradients of `tables` over all processes, but only in the rows that any process has touched.

    The first table has a sparse gradient. The others have one number per row of it, and dense gradients that are zero
    elsewhere. All processes get the same result, to the bit.
    """
    first, *others = tables
    gradient, world = first.grad, distributed.get_world_size()
    assert gradient is not None
    assert gradient.is_sparse
    own = gradient._indices()[0]
    # Sending a byte per row takes less than sending the row numbers of many processes.
    touched = own.new_zeros(len(first), dtype=torch.uint8)
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
