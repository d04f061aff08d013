"""Captures a step as a CUDA graph: Python says once what a GPU does, and the GPU repeats it without waiting for Python.

A captured function may read nothing back and has fixed shapes; values that change from step to step (the learning rate,
places in a text) are in tensors. On a CPU there is no graph: the function itself runs.
"""

import gc
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from threading import RLock
from typing import Any, NamedTuple

import torch
from torch import Tensor

from elmo.forking import renew_at_fork

WARM_UPS = 2
"""The number of runs before the capture, in which libraries and kernels make themselves ready."""

Launch = Callable[[], None]
"""A function that runs a captured function."""


class _Turn:
    """The thread that captures. Another one that waits for the whole GPU, as each does before, would break it."""

    lock = RLock()


renew_at_fork(_Turn, lambda turn: setattr(turn, "lock", RLock()))


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
            pool.stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(pool.stream):
                for _ in range(WARM_UPS):
                    function()
            torch.cuda.current_stream().wait_stream(pool.stream)
        with torch.no_grad():
            for tensor in state():
                if tensor in before:
                    tensor.copy_(before[tensor])
                else:
                    tensor.zero_()
        del before
        return function if pool is None else _graph_of(function, pool)


def _graph_of(function: Callable[[], None], pool: Pool) -> Launch:
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    # Other threads of the program, such as one that pins memory for a loader, may go on meanwhile.
    handle, stream = pool
    first: Exception | None = None
    collects = gc.isenabled()
    gc.disable()  # an older graph that is collected here would break the capture (PyTorch 161037)
    try:
        with torch.cuda.graph(graph, handle, stream=stream, capture_error_mode="thread_local"):
            try:
                function()
            except Exception as error:
                first = error
                raise
    except RuntimeError as error:  # when a capture has failed, torch raises another error at its end
        raise (first or error) from None
    finally:
        if collects:
            gc.enable()
    return graph.replay
