"""Streams divided anew among other processes: together they read what one reader reads."""

import random
from dataclasses import replace

import pytest
import torch
from window_corpus import CONFIG, LINES, VOCABULARY, streams_of, write_corpus

from elmo.errors import InputError
from elmo.pretraining.batches import LmReader
from elmo.pretraining.division import divide_checkpoint
from elmo.pretraining.ids import make_ids
from elmo.pretraining.order import document_pieces
from elmo.pretraining.shares import SharedReader, check_shares, deal_files
from elmo.training.checkpoint import RankProgress


@pytest.fixture
def paths(tmp_path):
    return write_corpus(tmp_path)


def carried_of(batches):
    """Something that belongs to every stream, in the place of an LSTM's state."""
    return torch.stack([batch.targets.sum((0, 2)) for batch in batches]).sum(0).view(1, 1, -1, 1)


def cut(paths, pieces):
    """Every file as several, each with whole documents."""
    made = []
    for path in paths:
        documents = path.read_text(encoding="utf-8").split("\n\n")
        for number in range(pieces):
            made.append(path.with_name(f"{path.stem}-{number}.txt"))
            made[-1].write_text("\n\n".join(documents[number::pieces]), encoding="utf-8")
    return made


@pytest.mark.parametrize(("seed", "shares"), [*((seed, 1) for seed in range(8)), (8, 2), (9, 3), (10, 3), (11, 6)])
def test_processes_that_change_in_number_read_what_one_reads(paths, seed, shares):
    rng = random.Random(seed)
    config = replace(CONFIG, shuffle=bool(seed % 2), shares=shares)
    parts = [
        (rng.choice([n for n in (1, 2, 3, 6) if n % shares == 0 or shares % n == 0]), rng.randint(1, 25))
        for _ in range(5)
    ]
    reader = LmReader if shares == 1 else SharedReader
    paths = cut(paths, 4)
    ids = make_ids(paths, LINES)
    whole = reader(ids, VOCABULARY, config)
    saved = None
    for world, steps in parts:
        expected = streams_of([next(whole) for _ in range(steps)])
        kept = []
        for rank in range(world):
            own = replace(config, rank=rank, world=world)
            state, begin = ([torch.zeros(1, 1, len(own.own_streams), 1)], None)
            if saved is not None:
                state, progress = divide_checkpoint(saved, rank, world)
                begin = progress.position
                assert torch.equal(state[0], torch.cat([old[0] for old, _ in saved], 2)[:, :, own.own_streams])
            batches = list(zip(range(steps), reader(ids, VOCABULARY, own, begin), strict=False))
            read = [batch for _, batch in batches]
            assert streams_of(read) == expected[own.own_streams.start : own.own_streams.stop]
            kept.append(([state[0] + carried_of(read)], RankProgress(steps, read[-1].position, [float(rank)])))
        saved = kept
    assert divide_checkpoint(saved, 0, 1)[1].losses == [(len(saved) - 1) / 2]


def test_shares_read_other_files(paths):
    ids = make_ids(cut(paths, 4), LINES)
    files = deal_files(ids.sizes, 2)
    assert sorted(files[0] + files[1]) == list(range(12))
    sizes = [sum(ids.sizes[file] for file in share) for share in files]
    assert max(sizes) < 1.1 * min(sizes)
    read = []
    for rank, share in enumerate(files):
        reader = SharedReader(ids, VOCABULARY, replace(CONFIG, shares=2, epochs=1, rank=rank, world=2))
        seen = sum(int((batch.targets[0] >= 0).sum()) for batch in reader)
        assert seen == sum(piece.end - piece.begin for own in document_pieces(ids.only(share)) for piece in own)
        read.append(seen)
    assert sum(read) == len(ids.tokens)


def test_shares_of_plain_and_compressed_files_are_measured_as_they_are_dealt(tmp_path):
    for name, size in (("a.txt", 4_000), ("b.gz", 1_000)):
        (tmp_path / name).write_bytes(b"x" * size)
    check_shares(sorted(tmp_path.iterdir()), 2, 2, 1)


@pytest.mark.parametrize(("streams", "shares", "world"), [(6, 4, 1), (6, 3, 2), (6, 6, 1)])
def test_shares_that_do_not_fit_are_refused(paths, streams, shares, world):
    with pytest.raises(InputError, match=r"shares is \d"):
        check_shares(paths, streams, shares, world)
