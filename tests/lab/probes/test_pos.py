"""`elmo probe pos` on tags that are planted, and beside scikit-learn's classifier."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command import printed, run
from refusals import refusal, refused
from text_files import CONLLU
from tiny import write_tiny

from elmo.config import ConfigError, from_dict, load_toml
from elmo.text.records import read_conllu, read_conllu_columns
from elmo_lab import RECIPES
from elmo_lab.probes import pos
from elmo_lab.probes.pos import PosConfig, TaggedTokens

WORDS = {"NOUN": ["oak", "elm", "light"], "VERB": ["grows", "light"], "DET": ["the", "an"]}


def sentences(count: int, seed: int) -> list[TaggedTokens]:
    """`light` is a noun more often than a verb."""
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(count):
        tags = rng.choice(list(WORDS), size=rng.integers(1, 8), p=[0.5, 0.2, 0.3]).tolist()
        made.append(TaggedTokens(tuple(str(rng.choice(WORDS[tag])) for tag in tags), tuple(tags)))
    return made


def config(**values: Any) -> PosConfig:
    return PosConfig("train", "dev", **{"epochs": 12, "lr": 0.05} | values)


class Planted:
    """Layer 0 is noise of a word's own, layer 1 has the tag in it."""

    def __init__(self, parts: dict[str, list[TaggedTokens]], scale: float = 1.0) -> None:
        self.tags = {sentence.tokens: sentence.tags for part in parts.values() for sentence in part}
        self.scale = scale

    def __call__(self, texts: Sequence[Sequence[str]]) -> list[np.ndarray]:
        found = []
        for text in texts:
            tags = [list(WORDS).index(tag) for tag in self.tags[tuple(text)]]
            noise = np.array([[len(token), ord(token[0]) % 7] for token in text], np.float32)
            found.append(np.stack([noise, np.array([[tag, tag == 1] for tag in tags], np.float32) * self.scale]))
        return found


def distinct(parts: dict[str, list[TaggedTokens]]) -> dict[str, list[TaggedTokens]]:
    """No sentence twice with other tags."""
    tags: dict[tuple[str, ...], tuple[str, ...]] = {}
    return {
        name: [each for each in part if tags.setdefault(each.tokens, each.tags) == each.tags]
        for name, part in parts.items()
    }


PARTS = distinct({"train": sentences(200, 0), "dev": sentences(60, 1), "test": sentences(60, 2)})


def test_a_layer_that_has_the_tag_is_read_and_one_that_has_the_word_is_not() -> None:
    blind, seeing, mix, word = pos.rows(Planted(PARTS), PARTS, config())
    assert [row.layer for row in (blind, seeing, mix, word)] == ["0", "1", "mix", "word"]
    assert (seeing.dev, seeing.test, seeing.chosen) == (100.0, 100.0, True)
    assert 50 < blind.test <= word.test < 97  # nobody knows what light is
    assert not mix.chosen


def test_the_layer_is_chosen_on_dev_and_is_a_layer() -> None:
    """Layer 0 has the tags of dev, layer 1 those of test; their sum, in the mix, has both."""
    parts = {
        part: [TaggedTokens((part, *each.tokens), ("DET", *each.tags)) for each in found]
        for part, found in PARTS.items()
    }

    def divided(texts: Sequence[Sequence[str]]) -> list[np.ndarray]:
        tags = [layers[1] for layers in Planted(parts)(texts)]
        pairs = zip(texts, tags, strict=True)
        return [np.stack([each * (text[0] != part) for part in ("test", "dev")]) for text, each in pairs]

    first, second, mix, _ = pos.rows(divided, parts, config())
    assert first.dev == second.test == 100.0
    assert max(first.test or 0, second.dev) < 90
    assert [row.chosen for row in (first, second, mix)] == [True, False, False]


def test_of_epochs_that_are_as_good_the_first_is_kept() -> None:
    """Layer 1 is right after each epoch."""
    once, often = (pos.rows(Planted(PARTS), PARTS, config(epochs=epochs, lr=0.5))[1] for epochs in (1, 3))
    assert (once.dev, often.dev) == (100.0, 100.0)
    assert often.epoch == 1


def test_a_mix_that_is_better_than_every_layer_is_no_layer() -> None:
    """Layer 0 knows nouns, layer 1 verbs, and only both together know determiners."""

    def halves(texts: Sequence[Sequence[str]]) -> list[np.ndarray]:
        tags = [layers[1, :, 0] for layers in Planted(PARTS)(texts)]
        return [np.stack([np.stack([tag == 0, 0 * tag], 1), np.stack([0 * tag, tag == 1], 1)]) for tag in tags]

    first, second, mix, _ = pos.rows(halves, PARTS, config())
    assert mix.dev == 100.0 > max(first.dev, second.dev)
    assert [first.chosen or second.chosen, mix.chosen] == [True, False]


def test_rows_learn_as_if_they_were_alone_and_the_same_again() -> None:
    """What the other layers hold changes nothing; the scale of a layer hardly does."""
    rows = pos.rows(Planted(PARTS), PARTS, config(epochs=2))
    other = pos.rows(Planted(PARTS, scale=-3.0), PARTS, config(epochs=2))
    assert replace(rows[0], differences={}) == replace(other[0], differences={})
    assert rows == pos.rows(Planted(PARTS), PARTS, config(epochs=2))
    assert pos.rows(Planted(PARTS), PARTS, config(epochs=2, seed=2))[2] != rows[2]


def test_differences_are_of_test_and_of_the_same_tokens() -> None:
    first, second, mix, word = pos.rows(Planted(PARTS), PARTS, config(epochs=2))
    for row in (first, second, mix):
        scores = {"0": first.test, "1": second.test, "mix": mix.test, "word": word.test}
        assert set(row.differences) == set(scores) - {row.layer}
        for other, (value, low, high) in row.differences.items():
            assert value == pytest.approx(row.test - scores[other])
            assert low <= value <= high
    assert not word.differences
    no_test = {part: PARTS[part] for part in ("train", "dev")}
    on_dev = pos.rows(Planted(PARTS), no_test, config(epochs=2))
    assert on_dev[0].differences["1"][0] == pytest.approx(on_dev[0].dev - on_dev[1].dev)


def test_agrees_with_scikit_learn() -> None:
    """On features that leave a tenth of the tokens in doubt, standardised by it as well."""
    linear, preprocessing = pytest.importorskip("sklearn.linear_model"), pytest.importorskip("sklearn.preprocessing")
    rng = np.random.default_rng(3)
    centres = rng.normal(size=(2, 5, 6)) * 1.2
    features: dict[tuple[str, ...], np.ndarray] = {}
    parts: dict[str, list[TaggedTokens]] = {}
    for part, count in (("train", 300), ("dev", 100), ("test", 200)):
        parts[part] = []
        for number in range(count):
            tags = rng.integers(0, 5, size=10)
            tokens = tuple(f"{part}{number}.{place}" for place in range(10))
            made = (centres[:, tags] + rng.normal(size=(2, 10, 6))) * 10.0 ** np.arange(-3, 3) + 7
            features[tokens] = made.astype(np.float32)
            parts[part].append(TaggedTokens(tokens, tuple(map(str, tags))))
    rows = pos.rows(lambda texts: [features[tuple(text)] for text in texts], parts, config(lr=0.02))

    def flat(part: str, layer: int) -> tuple[np.ndarray, list[str]]:
        vectors = np.concatenate([features[sentence.tokens][layer] for sentence in parts[part]])
        return vectors, [tag for sentence in parts[part] for tag in sentence.tags]

    for layer in range(2):
        vectors, tags = flat("train", layer)
        scaler = preprocessing.StandardScaler().fit(vectors)
        theirs = linear.LogisticRegression(C=1e4, max_iter=500).fit(scaler.transform(vectors), tags)
        vectors, tags = flat("test", layer)
        accuracy = 100 * theirs.score(scaler.transform(vectors), tags)
        assert 70 < accuracy < 98
        assert rows[layer].test == pytest.approx(accuracy, abs=1.0)


def test_baseline_is_the_usual_tag_of_the_word() -> None:
    train = [
        TaggedTokens(("a", "light", "light", "light"), ("DET", "VERB", "NOUN", "NOUN")),
        TaggedTokens(("oak",), ("NOUN",)),
    ]
    dev = [TaggedTokens(("light", "a", "quince", "oak"), ("VERB", "DET", "NOUN", "NOUN"))]
    row = pos.baseline({"train": train, "dev": dev})
    assert (row.dev, row.test, row.epoch) == (75.0, None, None)


def test_a_tag_that_training_never_had_is_wrong() -> None:
    dev = [TaggedTokens(each.tokens, ("X", *each.tags[1:])) for each in PARTS["dev"]]
    rows = pos.rows(Planted(PARTS), {"train": PARTS["train"], "dev": dev}, config())
    tokens = sum(len(each.tags) for each in dev)
    assert rows[1].dev == pytest.approx(100 * (1 - len(dev) / tokens))
    assert rows[1].test is None


# Files


def test_columns_of_conllu_are_of_the_words() -> None:
    words = [record.tokens for record in read_conllu(CONLLU.splitlines())]
    assert [[form for form, _ in found] for found in read_conllu_columns(CONLLU.splitlines(), (1, 3))] == words
    first, _ = read_conllu_columns(CONLLU.splitlines(), (3,))
    assert first == [("VERB",), ("PRON",), ("ADP",), ("DET",), ("NOUN",), ("PUNCT",)]
    with refused("x: line 4", "column 5"):
        list(read_conllu_columns(CONLLU.splitlines(), (1, 4), "x"))


CONLL = "-DOCSTART- X\n\nthe DET\noak NOUN\n\n# SYM\n\nlight NOUN"


@pytest.mark.parametrize("name", ["a.txt", "a.conll", "a.bio"])
def test_files_of_columns(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(CONLL)
    assert pos.read_tagged(path, config()) == [
        TaggedTokens(("the", "oak"), ("DET", "NOUN")),
        TaggedTokens(("#",), ("SYM",)),
        TaggedTokens(("light",), ("NOUN",)),
    ]
    path.write_text("DET\tx\tthe\n")
    assert pos.read_tagged(path, config(token_column=2, tag_column=0)) == [TaggedTokens(("the",), ("DET",))]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.txt", "", "a.txt"),
        ("a.txt", "the DET\noak\n", "a.txt; line 2; 1 column"),
        ("a.txt", "the\noak\n", "a.txt; token_column=0; tag_column=-1"),
        ("a.conllx", "1\toak\tNN\n2\tis\tVB\n\n1\tno\tDT\n", "a.conllx; 1; 2; 3; token_column"),
        ("a.conllu", "1\toak\toak\tNOUN\t_\n", "a.conllu"),
        ("a.conllu", "1\toak\toak\tNOUN\n", "a.conllu; line 1; 4 columns"),
        ("a.conllu", "oak\toak\n", "a.conllu; line 1; 1 is 'oak\\toak'"),
    ],
)
def test_files_that_cannot_be_read(tmp_path: Path, name: str, text: str, said: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    with refused(*said.split("; ")):
        pos.read_tagged(path, config())


@pytest.mark.parametrize("values", [{"epochs": 0}, {"lr": 0.0}, {"limit": 0}])
def test_settings_that_cannot_be_used(values: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"^{next(iter(values))} is 0"):
        config(**values)


def test_recipe_is_a_configuration() -> None:
    assert from_dict(PosConfig, load_toml(RECIPES / "probes" / "pos.toml")).tags == "xpos"


def test_data_of_ones_own_are_not_scored_on_the_recipes(tmp_path: Path) -> None:
    """The folder of the data has the recipe's files, of which a test set would be found."""
    write_parts(tmp_path)
    (tmp_path / "pos").mkdir()
    (tmp_path / "test.conllu").rename(tmp_path / "pos" / "test.conllu")
    write_tiny(tmp_path / "bilm")
    recipe = tmp_path / "recipe.toml"
    recipe.write_text('train = "no.conllu"\ndev = "no.conllu"\ntest = "pos/test.conllu"\ntags = "upos"\nepochs = 1\n')
    given = ("probe", "pos", recipe, "--data", tmp_path, "--model", tmp_path / "bilm", "cache.enabled=false", "--json")
    own = ("train=train.conllu", "dev=dev.conllu")
    for more, scored in (((), False), (("test=none",), False), (("test=pos/test.conllu",), True)):
        shown = printed(*given, *own, *more)
        assert {json.loads(line)["test"] is not None for line in shown.splitlines()} == {scored}


def write_parts(folder: Path) -> None:
    """The planted sentences as files of CoNLL-U."""
    for part, found in PARTS.items():
        lines = (
            "".join(
                f"{n}\t{form}\t_\t{tag}\t_\n"
                for n, (form, tag) in enumerate(zip(each.tokens, each.tags, strict=True), 1)
            )
            for each in found
        )
        (folder / f"{part}.conllu").write_text("\n".join(lines) + "\n")


def test_command(tmp_path: Path) -> None:
    write_tiny(tmp_path / "bilm")
    write_parts(tmp_path)
    arguments = (
        "probe", "pos", "train=train.conllu", "dev=dev.conllu", "test=test.conllu", "tags=upos", "epochs=2", "limit=50",
        f"cache.folder={tmp_path / 'cache'}", "--data", tmp_path, "--model", tmp_path / "bilm", "--quiet",
    )  # fmt: skip
    shown = printed(*arguments, "--output", tmp_path / "run")
    assert [line.split()[0] for line in shown.splitlines()] == ["layer", "0", "1", "2", "mix", "word", "Layer"]
    rows = json.loads((tmp_path / "run" / "record.json").read_text())["rows"]
    assert all(20 < row["test"] <= 100 for row in rows)
    again = run(*arguments, "--json")
    assert [json.loads(line) for line in again.stdout.splitlines()] == rows
    refusal(run(*arguments, "--output", tmp_path / "run"), "--overwrite")
    cache = (tmp_path / "cache").rename(tmp_path / "other")
    refusal(run(*arguments, "mix=[0.5,0.5]"), "mix has 2 weights")
    assert not (tmp_path / "cache").exists(), "the model has read before the settings were looked at"
    cache.rename(tmp_path / "cache")
    refusal(run(*arguments, "tags=xpos"), "tags=upos")
