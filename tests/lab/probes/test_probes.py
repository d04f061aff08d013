"""Probes on an embedder whose vectors are written by hand, so that every answer is known."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command import printed, run
from places import ROOT
from refusals import refusal, refused
from tiny import CONFIG, tiny_model, write_tiny
from written_vectors import Written

import elmo
from elmo.errors import InputError
from elmo.formats.opened import OpenedModel
from elmo.search import nearest, senses
from elmo.search.senses import Occurrence

LATIN = ROOT / "models" / "latin" / "senses.tsv"
SHIPPED = Path(str(resources.files("elmo") / "assets" / "senses.tsv"))


def occurrence(sense: str, sentence: str, word: str = "bank") -> Occurrence:
    tokens = tuple(sentence.split())
    return Occurrence(word, sense, tokens.index(word), tokens)


BANKS = [
    occurrence("river", "the muddy bank"),
    occurrence("river", "a muddy bank"),
    occurrence("money", "the rich bank"),
    occurrence("money", "a rich bank"),
]


def test_senses_score_chance_without_context_and_all_with_it() -> None:
    embedder = Written(lambda token, sentence: [1.0, 0.0] if "muddy" in sentence else [0.0, 1.0])
    blind, seeing = senses.score_layers(embedder, BANKS)
    assert (blind.layer, seeing.layer) == (0, 1)
    assert blind.accuracy == pytest.approx(1 / 3)  # of the three others, all equally near, one has the sense
    assert seeing.accuracy == 1.0
    assert seeing.by_word == {"bank": 1.0}
    assert seeing.occurrences == 4


def test_senses_share_the_decision_of_vectors_that_differ_in_their_last_bits() -> None:
    """Each river is as near to money as to the other river, and money has only rivers."""
    last = {"muddy": 0.0, "rich": 1e-4, "old": 3e-4}
    embedder = Written(lambda token, sentence: [1.0, last[sentence[1]]])
    uses = [
        occurrence(sense, f"the {word} bank") for sense, word in zip(("river", "money", "river"), last, strict=True)
    ]
    assert senses.score_layers(embedder, uses)[1].accuracy == pytest.approx(1 / 3)


def test_senses_compare_only_the_same_word() -> None:
    """A vector of another word that lies nearer does not count; a word that occurs once is wrong."""
    embedder = Written(lambda token, sentence: [1.0, 0.1] if token == "bank" else [1.0, 0.0])
    rows = senses.score_layers(embedder, [*BANKS[:2], occurrence("river", "the shore", "shore")])
    assert rows[1].by_word == {"bank": 1.0, "shore": 0.0}
    assert rows[1].accuracy == pytest.approx(2 / 3)


def test_senses_and_neighbors_say_how_far_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[object] = []
    senses.score_layers(Written(angle), BANKS[:3], lambda done, total: told.append((done, total)))
    monkeypatch.setattr(nearest, "CHUNK", 2)
    nearest.search(Written(angle), TEXT, [(["bank"], 0)], progress=told.append)
    assert told == [(1, 3), (2, 3), (3, 3), 3, 5]


def test_senses_need_occurrences() -> None:
    with refused("labelled"):
        senses.score_layers(Written(lambda token, sentence: [1.0, 0.0]), [])


def test_an_output_that_cannot_be_made_is_refused_before_the_model_reads(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    write_tiny(tmp_path / "bilm")
    done = run("probe", "senses", "--model", tmp_path / "bilm", "--output", tmp_path / "file" / "out")
    refusal(done, "name another --output")


def test_layers_are_compared_on_the_same_occurrences(tmp_path: Path) -> None:
    write_tiny(tmp_path / "bilm")
    done = run("probe", "senses", "--model", tmp_path / "bilm", "--json", "--quiet")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["layer"] for row in rows] == [0, 1, 2]
    for row in rows:
        others = {str(other["layer"]): other for other in rows if other is not row}
        assert row["differences"].keys() == others.keys()
        for name, (points, low, high) in row["differences"].items():
            assert points == pytest.approx(100 * (row["accuracy"] - others[name]["accuracy"]))
            assert low < points < high
    shown = run("probe", "senses", "--model", tmp_path / "bilm", "--quiet").stdout
    low, high = rows[2]["differences"]["0"][1:]
    assert f"({low:+.2f} to {high:+.2f})" in shown


def test_shipped_senses_are_enough_and_fair() -> None:
    """What the probe's number rests on: many words, at least four of each of two senses, no sentence twice."""
    labelled = senses.read_occurrences(SHIPPED) + senses.read_occurrences(SHIPPED.with_name("senses-2.tsv"))
    assert len(labelled) >= 400
    assert len({item.sentence for item in labelled}) == len(labelled)
    words = {item.word for item in labelled}
    assert len(words) >= 40
    for word in words:
        counts = [item.sense for item in labelled if item.word == word]
        assert len(set(counts)) == 2
        assert min(counts.count(sense) for sense in set(counts)) >= 4
    demo = SHIPPED.with_name("demo.txt").read_text(encoding="utf-8").splitlines()
    assert not {" ".join(item.sentence) for item in labelled} & set(demo)


def test_senses_of_latin_are_enough_and_fair() -> None:
    labelled = senses.read_occurrences(LATIN)
    assert len({(item.word, item.index, item.sentence) for item in labelled}) == len(labelled)
    assert len({item.word for item in labelled}) == 10
    for word in {item.word for item in labelled}:
        counts = Counter(item.sense for item in labelled if item.word == word)
        assert len(counts) == 2
        assert min(counts.values()) >= 7
        assert counts.total() <= 100


def test_senses_in_other_forms_are_those_of_one_word(tmp_path: Path) -> None:
    head = "word\tsense\tindex\tsentence\tform\n"
    path = tmp_path / "senses.tsv"
    path.write_text(
        head + "ius\tlaw\t1\tde iure civili\tiure\nius\tbroth\t0\tius supernatet\tius\n\n", encoding="utf-8"
    )
    assert [(item.word, item.sentence[item.index]) for item in senses.read_occurrences(path)] == [
        ("ius", "iure"),
        ("ius", "ius"),
    ]
    path.write_text(head + "ius\tlaw\t1\tde iure civili\tius\n", encoding="utf-8")
    with refused("line 2", "token 1", "'ius'"):
        senses.read_occurrences(path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "line"),
        ("word\tsense\n", "line"),
        ("word\tsense\tindex\tsentence\nbank\triver\tx\tthe bank\n", "line 2"),
        ("word\tsense\tindex\tsentence\nbank\triver\t0\tthe bank\n", "token 0; 'bank'"),
        ("word\tsense\tindex\tsentence\nbank\triver\t9\tthe bank\n", "token 9"),
        (f"word\tsense\tindex\tsentence\nbank\triver\t{'9' * 5000}\tthe bank\n", "line 2"),
        ("word\tsense\tindex\tsentence\nbank\tcafé\t1\tthe bank\n", "line 2; UTF-8"),
    ],
)
def test_senses_refuse_a_bad_file(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "senses.tsv"
    path.write_text(text, encoding="latin-1")
    with refused(path, *said.split("; ")):
        senses.read_occurrences(path)


TEXT = [["a", "bank", "x"], [], ["bank", "y"], ["z"], ["bank", "x", "bank"]]


def angle(token: str, sentence: Sequence[str]) -> list[float]:
    """`bank` points one way beside an x, another beside a y; other words lie between."""
    if token != "bank":
        return [1.0, 1.0]
    return [1.0, 0.1 * len(sentence)] if "x" in sentence else [0.0, 1.0]


def found(query: Sequence[str], index: int, layer: int = 1, k: int = 5, same_word: bool = True) -> list[Any]:
    """The neighbours in TEXT of one query at one layer."""
    ((only,),) = nearest.search(Written(angle), TEXT, [(query, index)], [layer], k, same_word)
    return only.neighbors


def places(neighbors: Sequence[nearest.Neighbor]) -> list[tuple[int, int]]:
    return [(neighbor.sentence_index, neighbor.token_index) for neighbor in neighbors]


def test_neighbors_are_the_same_word_nearest_first() -> None:
    embedder = Written(angle)
    ((only,),) = nearest.search(embedder, iter(TEXT), [(["bank", "x"], 0)], [1], k=3)
    assert places(only.neighbors) == [(0, 1), (4, 0), (4, 2)]
    assert only.candidates == 4
    assert only.neighbors[0].sentence == ("a", "bank", "x")
    assert only.neighbors[0].similarity == pytest.approx(1.0, abs=0.01)
    assert embedder.sentences == 1 + 3  # sentences without the word are never embedded
    assert places(found(["bank", "y", "y"], 0, layer=-1, k=1)) == [(2, 0)]


def test_neighbors_of_many_queries_and_layers_are_those_of_each() -> None:
    queries = [(["bank", "x"], 0), (["bank", "y", "y"], 0), (["x"], 0)]
    together = nearest.search(Written(angle), iter(TEXT), queries, layers=[1, 0], k=2)
    for layer, of_layer in zip([1, 0], together, strict=True):
        alone = [found(*query, layer, k=2) for query in queries]
        assert [each.neighbors for each in of_layer] == alone
    assert [neighbor.token_index for neighbor in together[0][2].neighbors] == [2, 1]
    assert [each.candidates for each in together[0]] == [4, 4, 2]


def test_neighbors_need_a_query() -> None:
    with pytest.raises(InputError, match="no query"):
        nearest.search(Written(angle), TEXT, [])


def test_neighbors_leave_the_query_itself_out() -> None:
    assert places(found(TEXT[4], 0, k=10)) == [(0, 1), (4, 2), (2, 0)]  # a tie keeps the order of the text


def test_neighbors_among_all_words() -> None:
    assert places(found(["q"], 0, k=3, same_word=False)) == [(0, 0), (0, 2), (2, 1)]


def test_neighbors_in_chunks_are_those_of_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    given = Written(angle), TEXT, [(["bank", "x"], 0)], [1], 4, False
    whole = nearest.search(*given)
    monkeypatch.setattr(nearest, "CHUNK", 1)
    assert nearest.search(*given) == whole
    assert whole[0][0].candidates == 9


@pytest.mark.parametrize(("index", "layer", "said"), [(2, 1, "index is 2"), (-1, 1, "index is -1"), (0, 2, "0; 1")])
def test_neighbors_refuse_a_place_that_is_not_there(index: int, layer: int, said: str) -> None:
    with refused(*said.split("; ")):
        found(["bank", "x"], index, layer)


def test_occurrences_finds_every_place() -> None:
    assert nearest.find_occurrences(TEXT, "bank") == [(0, 1), (2, 0), (4, 0), (4, 2)]


# What a record says of the model


@pytest.mark.parametrize(
    ("sizes", "said"), [({"dim": 6, "projection_dim": 4}, (6, 4)), ({"dim": 4, "projection_dim": 4}, (4, None))]
)
def test_a_card_has_the_size_of_the_model(sizes: dict[str, int], said: tuple[int, int | None]) -> None:
    model = tiny_model(replace(CONFIG, lstm=replace(CONFIG.lstm, **sizes)))
    card = OpenedModel("tiny", replace(model, card={"words_read": 9, "argv": ["secret"]}), "5e").card()
    assert card == {"model": "tiny", "sha256": "5e", "words_read": 9, "cells": said[0], "projection_dim": said[1]}


def test_a_token_is_shown_in_as_much_context_as_fits_a_line():
    sentence = [f"word{number}" for number in range(1000)]
    line = nearest.in_context(sentence, 500)
    assert line.startswith("... word49")
    assert line.endswith(" ...")
    assert "word499 [word500] word501" in line
    assert len(line) < 130
    assert nearest.in_context(["a", "b", "c"], 1) == "a [b] c"
    assert nearest.in_context(["a" * 100, "b", "c" * 100], 1) == "... [b] ..."


# Latin

SMALL_LATIN = (
    "model.lstm.dim=32", "model.lstm.projection_dim=16", "model.char_cnn.filters=[[1, 8], [2, 8], [3, 8]]",
    "objective.negatives=64", "streams=16", "vocab_size=2000", "max_words=6400",
)  # fmt: skip


@pytest.mark.shared
def test_the_recipe_of_latin_makes_a_model_of_one_spelling(shared: Path, tmp_path: Path) -> None:
    """The road to the model, its first minutes: the recipe with a small network, and the probe of its senses."""
    text, heldout = shared / "latin" / "latin.test.txt.xz", shared / "latin" / "latin.valid.txt.xz"
    given = ("--train", text, "--heldout", heldout, "--output", tmp_path / "run")
    assert run("train", "latin", *given, "--dry-run", *SMALL_LATIN).returncode == 0
    printed("train", "latin", *given, *SMALL_LATIN)

    embedder = elmo.load(tmp_path / "run" / "model")
    one, same, other = embedder.embed([["Jam", "vēnit", "præda", "."], ["Iam", "uenit", "praeda", "."], ["Iam"] * 4])
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)

    shown = printed("probe", "senses", "--data", LATIN, "--model", tmp_path / "run" / "model", "--quiet", "--json")
    assert [json.loads(line)["layer"] for line in shown.splitlines()] == [0, 1, 2]
