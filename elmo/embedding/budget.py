"""Bounds the memory of reading: the tokens of a batch, and those of the sentences that are read ahead."""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from numbers import Real
from typing import TypeVar, cast

from elmo.errors import InputError, shown
from elmo.model.config import BiLMConfig

Item = TypeVar("Item")

BATCHES_OF_A_CHUNK = 8
MEMORY, GPU_MEMORY = 160_000_000, 1_000_000_000
MOST_TOKENS = 8192
"""The most tokens of a batch by default; larger batches are no faster."""
MOST_CHARACTERS = 1000
"""The most characters per token of a chunk, on average. No text has as many: this bounds the memory for other input."""


def tokens_within(memory: int, config: BiLMConfig) -> int:
    """Returns the tokens per batch for which its vectors and those of the sentences read ahead take `memory` bytes.

    A token of the batch needs its input, twice the output of every layer, and the result, which is all its layers; the
    other tokens of the chunk need only the result. Memory fragmentation adds two thirds, as measured on prose.
    """
    lstm = config.lstm
    vectors = 1 + 2 * lstm.n_layers + (1 + BATCHES_OF_A_CHUNK) * (lstm.n_layers + 1)
    a_token = 4 * 2 * lstm.projection_dim * vectors * 5 // 3
    if memory < a_token:
        raise InputError(f"memory is {memory:,} bytes, but one token of this model takes {a_token:,}; give more")
    return min(memory // a_token, MOST_TOKENS)


def parse_bytes(size: str | float) -> int:
    """Parses a size: `2GB`, `500 MB`, `64kB`, or a number of bytes."""
    if isinstance(size, Real) and not isinstance(size, bool) and 0 <= cast(float, size) < math.inf:
        return int(size)
    number = r"(\d+(?:\.\d+)?)\s*([kMGT]?)B?"
    found = re.fullmatch(number, size.strip(), re.IGNORECASE) if isinstance(size, str) else None
    if found is None or len(found[1]) > 20:
        raise InputError(f"{shown(size)} is not a size; give one such as 2GB, 500MB, or a number of bytes")
    return int(float(found[1]) * 1000 ** " KMGT".index(found[2].upper() or " "))


def take_tokens(items: Iterator[Item], tokens: Callable[[Item], Sequence[str]], budget: int) -> list[Item]:
    """Takes the next items, up to about `budget` tokens."""
    chunk: list[Item] = []
    characters = MOST_CHARACTERS * budget
    for item in items:
        chunk.append(item)
        sentence = tokens(item)
        budget -= len(sentence) + 2
        characters -= sum(map(len, sentence))
        if budget <= 0 or characters <= 0:
            break
    return chunk
