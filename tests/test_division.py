"""Streams divided anew among other processes: together they read what one reader reads."""

import random
from dataclasses import replace

import pytest
import torch
from test_batches import CONFIG, LINES, VOCABULARY, paths, streams_of

from elmo.pretraining.batches import LmReader
from elmo.pretraining.division import divide
from elmo.training.checkpoint import Progress

assert paths  # the fixture


def carried_of(batches):
    """Something that belongs to every stream, in the place of an LSTM's state."""
    return torch.stack([batch.targets.sum((0, 2)) for batch in batches]).sum(0).view(1, 1, -1, 1)


@pytest.mark.parametrize("seed", range(8))
def test_processes_that_change_in_number_read_what_one_reads(paths, seed):
    rng = random.Random(seed)
    config = replace(CONFIG, shuffle=bool(seed % 2))
    parts = [(rng.choice([1, 2, 3, 6]), rng.randint(1, 25)) for _ in range(5)]
    whole = LmReader(paths, VOCABULARY, LINES, config)
    saved = None
    for world, steps in parts:
        expected = streams_of([next(whole) for _ in range(steps)])
        kept = []
        for rank in range(world):
            own = replace(config, rank=rank, world=world)
            state, begin = ([torch.zeros(1, 1, len(own.own_streams), 1)], None)
            if saved is not None:
                state, progress = divide(saved, rank, world)
                begin = progress.position
                assert torch.equal(state[0], torch.cat([old[0] for old, _ in saved], 2)[:, :, own.own_streams])
            batches = list(zip(range(steps), LmReader(paths, VOCABULARY, LINES, own, begin), strict=False))
            read = [batch for _, batch in batches]
            assert streams_of(read) == expected[own.own_streams.start : own.own_streams.stop]
            kept.append(([state[0] + carried_of(read)], Progress(steps, read[-1].position, [float(rank)])))
        saved = kept
    assert divide(saved, 0, 1)[1].losses == [(len(saved) - 1) / 2]
