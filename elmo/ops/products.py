"""Matrix products in the fastest library: with fixed weights, packed once, and with weights that are learned.

- `TorchProduct` is `torch.mm`, which is MKL on a CPU in float32.
- `OneDnnProduct` is oneDNN in float32 or bfloat16, with the weights in its own layout; on some CPUs it is two to three
  times as fast as MKL. It uses private operators that torch's compiler emits, so their presence is probed.

`linear` has a gradient. `elmo.ops.int8` has the products of 8-bit integers; `elmo.ops.packing` chooses the product.
"""

import platform
from functools import cache
from typing import Any, Literal, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

Library = Literal["torch", "onednn", "fbgemm", "compiled"]

ROWS = 128
"""The input rows that the packed layout is optimised for; any number works."""


@runtime_checkable
class Product(Protocol):
    """A function from `x` to `x W^T`, in the product's data type; `size` is the length of a result row."""

    size: int

    def __call__(self, x: Float[Tensor, "M K"]) -> Float[Tensor, "M size"]: ...


class TorchProduct:
    """A product with `torch.mm`, in the weight's data type."""

    def __init__(self, weight: Float[Tensor, "size K"]) -> None:
        self.size = len(weight)
        self._weight = weight

    def __call__(self, x: Float[Tensor, "M K"]) -> Float[Tensor, "M size"]:
        return x.to(self._weight.dtype) @ self._weight.T


class OneDnnProduct:
    """A product with oneDNN, in the weight's data type."""

    def __init__(self, weight: Float[Tensor, "size K"]) -> None:
        self.size = len(weight)
        self._dtype = weight.dtype
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), ROWS)

    def __call__(self, x: Float[Tensor, "M K"]) -> Float[Tensor, "M size"]:
        rows = few_sizes(x.to(self._dtype))
        return torch.ops.mkldnn._linear_pointwise(rows, self._weight, None, "none", [], "")[: len(x)]


def few_sizes(x: Tensor) -> Tensor:
    """Pads with zero rows to a number with two leading binary digits: 16, 24, 32, 48, 64, 96 ...

    oneDNN keeps a program and working memory for up to a thousand numbers of rows that it has seen, so they are few.
    """
    step = 1 << max(0, len(x).bit_length() - 2)
    return torch.nn.functional.pad(x, (0, 0, 0, -len(x) % step)) if len(x) % step else x


def product(x: Float[Tensor, "*D M K"], weight: Float[Tensor, "*D N K"]) -> Float[Tensor, "*D M N"]:
    """Returns `x W^T` with unpacked weights and the default library, batched over a leading dimension.

    It is not differentiable; functions with their own gradient use it in their forward and backward passes.
    """
    for_onednn = x.device.type == "cpu" and x.dtype == torch.float32 and x.numel() > 0
    if not for_onednn or default_library() == "torch":
        return x @ weight.mT
    if x.dim() == 3:
        return torch.stack([product(*pair) for pair in zip(x, weight, strict=True)])
    return torch.ops.mkldnn._linear_pointwise(x, weight, None, "none", [], "")


def product_dtype(like: Tensor) -> torch.dtype:
    """Returns the data type that autocast uses on the device of `like`, or the type of `like` without autocast."""
    device = like.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else like.dtype


def linear(x: Float[Tensor, "W K"], weight: Float[Tensor, "N K"], bias: Float[Tensor, " N"]) -> Float[Tensor, "W N"]:
    """Returns `x W^T + b`. Under autocast and for torch.export it calls `torch.nn.functional.linear`."""
    if product_dtype(x) != x.dtype or torch.compiler.is_exporting():
        return torch.nn.functional.linear(x, weight, bias)
    return _Linear.apply(x, weight, bias)  # type: ignore[no-any-return]


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return product(x, weight).add_(bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor]:  # type: ignore[override]
        x, weight = ctx.saved_tensors
        return product(gradient, weight.T), product(gradient.T, x.T), gradient.sum(0)


def default_library() -> Library:
    """Returns oneDNN on x86 if it is available, where it is never slower and up to three times as fast, else torch.

    No timing decides, since another choice would change the last bits of a run.
    """
    return "onednn" if is_x86() and has_onednn(torch.float32) else "torch"


def is_x86() -> bool:
    """Returns whether this is an x86 processor, for which oneDNN has its own products."""
    return platform.machine().lower() in ("x86_64", "amd64")


@cache
def has_onednn(dtype: torch.dtype) -> bool:
    """Returns whether oneDNN's product is available and correct."""
    if not torch.backends.mkldnn.is_available():
        return False
    # Not random, since drawing would shift the random numbers of training. Integers are exact in bfloat16.
    numbers = torch.arange(32, dtype=torch.float32, device="cpu")  # the caller may have other defaults
    weight, x = numbers.view(8, 4), numbers[:12].view(3, 4)
    try:
        with torch.autocast("cpu", enabled=False):  # autocast would compute the second product in bfloat16
            return torch.allclose(OneDnnProduct(weight.to(dtype))(x).float(), x @ weight.T, rtol=0.01)
    except (AttributeError, RuntimeError, TypeError):
        return False
