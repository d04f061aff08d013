"""Computes an affine map and its gradient with the default library of `elmo.ops.products`."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from elmo.ops.precision import product_dtype
from elmo.ops.products import product


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
