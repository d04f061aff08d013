"""Batches of examples of similar length, in an order that depends only on the seed and the epoch."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from elmo.config import check_range

POOL = 32
"""The number of batches whose examples are sorted by length together; the pools differ by epoch."""


@dataclass(frozen=True)
class BatchConfig:
    """The limits of a batch, which ends at the first one that it reaches."""

    examples: int = 32
    """The most examples of a batch."""
    tokens: int | None = 4096
    """The most tokens of all sentences in a batch, padding included; a longer example is a batch of its own."""

    def __post_init__(self) -> None:
        check_range(self, ("examples", "tokens"), 1, where="batch.")


def shuffled_batches(sizes: Sequence[int], config: BatchConfig, seed: int, epoch: int) -> list[list[int]]:
    """Returns the indices of the examples in each batch of an epoch; `sizes` are the lengths in tokens."""
    rng = random.Random(f"{seed} {epoch}")
    order = _in_random_order(list(range(len(sizes))), rng)
    pool = POOL * config.examples
    batches: list[list[int]] = []
    for begin in range(0, len(order), pool):
        batches += in_order(sorted(order[begin : begin + pool], key=lambda number: sizes[number]), sizes, config)
    return _in_random_order(batches, rng)


def by_length(sizes: Sequence[int], config: BatchConfig) -> list[list[int]]:
    """Returns batches of all examples for prediction, the shortest first."""
    return in_order(sorted(range(len(sizes)), key=lambda number: sizes[number]), sizes, config)


def in_order(order: Sequence[int], sizes: Sequence[int], config: BatchConfig) -> list[list[int]]:
    """Cuts the examples, in this order, into batches."""
    batches: list[list[int]] = []
    longest = 0
    for number in order:
        longest = max(longest, sizes[number])
        full = not batches or len(batches[-1]) >= config.examples
        if full or (config.tokens is not None and (len(batches[-1]) + 1) * longest > config.tokens):
            batches.append([])
            longest = sizes[number]
        batches[-1].append(number)
    return batches


def _in_random_order(items: list, rng: random.Random) -> list:
    # Of the methods of Random, only random() is guaranteed to give the same numbers in every version of Python.
    keys = [rng.random() for _ in items]
    return [items[place] for place in sorted(range(len(items)), key=keys.__getitem__)]
