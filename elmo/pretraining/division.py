"""M processes resume a checkpoint of N: the streams of text are redistributed.

Every stream continues where it was, with its LSTM state: together, the M processes read at each step what the N would
have read. Random numbers differ, since they depend on the process.
"""

from collections.abc import Sequence
from typing import Any

import torch

from elmo.pretraining.shares import own_shares
from elmo.training.checkpoint import RankProgress, Saved
from elmo.training.sharding import own_range


def divide_checkpoint(saved: Sequence[Saved], rank: int, world: int) -> Saved:
    """Returns what process `rank` of `world` resumes; `saved` is what each old process saved, by rank."""
    wholes = [torch.cat(parts, dim=-2) for parts in zip(*(carried for carried, _ in saved), strict=True)]
    own = own_range(wholes[0].shape[-2], rank, world)
    last = saved[0][1]
    losses = [sum(each) / len(saved) for each in zip(*(progress.losses for _, progress in saved), strict=True)]
    positions = [progress.position or {} for _, progress in saved]
    shares = sorted({place["share"] for position in positions for place in position.get("shares", [])})
    if not shares:
        position = _position(positions, own, rank, world)
    else:  # as from `SharedReader.position`
        places, streams = [], wholes[0].shape[-2] // len(shares)
        for share, part, parts in own_shares(rank, world, len(shares)):
            before = [place for each in positions for place in each["shares"] if place["share"] == share]
            places.append(_position(before, own_range(streams, part, parts), part, parts))
        position = {"shares": places, "tokens": sum(place["tokens"] for place in places)}
    return [whole[..., own.start : own.stop, :].contiguous() for whole in wholes], RankProgress(
        last.step, position, losses
    )


def _position(positions: Sequence[dict[str, Any]], own: range, rank: int, world: int) -> dict[str, Any]:
    """As from `LmReader.position`. The old processes dealt documents up to different places: the earliest counts."""
    dealt_to = [[position["epoch"], position["ordinal"]] for position in positions]
    streams = [
        place | {"received": max(place.get("received", reached), reached)}
        for position, reached in zip(positions, dealt_to, strict=True)
        for place in position["streams"]
    ][own.start : own.stop]
    earliest = positions[dealt_to.index(min(dealt_to))]
    tokens = sum(position["tokens"] for position in positions) // world
    return earliest | {"rank": rank, "world": world, "streams": streams, "tokens": tokens}
