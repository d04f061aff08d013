"""Captures a step as a CUDA graph: Python says once what a GPU does, and the GPU repeats it without waiting for Python.

A captured function may read nothing back and has fixed shapes; values that change from step to step (the learning rate,
places in a text) are in tensors. On a CPU a stand-in runs the same function and refuses what a capture refuses.
"""

import gc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from threading import RLock
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from elmo.forking import renew_at_fork

WARM_UPS = 2
"""The number of runs before the capture, in which libraries and kernels make themselves ready."""

READS_BACK = {
    "_local_scalar_dense", "nonzero", "nonzero_numpy", "unique", "unique2", "_unique", "_unique2", "unique_dim",
    "unique_consecutive", "unique_dim_consecutive", "masked_select", "equal", "is_nonzero", "argwhere", "bincount",
    "repeat_interleave", "coalesce", "_coalesce", "tensor_split", "item",
}  # fmt: skip
"""The operations whose result, or its size, the CPU needs to know."""


Launch = Callable[[], None]
"""A function that runs a captured function."""


class _Turn:
    """The thread that captures. Another one that waits for the whole GPU, as each does before, would break it."""

    lock = RLock()


renew_at_fork(_Turn, lambda turn: setattr(turn, "lock", RLock()))


class CaptureError(RuntimeError):
    """A function does what a CUDA graph cannot repeat."""


class Pool(NamedTuple):
    """The memory that several graphs share, and the stream on which all of them are captured, as sharing requires.

    cuBLAS keeps memory for every stream that it has seen, 32 MiB on an H100. When a graph ends, torch 2.13 frees that
    of its stream (PyTorch 193402), so graphs share a stream only if they end together.
    """

    handle: Any
    stream: torch.cuda.Stream


def new_pool(device: torch.device) -> Pool | None:
    """Returns memory for captured functions that end together; each runs after the results of the last are used."""
    return Pool(torch.cuda.graph_pool_handle(), torch.cuda.Stream(device)) if device.type == "cuda" else None


def capture(
    function: Callable[[], None], device: torch.device, state: Callable[[], Iterable[Tensor]], pool: Pool | None = None
) -> Launch:
    """Captures `function`, and returns a function that runs it. `pool` is from `new_pool`; the default is a new one.

    The first run prepares its surroundings, such as the tensors of an optimizer. `state()` names all tensors that it
    changes. They are restored afterwards, and those that it has made become zero. Threads take turns.
    """
    pool = new_pool(device) if pool is None else pool
    on_device = nullcontext() if pool is None else torch.cuda.device(device)
    with _Turn.lock, on_device:  # generators and kernels are the current one's
        before = {tensor: tensor.detach().clone() for tensor in state()}
        if pool is None:
            function()
        else:
            _warm_up(function, pool.stream)
        with torch.no_grad():
            for tensor in state():
                if tensor in before:
                    tensor.copy_(before[tensor])
                else:
                    tensor.zero_()
        del before
        return _Recorded(function) if pool is None else _graph_of(function, pool)


def _warm_up(function: Callable[[], None], stream: torch.cuda.Stream) -> None:
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(WARM_UPS):
            function()
    torch.cuda.current_stream().wait_stream(stream)


def _graph_of(function: Callable[[], None], pool: Pool) -> Launch:
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    # Other threads of the program, such as one that pins memory for a loader, may go on meanwhile.
    handle, stream = pool
    first: Exception | None = None
    try:
        with _without_collection(), torch.cuda.graph(graph, handle, stream=stream, capture_error_mode="thread_local"):
            try:
                function()
            except Exception as error:
                first = error
                raise
    except RuntimeError as error:  # when a capture has failed, torch raises another error at its end
        raise (first or error) from None
    return graph.replay


@contextmanager
def _without_collection() -> Iterator[None]:
    """Inside the block, Python collects no garbage: an older graph in it would break the capture (PyTorch 161037)."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


class _Recorded:
    """The stand-in for a graph. It records the first run, and every later run has to be the same."""

    def __init__(self, function: Callable[[], None]) -> None:
        self._function = function
        self._operations: list[tuple[str, ...]] | None = None

    def __call__(self) -> None:
        with _Capture() as mode:
            self._function()
        if self._operations is None:
            self._operations = mode.operations
        for first, now in zip(self._operations, mode.operations, strict=False):
            if first != now:
                raise CaptureError(f"the first run had {first}, this one {now}: a CUDA graph would repeat the first")
        if len(self._operations) != len(mode.operations):
            raise CaptureError(f"{len(mode.operations)} operations instead of {len(self._operations)}")


class _Capture(TorchDispatchMode):
    """Refuses operations that copy to or from the CPU; notes the others with the shapes of their results."""

    def __init__(self) -> None:
        super().__init__()
        self.operations: list[tuple[str, ...]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name.removeprefix("aten::")
        if name in READS_BACK or (
            name in ("index", "index_put_", "index_put", "_index_put_impl_") and _has_mask(args[1])
        ):
            raise CaptureError(f"{name} reads numbers back from the GPU, which a CUDA graph cannot do")
        found = func(*args, **(kwargs or {}))
        devices = {str(part.device) for part in tree_leaves((args, kwargs, found)) if isinstance(part, Tensor)}
        if len(devices) > 1:
            raise CaptureError(
                f"{name} has tensors on {' and '.join(sorted(devices))}: a CUDA graph cannot repeat that"
            )
        shapes = [str(tuple(part.shape)) for part in tree_leaves(found) if isinstance(part, Tensor)]
        self.operations.append((name, *shapes))
        return found


def _has_mask(indices: Iterable[Tensor | None]) -> bool:
    return any(index is not None and index.dtype in (torch.bool, torch.uint8) for index in indices)
