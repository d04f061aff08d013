"""Stores a weight as 8-bit rows: integers from -127 to 127, and a float32 scale for each row of the last dimension.

A number is `integer * scale`, rounded once to float32, so that every machine reads the same bits. A weight that was
read from 8-bit rows is stored as the same rows again, without a second error.
"""

import torch
from jaxtyping import Float, Int8
from torch import Tensor

from elmo.errors import InputError

LIMIT = 127
LARGE = 100_000
"""Weights with more numbers than this are stored as 8-bit rows."""
SHORTEST = 32
"""The fewest numbers of a row: a scale for fewer numbers, such as the width of a convolution, would save little."""
SMALLEST = torch.finfo(torch.float32).tiny
"""The smallest scale; smaller ones are inexact, or zero on some processors, so their rows are stored as zeros."""
LARGEST = torch.finfo(torch.float32).max


def fits(weight: Tensor) -> bool:
    """Returns whether a weight is stored as 8-bit rows."""
    return weight.ndim > 1 and weight.numel() > LARGE and weight.shape[-1] >= SHORTEST


def encode(weight: Float[Tensor, "*rows K"]) -> tuple[Int8[Tensor, "*rows K"], Float[Tensor, "*rows"]]:
    """Returns integers and scales. The largest magnitude of a row becomes 127.

    If one of five neighbouring float32 numbers gives the row back exactly, it is the scale.
    """
    middle = weight.abs().amax(-1)
    middle = middle / torch.full_like(middle, LIMIT)  # a GPU multiplies by the inverse of a number: other last bits
    middle = torch.where(middle < SMALLEST, 1.0, middle)
    up, down = (torch.nextafter(middle, torch.full_like(middle, end)) for end in (torch.inf, 0.0))
    scales = middle
    for tried in (up, down, torch.nextafter(up, up * 2), torch.nextafter(down, down / 2)):
        better = _is_exact(weight, tried) & ~_is_exact(weight, scales) & (tried >= SMALLEST)
        scales = torch.where(better, tried, scales)
    return _integers(weight, scales), scales


def decode(integers: Int8[Tensor, "*rows K"], scales: Float[Tensor, "*rows"]) -> Float[Tensor, "*rows K"]:
    """Returns the numbers in float32.

    Raises InputError for an integer below -127, and for a scale that is not a normal float32 number above zero.
    """
    if integers.numel() and integers.min() < -LIMIT:
        raise InputError(f"has integers of {int(integers.min())}; -{LIMIT} to {LIMIT} are expected")
    wrong = ~((scales >= SMALLEST) & (scales <= LARGEST))
    if wrong.any():
        raise InputError(
            f"has {int(wrong.sum()):,} of {scales.numel():,} scales that are not normal float32 numbers above zero (the"
            f" first is {float(scales[wrong][0])})"
        )
    return integers.float().mul_(scales[..., None])


def _integers(weight: Tensor, scales: Tensor) -> Tensor:
    return (weight / scales[..., None]).round_().clamp_(-LIMIT, LIMIT).to(torch.int8)


def _is_exact(weight: Tensor, scales: Tensor) -> Tensor:
    """Whether the scale of each row gives its numbers back exactly."""
    return (_integers(weight, scales).float().mul_(scales[..., None]) == weight).all(-1)
