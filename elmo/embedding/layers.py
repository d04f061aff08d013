"""Selects layers by name.

"all", "average", "sum", "top", "concat" (all layers of a token concatenated, layer 0 first), a layer's number (0 is the
token layer), or one weight per layer.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from elmo.errors import InputError

Layers = str | int | Sequence[float]
Selection = Callable[[Float[Tensor, "N B T D"]], Tensor]
CHOICES = "'all', 'average', 'sum', 'top', 'concat', a number from 0 to {last}, or a list of {n} weights"


def parse_layers(text: str) -> Layers:
    """Parses the choice of layers on a command line: a name, `1`, or weights such as `0.2,0.3,0.5`."""
    try:
        return [float(weight) for weight in text.split(",")] if "," in text else int(text)
    except ValueError:
        return text


def selection(layers: Layers, n_layers: int) -> Selection:
    """A function that selects from all layers: (N, B, T, D) for "all" and "concat", else (B, T, D).

    `elmo.embedding.pooling.shaping` concatenates a whole sentence's layers. Weights are used as they are: neither
    normalised nor passed through a softmax.
    """
    if isinstance(layers, str):
        names: dict[str, Selection] = {
            "all": lambda every: every,
            "concat": lambda every: every,
            "average": lambda every: every.mean(dim=0),
            "sum": lambda every: every.sum(dim=0),
            "top": lambda every: every[-1],
        }
        if layers in names:
            return names[layers]
    elif isinstance(layers, int | np.integer) and not isinstance(layers, bool):
        if 0 <= layers < n_layers:
            return lambda every: every[int(layers)]
    elif isinstance(layers, Sequence) and len(layers) == n_layers:
        weights = [float(weight) for weight in layers]
        if not all(map(math.isfinite, weights)):
            raise InputError(f"layers is {layers!r}; finite weights are expected")
        return lambda every: _mixed(every, weights)
    choices = CHOICES.format(last=n_layers - 1, n=n_layers)
    raise InputError(f"layers is {layers!r}; this model has {n_layers} layers of vectors: {choices} are possible")


def _mixed(every: Float[Tensor, "N B T D"], weights: list[float]) -> Float[Tensor, "B T D"]:
    with torch.autocast(every.device.type, enabled=False):  # else this sum becomes a bfloat16 product on a GPU
        return torch.einsum("n,nbtd->btd", every.new_tensor(weights), every)
