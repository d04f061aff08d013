"""Intervals of differences: against an exact bootstrap of a few sentences, and properties."""

from itertools import product

import numpy as np
import pytest

from elmo_lab.probes.resampling import difference


def exact(gains: list[int], sizes: list[int]) -> tuple[float, float]:
    """The interval over all draws of S sentences out of S, each equally likely."""
    places = range(len(gains))
    found = [
        100 * sum(gains[i] for i in draw) / sum(sizes[i] for i in draw) for draw in product(places, repeat=len(gains))
    ]
    low, high = np.percentile(found, (2.5, 97.5))
    return float(low), float(high)


def test_the_interval_is_that_of_all_draws_of_sentences() -> None:
    right, other, sizes = [17, 3, 24, 11, 2, 29], [11, 7, 12, 6, 3, 13], [20, 8, 25, 13, 4, 31]
    value, low, high = difference(right, other, sizes)
    assert value == pytest.approx(100 * (86 - 52) / 101)
    assert (low, high) == pytest.approx(exact(np.subtract(right, other).tolist(), sizes), abs=1.5)


def test_equal_answers_differ_by_nothing_and_the_draws_repeat() -> None:
    rng = np.random.default_rng(0)
    right, other, sizes = rng.integers(0, 5, 200).tolist(), rng.integers(0, 5, 200).tolist(), [5] * 200
    assert difference(right, right, sizes) == (0.0, 0.0, 0.0)
    value, low, high = difference(right, other, sizes)
    assert low < value < high
    assert difference(other, right, sizes) == pytest.approx((-value, -high, -low))
    assert difference(right, other, sizes) == (value, low, high)
