"""`embed_file`: one line, one sentence, one row; nothing is lost, nothing is left half-written."""

import bz2
import codecs
import gzip
import io
import lzma
import sys
from pathlib import Path

import numpy as np
import pytest
from refusals import refused
from tiny import tiny_model

from elmo.embedding.embedder import Embedder
from elmo.embedding.job import embed_file
from elmo.embedding.store import read_vectors
from elmo.errors import IrregularInput
from elmo.text.tokenizer import TextConfig, Tokenizer

LINES = ["The cat sat .", "", "a dog", "   ", "zażółć 東京 \u2028 x", "The cat sat ."]
TEXT = "\n".join(LINES).encode()
"""Without a last line end."""


def written(path: Path, data: bytes = TEXT + b"\n") -> Path:
    path.write_bytes(data)
    return path


def check_rows(output: Path, embedder: Embedder, layers: str = "all") -> None:
    """Every line of LINES has its row, and the vectors of its tokens."""
    with read_vectors(output) as found:
        assert len(found) == len(LINES)
        for row, line in enumerate(LINES):
            assert found.tokens(row) == line.split()
            np.testing.assert_allclose(found[row], embedder.embed([line.split()], layers)[0], rtol=0, atol=1e-5)


@pytest.mark.parametrize("suffix", [".hdf5", ".npz", ".parquet"])
def test_every_line_is_a_row(tmp_path, embedder, suffix):
    done = embed_file(embedder, written(tmp_path / "in.txt"), tmp_path / f"out{suffix}")
    assert (done.path, done.rows, done.tokens) == (tmp_path / f"out{suffix}", 6, 13)
    check_rows(tmp_path / f"out{suffix}", embedder)


def test_layers_dtype_and_progress(tmp_path, embedder):
    seen: list[tuple[int, int | None]] = []
    source, output = written(tmp_path / "in.txt"), tmp_path / "out.h5"
    progress = lambda done, total: seen.append((done, total))  # noqa: E731
    embed_file(embedder, source, output, layers="average", dtype="float16", progress=progress)
    assert [done for done, _ in seen] == [1, 2, 3, 4, 5, 6]
    assert seen[-1] == (6, 6), "the total is estimated by the part of the file that is read"
    embed_file(embedder, list(LINES), tmp_path / "lines.h5", progress=progress)
    assert seen[-1] == (6, None)
    with read_vectors(output) as found:
        assert (found[0].shape, found[0].dtype) == ((4, 8), np.float16)


def type_in(monkeypatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), encoding="utf-8"))


def test_lines_and_standard_input(tmp_path, embedder, monkeypatch):
    embed_file(embedder, LINES, tmp_path / "lines.h5")
    check_rows(tmp_path / "lines.h5", embedder)
    for mark in (b"", codecs.BOM_UTF8):
        type_in(monkeypatch, mark + TEXT)
        embed_file(embedder, "-", tmp_path / "stdin.h5", overwrite=True)
        check_rows(tmp_path / "stdin.h5", embedder)


def test_tokenizer_is_that_of_the_model_or_the_given_one(tmp_path):
    source = written(tmp_path / "in.txt", b"Don't stop.")
    embedder = Embedder(tiny_model().bilm(), text=TextConfig(tokens="spacy"))
    pytest.importorskip("spacy")
    embed_file(embedder, source, tmp_path / "model.h5")
    embed_file(embedder, source, tmp_path / "given.h5", tokenizer=Tokenizer(TextConfig(tokens="whitespace")))
    with read_vectors(tmp_path / "model.h5") as model, read_vectors(tmp_path / "given.h5") as given:
        assert model.tokens(0) == ["Do", "n't", "stop", "."]
        assert given.tokens(0) == ["Don't", "stop."]


def test_a_line_of_any_length_is_one_row(tmp_path, embedder):
    source = written(tmp_path / "in.txt", b"\n".join([b"x" * 10_000, b"word " * 2_000, b"end"]))
    assert embed_file(embedder, source, tmp_path / "out.h5", layers="top").rows == 3
    with read_vectors(tmp_path / "out.h5") as found:
        assert [found[row].shape[0] for row in range(3)] == [1, 2_000, 1]


# What cannot be embedded


def check_refused(folder: Path, embedder: Embedder, source: Path | str, *words: str) -> None:
    before = sorted(folder.iterdir())
    with refused(*words):
        embed_file(embedder, source, folder / "out.hdf5")
    assert sorted(folder.iterdir()) == before


def test_what_is_no_text_is_named(tmp_path, embedder):
    check_refused(tmp_path, embedder, tmp_path, "is a folder")
    check_refused(tmp_path, embedder, written(tmp_path / "empty.txt", b""), "empty.txt")


def test_invalid_utf8_of_standard_input_is_named_with_its_line(tmp_path, embedder, monkeypatch):
    type_in(monkeypatch, b"fine\ncaf\xe9\n")
    check_refused(tmp_path, embedder, "-", "standard input", "line 2", "UTF-8", "windows-1252 -t utf-8`")


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, bz2.compress])
def test_compressed_standard_input_is_refused(tmp_path, embedder, monkeypatch, pack):
    type_in(monkeypatch, pack(TEXT))
    check_refused(tmp_path, embedder, "-", "standard input", "compressed", "decompress")


@pytest.mark.parametrize("control", ["\0", "\r"])
def test_irregular_places_of_standard_input_are_told(tmp_path, embedder, monkeypatch, control):
    type_in(monkeypatch, f"fine\na{control}b\n".encode())
    with pytest.warns(IrregularInput, match="line 2"):
        embed_file(embedder, "-", tmp_path / "v.h5")


def test_lines_may_have_their_ends(tmp_path, embedder):
    embed_file(embedder, ["1\ta\r\n", "2\tb\n"], tmp_path / "v.npz", kind="conllu")
    with read_vectors(tmp_path / "v.npz") as found:
        assert found.tokens(0) == ["a", "b"]


def test_closed_standard_input_is_named(tmp_path, embedder, monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with refused("standard input", "redirect"):
        embed_file(embedder, "-", tmp_path / "v.h5")
