"""Shapes vectors: concatenates the layers of a sentence, pools its tokens into one vector, scales vectors to length 1.

The array of a sentence has no padding, so padding is never counted.
"""

from collections.abc import Callable
from typing import Literal, get_args

import numpy as np
from jaxtyping import Float

from elmo.embedding.layers import Layers
from elmo.errors import check_choice

Pool = Literal["mean", "max", "sum"]
Shaping = Callable[[np.ndarray], np.ndarray]


def vector_shaper(layers: Layers, pool: Pool | None = None) -> Shaping:
    """Returns a function that turns a sentence's selected layers, (N, T, D) or (T, D), into what `embed` returns."""
    if pool is not None:
        check_choice("pool", pool, get_args(Pool))
    side_by_side = isinstance(layers, str) and layers == "concat"

    def shape(vectors: np.ndarray) -> np.ndarray:
        vectors = concatenate_layers(vectors) if side_by_side else vectors
        return vectors if pool is None else pool_tokens(vectors, pool)

    return shape


def concatenate_layers(layers: Float[np.ndarray, "N T D"]) -> Float[np.ndarray, "T ND"]:
    """Concatenates all layers of each token into one vector, layer 0 first."""
    n_layers, tokens, size = layers.shape
    return np.ascontiguousarray(layers.swapaxes(0, 1)).reshape(tokens, n_layers * size)


def pool_tokens(vectors: Float[np.ndarray, "*N T D"], pool: Pool) -> Float[np.ndarray, "*N D"]:
    """Returns the mean, maximum or sum over tokens, of the vectors' type; zeros if there are no tokens."""
    tokens = vectors.shape[-2]
    if not tokens:
        return np.zeros((*vectors.shape[:-2], vectors.shape[-1]), vectors.dtype)
    if pool == "max":
        return vectors.max(axis=-2)
    total = vectors.sum(axis=-2, dtype=np.float64)  # float32 is inexact for proteins of tens of thousands of residues
    return (total / tokens if pool == "mean" else total).astype(vectors.dtype)


def unit_vectors(vectors: Float[np.ndarray, "*N D"]) -> Float[np.ndarray, "*N D"]:
    """Scales vectors to length 1, in float64; zero stays zero."""
    vectors = vectors.astype(np.float64)
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
