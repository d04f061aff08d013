"""Convolution over characters and maximum over positions, as one matrix product a filter width.

Only the position that wins the maximum has a gradient, so the backward pass rebuilds that sparse gradient and never
stores the full output of the convolution.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from elmo.ops.precision import product_dtype


def convolve_max(
    characters: Float[Tensor, "W C E"], weight: Float[Tensor, "n E width"], bias: Float[Tensor, " n"]
) -> Float[Tensor, "W n"]:
    """`max over positions of (weight * characters + bias)`; at least `width` characters are needed."""
    return _ConvolveMax.apply(characters, weight, bias, product_dtype(characters))  # type: ignore[no-any-return]


class _ConvolveMax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, characters: Tensor, weight: Tensor, bias: Tensor, dtype: torch.dtype) -> Tensor:
        windows = _windows(characters.to(dtype), weight.shape[2])
        scores = windows.flatten(0, 1) @ _flat(weight).to(dtype).T
        best, position = scores.view(*windows.shape[:2], -1).max(dim=1)
        ctx.save_for_backward(characters, weight, position)
        ctx.dtype = dtype
        return best.to(characters.dtype) + bias

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor, Tensor, None]:  # type: ignore[override]
        characters, weight, position = ctx.saved_tensors
        windows = _windows(characters.to(ctx.dtype), weight.shape[2])
        words, places, _ = windows.shape
        scattered = windows.new_zeros(words, places, gradient.shape[1])
        scattered.scatter_(1, position[:, None], gradient.to(ctx.dtype)[:, None])
        scattered = scattered.flatten(0, 1)
        to_weight = (scattered.T @ windows.flatten(0, 1)).to(weight.dtype)
        to_weight = to_weight.view(weight.shape[0], weight.shape[2], weight.shape[1]).transpose(1, 2)
        to_windows = (scattered @ _flat(weight).to(ctx.dtype)).view(words, places, weight.shape[2], -1)
        to_characters = torch.zeros_like(characters)
        for offset in range(weight.shape[2]):
            to_characters[:, offset : offset + places] += to_windows[:, :, offset]
        return to_characters, to_weight, gradient.sum(0), None


def _windows(characters: Float[Tensor, "W C E"], width: int) -> Float[Tensor, "W places size"]:
    """Every run of `width` characters as one row (width x E)."""
    return characters.unfold(1, width, 1).transpose(2, 3).flatten(2)


def _flat(weight: Float[Tensor, "n E width"]) -> Float[Tensor, "n size"]:
    return weight.transpose(1, 2).flatten(1)
