"""A corpus becomes a folder of parts: each row once, whatever is cut, killed or wrong."""

import codecs
import gzip
import hashlib
import itertools
import json
import os
import re
import time
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

import fsspec
import numpy as np
import pyarrow as pa
import pytest
from bilm_files import write_tar, write_zip
from command import Command, printed, run
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from pyarrow import parquet
from refusals import refusal, refused
from tiny import tiny_model, write_tiny

from elmo import formats
from elmo.disk import files
from elmo.disk.lock import LOCK, locked
from elmo.embedding import corpus
from elmo.embedding.corpus import Settings, embed_corpus, embed_part, open_worker, run_here
from elmo.embedding.corpus_rows import Columns, bounded_lines, plan_parts, read_part
from elmo.embedding.embedder import Embedder
from elmo.embedding.store import read_vectors
from elmo.errors import InputError
from elmo.text.marks import BOS, EOS
from elmo.text.opening import BY_MAGIC, DOCUMENTS

LINE = st.one_of(
    st.sampled_from([b"", b"a play", b"x" * 30, b"\xff", b"cr\r", b"\r"]),
    st.binary(max_size=6).map(lambda line: line.replace(b"\0", b"?")),
)
TEXT = st.lists(LINE.map(lambda line: line.replace(b"\n", b"")), max_size=30)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model") / "tiny"
    write_tiny(folder)
    return str(folder)


def small(model, **options):
    return Settings(**{"model": model, "batch_tokens": 16, "part_rows": 20, "pretokenized": True} | options)


def contents(output):
    """The hash of every file but the lock, by name."""
    files = [path for path in Path(output).rglob("*") if path.is_file()]
    return {str(path.relative_to(output)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def rows_of(output, folder="vectors"):
    files = sorted(Path(output, folder).glob("0*.parquet"))
    return [row for file in files for row in parquet.read_table(file).to_pylist()]


class BrokenError(Exception):
    """The machine goes down."""


# --- rows


@given(TEXT, st.booleans(), st.integers(1, 12), st.sampled_from(["text", "text.gz"]))
def test_parts_of_text_hold_each_line_once(rows, ends, part_rows, name):
    """Python's own split says which lines there are."""
    data = b"\n".join(rows) + (b"\n" if ends and rows else b"")
    assume(not data.startswith((*BY_MAGIC, *DOCUMENTS, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)))  # refused
    expected = data.split(b"\n")
    expected = expected[:-1] if expected[-1] == b"" else expected
    with TemporaryDirectory() as folder:
        file = Path(folder, name)
        file.write_bytes(gzip.compress(data) if name.endswith("gz") else data)
        if not expected:
            with pytest.raises(InputError, match="no rows"):
                plan_parts([str(file)], part_rows, Columns())
            return
        parts = plan_parts([str(file)], part_rows, Columns())
        assert [part.rows for part in parts[:-1]] == [part_rows] * (len(parts) - 1)
        found = [row for part in parts for batch in read_part(part, Columns(), 20) for row in batch.to_pylist()]
    assert [row["id"] for row in found] == [f"{file}:{number}" for number in range(len(expected))]
    assert [row["text"][:21] for row in found] == [line.removesuffix(b"\r")[:21] for line in expected]
    assert all(len(row["text"]) <= 21 for row in found)


@given(TEXT, st.integers(1, 7), st.integers(0, 10))
def test_lines_do_not_depend_on_chunks(rows, chunk, most):
    """A long line is given in its first bytes, one more than it may have, and never looks like one that it is not."""
    data = b"\n".join([*rows, b"end"])

    class File:
        place = 0

        def read(self, _):
            self.place += chunk
            return data[self.place - chunk : self.place]

    expected = [line.removesuffix(b"\r") if len(line) <= most else line[: most + 1] for line in [*rows, b"end"]]
    assert list(bounded_lines(File(), most)) == expected


@given(st.integers(1, 40), st.integers(1, 15), st.integers(1, 12), st.booleans())
def test_parts_of_parquet_hold_each_row_once(rows, group, part_rows, named):
    table = pa.table({"key": [f"k{row}" for row in range(rows)], "text": [f"text {row}" for row in range(rows)]})
    with TemporaryDirectory() as folder:
        file = Path(folder, "rows.parquet")
        parquet.write_table(table, file, row_group_size=group)
        columns = Columns(id="key" if named else None)
        parts = plan_parts([str(file)], part_rows, columns)
        found = [row for part in parts for batch in read_part(part, columns, 100) for row in batch.to_pylist()]
    assert [row["id"] for row in found] == [f"k{row}" if named else f"{file}:{row}" for row in range(rows)]
    assert [row["text"] for row in found] == [f"text {row}".encode() for row in range(rows)]


@pytest.mark.parametrize("name", ["a::b.txt", "file:a.txt", "a*[1]?.txt", "memory:.txt.gz", "~a.parquet"])
def test_local_names_are_no_addresses(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_bytes(b"another\n")
    data = b"a b\nc\n"
    Path(name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    if name.endswith("parquet"):
        parquet.write_table(pa.table({"text": ["a b", "c"]}), name)
    (part,) = plan_parts([name], 10, Columns())
    for base in ("", str(tmp_path)):
        rows = [row for batch in read_part(part, Columns(), 100, base) for row in batch.to_pylist()]
        assert rows == [{"id": f"{name}:{row}", "text": text} for row, text in enumerate([b"a b", b"c"])]


def test_a_local_folder_is_no_address(model, text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert embed_corpus([str(text)], "file:a::b", small(model)).parts == len(list(Path("file:a::b/done").iterdir()))
    assert [path.name for path in tmp_path.iterdir()] == ["file:a::b"]


def test_a_mark_of_byte_order_is_no_character(tmp_path):
    (tmp_path / "bom.txt").write_bytes(b"\xef\xbb\xbfThe\n")
    (part,) = plan_parts([str(tmp_path / "bom.txt")], 10, Columns())
    ((row,),) = [batch.to_pylist() for batch in read_part(part, Columns(), 100)]
    assert row["text"] == b"The"


# --- the folder


def test_the_folder_holds_what_the_manifest_says(model, text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_bytes(text.read_bytes())
    Path("b.txt").write_bytes(b"good\n\xff\n" + b"w " * 600_000 + b"\n\nlast row")
    parquet.write_table(pa.table({"tokens": [["a b", "c"], None]}), "c.parquet")
    seen = []
    done = embed_corpus(["b.txt", "?.txt", "c.parquet"], "out", small(model, layers="top"), progress=seen.append)
    manifest = json.loads(Path("out/manifest.json").read_bytes())
    count = len(text.read_text().splitlines())
    assert manifest["counts"] == {"rows": count + 7, "vectors": count + 4, "errors": 3, "tokens": done.tokens}
    assert (done.vectors, done.errors, done.parts) == (count + 4, 3, len(manifest["parts"]))
    assert manifest["job"]["model sha256"] == formats.content_hash(formats.load(model))
    written = contents("out")
    assert all(written[f"vectors/{part['number']:08}.parquet"] == part["sha256"] for part in manifest["parts"])
    reasons = {row["id"]: row["reason"] for row in rows_of("out", "errors")}
    assert reasons.keys() == {"b.txt:1", "b.txt:2", "c.parquet:1"}
    assert "more than 1,000,000 bytes" in reasons["b.txt:2"]
    rows = rows_of("out")
    ids = [f"a.txt:{row}" for row in range(count)] + [f"b.txt:{row}" for row in range(5)]
    assert sorted([*reasons, *(row["id"] for row in rows)]) == sorted([*ids, "c.parquet:0", "c.parquet:1"])
    assert rows[-1]["tokens"] == ["a b", "c"]
    expected = Embedder(tiny_model().bilm()).embed([row["tokens"] for row in rows], "top")
    for row, vectors in zip(rows, expected, strict=True):
        np.testing.assert_allclose(np.reshape(row["vectors"], row["shape"]), vectors, atol=1e-5)
    with read_vectors("out/vectors/00000000.parquet") as vectors:
        assert vectors.tokens(3) == rows[3]["tokens"]
        np.testing.assert_array_equal(vectors[3].ravel(), rows[3]["vectors"])
    assert [(each.rows, each.total) for each in (seen[0], seen[-1])] == [(0, count + 7), (count + 7, count + 7)]
    assert seen[-1].fresh_tokens == done.tokens


@pytest.fixture(scope="module")
def plain(model, text, tmp_path_factory):
    """The output of a run that nothing befell."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("plain"))
        Path("a.txt").write_bytes(text.read_bytes() + b"\xff\n")
        embed_corpus(["a.txt"], "out", small(model, part_rows=40))
        return contents("out")


@settings(max_examples=6)
@example([("write", 0)])
@example([("move", 0)])
@example([("receipt", 0)])
@given(st.lists(st.tuples(st.sampled_from(["write", "move", "receipt"]), st.integers(0, 4)), min_size=1, max_size=3))
def test_whatever_is_lost_the_end_is_the_same(model, text, plain, losses):
    """Runs that die while a part is written, when it is to be moved, or between its files; then one that does not."""
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        Path("a.txt").write_bytes(text.read_bytes() + b"\xff\n")
        for number, (where, when) in enumerate(losses):
            # Later too little may be left to break.
            ends = pytest.raises(BrokenError) if number == when == 0 else suppress(BrokenError)
            with patch.context() as broken, ends:
                break_at(broken, where, when)
                embed_corpus(["a.txt"], "out", small(model, part_rows=40))
            assert len([name for name in contents("out") if "partial" in name]) <= 1
        before = {path: path.stat().st_mtime_ns for path in Path("out").glob("done/*.json")}
        embed_corpus(["a.txt"], "out", small(model, part_rows=40))
        assert all(path.stat().st_mtime_ns == at for path, at in before.items())
        assert contents("out") == plain


def break_at(patch, where, when):
    """At the `when`th call, as a kill would: nothing is tidied up."""
    embed, move, calls = corpus.embed_batches, files.place_output, itertools.count()

    def write(*arguments, **named):
        if next(calls) >= when:
            raise BrokenError
        yield from embed(*arguments, **named)

    def place(finished, path, *more):
        if (where == "move" or path.suffix == ".json") and next(calls) >= when:
            raise BrokenError
        move(finished, path, *more)

    if where == "write":
        patch.setattr(corpus, "embed_batches", write)
    else:
        patch.setattr(files, "place_output", place)
    patch.setattr(Path, "unlink", lambda path, missing_ok=False: None)


def test_a_killed_command_goes_on(model, text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments = ["embed", text, "--engine", "local", "--pretokenized", "--part-rows", 5, "--layers", "top", "--quiet"]
    printed(*arguments, "plain")
    command = Command(*arguments, "out")
    while len(list(Path("out/done").glob("*.json"))) < 2 and command.process.is_alive():
        time.sleep(0.01)
    command.kill()
    before = {path: path.stat().st_mtime_ns for path in Path("out/done").glob("*.json")}
    said = printed(*arguments, "out")
    assert re.fullmatch(r"out: \d+ rows of vectors and 0 of errors, \d+ tokens, \d+ parts\n", said)
    assert all(path.stat().st_mtime_ns == at for path, at in before.items())
    assert contents("out") == contents("plain")


def test_a_finished_folder_is_left_as_it_is(model, text, tmp_path):
    done = embed_corpus([str(text)], str(tmp_path / "out"), small(model))
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("out/*/*")}

    def engine(job, parts):
        raise AssertionError("nothing is left to do")

    # What changes last bits alone may be another.
    assert embed_corpus([str(text)], str(tmp_path / "out"), small(model, memory=10**8), engine) == done
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob("out/*/*")} == before


def test_addresses_of_fsspec_are_inputs_and_outputs(model, text, tmp_path):
    memory = fsspec.filesystem("memory")
    memory.pipe_file("/in/a.txt.gz", gzip.compress(text.read_bytes()))
    (tmp_path / "a.txt").write_bytes(text.read_bytes())
    embed_corpus([str(tmp_path / "a.txt")], str(tmp_path / "out"), small(model))

    def dies(job, parts):
        yield from run_here(job, parts[:2])
        raise BrokenError

    with pytest.raises(BrokenError):
        embed_corpus(["memory://in/*.gz"], "memory://out", small(model), dies)
    embed_corpus(["memory://in/*.gz"], "memory://out", small(model))
    found = [Path(name).name for name in memory.find("/out")]
    assert sorted(found) == sorted(Path(name).name for name in contents(tmp_path / "out"))
    memory.get("/out/vectors", str(tmp_path / "got"), recursive=True)
    rows, expected = rows_of(tmp_path, "got"), rows_of(tmp_path / "out")
    assert [row["id"] for row in rows] == [f"memory:///in/a.txt.gz:{row}" for row in range(len(expected))]
    assert [row["vectors"] for row in rows] == [row["vectors"] for row in expected]


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_files_in_archives_are_inputs(model, text, tmp_path, kind):
    parquet.write_table(pa.table({"text": ["a play"]}), tmp_path / "b.parquet")
    files = {"a.txt": text.read_bytes(), "b.parquet": (tmp_path / "b.parquet").read_bytes()}
    write_zip(tmp_path / "x.zip", files)
    write_tar(tmp_path / "x.tar", files, "w")
    around = f"{tmp_path.as_uri()}/x.{kind}"
    embed_corpus([f"{kind}://*::{around}"], str(tmp_path / "out"), small(model))
    embed_corpus([str(text), str(tmp_path / "b.parquet")], str(tmp_path / "plain"), small(model))
    rows, expected = rows_of(tmp_path / "out"), rows_of(tmp_path / "plain")
    assert {row["id"].rpartition(":")[0] for row in rows} == {f"{kind}://{name}::{around}" for name in files}
    assert sorted(row["vectors"] for row in rows) == sorted(row["vectors"] for row in expected)


# --- what is refused


PIPES = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="has no named pipes")


def test_another_job_is_refused(model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_bytes(b"Rain FELL .\n" * 30)
    Path("b.txt").write_bytes(b"a\n")
    write_tiny(tmp_path / "other", seed=1)
    embed_corpus(["a.txt"], "out", small(model))
    before = contents("out")
    for inputs, change, said in (
        (["a.txt"], {"layers": "top"}, "layers was 'all' and is 'top' now"),
        (["a.txt"], {"dtype": "float16"}, "dtype was 'float32' and is 'float16' now"),
        (["a.txt"], {"part_rows": 7}, "part_rows was 20 and is 7 now"),
        (["a.txt"], {"state": "echo"}, "state was 'reset' and is 'echo' now"),
        (["a.txt"], {"pretokenized": False}, "pretokenized was True and is False now"),
        (["a.txt"], {"model": "other"}, "model sha256 was"),
        (["a.txt", "b.txt"], {}, "inputs was 1 files of 360 bytes and is 2 files of 362 bytes now"),
    ):
        with refused("out", said, "name another folder"):
            embed_corpus(inputs, "out", small(**{"model": model} | change))
    Path("a.txt").write_bytes(b"rain fell .\n" * 30)  # of the same size
    with refused("out", "contents"):
        embed_corpus(["a.txt"], "out", small(model))
    assert contents("out") == before


def test_another_job_that_was_faster_is_refused(model, text, tmp_path, monkeypatch):
    """It begins and ends between the look at the folder and the lock."""
    output, planned = str(tmp_path / "out"), corpus.plan_parts

    def slow(*arguments):
        monkeypatch.setattr(corpus, "plan_parts", planned)
        embed_corpus([str(text)], output, small(model))
        return planned(*arguments)

    monkeypatch.setattr(corpus, "plan_parts", slow)
    with refused("layers", "'all'", "'top'"):
        embed_corpus([str(text)], output, small(model, layers="top"))
    assert json.loads(Path(output, "manifest.json").read_bytes())["job"]["layers"] == "all"


def test_a_worker_with_another_model_does_nothing(model, text, tmp_path):
    jobs = []

    def engine(job, parts):
        jobs.append((job, parts))
        return iter(())

    with pytest.raises(FileNotFoundError):  # no receipt came
        embed_corpus([str(text)], str(tmp_path / "out"), small(model), engine)
    ((job, parts),) = jobs
    with refused("sha256", "000000000000"):
        open_worker(replace(job, sha256="0" * 64))
    assert not rows_of(tmp_path / "out")
    worker, file = open_worker(job), tmp_path / "out" / "vectors" / "00000000.parquet"
    receipt, made = embed_part(worker, parts[0]), file.stat()
    assert (embed_part(worker, parts[0]), file.stat()) == (receipt, made)  # it is done once


def test_a_part_is_read_without_the_words_of_others(model, text, tmp_path):
    """The last bits of a word's vector may depend on what is encoded with it, and engines give parts in any order."""
    known = []

    def engine(job, parts):
        worker = open_worker(job)
        for part in parts:
            yield embed_part(worker, part)
            known.append(set(worker.embedder.words.known()[0]))

    embed_corpus([str(text)], str(tmp_path / "out"), small(model), engine)
    lines = text.read_text().splitlines()
    assert known == [{BOS, EOS, *" ".join(lines[row : row + 20]).split()} for row in range(0, len(lines), 20)]


def test_an_input_that_has_changed_is_refused(model, text, tmp_path):
    """It has its size, and fewer rows."""
    file = tmp_path / "a.txt"
    file.write_bytes(text.read_bytes())

    def changes(job, parts):
        yield from run_here(job, parts[:1])
        file.write_bytes(text.read_bytes().replace(b"\n", b" "))
        yield from run_here(job, parts[1:])

    with refused("a.txt", "row 20", "changed"):
        embed_corpus([str(file)], str(tmp_path / "out"), small(model), changes)
    assert len(list(tmp_path.glob("out/vectors/*"))) == 1


@pytest.mark.parametrize(
    ("inputs", "options", "match"),
    [
        *(([name], {}, name) for name in ("nope.txt", "nope://x/y", "empty.txt", "rows.parquet")),
        *(([name], {}, name) for name in ("a.fa", "a.fa.bz2", "a.7z", "a.lz4")),
        (["."], {}, "folder; files"),
        (["-"], {}, "standard input"),
        (["cut.txt.gz"], {}, "cut.txt.gz; compressed; damaged"),
        (["bad.txt.zip"], {}, "bad.txt.zip; compressed; damaged"),
        (["zip://a.txt::file://bad.txt.zip"], {}, "fsspec"),
        (["two.zip"], {}, "two.zip; 2 files"),
        (["a.txt", "a.conllu.gz"], {}, "a.conllu.gz"),
        (["\udcff.txt"], {}, "'\\udcff.txt'; UTF-8"),
        (["bad.parquet"], {}, "bad.parquet; Parquet"),
        (["rows.parquet"], {"columns": Columns("line", "key")}, "list"),
        (["rows.parquet"], {"columns": Columns("number")}, "rows.parquet; int64"),
        (["rows.parquet"], {"columns": Columns("line", "list")}, "rows.parquet; list<"),
        (["twice.parquet"], {}, "2 columns; rename"),
        (["a.txt"], {"state": "carry"}, "state; carry"),
        (["a.txt"], {"part_rows": 0}, "part_rows is 0"),
        (["a.txt"], {"batch_tokens": 0}, "batch_tokens is 0"),
        (["a.txt"], {"batch_tokens": None, "memory": 9}, "memory is 9"),
        (["a.txt"], {"layers": "first"}, "layers is 'first'"),
    ],
)
def test_what_cannot_be_embedded_is_said_in_a_line_and_nothing_is_made(
    model, tmp_path, monkeypatch, inputs, options, match
):
    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_text("a\n", encoding="utf-8")
    Path("empty.txt").touch()
    Path("bad.txt.zip").write_bytes(b"a\n")
    Path("cut.txt.gz").write_bytes(gzip.compress(b"line\n" * 1000)[:-20])
    Path("bad.parquet").write_bytes(b"PAR1 and no more")
    for name in ("a.conllu.gz", "a.fa", "a.fa.bz2", "a.7z", "a.lz4", "\udcff.txt"):
        Path(name).touch()
    write_zip(Path("two.zip"), {"a.txt": b"a\n", "b.txt": b"b\n"})
    parquet.write_table(pa.table({"number": [1], "line": ["a"], "list": [[1]]}), "rows.parquet")
    parquet.write_table(pa.Table.from_arrays([pa.array(["a"])] * 2, names=["text"] * 2), "twice.parquet")
    with refused(*match.split("; ")):
        embed_corpus(inputs, "out", small(model, **options))
    assert not Path("out").exists()


@pytest.mark.parametrize("unchecked", [False, True])
def test_an_id_that_is_not_utf8_is_said(tmp_path, unchecked):
    keys = pa.array([b"k0", b"\xff"])
    keys = keys.view(pa.string()) if unchecked else keys
    parquet.write_table(pa.table({"key": keys, "text": ["a", "b"]}), tmp_path / "rows.parquet")
    (part,) = plan_parts([str(tmp_path / "rows.parquet")], 10, Columns(id="key"))
    with refused("rows.parquet", "key", "UTF-8"):
        list(read_part(part, Columns(id="key"), 100))


def test_a_damaged_page_of_parquet_is_said_with_the_name_of_the_file(tmp_path):
    path = tmp_path / "rows.parquet"
    parquet.write_table(
        pa.table({"text": [f"row {number * 7919}" for number in range(3000)]}), path, use_dictionary=False
    )
    content = bytearray(path.read_bytes())
    content[1000:4000] = b"\xff" * 3000
    path.write_bytes(content)
    (part,) = plan_parts([str(path)], 3000, Columns())
    with refused("rows.parquet", "fetch it again"):
        list(read_part(part, Columns(), 100))


@pytest.mark.parametrize(
    ("file", "content", "match"),
    [
        ("out/thesis.tex", "mine", "'thesis.tex'; manifest.json"),
        ("out", "mine", "folder; output"),
        ("out/manifest.json", '{"format": 77}', "manifest.json"),
        ("out/manifest.json", "{", "manifest.json; damaged"),
        pytest.param("out/manifest.json", None, "manifest.json; regular file", marks=PIPES),
        ("out/done/00000000.json", "{}", "'00000000.json'; manifest.json"),
    ],
)
def test_folders_of_others_are_left_alone(model, text, tmp_path, file, content, match):
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    if content is None:
        os.mkfifo(path)
    else:
        path.write_text(content)
    before = sorted(tmp_path.rglob("*"))
    with refused(*match.split("; ")):
        embed_corpus([str(text)], str(tmp_path / "out"), small(model))
    assert sorted(tmp_path.rglob("*")) == before


def test_one_process_makes_a_folder_at_a_time(model, text, tmp_path):
    embed_corpus([str(text)], str(tmp_path / "out"), small(model))
    for output in (str(tmp_path / "out"), f"file://{tmp_path}/out"):
        with locked(tmp_path / "out" / LOCK), refused("another process"):
            embed_corpus([str(text)], output, small(model))


def test_what_another_command_writes_to_an_address_is_not_removed(model, text):
    memory, folder = fsspec.filesystem("memory"), "/two/vectors"
    embed_corpus([str(text)], "memory://two", small(model))
    for name in ("new", "old"):
        memory.pipe_file(f"{folder}/.{name}.partial", b"PAR1")
    memory.store[f"{folder}/.old.partial"].modified -= timedelta(days=2)
    embed_corpus([str(text)], "memory://two", small(model))
    assert [name for name in memory.find(folder) if name.endswith(".partial")] == [f"{folder}/.new.partial"]


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (["a.txt", "b.txt", "out.npz"], "2 inputs need --engine local"),
        (["a.txt", "out.npz", "--column", "text"], "--column is for corpora; add --engine local"),
        (["a.txt", "out.npz", "--part-rows", "5"], "--part-rows is for corpora; add --engine local"),
        (["a.txt", "out.npz", "--batch-size", "5"], "--batch-size is for --state carry"),
        (["a.txt", "out", "--engine", "local", "--rows", "i"], "--rows is for one file"),
        (["a.txt", "out", "--engine", "local", "--overwrite"], "--overwrite is for one file"),
        (["a.txt", "out", "--engine", "local", "--workers", "2"], "--workers is for --engine ray"),
        (["a.txt", "out", "--engine", "ray", "--device", "cpu"], "--device is for one process"),
        (["a.txt", "out", "--engine", "ray", "--threads", "0"], "--threads is 0"),
    ],
)
def test_flags_that_do_not_go_together_are_refused(arguments, match, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_text("a\n", encoding="utf-8")
    refusal(run("embed", *arguments), match)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt"]


def test_progress_is_a_line_where_there_is_no_terminal(model, text, tmp_path):
    done = run("embed", text, tmp_path / "out", "--engine", "local", "--model", model, "--pretokenized")
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"(\d+) of \1 rows  [\d,.]+/s  0:00:00 left  [\d,]+ words/s\n", done.stderr)


def test_the_local_engine_opens_and_hashes_the_model_once(model, text, tmp_path, monkeypatch):
    load, content_hash = (mock.Mock(side_effect=each) for each in (formats.load, formats.content_hash))
    monkeypatch.setattr(formats, "load", load)
    monkeypatch.setattr(formats, "content_hash", content_hash)
    embed_corpus([str(text)], str(tmp_path / "out"), Settings(model=str(model), pretokenized=True))
    assert (load.call_count, content_hash.call_count) == (1, 1)
