"""Divides a corpus into shares, groups of streams with files of their own, so that a process reads only its files.

Which files a group reads depends on their sizes and the number of shares, not on the processes.
"""

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from elmo.errors import InputError
from elmo.pretraining.batches import LmReader, Places, ReaderConfig
from elmo.pretraining.ids import Ids
from elmo.text import corpus
from elmo.text.vocabulary import Vocabulary
from elmo.training.sharding import own_range
from elmo.types import LmBatch

UNEVEN = 1.1
"""The largest allowed ratio of the largest share to the smallest."""


def check_shares(paths: Sequence[Path], streams: int, shares: int, world: int) -> None:
    """Raises InputError if streams or files cannot be divided into `shares`."""
    if shares == 1:
        return
    if streams % shares or (shares % world and world % shares):
        raise InputError(
            f"shares is {shares}; a divisor of streams ({streams}) is expected that is a multiple or a divisor of the"
            f" number of processes ({world})"
        )
    of_files = [corpus.size_of(path) for path in paths]
    sizes = [sum(of_files[file] for file in files) for files in deal_files(of_files, shares)]
    if max(sizes) > UNEVEN * min(sizes):
        raise InputError(
            f"shares is {shares}, but the {len(paths)} training files make shares of about {min(sizes):,} to"
            f" {max(sizes):,} characters; split the largest file (split -n l/64 FILE), or use fewer shares"
        )


def deal_files(sizes: Sequence[int], shares: int) -> list[list[int]]:
    """Deals files, the largest first, to `shares` parts of about the same size; returns their numbers, in order."""
    lightest = [(0, share) for share in range(shares)]
    chosen: list[list[int]] = [[] for _ in range(shares)]
    for number in sorted(range(len(sizes)), key=lambda number: (-sizes[number], number)):
        held, share = lightest[0]
        chosen[share].append(number)
        heapq.heapreplace(lightest, (held + sizes[number], share))
    return [sorted(numbers) for numbers in chosen]


def own_shares(rank: int, world: int, shares: int) -> list[tuple[int, int, int]]:
    """Returns the shares that process `rank` of `world` reads: (share, rank among its readers, number of readers)."""
    if shares >= world:
        return [(share, 0, 1) for share in own_range(shares, rank, world)]
    together = world // shares
    return [(rank // together, rank % together, together)]


class SharedReader:
    """Reads shares as `LmReader` reads a text; `position` has those of its shares in `shares`."""

    def __init__(
        self, ids: Ids, vocabulary: Vocabulary, config: ReaderConfig, position: dict[str, Any] | None = None
    ) -> None:
        self.config = config
        files = deal_files(ids.sizes, config.shares)
        part = replace(config, streams=config.streams // config.shares, shares=1)
        self._own = own_shares(config.rank, config.world, config.shares)
        places = [None] * len(self._own) if position is None else position.get("shares", [])
        if [place["share"] for place in places if place] != [share for share, *_ in self._own if position]:
            raise InputError("the checkpoint has other shares of the text; resume with the settings of the run")
        self._readers = [
            LmReader(ids.only(files[share]), vocabulary, replace(part, rank=rank, world=world), place)
            for (share, rank, world), place in zip(self._own, places, strict=True)
        ]

    def __iter__(self) -> Iterator[LmBatch]:
        return self

    def __next__(self) -> LmBatch:
        window = self.places()
        return self.batch(window, self.position())

    def places(self) -> Places:
        """Returns what `LmReader.places` returns."""
        return Places(*(np.concatenate(parts) for parts in zip(*(r.places() for r in self._readers), strict=True)))

    def batch(self, window: Places, position: dict[str, Any]) -> LmBatch:
        """Returns what `LmReader.batch` returns; all shares have the same lexicon."""
        return self._readers[0].batch(window, position)

    def position(self) -> dict[str, Any]:
        """Returns the positions of all shares, as plain JSON values."""
        places = [reader.position() for reader in self._readers]
        return {
            "shares": [{"share": share} | place for (share, *_), place in zip(self._own, places, strict=True)],
            "tokens": sum(place["tokens"] for place in places),
        }
