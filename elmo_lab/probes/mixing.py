"""The weighted sum of all layers, which is a probe's row after the single layers."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from elmo.errors import InputError

MIX = "mix"


def mix_weights(mix: Sequence[float] | None, n_layers: int) -> Float[np.ndarray, " N"]:
    """Returns the given weights, or equal ones. Raises InputError unless there is one per layer."""
    if mix is not None and len(mix) != n_layers:
        raise InputError(f"mix has {len(mix)} weights; the model has {n_layers} layers; give one weight per layer")
    return np.full(n_layers, 1 / n_layers) if mix is None else np.array(mix, float)


def with_mix(layers: Float[np.ndarray, "... N D"], weights: Float[np.ndarray, " N"]) -> Float[np.ndarray, "... R D"]:
    """Appends the weighted sum of the layers to them: R = N + 1."""
    mixed = np.einsum("n,...nd->...d", weights.astype(layers.dtype), layers)
    return np.concatenate([layers, mixed[..., None, :]], axis=-2)


def layer_names(rows: int) -> list[str]:
    """Returns the names of the rows of `with_mix`."""
    return [*map(str, range(rows - 1)), MIX]
