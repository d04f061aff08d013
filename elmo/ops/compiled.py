"""Compiles the elementwise part of an LSTM step with the machine's C compiler: it takes one pass instead of twenty.

This is optional, for training on a CPU inside `compiled_steps`; without a compiler nothing changes. Results equal
torch's up to the last bits.
"""

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache

import torch
from jaxtyping import Float
from torch import Tensor

from elmo.ops.compiler import compiled, shared

NUMBERS = {torch.float32: "float", torch.bfloat16: "bfloat16"}
"""The names in C of the data types of the products."""

FEW_CELLS = 2**14
"""Up to this size, one thread does the work."""

_wanted: ContextVar[bool] = ContextVar("compiled_steps", default=False)


@contextmanager
def compiled_steps(wanted: bool) -> Iterator[None]:
    """Inside the block, LSTMs in training on a CPU use compiled forward and backward steps, if `can_compile`."""
    before = _wanted.set(wanted)
    try:
        yield
    finally:
        _wanted.reset(before)


def can_compile() -> bool:
    """Returns whether there is a C compiler whose code gives right numbers. The check, made once, takes a second."""
    return load_library() is not None


def step_kernel(dtype: torch.dtype, *others: Tensor) -> "StepKernel | None":
    """Returns the kernel for products in `dtype`, used with `others`; None means that torch does the work."""
    usable = dtype in NUMBERS and all(x.device.type == "cpu" and x.dtype == torch.float32 for x in others)
    library = load_library() if _wanted.get() and usable else None
    return None if library is None else StepKernel(library, dtype)


_Pair = ctypes.c_void_p * 2


class _Forward(ctypes.Structure):
    _fields_ = (
        ("rows", ctypes.c_ssize_t),
        ("size", ctypes.c_ssize_t),
        ("limit", ctypes.c_float),
        ("forget_bias", ctypes.c_float),
        *((name, _Pair) for name in ("inputs", "states", "bias", "cell", "gates", "cells", "memory")),
    )


class _Backward(ctypes.Structure):
    _fields_ = (
        ("rows", ctypes.c_ssize_t),
        ("size", ctypes.c_ssize_t),
        ("limit", ctypes.c_float),
        *((n, _Pair) for n in ("to_memory", "gates", "cells", "before", "to_cell", "to_gates", "to_bias")),
    )


class StepKernel:
    """The compiled steps of both directions, for products of one data type.

    Arguments are one tensor per direction, or one for both; each direction is contiguous. All but the products,
    `memory` and their gradients are float32.
    """

    def __init__(self, library: ctypes.CDLL, dtype: torch.dtype) -> None:
        self._library, self._dtype = library, dtype
        self._forward, self._backward = library[f"forward_{NUMBERS[dtype]}"], library[f"backward_{NUMBERS[dtype]}"]

    def forward(
        self,
        inputs: Sequence[Float[Tensor, "n gates"]],
        states: Sequence[Float[Tensor, "n gates"]],
        bias: Float[Tensor, "2 gates"],
        forget_bias: float,
        limit: float,
        cell: Float[Tensor, "2 n H"],
        gates: Float[Tensor, "2 n gates"],
        cells: Float[Tensor, "2 n H"],
        memory: Float[Tensor, "2 n H"],
    ) -> None:
        """Advances `cell`; fills `gates` (activated), `cells` (a copy of `cell`) and `memory` (before the projection).

        `inputs` and `states` are the products of a step's inputs and of the hidden states, without the bias.
        """
        (rows, size), kind = cell.shape[1:], self._dtype
        arrays = (
            _pair(inputs, rows * 4 * size, kind),
            _pair(states, rows * 4 * size, kind),
            _pair(bias, 4 * size),
            _pair(cell, rows * size),
            _pair(gates, rows * 4 * size),
            _pair(cells, rows * size),
            _pair(memory, rows * size, kind),
        )
        self._run(self._forward, _Forward(rows, size, limit, forget_bias, *arrays), rows, size)

    def backward(
        self,
        to_memory: Sequence[Float[Tensor, "n H"]],
        gates: Float[Tensor, "2 n gates"],
        cells: Float[Tensor, "2 n H"],
        before: Float[Tensor, "2 n H"],
        limit: float,
        to_cell: Float[Tensor, "2 n H"],
        to_gates: Float[Tensor, "2 n gates"],
        to_bias: Float[Tensor, "2 gates"],
    ) -> None:
        """Propagates `to_cell` back through the step; fills `to_gates` (before the activations), adds to `to_bias`.

        `before` are the cells before the step.
        """
        (rows, size), kind = to_cell.shape[1:], self._dtype
        arrays = (
            _pair(to_memory, rows * size, kind),
            _pair(gates, rows * 4 * size),
            _pair(cells, rows * size),
            _pair(before, rows * size),
            _pair(to_cell, rows * size),
            _pair(to_gates, rows * 4 * size, kind),
            _pair(to_bias, 4 * size),
        )
        self._run(self._backward, _Backward(rows, size, limit, *arrays), rows, size)

    def _run(self, work: Callable[..., None], step: ctypes.Structure, rows: int, size: int) -> None:
        threads = torch.get_num_threads() if 2 * rows * size > FEW_CELLS else 1
        shared(self._library, work, step, size, 16, threads)


def _pair(directions: Tensor | Sequence[Tensor], count: int, dtype: torch.dtype = torch.float32) -> ctypes.Array:
    """The addresses of both directions' data, which has the types that the C code expects."""
    first, second = directions
    for one in (first, second):
        assert one.dtype == dtype
        assert one.numel() == count
        assert one.is_contiguous()
    return _Pair(first.data_ptr(), second.data_ptr())


@cache
def load_library() -> ctypes.CDLL | None:
    """Returns the loaded library; None if compiling fails or the results differ from torch's."""
    library = compiled("lstm_cell.c")
    return library if library is not None and _is_right(library) else None


def _is_right(library: ctypes.CDLL) -> bool:
    """Whether a sample step equals torch's. It takes no random numbers, which would shift those of training."""
    rows, size = 3, 37
    inputs = torch.linspace(-9, 9, 2 * rows * 4 * size, dtype=torch.float32, device="cpu").view(2, rows, -1)
    cell = torch.linspace(2, -2, 2 * rows * size, dtype=torch.float32, device="cpu").view(2, rows, size)
    states, bias = torch.zeros_like(inputs), inputs.new_zeros(2, 4 * size)
    gates, cells, memory = torch.empty_like(inputs), cell.clone(), cell.clone()
    i, j, f, o = inputs.split(size, dim=2)
    after = (torch.sigmoid(f + 1) * cell + torch.sigmoid(i) * torch.tanh(j)).clamp(-1.5, 1.5)
    StepKernel(library, torch.float32).forward(
        inputs.unbind(), states.unbind(), bias, 1.0, 1.5, cells, gates, cell, memory
    )
    return torch.allclose(cell, after, atol=1e-6) and torch.allclose(memory, torch.sigmoid(o) * after.tanh(), atol=1e-6)
