"""Selects layers. A choice of layers is one of these:

- "all", "average", "sum", "top" or "concat" (all layers of a token concatenated, layer 0 first)
- the number of a layer (0 is the token layer, -1 the top), or a list of such numbers for several layers
- a mix with one weight per layer: "mix=0.2,0.3,0.5", or a list of numbers of which at least one is a float
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from elmo.errors import InputError, did_you_mean, is_whole, shown

Layers = str | int | Sequence[int] | Sequence[float]
Selection = Callable[[Float[Tensor, "N B T D"]], Tensor]
MIX = "mix="
LARGEST_WEIGHT = 1e30
"""The largest weight of a mix; with one near the limit of 32 bits, vectors would be infinite."""
NAMES = ("all", "average", "sum", "top", "concat")
CHOICES = (
    "'all', 'average', 'sum', 'top', 'concat', a number from 0 to {last} (-1 is the top), a list of such numbers, or a"
    " mix: 'mix=' and {n} weights"
)


def parse_layers(text: str) -> Layers:
    """Parses the choice of layers on a command line: a name, `1`, `0,2`, or a mix such as `mix=0.2,0.3,0.5`."""
    parts = text.split(",")
    for number in (int, float):
        try:
            found = [number(part) for part in parts]
        except ValueError:
            continue
        return found if "," in text else int(text) if number is int else text
    return text


def written_layers(layers: Layers) -> str:
    """Writes the choice as `parse_layers` reads it. Equal choices give the same text, for records."""
    layers = listed(layers)
    if isinstance(layers, str):
        return layers
    if isinstance(layers, int | np.integer):
        return str(int(layers))
    return ("" if _are_whole(layers) else MIX) + ",".join(map(repr, np.asarray(layers).tolist()))


def keeps_layers(layers: Layers) -> bool:
    """Returns whether the vectors keep an axis of layers: (N, T, D) instead of (T, D)."""
    return layers == "all" if isinstance(layers, str) else _are_whole(listed(layers))


def check_one_vector(layers: Layers, item: str = "token") -> None:
    """Raises InputError for layers that give several vectors for each token, or for each `item`."""
    if keeps_layers(layers):
        raise InputError(f"layers is {layers!r}; one vector per {item} is expected: try 'average' or 'concat'")


def vector_size(layers: Layers, n_layers: int, dim: int) -> int:
    """Returns the size of a vector of these layers, if that of each layer is `dim`."""
    return dim * (n_layers if isinstance(layers, str) and layers == "concat" else 1)


def layer_selector(layers: Layers, n_layers: int) -> Selection:
    """Returns a function that selects from all layers (N, B, T, D).

    It gives (N, B, T, D) for "all", "concat" and several layers, and (B, T, D) for any other choice.

    `elmo.embedding.pooling.vector_shaper` concatenates a whole sentence's layers. The weights of a mix are used as they
    are, neither normalised nor passed through a softmax. Raises InputError for layers that the model does not have.
    """
    layers = listed(layers)
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
    elif is_whole(layers):
        if -n_layers <= layers < n_layers:
            return lambda every: every[int(layers)]
    elif _are_whole(layers) and all(-n_layers <= layer < n_layers for layer in np.asarray(layers)):
        chosen = np.asarray(layers).tolist()
        return lambda every: every[chosen]
    weights = _weights(layers)
    if weights is not None and len(weights) == n_layers:
        if not all(abs(weight) <= LARGEST_WEIGHT for weight in weights):
            raise InputError(f"layers is {shown(layers)}; finite weights, up to {LARGEST_WEIGHT:.0e}, are expected")
        return lambda every: _mixed(every, weights)
    choices = CHOICES.format(last=n_layers - 1, n=n_layers)
    meant = did_you_mean(layers, NAMES) if isinstance(layers, str) else ""
    raise InputError(f"layers is {shown(layers)}; this model has {n_layers} layers: {choices} are possible{meant}")


def listed(layers: Any) -> Any:
    """Returns a choice of layers as it is, or for an array or a tensor, the list or number that it holds."""
    return layers.tolist() if isinstance(layers, np.ndarray | Tensor) else layers


def _are_whole(layers: Any) -> bool:
    """Whether `layers` is a list of whole numbers, which are layers, not weights."""
    return (
        isinstance(layers, Sequence)
        and not isinstance(layers, str | bytes | bytearray)
        and bool(layers)
        and all(map(is_whole, layers))
    )


def _weights(layers: Any) -> list[float] | None:
    """The weights of a mix; None if `layers` is not one."""
    if isinstance(layers, str) and layers.startswith(MIX):
        layers = layers.removeprefix(MIX).split(",")
    elif not isinstance(layers, Sequence) or isinstance(layers, str | bytes | bytearray) or _are_whole(layers):
        return None
    try:
        return None if any(isinstance(weight, bool) for weight in layers) else [float(weight) for weight in layers]
    except (TypeError, ValueError):
        return None


def _mixed(every: Float[Tensor, "N B T D"], weights: list[float]) -> Float[Tensor, "B T D"]:
    with torch.autocast(every.device.type, enabled=False):  # autocast would make this sum a bfloat16 product on a GPU
        return torch.einsum("n,nbtd->btd", every.new_tensor(weights), every)
