"""`elmo embed` and `elmo types`: the shapes that people ask for, from the command line."""

import gzip
import json
import os
import signal
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
import torch
from command import Command, printed, run
from refusals import refusal, refused
from safetensors import safe_open
from tiny import DIM, LAYERS, tiny_model, write_tiny

from elmo.embedding.embedder import Embedder
from elmo.embedding.layers import layer_selector
from elmo.embedding.store import read_vectors, write_vectors
from elmo.errors import Failure, InputError
from elmo.formats import native
from elmo.text.tokenizer import TextConfig
from elmo.text.vocabulary import Vocabulary

HUGE = "1" + "0" * 12


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_tiny(tmp_path_factory.mktemp("cli") / "model")[0].parent


def test_embed_concat_with_an_index_of_offsets(tmp_path):
    model, text = tmp_path / "model", "  The cat, sat.\n\nŻółw \u00a0 x\n"
    native.save(replace(tiny_model(), text=TextConfig("spacy", "line")), model)
    (tmp_path / "t.txt").write_text(text, encoding="utf-8")
    arguments = ("embed", tmp_path / "t.txt", tmp_path / "v.safetensors", "--model", model, "--layers", "concat")
    printed(*arguments, "--rows", tmp_path / "rows.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [row["row"] for row in rows] == [0, 1, 2]
    assert [row["text"] for row in rows] == text.splitlines()
    assert [(row["line"], row["start"]) for row in rows] == [(1, 0), (2, 0), (3, 0)]
    assert rows[0]["tokens"] == ["The", "cat", ",", "sat", "."]
    for row in rows:
        assert [row["text"][begin:end] for begin, end in row["offsets"]] == row["tokens"]
    with safe_open(tmp_path / "v.safetensors", "numpy") as file:
        assert sorted(file.keys()) == ["0", "1", "2"]
        assert file.get_tensor("0").shape == (5, LAYERS * DIM)
        assert file.get_tensor("1").shape == (0, LAYERS * DIM)


def test_text_for_a_model_of_unknown_text_is_split_at_whitespace_with_a_warning(model, tmp_path):
    """As by the programs that such models come from."""
    (tmp_path / "t.txt").write_text("Eles não d'água (R$10,50).\n", encoding="utf-8")
    for more, warnings in (((), 1), (("--pretokenized",), 0)):
        written = run("embed", tmp_path / "t.txt", tmp_path / f"{warnings}.npz", "--model", model, "--quiet", *more)
        assert written.returncode == 0
        assert written.stderr.count("elmo: warning: the model does not say how its text was split") == warnings
        with read_vectors(tmp_path / f"{warnings}.npz") as found:
            assert found.tokens(0) == ["Eles", "não", "d'água", "(R$10,50)."]


def test_embed_proteins_as_seqvec(model, tmp_path):
    with gzip.open(tmp_path / "p.fasta.gz", "wt") as file:
        file.write(">sp|A one\nSEQ\nwence\n>B\nMKV\n")
    printed("embed", tmp_path / "p.fasta.gz", tmp_path / "v.h5", "--model", model, "--layers", "sum", "--pool", "mean")
    proteins = [list("SEQWENCE"), list("MKV")]
    with read_vectors(tmp_path / "v.h5") as found:
        for row, layers in enumerate(Embedder.load(model).embed(proteins)):
            np.testing.assert_allclose(found[row], layers.sum(axis=0).mean(axis=0), atol=1e-6)
            assert found.tokens(row) == proteins[row]
    printed("embed", tmp_path / "p.fasta.gz", tmp_path / "r.npz", "--model", model, "--layers", "sum")
    with read_vectors(tmp_path / "r.npz") as found:
        assert found[0].shape == (8, DIM)


def test_embed_refuses_what_is_not_of_the_kind(model, tmp_path):
    (tmp_path / "t.txt").write_text("The cat\n", encoding="utf-8")
    done = run("embed", tmp_path / "t.txt", tmp_path / "v.h5", "--model", model, "--kind", "fasta")
    refusal(done, "t.txt", "line 1 is 'The cat'")
    assert [path.name for path in tmp_path.iterdir()] == ["t.txt"]


@pytest.mark.parametrize(
    ("command", "parts"),
    [
        ("embed p.fasta v.h5 --pretokenized", ("--pretokenized", "fasta")),
        ("embed p.txt v.h5 --kind conllu --lines", ("--lines", "conllu")),
        ("types p.fasta v.txt --lines", ("--lines", "fasta")),
        ("index p.fasta index --pretokenized", ("--pretokenized", "fasta")),
        ("neighbors M --text p.fasta --lines", ("--lines", "fasta")),
        ("bench --text p.fasta", ("p.fasta", "not text", ".txt")),
        ("neighbors M --index index --pretokenized", ("--pretokenized", "index")),
        ("neighbors A-cat --word cat --figure f.svg", ("--figure", "neighbors cat")),
        ("embed p*.txt v.h5", ("p*.txt", "--engine local")),
        (f"serve --model MODEL --workers {HUGE}", ("--workers", "fewer")),
        ("serve --model MODEL --workers 0", ("--workers",)),
        ("serve --model MODEL --timeout nan", ("--timeout", "above 0")),
        ("serve --model MODEL --wait inf", ("--wait", "above 0")),
        (f"serve --model MODEL --most-tokens {HUGE}", ("--most-tokens", "up to")),
        ("embed text.txt out --model MODEL --engine local --threads 100000", ("--threads", "fewer")),
        ("types text.txt words.txt --model MODEL --min-count -1", ("--min-count", "at least 1")),
        (f"task compare queue --output out --jobs {HUGE}", ("--jobs", "fewer")),
        ("task compare queue --output out --jobs -1", ("--jobs", "at least 1")),
        ("probe ablate --output out --jobs 9000", ("--jobs", "fewer")),
    ],
)
def test_flags_are_refused_before_any_work(model, tmp_path, monkeypatch, command, parts):
    """Those that would do nothing, and numbers that no machine bears."""
    (tmp_path / "p.fasta").write_text(">B\nMKV\n", encoding="utf-8")
    (tmp_path / "text.txt").write_text("They play .\n")
    monkeypatch.chdir(tmp_path)
    refusal(run(*command.replace("MODEL", str(model)).split()), *parts)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p.fasta", "text.txt"]


@pytest.mark.parametrize("weight", ["nan", "inf", "1e40", "-3e38"])
def test_a_weight_that_makes_vectors_infinite_is_refused(weight: str) -> None:
    with refused("layers", "finite"):
        layer_selector(f"mix={weight},1,1", 3)


@pytest.mark.parametrize("suffix", [".npz", ".hdf5", ".safetensors"])
@pytest.mark.parametrize(("value", "error"), [(np.nan, Failure), (np.inf, Failure), (1e6, InputError)])
def test_vectors_that_are_not_finite_are_never_written(tmp_path, suffix: str, value: float, error) -> None:
    vectors = np.full((1, 2), value, np.float32)
    dtype = "float16" if error is InputError else "float32"
    with refused("vector", error=error), write_vectors(tmp_path / f"out{suffix}", dtype) as writer:
        writer.append("a", ["a"], vectors)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "command",
    [
        "index odd.txt index --model MODEL --pretokenized",
        "score odd.txt --model WITH_SOFTMAX --pretokenized",
        "perplexity odd.txt --model WITH_SOFTMAX --pretokenized",
        "train --train odd.txt --output run --pretokenized",
    ],
)
def test_every_command_that_reads_a_text_can_refuse_an_irregular_one(model, tmp_path, monkeypatch, command):
    (tmp_path / "odd.txt").write_text("the cat\rsat\nthe cat\n", encoding="utf-8")
    words = Vocabulary(("<S>", "</S>", "<UNK>", "cat"))
    softmax = {"weight": torch.zeros(4, DIM // 2), "bias": torch.zeros(4)}
    native.save(replace(tiny_model(), lm_head=softmax, vocabulary=words), tmp_path / "with_softmax")
    monkeypatch.chdir(tmp_path)
    given = command.replace("MODEL", str(model)).replace("WITH_SOFTMAX", "with_softmax").split()
    refusal(run(*given, "--strict"), "odd.txt", "carriage return", "--strict")
    assert {path.name for path in tmp_path.iterdir()} - {"run"} == {"odd.txt", "with_softmax"}


def test_types_are_written_as_word2vec_does(model, tmp_path):
    (tmp_path / "t.conllu").write_text("1\tThe\n2\tcat\n\n1\tthe\n2\tcat\n", encoding="utf-8")
    said = printed("types", tmp_path / "t.conllu", tmp_path / "v.txt", "--model", model, "--lowercase", "--quiet")
    assert said == f"{tmp_path / 'v.txt'}: 2 words of {DIM} numbers, from 4 tokens\n"
    head, *lines = (tmp_path / "v.txt").read_text(encoding="utf-8").splitlines()
    assert head == f"2 {DIM}"
    assert [line.split(" ")[0] for line in lines] == ["the", "cat"]
    refusal(run("types", tmp_path / "t.conllu", tmp_path / "v.txt", "--model", model), "v.txt", "exists", "--overwrite")
    rare = run("types", tmp_path / "t.conllu", tmp_path / "w.txt", "--model", model, "--min-count", 9)
    refusal(rare, "t.conllu", "9 times", "min_count")


@pytest.mark.skipif(sys.platform == "win32", reason="SIGTERM ends a program there without a chance to tidy up")
def test_what_is_ended_leaves_no_unfinished_file(tmp_path):
    write_tiny(tmp_path / "model")
    os.mkfifo(tmp_path / "text.txt")
    out = tmp_path / "out"
    out.mkdir()
    command = Command("embed", tmp_path / "text.txt", out / "v.npz", "--model", tmp_path / "model", "--pretokenized")
    text = os.open(tmp_path / "text.txt", os.O_RDWR)  # the command reads from it, and waits
    os.write(text, b"a b c\n" * 5000)
    begun = time.monotonic()
    while not list(out.iterdir()) and time.monotonic() < begun + 120:
        time.sleep(0.05)
    assert list(out.iterdir())
    os.kill(command.process.pid or 0, signal.SIGTERM)
    assert command.wait().returncode == 128 + signal.SIGTERM
    assert not list(out.iterdir())
    os.close(text)
