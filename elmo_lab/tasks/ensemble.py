"""Combines the predictions of several trained networks."""

from collections.abc import Sequence

import numpy as np


def mean_probabilities(members: Sequence[Sequence[Sequence[float]]]) -> list[tuple[float, ...]]:
    """The class probabilities of each example, averaged over the members."""
    if not members or not members[0]:
        return []
    return [tuple(row) for row in np.mean(np.array(members, np.float64), axis=0).tolist()]
