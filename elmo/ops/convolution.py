"""Convolution over characters and maximum over positions, as one matrix product per filter width.

The maximum is computed without its position, and the backward pass finds it again: many times faster.
"""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from elmo.ops.char_windows import CompiledWindows, can_compile_windows
from elmo.ops.packing import Precision, choose_library, pack_words
from elmo.ops.products import Library, Product, product, product_dtype


def convolve_max(
    characters: Float[Tensor, "W C E"], weight: Float[Tensor, "n E width"], bias: Float[Tensor, " n"]
) -> Float[Tensor, "W n"]:
    """Returns `max over positions of (weight * characters + bias)`; there must be at least `width` characters."""
    if torch.compiler.is_exporting():
        return torch.conv1d(characters.mT, weight, bias).amax(dim=2)
    return _ConvolveMax.apply(characters, weight, bias, product_dtype(characters))  # type: ignore[no-any-return]


def pack_windows(
    embedding: Float[Tensor, "K E"],
    weights: Sequence[Float[Tensor, "_ E _"]],
    precision: Precision,
    library: Library | None,
) -> "CompiledWindows | PackedWindows":
    """Returns `convolve_max` for filters of several widths (n, E, width), packed, without gradients and biases.

    It is a function of characters (W, C), and its results (W, n) are side by side.
    """
    if choose_library(precision, library) == "compiled" and can_compile_windows(embedding, weights):
        return CompiledWindows(embedding, weights)
    return PackedWindows(embedding, weights, precision, library)


class PackedWindows:
    """`pack_windows` by one product for each width, in the precision of `pack_words`."""

    def __init__(
        self,
        embedding: Float[Tensor, "K E"],
        weights: Sequence[Float[Tensor, "_ E _"]],
        precision: Precision,
        library: Library | None,
    ) -> None:
        self._embedding = embedding
        self._products = [(weight.shape[2], pack_words(_flat(weight), precision, library)) for weight in weights]

    def __call__(self, char_ids: Int[Tensor, "W C"]) -> Float[Tensor, "W n"]:
        characters = torch.nn.functional.embedding(char_ids, self._embedding)
        return torch.cat([self._largest(characters, width, product) for width, product in self._products], dim=1)

    def _largest(self, characters: Float[Tensor, "W C E"], width: int, product: Product) -> Float[Tensor, "W n"]:
        windows = _windows(characters, width)
        scores = product(windows.flatten(0, 1)).view(*windows.shape[:2], product.size)
        return scores.amax(dim=1).to(characters.dtype)


class _ConvolveMax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, characters: Tensor, weight: Tensor, bias: Tensor, dtype: torch.dtype) -> Tensor:
        windows = _windows(characters.to(dtype), weight.shape[2])
        scores = product(windows.flatten(0, 1), _flat(weight).to(dtype)).view(*windows.shape[:2], len(weight))
        best = scores.amax(dim=1)
        ctx.save_for_backward(characters, weight, scores, best)
        return best.to(characters.dtype) + bias

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor, Tensor, None]:  # type: ignore[override]
        characters, weight, scores, best = ctx.saved_tensors
        windows = _windows(characters.to(scores.dtype), weight.shape[2])
        words, places, _ = windows.shape
        # The position of the maximum gets the gradient; ties share it, as in `torch.amax`.
        winners = torch.eq(scores, best[:, None], out=torch.empty_like(scores))  # without a pass over booleans
        to_scores = winners.mul_((gradient / winners.sum(1)).to(scores.dtype)[:, None]).flatten(0, 1)
        to_weight = product(windows.flatten(0, 1).T, to_scores.T).T.to(weight.dtype)
        to_weight = to_weight.view(weight.shape[0], weight.shape[2], weight.shape[1]).transpose(1, 2)
        to_windows = product(to_scores, _flat(weight).to(scores.dtype).T)
        to_windows = to_windows.view(words, places, weight.shape[2], weight.shape[1])
        to_characters = torch.zeros_like(characters)
        for offset in range(weight.shape[2]):
            to_characters[:, offset : offset + places] += to_windows[:, :, offset]
        return to_characters, to_weight, gradient.sum(0), None


def _windows(characters: Float[Tensor, "W C E"], width: int) -> Float[Tensor, "W places size"]:
    """Each window of `width` characters as one row (width x E)."""
    return characters.unfold(1, width, 1).transpose(2, 3).flatten(2)


def _flat(weight: Float[Tensor, "n E width"]) -> Float[Tensor, "n size"]:
    return weight.transpose(1, 2).flatten(1)
