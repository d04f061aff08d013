"""Matrix products with weights that stay: packed once, for the library and the precision that run them fastest.

- `TorchProduct`: what `torch.mm` does; on a CPU in float32 that is MKL
- `OneDnnProduct`: oneDNN with the weights in its own layout, float32 or bfloat16; two to three times MKL's speed on
  some CPUs. Its operators are those that torch's compiler emits, and not public: they are probed for, never assumed.
- `Int8Product`: 8-bit integers with one scale for each row of the input and for each output, so that the result of a
  row does not depend on its batch mates
"""

import platform
from functools import cache
from typing import Literal, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

Precision = Literal["float32", "bfloat16", "int8"]
Library = Literal["torch", "onednn"]

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
        rows = _few_sizes(x.to(self._dtype))
        return torch.ops.mkldnn._linear_pointwise(rows, self._weight, None, "none", [], "")[: len(x)]


class Int8Product:
    """A product of 8-bit integers by oneDNN; the result is float32.

    An input row is scaled by its largest value, which is then 127; the weights of every output likewise.
    """

    def __init__(self, weight: Float[Tensor, "size K"]) -> None:
        self.size = len(weight)
        scales = weight.abs().amax(dim=1).clamp(min=1e-12) / 127
        self._scales = scales / 127  # those of the inputs are put in here, too
        self._zero = torch.tensor(128.5)
        self._zeros = torch.zeros(len(weight), dtype=torch.long)
        integers = (weight / scales[:, None]).round_().to(torch.int8)
        self._weight = torch.ops.onednn.qlinear_prepack(integers, [ROWS, weight.shape[1]])

    def __call__(self, x: Float[Tensor, "M K"]) -> Float[Tensor, "M size"]:
        largest = torch.linalg.vector_norm(x, torch.inf, dim=1, keepdim=True).clamp_(min=1e-12)
        # Unsigned, with 128 for zero: oneDNN's fast product takes unsigned inputs. The half rounds what is cut off.
        integers = torch.addcmul(self._zero, x, 127 / largest).to(torch.uint8)
        weight = (self._weight, self._scales, self._zeros)
        result = torch.ops.onednn.qlinear_pointwise(
            _few_sizes(integers), 1.0, 128, *weight, None, 1.0, 0, torch.float32, "none", [], ""
        )
        return result[: len(x)].mul_(largest)


def _few_sizes(x: Tensor) -> Tensor:
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


def pack(weight: Float[Tensor, "size K"], precision: Precision, library: Library | None = None) -> Product:
    """The product with `weight`; `library` is `default_library()` unless it is given. CPU only."""
    if precision == "int8":
        return Int8Product(weight)
    weight = weight.to(getattr(torch, precision))
    library = library or default_library()
    return OneDnnProduct(weight) if library == "onednn" else TorchProduct(weight)


def default_library() -> Library:
    """oneDNN on x86 where it is found: never slower there, and up to three times as fast. Not chosen by a trial: a
    trial that came out otherwise would change the last bit of a run."""
    return "onednn" if platform.machine().lower() in ("x86_64", "amd64") and has_onednn() else "torch"


@cache
def has_onednn() -> bool:
    """Whether oneDNN's product can be called from here and gives the right numbers."""
    if not torch.backends.mkldnn.is_available():
        return False
    # Not random: numbers drawn here would be missing from those of a training step.
    weight, x = torch.arange(32.0).view(8, 4), torch.arange(12.0).view(3, 4)
    try:
        return torch.allclose(OneDnnProduct(weight)(x), x @ weight.T)
    except (AttributeError, RuntimeError, TypeError):
        return False
