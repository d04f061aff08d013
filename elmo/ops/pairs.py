"""Computes an affine map of the products of pairs of rows, without all products in memory at once."""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from elmo.ops.products import product

PAIRS_AT_ONCE = 1024
"""The pairs of a block; their products stay in the cache until they are used."""


def multiplied_pairs(
    rows: Float[Tensor, "M K"],
    weight: Float[Tensor, "N K"],
    first: Int[Tensor, " pairs"],
    second: Int[Tensor, " pairs"],
) -> Float[Tensor, "pairs N"]:
    """Returns `(rows[first] * rows[second]) weight^T`; the backward pass computes the products again."""
    return _MultipliedPairs.apply(rows, weight, first, second)  # type: ignore[no-any-return]


class _MultipliedPairs(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor, first: Tensor, second: Tensor) -> Tensor:
        weight = weight.contiguous()  # oneDNN is a hundred times slower on a slice of a wider matrix
        ctx.save_for_backward(rows, weight, first, second)
        result = rows.new_empty(len(first), len(weight))
        parts = zip(*(part.split(PAIRS_AT_ONCE) for part in (result, first, second)), strict=True)
        for part, one, other in parts:
            part.copy_(product(rows.index_select(0, one).mul_(rows.index_select(0, other)), weight))
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        rows, weight, first, second = ctx.saved_tensors
        gradient = gradient.contiguous()
        to_rows, to_weight, back = torch.zeros_like(rows), torch.zeros_like(weight), weight.T.contiguous()
        parts = zip(*(part.split(PAIRS_AT_ONCE) for part in (gradient, first, second)), strict=True)
        for part, one, other in parts:
            left, right = rows.index_select(0, one), rows.index_select(0, other)
            to_joined = product(part, back)
            to_weight += product((left * right).T, part.T).T
            to_rows.index_add_(0, one, right.mul_(to_joined))
            to_rows.index_add_(0, other, left.mul_(to_joined))
        return to_rows, to_weight, None, None
