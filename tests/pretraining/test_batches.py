"""The reader of training windows: what is in them, resuming, one pass, errors; and streams divided among processes."""

import copy
import json
import multiprocessing
import random
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from itertools import islice

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

from elmo.pretraining.batches import IGNORED, LmReader, ReaderConfig
from elmo.pretraining.division import divide_checkpoint
from elmo.pretraining.ids import make_ids
from elmo.pretraining.order import document_pieces
from elmo.pretraining.prefetch import prefetch
from elmo.pretraining.shares import SharedReader, check_shares, deal_files
from elmo.text.characters import encode_words
from elmo.text.marks import BOS, EOS
from elmo.text.tokenizer import TextConfig
from elmo.text.vocabulary import SPECIAL, Vocabulary
from elmo.training.checkpoint import RankProgress

LINES = TextConfig("whitespace", "line")
WORDS = ["ash", "birch", "cedar", "elm", "fir", "oak", "pine", "yew"]
VOCABULARY = Vocabulary(SPECIAL + tuple(WORDS))
CONFIG = ReaderConfig(streams=6, window=5, seed=3, document_characters=60, buffer_characters=400)


def write_corpus(folder):
    """Three files of a dozen documents; their paths."""
    rng = random.Random(0)
    for file in range(3):
        documents = [
            [[rng.choice(WORDS) for _ in range(rng.randint(1, 9))] for _ in range(rng.randint(1, 6))] for _ in range(12)
        ]
        write(folder / f"{file}.txt", documents)
    return sorted(folder.glob("*.txt"))


def write(path, documents):
    path.write_text("\n\n".join("\n".join(" ".join(line) for line in document) for document in documents))
    return path


def streams_of(batches):
    """What every stream reads: for each direction lists of (input, target, start, keep), padding left out."""
    words = (BOS, EOS, *WORDS)
    spelled = {tuple(row): word for word, row in zip(words, encode_words(words).tolist(), strict=True)}
    rows = [[[], []] for _ in range(batches[0].inputs.shape[1])]
    for batch in batches:
        vocabulary = [spelled[tuple(row)] for row in batch.char_ids.tolist()]
        assert len(set(vocabulary)) == len(vocabulary)
        for row, both in enumerate(rows):
            for d, column in enumerate(both):
                columns = (x[d, row].tolist() for x in (batch.inputs, batch.targets, batch.starts, batch.keep))
                for i, target, start, keep in zip(*columns, strict=True):
                    if target == IGNORED:
                        assert (start, keep) == (False, True)
                    else:
                        column.append((vocabulary[i], VOCABULARY.words[target], start, keep))
    return rows


DOCUMENTS = st.lists(
    st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=7), min_size=1, max_size=4), min_size=1, max_size=8
)


@pytest.fixture
def paths(tmp_path):
    return write_corpus(tmp_path)


def same(one, other):
    names = ("char_ids", "inputs", "targets", "keep", "starts")
    return one.position == other.position and all(torch.equal(getattr(one, n), getattr(other, n)) for n in names)


def sentences_of(column):
    """The columns of a stream cut where sentences begin: (inputs, targets, whether a document begins)."""
    sentences = []
    for word, target, start, keep in column:
        if start:
            sentences.append(([], [], not keep))
        else:
            assert keep
        sentences[-1][0].append(word)
        sentences[-1][1].append(target)
    return sentences


@given(documents=DOCUMENTS, streams=st.integers(1, 4), window=st.integers(1, 9), shuffle=st.booleans())
def test_windows_put_together_are_the_text_in_both_directions(tmp_path_factory, documents, streams, window, shuffle):
    path = write(tmp_path_factory.mktemp("corpus") / "text.txt", documents)
    config = ReaderConfig(streams, window, shuffle=shuffle, epochs=1)
    batches = list(LmReader(make_ids([path], LINES), VOCABULARY, config))
    read = []
    for forward, backward in streams_of(batches):
        there, back = sentences_of(forward), sentences_of(backward)
        for (inputs, targets, begins), (back_inputs, back_targets, back_begins) in zip(there, back, strict=True):
            sentence = inputs[1:]
            assert inputs[0] == BOS
            assert targets == [*sentence, EOS]
            assert back_inputs == [EOS, *reversed(sentence)]
            assert back_targets == [*reversed(sentence), BOS]
            assert begins == back_begins
            if begins:
                read.append([])
            read[-1].append(sentence)
    assert Counter(map(str, read)) == Counter(map(str, documents))
    assert batches[-1].position["tokens"] == sum(len(s) + 1 for document in documents for s in document)
    if streams == 1 and not shuffle:
        assert read == documents


def test_unknown_words_are_predicted_as_unk_and_read_as_they_are_spelled(tmp_path):
    """With the ids of a vocabulary in any order."""
    path = write(tmp_path / "text.txt", [[["oak", "quince"]]])
    vocabulary = Vocabulary(("oak", "<UNK>", "</S>", "<S>"))
    (batch,) = LmReader(make_ids([path], LINES), vocabulary, ReaderConfig(1, 3, epochs=1))
    assert batch.targets[:, 0].tolist() == [[0, 1, 2], [1, 0, 3]]
    assert batch.char_ids[batch.inputs[0, 0]].tolist() == encode_words([BOS, "oak", "quince"]).tolist()


def test_a_cut_document_goes_on_where_its_stream_goes_on_with_it(tmp_path):
    path = write(tmp_path / "text.txt", [[["oak"] * 5] * 6, [["elm"]]])

    def resets(streams):
        config = replace(CONFIG, streams=streams, shuffle=False, epochs=1, document_characters=50)
        batches = list(LmReader(make_ids([path], LINES), VOCABULARY, config))
        return [[begins for *_, begins in sentences_of(forward)] for forward, _ in streams_of(batches)]

    assert resets(1) == [[True, False, False, False, False, False, True]]
    assert resets(3) == [[True, False, True], [True, False], [True, False]]  # each piece in another stream


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("epochs", [None, 2])
def test_resuming_after_any_batch_goes_on_bit_for_bit(paths, shuffle, epochs):
    config = replace(CONFIG, shuffle=shuffle, epochs=epochs)
    batches = list(islice(LmReader(make_ids(paths, LINES), VOCABULARY, config), 70))
    assert len(batches) > 40
    assert batches[-1].position["epoch"] >= 1
    for number, batch in enumerate(batches):
        position = json.loads(json.dumps(batch.position))
        resumed = LmReader(make_ids(paths, LINES), VOCABULARY, config, position)
        following = batches[number + 1 : number + 4]
        assert all(same(a, b) for a, b in zip(following, islice(resumed, len(following)), strict=True))
    if epochs is not None:
        assert list(LmReader(make_ids(paths, LINES), VOCABULARY, config, batches[-1].position)) == []


def test_one_pass_reads_every_rank_to_its_end(paths):
    config = replace(CONFIG, epochs=1)
    whole = streams_of(list(LmReader(make_ids(paths, LINES), VOCABULARY, config)))
    parts = [
        row
        for rank in range(2)
        for row in streams_of(list(LmReader(make_ids(paths, LINES), VOCABULARY, replace(config, rank=rank, world=2))))
    ]
    assert parts == whole


def test_order_depends_on_the_seed_alone(paths):
    def first(seed):
        reader = LmReader(make_ids(paths, LINES), VOCABULARY, replace(CONFIG, seed=seed))
        return [(batch.position["streams"], batch.targets.tolist()) for batch in islice(reader, 5)]

    assert first(1) == first(1)
    assert first(1) != first(2)


def test_streams_are_dealt_equal_shares_and_queues_stay_short(paths):
    batch = list(islice(LmReader(make_ids(paths, LINES), VOCABULARY, CONFIG), 400))[-1]
    dealt = batch.position["dealt"]
    assert max(dealt) - min(dealt) <= 2 * CONFIG.document_characters
    assert max(len(stream["documents"]) for stream in batch.position["streams"]) < 30
    assert len(json.dumps(batch.position)) < 2000


def test_more_streams_than_documents(tmp_path):
    path = write(tmp_path / "text.txt", [[["oak", "elm"]]])
    batches = list(islice(LmReader(make_ids([path], LINES), VOCABULARY, replace(CONFIG, streams=4)), 3))
    assert (torch.cat([batch.targets for batch in batches]) != IGNORED).all()
    (batch,) = LmReader(make_ids([path], LINES), VOCABULARY, replace(CONFIG, streams=4, epochs=1))
    assert (batch.targets != IGNORED).sum(2).tolist() == [[3, 0, 0, 0]] * 2
    assert batch.inputs.max() < len(batch.char_ids)


def test_a_token_of_ten_thousand_characters(tmp_path):
    path = write(tmp_path / "text.txt", [[["x" * 10_000, "oak"]]])
    config = ReaderConfig(1, 3, epochs=1)
    (batch,) = LmReader(make_ids([path], LINES), VOCABULARY, config)
    assert batch.char_ids.shape == (4, 50)
    (batch,) = LmReader(make_ids([path], TextConfig()), VOCABULARY, replace(config, max_characters=20))
    assert batch.char_ids.shape == (4, 20)


@pytest.mark.parametrize("text", ["", "\n \n\t\n"])
def test_an_empty_corpus_is_an_error_in_any_mode(tmp_path, text):
    path = tmp_path / "empty.txt"
    path.write_text(text)
    for epochs in (None, 1):
        with refused("empty.txt", "no text"):
            next(LmReader(make_ids([path], LINES), VOCABULARY, replace(CONFIG, epochs=epochs)))


def test_a_position_of_another_run_is_refused(paths):
    position = next(LmReader(make_ids(paths, LINES), VOCABULARY, CONFIG)).position
    for config, words in ((replace(CONFIG, streams=3), ("3 streams", "6")), (replace(CONFIG, world=2), ("1", "2"))):
        with refused(*words):
            LmReader(make_ids(paths, LINES), VOCABULARY, config, position)
    older = position | {"order": 2}
    with refused("order 2", "3"):
        LmReader(make_ids(paths, LINES), VOCABULARY, CONFIG, older)
    otherwise = copy.deepcopy(position)
    otherwise["streams"][0]["offset"] = 99  # as of a tokenizer that made more of the same document
    with refused("word 99", "changed"):
        LmReader(make_ids(paths, LINES), VOCABULARY, CONFIG, otherwise)
    paths[0].write_text("oak elm\n")
    with refused("corpus"):
        LmReader(make_ids(paths, LINES), VOCABULARY, CONFIG, position)


@pytest.mark.parametrize("ahead", [False, True])
def test_prefetch_gives_the_same_batches(paths, ahead):
    expected = list(islice(LmReader(make_ids(paths, LINES), VOCABULARY, CONFIG), 6))
    batches = prefetch(make_ids(paths, LINES), VOCABULARY, CONFIG, ahead=ahead)
    assert all(same(a, b) for a, b in zip(expected, islice(batches, len(expected)), strict=True))
    batches.close()
    resumed = prefetch(make_ids(paths, LINES), VOCABULARY, CONFIG, expected[2].position, ahead)
    assert same(next(resumed), expected[3])
    resumed.close()
    assert multiprocessing.active_children() == []
    assert len(list(prefetch(make_ids(paths, LINES), VOCABULARY, replace(CONFIG, epochs=1), ahead=ahead))) > 10


def test_prefetch_gives_the_same_batches_where_no_process_is_forked(paths):
    """macOS and Windows start each anew, and send it what it needs."""
    before = multiprocessing.get_start_method(allow_none=True)
    multiprocessing.set_start_method("spawn", force=True)
    try:
        once = replace(CONFIG, epochs=1)  # to its end: a process that is ended in its work may complain of that
        batches = prefetch(make_ids(paths, LINES), VOCABULARY, once), LmReader(make_ids(paths, LINES), VOCABULARY, once)
        assert all(same(seen, expected) for seen, expected in zip(*batches, strict=True))
    finally:
        multiprocessing.set_start_method(before, force=True)


@pytest.mark.skipif(sys.platform != "linux", reason="of Linux")
def test_a_program_without_a_main_guard_reads_ahead_under_the_default_of_python_3_14(paths, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import multiprocessing\n"
        "from pathlib import Path\n"
        "multiprocessing.set_start_method('forkserver')\n"
        "from elmo.pretraining.batches import ReaderConfig\n"
        "from elmo.pretraining.prefetch import prefetch\n"
        "from elmo.pretraining.ids import make_ids\n"
        "from elmo.text.tokenizer import TextConfig\n"
        "from elmo.text.vocabulary import Vocabulary\n"
        "vocabulary, text = Vocabulary(('<S>', '</S>', '<UNK>')), TextConfig(tokens='whitespace')\n"
        f"path = Path({str(paths[0])!r})\n"
        "print(len(list(prefetch(make_ids([path], text), vocabulary, ReaderConfig(2, 3, epochs=1)))))\n"
    )
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=False, timeout=100)
    assert int(done.stdout) > 10, done.stderr


@pytest.mark.parametrize("ahead", [False, True])
def test_prefetch_raises_errors_of_the_user_as_they_are(paths, ahead):
    ids = make_ids(paths, LINES)
    position = next(LmReader(ids, VOCABULARY, CONFIG)).position | {"corpus": "another"}
    with refused("'another'"):
        list(prefetch(ids, VOCABULARY, CONFIG, position, ahead=ahead))


def failing_reader(*_):
    yield from ()
    raise ZeroDivisionError("three oaks by no elms")


def test_a_reader_that_fails_says_where_and_leaves_no_process():
    """A process left over would keep the program from ending."""
    with pytest.raises(RuntimeError, match=r"in failing_reader(.|\n)*ZeroDivisionError: three oaks"):
        next(prefetch(make_ids([], LINES), VOCABULARY, CONFIG, reader=failing_reader))
    assert multiprocessing.active_children() == []


# Streams divided anew among other processes: together they read what one reader reads


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
    with refused(f"shares is {shares}"):
        check_shares(paths, streams, shares, world)
