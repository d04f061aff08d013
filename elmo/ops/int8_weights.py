"""Products of 8-bit weights with bfloat16 inputs: for one sentence at a time, reading the weights takes most time.

The definition, whatever the number of rows: inputs are rounded to bfloat16; sums with the integers are in float32 and
rounded to bfloat16; then comes the scale of each output, in float32. Few rows use torch's product for 8-bit weights,
many rows one of bfloat16 or float32, in which the integers are exact. So a row's result depends on the other rows only
where two orders of one sum are rounded to neighbouring numbers of bfloat16.
"""

from collections.abc import Sequence
from functools import cache

import torch
from jaxtyping import BFloat16, Float, Int8
from torch import Tensor

from elmo.ops.int8 import LIMIT
from elmo.ops.products import OneDnnProduct, TorchProduct, is_x86

FEW_ROWS = {torch.bfloat16: 7, torch.float32: 15}
"""The most rows for which torch's product is the faster one, by the data type of the other; see docs/speed.md."""
LANES = 32
"""torch's product reads beyond the end of rows that are not a multiple of this."""


def row_quantized(weight: Float[Tensor, "size K"]) -> tuple[Int8[Tensor, "size K"], Float[Tensor, " size"]]:
    """Returns integers up to 127 and one scale per output, which are exact for weights that were stored so."""
    scales = weight.abs().amax(dim=1).clamp(min=1e-35) / LIMIT
    return (weight / scales[:, None]).round().to(torch.int8), scales


def is_row_quantized(weight: Float[Tensor, "size K"]) -> bool:
    """Returns whether `row_quantized` is exact, as it is for weights that were stored so."""
    integers, scales = row_quantized(weight.float())
    return torch.allclose(integers * scales[:, None], weight.float(), rtol=1e-6, atol=0)


class Int8WeightsProduct:
    """A product with 8-bit weights; the result is float32."""

    def __init__(
        self, weight: Float[Tensor, "size K"], many: type[OneDnnProduct] | type[TorchProduct], dtype: torch.dtype
    ) -> None:
        """`many` multiplies many rows, in the data type `dtype`."""
        self.size = len(weight)
        integers, self.scales = row_quantized(weight)
        self._many, self._dtype = many(integers.to(dtype)), dtype
        self.few_rows = FEW_ROWS[dtype] if has_few_rows() and weight.shape[1] % LANES == 0 else 0
        """The most rows for `few`; 0 if it cannot be used."""
        self._integers = integers if self.few_rows else integers[:0]
        self._ones = torch.ones_like(self.scales, dtype=torch.bfloat16)

    def __call__(self, x: Float[Tensor, "M K"]) -> Float[Tensor, "M size"]:
        x = x.bfloat16()
        few = 0 < x.shape[0] <= self.few_rows
        return (self.few(x) if few else self._many(x.to(self._dtype)).bfloat16()) * self.scales

    def few(self, x: BFloat16[Tensor, "M K"]) -> BFloat16[Tensor, "M size"]:
        """Returns the product of few rows, before its scales."""
        return torch._weight_int8pack_mm(x, self._integers, self._ones)  # pyright: ignore[reportPrivateImportUsage]


class FewRowsOfBoth:
    """The products of both directions for few rows each; their scales come after the call."""

    def __init__(self, products: Sequence[Int8WeightsProduct]) -> None:
        self._first, self._second = products
        self.scales = torch.stack([product.scales for product in products])[:, None]  # 2 1 size

    def __call__(self, x: Float[Tensor, "2 M K"]) -> BFloat16[Tensor, "2 M size"]:
        first, second = x.bfloat16().unbind(0)
        return torch.stack([self._first.few(first), self._second.few(second)])


@cache
def has_few_rows() -> bool:
    """Returns whether torch's product of few rows with 8-bit weights is available, correct and fast.

    It is private, so it is tried. Without AVX2 it is slower than float32; on other processors it is not measured.
    """
    if not is_x86() or torch.backends.cpu.get_cpu_capability() not in ("AVX2", "AVX512"):
        return False
    numbers = torch.arange(5 * LANES, dtype=torch.float32, device="cpu")  # the caller may have other defaults
    weight, x = (numbers % 255 - 127).view(5, LANES), (numbers[: 3 * LANES] % 7 - 3).view(3, LANES)
    ones = torch.ones(5, dtype=torch.bfloat16, device="cpu")
    try:
        with torch.autocast("cpu", enabled=False):  # autocast would compute the second product in bfloat16
            seen = torch._weight_int8pack_mm(x.bfloat16(), weight.to(torch.int8), ones)  # pyright: ignore[reportPrivateImportUsage]
            return torch.equal(seen, (x @ weight.T).bfloat16())
    except (AttributeError, RuntimeError, TypeError):
        return False
