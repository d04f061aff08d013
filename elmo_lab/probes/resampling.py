"""Differences of two scores on the same sentences, with intervals by the bootstrap (Efron 1979).

Sentences are drawn with replacement, since the words of a sentence are right or wrong together. The interval is that of
the data alone: it says nothing of other seeds or models.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int

DRAWS, SEED = 5000, 1
INTERVAL = 2.5, 97.5
"""Percentiles of the draws: a 95 % interval."""

Difference = tuple[float, float, float]
"""A difference in points of a percentage, and the ends of its interval."""


def difference(right: Sequence[int], other: Sequence[int], sizes: Sequence[int]) -> Difference:
    """`100 * (sum(right) - sum(other)) / sum(sizes)` and its interval.

    `right` and `other` are how many words of each sentence two methods have right, `sizes` how many there are.
    """
    gains: Int[np.ndarray, " S"] = np.subtract(right, other)
    counts: Int[np.ndarray, " S"] = np.asarray(sizes)
    draws = np.random.default_rng(SEED).multinomial(len(gains), np.full(len(gains), 1 / len(gains)), DRAWS)
    low, high = np.percentile(100 * (draws @ gains) / np.maximum(1, draws @ counts), INTERVAL)
    return 100 * float(gains.sum()) / max(1, int(counts.sum())), float(low), float(high)


def differences(right: dict[str, Sequence[int]], name: str, sizes: Sequence[int]) -> dict[str, Difference]:
    """Those of one method to every other, by the other's name."""
    return {other: difference(right[name], counts, sizes) for other, counts in right.items() if other != name}
