"""The words of a corpus: merged tables are exact, and what is in the cache is what would be counted."""

import json
import os
from collections import Counter
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo.errors import InputError
from elmo.pretraining import counting
from elmo.pretraining.settings import TrainConfig
from elmo.text import tokenizer
from elmo.text.tokenizer import TextConfig
from elmo.text.vocabulary import count_words, merge_tables
from elmo.training.distributed import launch
from elmo.training.optim import OptimConfig

WORD = st.text(min_size=1, max_size=3)


@given(st.lists(st.lists(st.lists(WORD)), min_size=1, max_size=4))
def test_merged_tables_are_that_of_all_texts(parts) -> None:
    merged = merge_tables([count_words(part) for part in parts])
    sentences = [sentence for part in parts for sentence in part]
    assert merged.words == Counter(word for sentence in sentences for word in sentence)
    assert (merged.tokens, merged.sentences) == (sum(map(len, sentences)), len(sentences))
    assert merged == count_words(sentences)


def test_what_is_kept_is_what_would_be_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second run on the same text reads none of it; a text that has changed is counted again."""
    monkeypatch.setenv("ELMO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(counting, "WORTH_KEEPING", -1.0)
    texts = [tmp_path / "a.txt", tmp_path / "b.txt"]
    texts[0].write_text("der Hund , der Hund\u2028bellt\n\nein\u00a0Hund\n", encoding="utf-8")
    texts[1].write_text("ein Hund\n", encoding="utf-8")
    read = []

    def seen(sentences, *rest):
        read.append(1)
        return count_words(sentences, *rest)

    monkeypatch.setattr(counting, "count_words", seen)
    fabric = launch("cpu", 1, 1, "32-true")

    def count(output: str) -> counting.Counted:
        text = TextConfig(tokens="whitespace", sentences="line")
        config = TrainConfig(tuple(map(str, texts)), str(tmp_path / output), text=text)
        return counting.count(fabric, texts, "of the files", config, keep=False, quiet=True)

    fresh = count("first")
    assert [fresh[0].words[3:5], fresh[1].tokens, len(read)] == [("Hund", "der"), 10, 1]
    assert count("second") == fresh
    assert len(read) == 1
    texts[1].write_text("ein Hund bellt\n", encoding="utf-8")
    os.utime(texts[1], ns=(1, 1))
    assert count("third")[1].tokens == 11
    assert len(read) == 2


def test_counts_are_of_one_text_read_in_one_way(tmp_path: Path) -> None:
    """Another tokenizer counts anew, and so does a text of the same size that was written since."""
    text = tmp_path / "a.txt"
    text.write_text("ein Hund\n", encoding="utf-8")
    plain = TextConfig(tokens="whitespace", sentences="line")
    file = counting._cache_file([text], plain)
    assert counting._cache_file([text], plain) == file
    assert counting._cache_file([text], TextConfig()) != file
    os.utime(text, ns=(1, 1))
    assert counting._cache_file([text], plain) != file


@pytest.mark.parametrize("package", ["elmo-torch", "spacy", "pysbd"])
def test_counts_are_of_one_version_of_what_splits_the_text(tmp_path, monkeypatch, package) -> None:
    text = tmp_path / "a.txt"
    text.write_text("ein Hund\n", encoding="utf-8")
    ways = [TextConfig("whitespace", "line"), TextConfig("spacy", "pysbd")]
    before = [counting._cache_file([text], way) for way in ways]
    monkeypatch.setattr(counting, "version", lambda name: "0" if name == package else version(name))
    after = [counting._cache_file([text], way) for way in ways]
    assert [one != other for one, other in zip(before, after, strict=True)] == [package == "elmo-torch", True]
    monkeypatch.setattr(tokenizer, "VERSION", 0)
    assert counting._cache_file([text], ways[1]) != after[1]


def test_counts_that_another_run_removes_meanwhile_are_counted_again(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("ELMO_CACHE", str(tmp_path / "cache"))
    exists = Path.exists
    monkeypatch.setattr(Path, "exists", lambda path, **how: path.suffix == ".tsv" or exists(path, **how))
    text = tmp_path / "a.txt"
    text.write_text("ein Hund , ein Hund\n", encoding="utf-8")
    config = TrainConfig((str(text),), str(tmp_path / "run"), text=TextConfig("whitespace", "line"))
    counted = counting.count(launch("cpu", 1, 1, "32-true"), [text], "of the file", config, keep=False, quiet=True)
    assert counted[1].tokens == 5


def test_counts_that_are_kept_longest_go_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "MOST_KEPT", 2)
    table = count_words([["ein", "Hund"]])
    for number in range(4):
        counting._keep(tmp_path / f"{number}.tsv", (table.ranked(), table.counts()))
        os.utime(tmp_path / f"{number}.tsv", ns=(number, number))
    assert sorted(path.name for path in tmp_path.glob("*.tsv")) == ["2.tsv", "3.tsv"]


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (lambda text: "\n".join(text.split("\n")[:3]) + "\n", "2 words are missing"),
        (lambda text: text[:-3], "line '1.t\\w+'"),
        (lambda text: text.replace("2\t", "two\t"), "line 'two"),
        (lambda text: text[1:], "Extra data"),
    ],
)
def test_kept_counts_that_are_damaged_are_refused(tmp_path: Path, damage: Callable[[str], str], problem: str) -> None:
    table = count_words([["ein", "Hund", "ein", "Hut", "hat"]])
    file = tmp_path / "counts.tsv"
    counting._keep(file, (table.ranked(), table.counts()))
    ranked, counts = counting._read(file)
    assert (list(ranked), counts) == (table.ranked(), table.counts())
    file.write_text(damage(file.read_text(encoding="utf-8")), encoding="utf-8")
    with pytest.raises(
        InputError, match=rf"counts\.tsv: damaged \(.*{problem}.*\); remove it to count the words again"
    ):
        list(counting._read(file)[0])


def test_sessions_are_those_whose_steps_count(tmp_path: Path) -> None:
    """A run without a change has no record of them; those that a run has gone back before are forgotten."""
    seen = []
    counting.write_record(TrainConfig(("a.txt",), str(tmp_path)))
    for step, lr in ((0, 1.0), (10, 1.0), (20, 2.0), (20, 3.0), (30, 3.0), (15, 5.0), (10, 1.0), (0, 7.0)):
        config = TrainConfig(("a.txt",), str(tmp_path), streams=step + 1, optim=OptimConfig(lr=lr))
        counting.record_session(config, step)
        file = tmp_path / "sessions.json"
        sessions = json.loads(file.read_text(encoding="utf-8")) if file.exists() else []
        seen.append([(each["step"], each["settings"]["optim"]["lr"]) for each in sessions])
    assert seen == [
        [],
        [],
        [(0, 1), (20, 2)],
        [(0, 1), (20, 3)],
        [(0, 1), (20, 3)],
        [(0, 1), (15, 5)],
        [(0, 1)],
        [(0, 7)],
    ]
    file.write_text("[{}]", encoding="utf-8")
    with pytest.raises(InputError, match=r"sessions.json: damaged .* remove it"):
        counting.record_session(TrainConfig(("a.txt",), str(tmp_path)), 20)
