"""One prediction from those of several trained networks."""

from collections.abc import Sequence

import numpy as np


def mean_probabilities(members: Sequence[Sequence[Sequence[float]]]) -> list[tuple[float, ...]]:
    """Of every example the mean, over the members, of its classes' probabilities."""
    if not members or not members[0]:
        return []
    return [tuple(row) for row in np.mean(np.array(members, np.float64), axis=0).tolist()]
