"""Products of 8-bit weights, and an LSTM's steps with them, compiled by the machine's C compiler (`int8_reading.c`).

The definition: the inputs of a row become integers of at most 16 bits with one scale, the sum of the products is exact,
and one float32 product brings in the scales. So a row's result depends on itself alone, whatever the number of rows.
All steps of a direction are one call: for one sentence, each step takes so little time that Python's would count.
"""

import ctypes
from collections.abc import Callable, Sequence
from functools import cache

import torch
from jaxtyping import Bool, Float, Int, Int8
from torch import Tensor

from elmo.ops.compiler import INSTRUCTIONS, compiled, shared
from elmo.ops.int8_weights import row_quantized
from elmo.ops.products import is_x86

VNNI = ("-mavx512vnni",)
"""The compiler flag for instructions that multiply pairs and add them at once: the same sums in half the time."""
ROWS_OF_A_THREAD = 8


class _Weights(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_ssize_t) for name in ("size", "inputs")),
        *((name, ctypes.c_void_p) for name in ("weights", "scales")),
    )


class _Product(ctypes.Structure):
    _fields_ = (("weights", _Weights), *((name, ctypes.c_void_p) for name in ("x", "out", "scales", "integers")))


class _Reading(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_ssize_t) for name in ("steps", "rows", "first_rows", "cells")),
        *((name, _Weights) for name in ("state", "projection")),
        *((name, ctypes.c_float) for name in ("cell_limit", "projection_limit")),
        *((name, ctypes.c_void_p) for name in ("products", "places", "active", "keep", "hidden", "cell", "outputs")),
        *((name, ctypes.c_void_p) for name in ("gates", "memory", "scales", "integers")),
    )


class CompiledProduct:
    """A product with 8-bit weights; the result is float32."""

    def __init__(self, weight: Float[Tensor, "size K"]) -> None:
        self.size = len(weight)
        self._library = load_library()
        assert self._library is not None
        integers, self._scales = row_quantized(weight)
        self._integers = _in_lanes(integers, self._library)
        self.weights = _Weights(*weight.shape, self._integers.data_ptr(), self._scales.data_ptr())

    def __call__(self, x: Float[Tensor, "M K"]) -> Float[Tensor, "M size"]:
        assert self._library is not None
        return _multiplied(self._library, self.weights, x.float().contiguous())


def read_compiled(
    state: CompiledProduct,
    projection: CompiledProduct | None,
    products: Float[Tensor, "W gates"],
    places: Int[Tensor, "t b"],
    active: Sequence[int],
    keep: Bool[Tensor, "t B"] | None,
    hidden: Float[Tensor, "B P"],
    cell: Float[Tensor, "B H"],
    limits: tuple[float, float],
    outputs: Float[Tensor, "t B P"],
) -> None:
    """Runs some steps of one direction: fills `outputs` and advances `hidden` and `cell` in place.

    `products` are those of the inputs with the bias, as `packed_lstm.prepare_gates` makes them, and `places` the rows
    in them of the `b` rows that have not ended at the first step. `limits` are those of `packed_lstm.Clips`.
    """
    library = load_library()
    assert library is not None
    steps, rows, size = outputs.shape
    cells = cell.shape[1]
    numbers = torch.tensor(active, dtype=torch.int64, device="cpu")
    keep = None if keep is None else keep.contiguous()
    places = places.contiguous()
    arrays = (products, places, numbers, keep, hidden, cell, outputs)
    f32 = torch.float32
    room = _room(
        (f32, rows * 4 * cells), (f32, rows * cells), (f32, rows), (torch.int16, rows * _even(max(size, cells)))
    )
    for array in (products, hidden, cell, outputs):
        assert array.dtype == torch.float32
        assert array.is_contiguous()
    assert places.dtype == torch.int64
    assert max(active) <= places.shape[1]
    reading = _Reading(
        *(steps, rows, places.shape[1], cells),
        *(state.weights, _Weights() if projection is None else projection.weights),
        *limits,
        *(None if array is None else array.data_ptr() for array in (*arrays, *room)),
    )
    _by_rows(library, library.read_rows, reading, rows)


def has_compiled() -> bool:
    """Returns whether the compiled products are available, right and fast. Only AVX2 has been measured."""
    fast = is_x86() and torch.backends.cpu.get_cpu_capability() in INSTRUCTIONS
    return fast and load_library() is not None


def _in_lanes(integers: Int8[Tensor, "size K"], library: ctypes.CDLL) -> Int8[Tensor, "blocks pairs lanes 2"]:
    """The weights as the C code reads them."""
    size, inputs = integers.shape
    lanes = library.lanes()
    padded = torch.nn.functional.pad(integers, (0, inputs % 2, 0, -size % (2 * lanes)))
    return padded.unflatten(1, (-1, 2)).unflatten(0, (-1, lanes)).transpose(1, 2).contiguous()


def _even(number: int) -> int:
    return number + number % 2


def _multiplied(library: ctypes.CDLL, weights: _Weights, x: Float[Tensor, "M K"]) -> Float[Tensor, "M size"]:
    rows, inputs = x.shape
    result = x.new_empty(rows, weights.size)
    room = _room((torch.float32, rows), (torch.int16, rows * _even(inputs)))
    product = _Product(weights, *(array.data_ptr() for array in (x, result, *room)))
    _by_rows(library, library.multiply_rows, product, rows)
    return result


def _by_rows(library: ctypes.CDLL, work: Callable[..., None], step: ctypes.Structure, rows: int) -> None:
    """Divides the rows among threads, each of which runs all steps of its rows, so that none waits for another."""
    shared(library, work, step, rows, 4, min(torch.get_num_threads(), -(-rows // ROWS_OF_A_THREAD)))


def _room(*parts: tuple[torch.dtype, int]) -> list[Tensor]:
    return [torch.empty(count, dtype=dtype, device="cpu") for dtype, count in parts]


def _has_vnni() -> bool:
    wide = torch.backends.cpu.get_cpu_capability() == "AVX512"
    return wide and bool(getattr(torch.cpu, "_is_vnni_supported", bool)())


@cache
def load_library() -> ctypes.CDLL | None:
    """Returns the loaded library; None if compiling fails or a sample product is wrong."""
    library = compiled("int8_reading.c", *VNNI * _has_vnni())
    return library if library is not None and _is_right(library) else None


def _is_right(library: ctypes.CDLL) -> bool:
    """Whether a sample product is exact. It has no random numbers, which would shift those of training."""
    rows, size, inputs = 5, 7, 83
    numbers = torch.arange(size * inputs, dtype=torch.float32, device="cpu")  # the caller may have other defaults
    x = (numbers[: rows * inputs] * 37 % 32768 - 16384).view(rows, inputs)
    x[:, 0] = 32767  # the scale is 1, so integers stay as they are
    weight = (numbers * 101 % 255 - 127).to(torch.int8).view(size, inputs)
    ones = torch.ones(size, device="cpu", dtype=torch.float32)
    integers = _in_lanes(weight, library)
    weights = _Weights(size, inputs, integers.data_ptr(), ones.data_ptr())
    return torch.equal(_multiplied(library, weights, x), (x.double() @ weight.double().T).float())
