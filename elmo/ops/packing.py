"""Chooses this CPU's products: each precision and library is tried once, on numbers that would reveal its faults.

Neither the processor's name nor a timing decides: timings vary, and another choice would change the last bits of a run.
"""

from dataclasses import dataclass
from functools import cache
from typing import Literal, NoReturn, Self

import torch
from jaxtyping import Float
from torch import Tensor, nn

from elmo.ops.int8 import FbgemmInt8Product, OneDnnInt8Product
from elmo.ops.int8_reading import CompiledProduct, has_compiled
from elmo.ops.int8_weights import Int8WeightsProduct, has_few_rows, is_row_quantized
from elmo.ops.products import Library, OneDnnProduct, Product, TorchProduct, default_library, has_onednn, is_x86

Precision = Literal["float32", "bfloat16", "int8", "int8-weights"]


@dataclass(frozen=True)
class Support:
    """The libraries that multiply in one precision on this CPU."""

    libraries: tuple[Library, ...]
    """The libraries with correct results, fastest first; empty if the precision is not available."""
    problem: str = ""
    """The reason why the precision is not available or float32 is the better choice; otherwise empty."""


@cache
def find_support(precision: Precision) -> Support:
    """Finds the libraries for `precision` on this CPU by running them."""
    if precision == "float32":
        return Support(("onednn", "torch") if default_library() == "onednn" else ("torch",))
    if precision == "int8":
        found: tuple[Library, ...] = tuple(library for library in INT8 if _is_exact(library))
        return Support(found, "" if found else "no library of this torch multiplies 8-bit integers exactly on this CPU")
    if precision == "int8-weights":
        slow = "this CPU has no fast product of few rows with 8-bit weights, so float32 is the better choice"
        others = find_support(_of_many_rows()).libraries
        if has_compiled():
            return Support(("compiled", *others))
        return Support(others, "" if has_few_rows() else slow)
    onednn = is_x86() and has_onednn(torch.bfloat16)
    if not _multiplies_bfloat16() or (is_x86() and not onednn):
        return Support(("torch",), "this CPU has no bfloat16 instructions, so float32 is faster")
    return Support(("onednn", "torch") if onednn else ("torch",))


class PackedModule(nn.Module):
    """A module of packed products. torch cannot copy them and nothing changes them, so a copy is the module itself."""

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("a model packed for this CPU cannot be pickled; load the model in each process")


def choose_library(precision: Precision, library: Library | None) -> Library:
    """Returns the library if it multiplies in this precision, else the fastest one that does."""
    libraries = find_support(precision).libraries
    return library if library in libraries else libraries[0]


def pack(weight: Float[Tensor, "size K"], precision: Precision, library: Library | None = None) -> Product:
    """Returns the product with a copy of `weight` on a CPU, by the library that `choose_library` chooses."""
    library = choose_library(precision, library)
    if precision == "int8":
        return INT8[library](weight.float())
    if library == "compiled":
        return CompiledProduct(weight.float())
    kind = OneDnnProduct if library == "onednn" else TorchProduct
    if precision == "int8-weights":
        return Int8WeightsProduct(weight.float(), kind, getattr(torch, _of_many_rows()))
    return kind(weight.to(getattr(torch, precision), copy=library == "torch"))  # oneDNN makes its own


def pack_words(weight: Float[Tensor, "size K"], precision: Precision, library: Library | None) -> Product:
    """Returns the product of a token encoder in a model of this precision.

    A word's vector is computed once, so its error matters more than its time: weights of 8 bits are used only where
    they are exact, and else float32.
    """
    if precision not in ("int8", "int8-weights"):
        return pack(weight, precision, library)
    if choose_library(precision, library) == "compiled" and is_row_quantized(weight):
        return pack(weight, precision, "compiled")
    return pack(weight, "float32", library)


def _of_many_rows() -> Precision:
    """The precision in which int8-weights multiplies many rows."""
    return "float32" if find_support("bfloat16").problem else "bfloat16"


INT8: dict[Library, type[FbgemmInt8Product] | type[OneDnnInt8Product]] = {
    "fbgemm": FbgemmInt8Product,
    "onednn": OneDnnInt8Product,
}
"""The products of every precision, the fastest first; see docs/speed.md."""


def _is_exact(library: Library) -> bool:
    """Whether a library adds extreme integers without saturation.

    Inputs are 255, the largest; the weights of each pair are at their limit, those of other neighbours beyond it.
    """
    halves = [[2, 0, 2, 0], [2, 0, 0, 2], [0, 2, 2, 0], [1, 1, 1, 1]]
    patterns = torch.tensor(halves, dtype=torch.float32, device="cpu") / 2  # the caller may have other defaults
    weight = torch.cat([patterns, -patterns]).repeat(4, 16)
    x = torch.stack([torch.ones_like(weight[0]), -torch.ones_like(weight[0])])
    try:
        with torch.autocast("cpu", enabled=False):  # autocast would compute the second product in bfloat16
            return torch.allclose(INT8[library](weight)(x), x @ weight.T, rtol=0, atol=0.5)
    except (AttributeError, RuntimeError, TypeError):
        return False


def _multiplies_bfloat16() -> bool:
    """Whether the processor has bfloat16 instructions; without them bfloat16 is several times slower."""
    if is_x86():
        return any(getattr(torch.cpu, name, bool)() for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"))
    try:
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    except (AttributeError, RuntimeError):
        return False
