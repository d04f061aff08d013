"""Matrix products of 8-bit integers, with the same results on every processor.

- Each input row and each output's weights have their own scale, so a row does not depend on the rest of the batch.
- x86 processors without VNNI add the products of two neighbouring inputs in 16 bits, which saturate. So the weights of
  such a pair are scaled to add up to at most 127: no sum saturates, and all processors get the same integers. The
  error is an eighth larger than with every weight up to 127 (docs/log.md, 2026-11-23).
"""

import warnings

import torch
from jaxtyping import Float, Int8
from torch import Tensor

from elmo.ops.products import ROWS, few_sizes

LIMIT = 127
ZERO = 128
"""The number that is added to inputs: the fast products need unsigned ones, so -127 to 127 become 1 to 255."""


def quantize_rows(weight: Float[Tensor, "size K"]) -> tuple[Int8[Tensor, "size K"], Float[Tensor, " size"]]:
    """Returns integers and one scale per output: `weight` is about `integers * scales[:, None]`."""
    pairs = torch.nn.functional.pad(weight.abs(), (0, weight.shape[1] % 2)).unflatten(1, (-1, 2)).sum(2)
    scales = pairs.amax(dim=1).clamp(min=1e-12) / LIMIT
    # Rounding may make a pair 128, and 255 * 128 is still below 2 ** 15.
    return (weight / scales[:, None]).round().to(torch.int8), scales


class FbgemmInt8Product:
    """A product of 8-bit integers by FBGEMM; the result is float32.

    torch plans to remove its operators, so their presence is probed, never assumed.
    """

    def __init__(self, weight: Float[Tensor, "size K"]) -> None:
        self.size = len(weight)
        integers, scales = quantize_rows(weight)
        zeros = torch.zeros_like(scales, dtype=torch.long)
        engine = torch.backends.quantized.engine
        try:
            torch.backends.quantized.engine = "fbgemm"
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                rows = torch._make_per_channel_quantized_tensor(integers, scales.double(), zeros, 0)  # pyright: ignore[reportPrivateImportUsage]
                self._weight = torch.ops.quantized.linear_prepack(rows, None)
        finally:
            torch.backends.quantized.engine = engine

    def __call__(self, x: Float[Tensor, "M K"]) -> Float[Tensor, "M size"]:
        largest = _largest(x)
        product = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32
        return product(x * (LIMIT / largest), 1.0, ZERO, self._weight).mul_(largest / LIMIT)


class OneDnnInt8Product:
    """A product of 8-bit integers by oneDNN; the result is float32."""

    def __init__(self, weight: Float[Tensor, "size K"]) -> None:
        self.size = len(weight)
        integers, scales = quantize_rows(weight)
        self._scales = scales / LIMIT  # this includes the scales of the inputs
        self._zero = scales.new_tensor(ZERO + 0.5)
        self._zeros = torch.zeros_like(scales, dtype=torch.long)
        self._weight = torch.ops.onednn.qlinear_prepack(integers, [ROWS, weight.shape[1]])

    def __call__(self, x: Float[Tensor, "M K"]) -> Float[Tensor, "M size"]:
        largest = _largest(x)
        integers = torch.addcmul(self._zero, x, LIMIT / largest).to(
            torch.uint8
        )  # adding a half turns truncation into rounding
        weight = (self._weight, self._scales, self._zeros)
        result = torch.ops.onednn.qlinear_pointwise(
            few_sizes(integers), 1.0, ZERO, *weight, None, 1.0, 0, torch.float32, "none", [], ""
        )
        return result[: len(x)].mul_(largest)


def _largest(x: Float[Tensor, "M K"]) -> Float[Tensor, "M 1"]:
    """The largest magnitude of each row, which becomes 127."""
    # vector_norm gives the same result, but takes ten times as long.
    return x.abs().amax(dim=1, keepdim=True).clamp_(min=1e-12)
