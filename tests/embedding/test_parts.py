"""An interrupted dump resumes to the same bytes; parts that do not belong together are refused."""

import os
import time
from functools import partial

import pytest
from command import Command, printed
from links import link
from refusals import refused
from tiny import forgetful_embedder, tiny_model

from elmo.disk.lock import LOCK, locked
from elmo.embedding import parts
from elmo.embedding.embedder import Embedder
from elmo.embedding.job import embed_file
from elmo.embedding.parts import folder_of
from elmo.embedding.store import read_vectors

BATCH_TOKENS = 16  # a chunk is 128 tokens, some 15 sentences
WARM = {"state": "warm", "warm_text": ["a b"]}
KNOWN_WORDS = 15  # of the table of words, which is emptied now and then


@pytest.fixture
def output(tmp_path):
    return tmp_path / "v.npz"


def embedder(**options):
    return forgetful_embedder(KNOWN_WORDS, **{"batch_tokens": BATCH_TOKENS} | options)


class BrokenError(Exception):
    """The machine goes down."""


def break_off(text, output, rows, made=None, **options):
    def progress(done, _total):
        if done == rows:
            raise BrokenError

    with pytest.raises(BrokenError):
        embed_file(made or embedder(), text, output, progress=progress, resume=True, **options)


@pytest.mark.parametrize(
    ("suffix", "options"),
    [
        (".hdf5", {}),
        (".npz", {}),
        (".parquet", {"layers": "top"}),
        (".safetensors", {}),
        (".hdf5", {"layers": "concat", "pool": "mean", "dtype": "float16"}),
    ],
)
def test_a_broken_dump_goes_on_to_the_bytes_of_one_that_was_not(text, tmp_path, suffix, options, monkeypatch):
    embed_file(embedder(), text, tmp_path / f"plain{suffix}", **options)
    output = tmp_path / f"v{suffix}"
    for rows in (25, 26, 60):  # twice in the same chunk, then in a later one
        break_off(text, output, rows, **options)
        assert not output.exists()
    kept = len(list(folder_of(output).glob("*[0-9].npz")))
    assert kept >= 3
    (folder_of(output) / f"output{suffix}").touch()  # as if it had been killed right before the end

    made = []
    original = Embedder.embed_stream
    monkeypatch.setattr(
        Embedder, "embed_stream", lambda self, chunk, *rest: made.append(chunk) or original(self, chunk, *rest)
    )
    done = embed_file(embedder(), text, output, resume=True, **options)
    assert output.read_bytes() == (tmp_path / f"plain{suffix}").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"plain{suffix}", output.name]
    chunks = list(embedder().chunks(line.split() for line in text.read_text().splitlines()))
    assert len(made) == len(chunks) - kept
    assert done.rows == len(text.read_text().splitlines())


def test_what_the_embedder_knew_before_is_not_used(text, tmp_path):
    """A resumed run would not know it, and the last bits of its words might be others."""
    kept = []
    for name, earlier in (("fresh.npz", []), ("used.npz", ["The", "captain", "waits", "."])):
        made = Embedder(tiny_model().bilm(), batch_tokens=BATCH_TOKENS)
        made.embed([earlier])
        break_off(text, tmp_path / name, 25, made)
        kept.append((folder_of(tmp_path / name) / "00000000.words.npz").read_bytes())
    assert kept[0] == kept[1]


@pytest.mark.parametrize(
    ("before", "after", "chosen", "said"),
    [
        ({}, {}, {"layers": "top"}, "layers was 'all'; it is 'top'"),
        ({}, {}, {"pool": "mean"}, "pool was None; it is 'mean'"),
        ({}, {}, {"dtype": "float16"}, "dtype was 'float32'; it is 'float16'"),
        ({}, {"state": "echo"}, {}, "state was 'reset'; it is 'echo'"),
        ({}, {"batch_tokens": 17}, {}, "batch_tokens was 16; it is 17"),
        ({"dtype": "float16"}, {}, {}, "dtype of the embedder was 'float16'; it is 'float32'"),
        (WARM, WARM | {"warm_text": ["c d"]}, {}, "warm_text was ['a b']; it is ['c d']"),
    ],
)
def test_every_choice_that_rows_depend_on_is_kept(text, output, before, after, chosen, said):
    first, second = (embedder(**made) for made in (before, after))
    break_off(text, output, 25, first)
    with refused("run.json", "remove", *said.split("; ")):
        embed_file(second, text, output, resume=True, **chosen)


def test_rows_of_another_model_or_text_are_refused(text, tmp_path, output):
    break_off(text, output, 45)
    with refused("run.json", "model"):
        embed_file(Embedder(tiny_model(seed=1).bilm(), batch_tokens=BATCH_TOKENS), text, output, resume=True)
    changed = tmp_path / "changed.txt"
    changed.write_text(text.read_text().replace("waits", "stays"))
    with refused("00000000.npz", "row", "changed"):
        embed_file(embedder(), changed, output, resume=True)
    assert not output.exists()
    embed_file(embedder(), text, output, resume=True)
    with refused("state", "carry", "resume"):
        embed_file(embedder(state="carry"), text, tmp_path / "w.npz", resume=True)


def cut(left, file):
    """As a power cut may leave it on a disk that says it has written what it has not."""
    file.write_bytes(file.read_bytes()[:left])


def change_a_number(file):
    """The archive opens, and its checksum does not hold."""
    data = bytearray(file.read_bytes())
    data[data.index(b"NUMPY") + 200] ^= 1
    file.write_bytes(data)


def pipe(file):
    file.unlink()
    os.mkfifo(file)


KEPT = ["run.json", "00000000.npz", "00000000.words.npz"]
PIPES = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="has no named pipes")


@pytest.mark.parametrize(
    ("name", "damage", "said"),
    [
        *((name, partial(cut, left), "") for name in KEPT for left in (0, 50)),
        ("00000000.npz", change_a_number, "damaged; remove"),
        pytest.param("00000000.words.npz", pipe, "regular file; remove", marks=PIPES),
    ],
)
def test_kept_files_that_are_damaged_are_named(text, output, name, damage, said):
    break_off(text, output, 45)
    damage(folder_of(output) / name)
    with refused(name, *said.split("; ")):
        embed_file(embedder(), text, output, resume=True)


def lock_of(output):
    return output.with_name(f".{folder_of(output).name}{LOCK}")


def test_one_process_makes_an_output_at_a_time(text, output):
    break_off(text, output, 45)
    with locked(lock_of(output)):
        before = sorted(folder_of(output).iterdir())
        with refused("another process"):
            embed_file(embedder(), text, output, resume=True)
        assert sorted(folder_of(output).iterdir()) == before
    embed_file(embedder(), text, output, resume=True)


def test_a_folder_that_is_not_of_a_run_is_left_alone(text, tmp_path, output):
    folder_of(output).mkdir()
    (folder_of(output) / "thesis.tex").write_text("mine")
    with refused("v.npz.parts", "thesis.tex", "run.json"):
        embed_file(embedder(), text, output, resume=True)
    assert (folder_of(output) / "thesis.tex").read_text() == "mine"
    (folder_of(output) / "thesis.tex").rename(folder_of(output) / ".run.json.1.partial")  # killed at its beginning
    embed_file(embedder(), text, output, resume=True)
    assert [path.name for path in tmp_path.iterdir()] == [output.name]


def test_a_run_begins_where_no_other_works(text, output, monkeypatch):
    """Another one begins after the look at its settings, and before the lock."""
    lock_folder = parts.lock_folder

    def slow(*arguments, **named):
        monkeypatch.setattr(parts, "lock_folder", lock_folder)
        break_off(text, output, 45)
        return lock_folder(*arguments, **named)

    monkeypatch.setattr(parts, "lock_folder", slow)
    with refused("layers", "'all'", "'top'"):
        embed_file(embedder(), text, output, "top", resume=True)
    assert (folder_of(output) / "00000000.npz").is_file()


@pytest.mark.parametrize("resume", [False, True])
def test_an_output_that_another_has_written_meanwhile_stays(text, tmp_path, output, resume):
    def progress(done, _total):
        output.write_bytes(b"of another")

    with refused("exists", error=FileExistsError):
        embed_file(embedder(), text, output, progress=progress, resume=resume)
    assert output.read_bytes() == b"of another"
    assert [path.name for path in tmp_path.iterdir() if path != output] == [folder_of(output).name] * resume


@pytest.mark.parametrize("resume", [False, True])
def test_of_a_link_what_it_points_to_is_replaced(text, tmp_path, resume):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "real.npz").write_bytes(b"old")
    output = link(tmp_path / "v.npz", elsewhere / "real.npz")
    written = embed_file(embedder(), text, output, overwrite=True, resume=resume)
    assert output.is_symlink()
    assert written.path == output
    with read_vectors(elsewhere / "real.npz") as found:
        assert len(found) == written.rows


def test_a_killed_command_goes_on_to_the_same_bytes(text, tmp_path):
    """With the packaged model: its products are of many shapes, and every bit is the same."""
    output, arguments = tmp_path / "v.hdf5", ("--batch-tokens", 32, "--pretokenized", "--quiet")
    printed("embed", text, tmp_path / "plain.hdf5", *arguments)
    command = Command("embed", text, output, *arguments, "--resume")
    while len(list(folder_of(output).glob("*[0-9].npz"))) < 2 and command.process.is_alive():
        time.sleep(0.01)
    command.kill()
    left = {path.name for path in tmp_path.iterdir()} - {lock_of(output).name}
    assert left == {"plain.hdf5", folder_of(output).name}
    printed("embed", text, output, *arguments, "--resume")
    with read_vectors(output) as found:
        assert len(found) > 100
    assert output.read_bytes() == (tmp_path / "plain.hdf5").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["plain.hdf5", "v.hdf5"]
