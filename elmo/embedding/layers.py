"""Which layers a user wants, by name.

"all", "average", "sum", "top", "concat" (all layers of a token side by side, layer 0 first), a layer's number (0 is the
token layer), or one weight for every layer.
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
CHOICES = "'all', 'average', 'sum', 'top', 'concat', a number from 0 to {last}, or {n} weights"


def parse_layers(text: str) -> Layers:
    """The choice of layers as it stands on a command line: a name, `1`, or weights such as `0.2,0.3,0.5`."""
    try:
        return [float(weight) for weight in text.split(",")] if "," in text else int(text)
    except ValueError:
        return text


def selection(layers: Layers, n_layers: int) -> Selection:
    """A function of all layers that gives what is wanted: (N, B, T, D) for "all" and "concat", else (B, T, D).

    A sentence's layers are put side by side when they are whole: `elmo.embedding.pooling.shaping`. Weights are used
    as they are: neither normalised nor passed through a softmax.
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
    with torch.autocast(every.device.type, enabled=False):  # on a GPU it would make a bfloat16 product of this sum
        return torch.einsum("n,nbtd->btd", every.new_tensor(weights), every)
