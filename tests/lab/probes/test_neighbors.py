"""`elmo probe neighbors` on two uses of a word that are planted, and on the paper's own sentences."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command import printed, run
from refusals import refusal, refused
from tiny import tiny_model, write_tiny
from written_vectors import Written

from elmo.config import ConfigError, from_dict, load_toml
from elmo.formats import native
from elmo.text.tokenizer import TextConfig
from elmo_lab import RECIPES, record
from elmo_lab.probes import neighbors, wsd_readers
from elmo_lab.probes.neighbors import NeighborQuery, NeighborsConfig

TEXT = [
    "a play on the stage",
    "the play of the striker",
    "stage the play now",
    "a striker makes a play",
    "they talk of the stage",
    "the play",
]
ON_STAGE = NeighborQuery("her play for the stage", "play", "a play on the stage")
OF_SPORT = NeighborQuery("the striker 's play", "play", "a play on the stage")


def use(token: str, sentence: Sequence[str]) -> list[float]:
    """A play of the stage points one way, one of sport another, the less so the longer the sentence is."""
    if token != "play":
        return [-1.0, -1.0]
    way = [1.0, 0.02 * len(sentence)]
    return way if "stage" in sentence else way[::-1] if "striker" in sentence else [1.0, 1.0]


def rows(**settings: Any) -> list[neighbors.NeighborRow]:
    config = NeighborsConfig("text", **{"queries": (ON_STAGE, OF_SPORT), "k": 2} | settings)
    return neighbors.rows(Written(use), [sentence.split() for sentence in TEXT], config)


def test_the_layer_that_knows_the_use_finds_it_and_the_published_one_has_its_rank() -> None:
    found = rows()
    stage, sport = ([row for row in found if row.query == query] for query in dict.fromkeys(row.query for row in found))
    assert stage[0].query == "her [play] for the stage"
    assert [(row.rank, row.neighbor, row.published) for row in stage] == [
        (1, "a [play] on the stage", True),
        (2, "stage the [play] now", False),
    ]
    assert [(row.rank, row.neighbor, row.published) for row in sport] == [
        (1, "the [play] of the striker", False),
        (2, "a striker makes a [play]", False),
        (4, "a [play] on the stage", True),
    ]
    assert (stage[1].sentence_index, stage[1].token_index) == (2, 2)
    assert {(row.layer, row.candidates) for row in found} == {("1", 5)}  # layer 0 is not asked unless it is named
    assert stage[0].similarity == pytest.approx(1.0, abs=1e-6)


def test_the_layer_that_sees_the_word_alone_keeps_the_order_of_the_text() -> None:
    blind = [row for row in rows(layers=(0,), k=5) if row.query.startswith("her")]
    assert [row.sentence_index for row in blind] == [0, 1, 2, 3, 5]
    assert {round(row.similarity, 6) for row in blind} == {1.0}
    assert {row.layer for row in rows(layers=(-1, 0))} == {"1", "0"}


def test_all_words_are_candidates_where_it_is_asked_for() -> None:
    found = rows(any_word=True, k=6, queries=(ON_STAGE,))
    assert found[0].candidates == sum(len(sentence.split()) for sentence in TEXT)
    assert "[play]" not in found[-1].neighbor


def test_static_neighbors_stand_once_a_word(tmp_path: Path) -> None:
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("play 1 0\ngame 1 0.1\nplays 1 -0.2\noak 0 1\n", encoding="utf-8")
    config = NeighborsConfig("text", (ON_STAGE, OF_SPORT), k=2)
    found = neighbors.static_rows(config, vectors)
    assert [(row.query, row.layer, row.rank, row.neighbor) for row in found] == [
        ("play", "static", 1, "game"),
        ("play", "static", 2, "plays"),
    ]
    assert neighbors.static_rows(config, None) == []
    vectors.write_text("game 1 0.1\n", encoding="utf-8")
    with refused("'play'"):
        neighbors.static_rows(config, vectors)


def test_a_text_without_the_word_is_refused() -> None:
    with refused("'oak'"):
        rows(queries=(NeighborQuery("an oak", "oak"),))


def test_a_word_of_a_query_may_contain_spaces() -> None:
    assert NeighborQuery("il a  10 000 amis", "10 000").place == (("il", "a", "10 000", "amis"), 2)
    assert NeighborQuery("il a 10\u00a0000 amis", "10\u00a0000").place == (("il", "a", "10\u00a0000", "amis"), 2)
    assert NeighborQuery("il a 10\u00a0000 \n amis", "amis").place == (("il", "a", "10\u00a0000", "amis"), 3)
    assert NeighborQuery("10\u00a0000 amis", "000").place == (("10", "000", "amis"), 1)
    for word in ("10 amis", " a", ""):
        with refused("token", error=ConfigError):
            NeighborQuery("il a 10 000 amis", word)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"queries": []}, "empty"),
        ({"queries": [{"sentence": "They play .", "word": "plays"}]}, "'plays'"),
        ({"layers": []}, "empty"),
        ({"k": 0}, "k is 0"),
        ({"state": "carry"}, "state is 'carry'"),
    ],
)
def test_settings_that_cannot_be_used(values: dict[str, Any], said: str) -> None:
    with refused(*said.split("; "), error=ConfigError):
        from_dict(NeighborsConfig, load_toml(RECIPES / "probes" / "neighbors.toml") | values)


@pytest.mark.parametrize(
    ("name", "text", "more"),
    [
        ("a.txt", "They play chess .\n\nA play , and a play .\n", ("pretokenized=true",)),
        ("a.txt", "They play chess. A play, and a play.\n", ()),
        ("a.fasta", ">one\nPLAY\n>two\nAA\n", ("queries=[{sentence='L A', word='A'}]",)),
        ("a.conllu", "1\tA\n2\tplay\n\n1\tThey\n2\tplay\n3\tchess\n\n1\tto\n2\tplay\n", ()),
        (
            "a.data.xml",
            "<corpus><sentence><wf>A</wf><wf>play</wf></sentence>"
            "<sentence><wf>a_play play</wf></sentence></corpus>",
            (),
        ),
    ],
)  # fmt: skip
def test_texts_of_all_kinds(tmp_path: Path, name: str, text: str, more: tuple[str, ...]) -> None:
    native.save(replace(tiny_model(), text=TextConfig()), tmp_path / "bilm")
    (tmp_path / name).write_text(text, encoding="utf-8")
    query = "queries=[{sentence='They play .', word='play'}]"
    shown = printed(
        "probe", "neighbors", f"text={name}", query, *more, "--data", tmp_path, "--model", tmp_path / "bilm", "--json"
    )
    found = [json.loads(line) for line in shown.splitlines()]
    assert {(row["layer"], row["candidates"]) for row in found} == {("1", 3), ("2", 3)}


def test_a_record_keeps_tokens_with_what_else_could_end_a_line(tmp_path: Path) -> None:
    text = [["the", "play", "now\x85"], ["a\u2028b", "play"]]
    config = NeighborsConfig("text", (NeighborQuery("play on", "play"),))
    rows = neighbors.rows(Written(use), text, config)
    record.write(tmp_path, record.probe_record("neighbors", "1", config, rows))
    assert record.read(tmp_path).rows == [vars(row) for row in rows]


def test_command(tmp_path: Path) -> None:
    write_tiny(tmp_path / "bilm")
    (tmp_path / "text.txt").write_text("\n".join(TEXT) + "\n", encoding="utf-8")
    (tmp_path / "vectors.txt").write_text("play 1 0\ngame 1 0.1\n", encoding="utf-8")
    queries = "queries=[{sentence='her play for the stage', word='play', published='the play'}]"
    arguments = (
        "probe", "neighbors", "text=text.txt", queries, "pretokenized=true", "k=1", "--data", tmp_path, "--model",
        tmp_path / "bilm", "--vectors", tmp_path / "vectors.txt", "--quiet",
    )  # fmt: skip
    shown = printed(*arguments, "--output", tmp_path / "run")
    lines = shown.splitlines()
    assert [line for line in lines if "Nearest to" in line] == [
        "Nearest to: play",
        "Nearest to: her [play] for the stage",
    ]
    assert ["static", "1", "0.995", "game"] in [line.split() for line in lines]
    assert sum("the [play]" in line and line.split()[-1] == "yes" for line in lines) == 2
    assert "5 candidates" in lines[-1]
    made = json.loads((tmp_path / "run" / "record.json").read_text())["rows"]
    again = run(*arguments, "--json")
    assert [json.loads(line) for line in again.stdout.splitlines()] == made
    refusal(run(*arguments, "--output", tmp_path / "run"), "--overwrite")
    refusal(run(*arguments, "text=nowhere.txt"), "no such file")
    refusal(run(*arguments, "layers=[7]"), "layers 0 to 2")


def test_the_papers_sentences_are_semcors(shared: Path) -> None:
    config = from_dict(NeighborsConfig, load_toml(RECIPES / "probes" / "neighbors.toml"))
    wanted = {sentence for asked in config.queries for sentence in (asked.sentence, asked.published)}
    read = wsd_readers.read_sentences(shared / config.text)
    assert wanted == {text for sentence in read if (text := " ".join(sentence.tokens)) in wanted}
