"""Matrix products with weights that stay: packed once, for the library and the precision that run them fastest.

- `TorchProduct`: what `torch.mm` does; on a CPU in float32 that is MKL
- `OneDnnProduct`: oneDNN with the weights in its own layout, float32 or bfloat16; two to three times MKL's speed on
  some CPUs. Its operators are those that torch's compiler emits, and not public: they are probed for, never assumed.

Those of 8-bit integers are in `elmo.ops.int8`; which product is taken, in `elmo.ops.packing`.
"""

import platform
from functools import cache
from typing import Literal, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

Library = Literal["torch", "onednn", "fbgemm"]

ROWS = 128
"""Rows of an input that the layout of packed weights is chosen for; any number can be multiplied."""


@runtime_checkable
class Product(Protocol):
    """`x -> x W^T` in the data type that the product gives; `size` is how many numbers a row of the result has."""

    size: int

    def __call__(self, x: Float[Tensor, "M K"]) -> Float[Tensor, "M size"]: ...


class TorchProduct:
    """A product by `torch.mm`, in the weight's data type."""

    def __init__(self, weight: Float[Tensor, "size K"]) -> None:
        self.size = len(weight)
        self._weight = weight

    def __call__(self, x: Float[Tensor, "M K"]) -> Float[Tensor, "M size"]:
        return x.to(self._weight.dtype) @ self._weight.T


class OneDnnProduct:
    """A product by oneDNN, in the weight's data type."""

    def __init__(self, weight: Float[Tensor, "size K"]) -> None:
        self.size = len(weight)
        self._dtype = weight.dtype
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), ROWS)

    def __call__(self, x: Float[Tensor, "M K"]) -> Float[Tensor, "M size"]:
        rows = few_sizes(x.to(self._dtype))
        return torch.ops.mkldnn._linear_pointwise(rows, self._weight, None, "none", [], "")[: len(x)]


def few_sizes(x: Tensor) -> Tensor:
    """Rows of zeros added up to two leading binary digits of their number: 16, 24, 32, 48, 64, 96 ...

    oneDNN keeps a program and working memory for every number of rows that it has seen, up to a thousand of them.
    """
    step = 1 << max(0, len(x).bit_length() - 2)
    return torch.nn.functional.pad(x, (0, 0, 0, -len(x) % step)) if len(x) % step else x


def product(x: Float[Tensor, "*D M K"], weight: Float[Tensor, "*D N K"]) -> Float[Tensor, "*D M N"]:
    """`x W^T` with weights that were not packed, by the default library; with a leading dimension one for each.

    Not differentiated: for the forward and backward passes of functions that have their own gradient.
    """
    for_onednn = x.device.type == "cpu" and x.dtype == torch.float32 and x.numel() > 0
    if not for_onednn or default_library() == "torch":
        return x @ weight.mT
    if x.dim() == 3:
        return torch.stack([product(*pair) for pair in zip(x, weight, strict=True)])
    return torch.ops.mkldnn._linear_pointwise(x, weight, None, "none", [], "")


def default_library() -> Library:
    """oneDNN on x86 where it is found: never slower there, and up to three times as fast. Not chosen by a trial: a
    trial that came out otherwise would change the last bit of a run."""
    return "onednn" if is_x86() and has_onednn(torch.float32) else "torch"


def is_x86() -> bool:
    """Whether this is the kind of processor that oneDNN's own products are written for."""
    return platform.machine().lower() in ("x86_64", "amd64")


@cache
def has_onednn(dtype: torch.dtype) -> bool:
    """Whether oneDNN's product can be called from here and gives the right numbers."""
    if not torch.backends.mkldnn.is_available():
        return False
    # Not random: numbers drawn here would be missing from those of a training step. Integers are exact in bfloat16.
    weight, x = torch.arange(32.0).view(8, 4), torch.arange(12.0).view(3, 4)
    try:
        with torch.autocast("cpu", enabled=False):  # which would have the second product in bfloat16
            return torch.allclose(OneDnnProduct(weight.to(dtype))(x).float(), x @ weight.T, rtol=0.01)
    except (AttributeError, RuntimeError, TypeError):
        return False
