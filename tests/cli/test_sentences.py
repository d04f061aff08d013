"""A sentence is the same for every command: what the model's own settings make of a line, or with --lines the line."""

import json
from dataclasses import replace

import numpy as np
import pytest
from command import printed, run
from refusals import refusal
from tiny import tiny_model

from elmo.embedding.store import read_vectors
from elmo.formats import native
from elmo.text.tokenizer import TextConfig

LINES = ["They opened the play. They play chess.", "", "So they play on ."]
SENTENCES = [["They", "opened", "the", "play", "."], ["They", "play", "chess", "."], ["So", "they", "play", "on", "."]]
WHOLE = [[*SENTENCES[0], *SENTENCES[1]], [], SENTENCES[2]]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sentences")
    native.save(replace(tiny_model(), text=TextConfig()), folder / "model")
    (folder / "text.txt").write_text("\n".join([*LINES, ""]), encoding="utf-8")
    return folder


def test_rows_are_sentences_and_map_back_to_lines_and_characters(files, tmp_path):
    more = ("--model", files / "model", "--rows", tmp_path / "rows.jsonl", "--quiet")
    said = printed("embed", files / "text.txt", "--output", tmp_path / "v.npz", *more)
    assert "3 sentences of" in said
    with read_vectors(tmp_path / "v.npz") as found:
        assert [found.tokens(row) for row in range(len(found))] == SENTENCES
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [(row["line"], row["start"]) for row in rows] == [(1, 0), (1, 22), (3, 0)]
    for row in rows:
        line = LINES[row["line"] - 1]
        assert [line[row["start"] + a : row["start"] + b] for a, b in row["offsets"]] == row["tokens"]


def test_lines_keep_a_row_per_line(files, tmp_path):
    said = printed("embed", files / "text.txt", tmp_path / "v.npz", "--model", files / "model", "--lines", "--quiet")
    assert "--lines" not in said
    with read_vectors(tmp_path / "v.npz") as found:
        assert [found.tokens(row) for row in range(len(found))] == WHOLE


def test_a_row_of_a_corpus_has_the_vectors_of_its_sentences(files, tmp_path):
    pytest.importorskip("pyarrow")
    model = ("--model", files / "model", "--layers", "top", "--quiet")
    printed("embed", files / "text.txt", tmp_path / "corpus", "--engine", "local", *model)
    printed("embed", files / "text.txt", tmp_path / "v.npz", *model)
    from pyarrow import parquet

    (part,) = (tmp_path / "corpus").glob("vectors/*.parquet")
    rows = parquet.read_table(part).to_pylist()
    assert [row["tokens"] for row in rows] == WHOLE
    assert [row["sentence_ends"] for row in rows] == [[5, 9], [], [5]]
    with read_vectors(tmp_path / "v.npz") as found:
        expected = np.concatenate([found[0], found[1]])
    np.testing.assert_allclose(np.reshape(rows[0]["vectors"], rows[0]["shape"]), expected, atol=1e-6)


def scored(*more):
    return [json.loads(line) for line in printed("score", "--json", *more).splitlines()]


def test_score_starts_a_sentence_after_a_full_stop(files):
    rows = scored(files / "text.txt")
    assert [row["tokens"] for row in rows] == SENTENCES
    assert [(row["line"], row["start"]) for row in rows] == [(1, 0), (1, 22), (3, 0)]
    lines = scored(files / "text.txt", "--lines")
    assert [row["tokens"] for row in lines] == WHOLE
    assert (
        rows[1]["forward"][0] > lines[0]["forward"][5] + 5
    )  # "They" after a full stop surprises, if inside a sentence


def test_a_text_without_a_sentence_has_no_scores(tmp_path):
    (tmp_path / "empty.txt").write_text("")
    refusal(run("score", tmp_path / "empty.txt"), "empty.txt", "no sentences")


def test_all_commands_see_the_same_sentences(files, tmp_path):
    model = ("--model", files / "model")
    for flags, sentences, places in (((), SENTENCES, 3), (("--lines",), [WHOLE[0], WHOLE[2]], 2)):
        shown = printed(
            "neighbors", "play", "--text", files / "text.txt", *model, *flags, "--json", "-k", "2", "--quiet"
        )
        found = {tuple(json.loads(line)["sentence"]) for line in shown.splitlines()}
        assert found == {tuple(sentence) for sentence in sentences}
        numbers = json.loads(printed("perplexity", files / "text.txt", *flags, "--json", "--quiet"))
        assert numbers["perplexity"]["reset"]["tokens"] == 14 + places  # with sentence ends
        indexed = tmp_path / f"index{len(flags)}"
        said = printed("index", files / "text.txt", "--output", indexed, *model, *flags, "--quiet")
        assert f"of {places} sentences" in said
        again = printed("neighbors", "play", "--index", indexed, "--json", "-k", "2")
        for hit in map(json.loads, [*shown.splitlines(), *again.splitlines()]):
            for prefix in ("", "query_"):
                place = {name: hit[prefix + name] for name in ("file", "line", "start", "end")}
                assert place["file"] == str(files / "text.txt")
                assert LINES[place["line"] - 1][place["start"] : place["end"]] == "play"


def test_types_read_sentences(files, tmp_path):
    for name, flags in (("own", ()), ("lines", ("--lines",))):
        more = ("--output", tmp_path / name, "--model", files / "model", "--quiet", *flags)
        printed("types", files / "text.txt", *more)
    one, other = ((tmp_path / name).read_text(encoding="utf-8") for name in ("own", "lines"))
    assert one != other  # the contexts differ
    assert sorted(line.split()[0] for line in one.splitlines()[1:]) == sorted({t for s in SENTENCES for t in s})


def test_train_keeps_lines_when_told(tmp_path, files):
    for flags, sentences in (((), "rule"), (("--lines",), "line")):
        shown = printed("train", "--train", files / "text.txt", "--output", tmp_path / "run", "--print-config", *flags)
        text = json.loads(shown)["text"]
        assert (text["tokens"], text["sentences"]) == ("spacy", sentences)
