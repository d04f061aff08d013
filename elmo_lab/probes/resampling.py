"""Compares two scores on the same sentences, with intervals by the bootstrap (Efron 1979).

Sentences are drawn, not words, since the words of a sentence are often right or wrong together. The interval covers the
choice of sentences alone, not that of seeds or models.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float, Int

DRAWS, SEED = 5000, 1
INTERVAL = 2.5, 97.5
"""The percentiles of the draws that bound a 95 % interval."""

Difference = tuple[float, float, float]
"""A difference in points of a percentage, and the ends of its interval."""


def difference(right: Sequence[float], other: Sequence[float], sizes: Sequence[int]) -> Difference:
    """Computes `100 * (sum(right) - sum(other)) / sum(sizes)` and its interval.

    `right` and `other` count the words of each sentence that two methods have right; `sizes` counts all words.
    """
    gains: Float[np.ndarray, " S"] = np.subtract(right, other, dtype=np.float64)
    counts: Int[np.ndarray, " S"] = np.asarray(sizes)
    draws = np.random.default_rng(SEED).multinomial(len(gains), np.full(len(gains), 1 / len(gains)), DRAWS)
    low, high = np.percentile(100 * (draws @ gains) / np.maximum(1, draws @ counts), INTERVAL)
    return 100 * float(gains.sum()) / max(1, int(counts.sum())), float(low), float(high)


def differences(right: Mapping[str, Sequence[float]], name: str, sizes: Sequence[int]) -> dict[str, Difference]:
    """Compares a method with every other; returns the differences by the other's name."""
    return {other: difference(right[name], counts, sizes) for other, counts in right.items() if other != name}
