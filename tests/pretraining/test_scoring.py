"""Scores and substitutes are those of brute force: the slow twin in float64, every word of the vocabulary tried."""

import json
from dataclasses import replace

import numpy as np
import pytest
from brute_force import CONFIG, KNOWN, VOCABULARY, BruteForce, random_model
from command import printed, run
from refusals import refusal, refused
from torch import Tensor

from elmo.formats import Model, native
from elmo.pretraining import scoring
from elmo.pretraining.scoring import BATCH_TOKENS, PRIOR, Scorer, score, substitutes
from elmo.text.tokenizer import TextConfig

SENTENCES = [["the", "oak", "and", "the", "quince", "."], ["elm"], [], ["Ωmega", "pine", "ash"]]


@pytest.fixture(scope="module")
def model() -> Model:
    return random_model()


@pytest.fixture(scope="module")
def brute(model, tmp_path_factory) -> BruteForce:
    return BruteForce(model, tmp_path_factory.mktemp("published") / "model")


def both_sides(brute: BruteForce, sentence: list[str]) -> tuple[list[float], list[float]]:
    """Of every position in the order of the text: forward the tokens and `</S>`, backward `<S>` and the tokens."""
    forward = [chance for _, chance in brute.scores([sentence], 0)]
    backward = [chance for _, chance in brute.scores([sentence], 1)]
    return forward, backward[::-1]


def test_scores_are_those_of_brute_force(model, brute):
    for sentence, found in zip(SENTENCES, score(model, SENTENCES), strict=True):
        forward, backward = both_sides(brute, sentence)
        assert found.tokens == tuple(sentence)
        np.testing.assert_allclose([*found.forward, found.end], forward, rtol=1e-5)
        np.testing.assert_allclose([found.begin, *found.backward], backward, rtol=1e-5)
        assert found.known.tolist() == [word in KNOWN for word in sentence]


def test_scores_do_not_depend_on_the_other_sentences(model):
    scorer = Scorer(model)
    alone = [next(scorer.score([sentence])) for sentence in SENTENCES]
    many = [SENTENCES[number % 4] for number in range(700)]  # more than are read at once
    for number, found in enumerate(scorer.score(many)):
        np.testing.assert_allclose(found.forward, alone[number % 4].forward, rtol=1e-5)
        np.testing.assert_allclose(found.backward, alone[number % 4].backward, rtol=1e-5)
    assert number == len(many) - 1


def test_scores_do_not_depend_on_the_type_of_new_tensors(model, request):
    expected = list(score(model, SENTENCES))
    request.getfixturevalue("doubles")
    for seen, one in zip(score(model, SENTENCES), expected, strict=True):
        np.testing.assert_array_equal(seen.forward, one.forward)
        np.testing.assert_array_equal(seen.backward, one.backward)


@pytest.mark.parametrize("side", ["forward", "backward", "both"])
@pytest.mark.parametrize("position", [0, 1, 3, 5])
def test_substitutes_are_those_of_brute_force(model, brute, side, position):
    """Every word is put into the sentence, and scored where it stands."""
    sentence = SENTENCES[0]
    chances = []
    for word in VOCABULARY.words:
        changed = [*sentence[:position], word, *sentence[position + 1 :]]
        forward, backward = both_sides(brute, changed)
        chances.append((forward[position], backward[position + 1]))
    table = np.array(chances)  # V 2
    ranks = np.arange(len(VOCABULARY)) + 1  # words are in the order of their frequency, about Zipf's
    prior = np.log(np.log1p(1 / ranks) / np.log(len(VOCABULARY) + 1))
    whole = {"forward": table[:, 0], "backward": table[:, 1], "both": table.sum(1) - PRIOR * prior}[side]
    known = np.array([word in KNOWN for word in VOCABULARY.words])
    expected = whole - np.log(np.exp(whole[known]).sum())  # a share among the known words
    order = [row for row in np.argsort(-expected) if known[row]]
    found = substitutes(model, sentence, position, k=5, side=side)
    assert [each.word for each in found] == [VOCABULARY.words[row] for row in order[:5]]
    np.testing.assert_allclose([each.log_probability for each in found], expected[order[:5]], rtol=1e-5)
    np.testing.assert_allclose([[each.forward, each.backward] for each in found], table[order[:5]], rtol=1e-5)


def test_substitutes_are_never_boundaries_and_no_more_than_there_are_words(model):
    found = substitutes(model, ["oak"], 0, k=1000)
    assert sorted(each.word for each in found) == sorted(KNOWN)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((["oak"], 1), "position is 1; 1 tokens; 0"),
        ((["oak"], -1), "position is -1"),
        (([], 0), "0 tokens"),
        ((["oak"], 0, 0), "k is 0; 1"),
        (("oak", 0), "'oak'"),
    ],
)
def test_substitutes_that_cannot_be_found_are_named(model, arguments, message):
    with refused(*message.split("; ")):
        substitutes(model, *arguments)


def test_scores_of_a_string_are_refused(model):
    for wrong, where in (("the oak", "string"), ([["elm"], "the oak"], "sentence 1")):
        with refused("'the oak'", where):
            list(score(model, wrong))


def test_model_without_a_softmax_scores_nothing(model):
    with refused("softmax"):
        Scorer(Model(CONFIG, model.weights))


def test_commands_print_what_the_functions_give(model, tmp_path):
    native.save(model, tmp_path / "model")
    text = tmp_path / "text.txt"
    text.write_text("\n".join(" ".join(sentence) for sentence in SENTENCES), encoding="utf-8")
    given = ("--model", tmp_path / "model")
    shown = printed("score", text, *given, "--json")
    lines = [json.loads(line) for line in shown.splitlines()]
    for line, expected in zip(lines, score(model, SENTENCES), strict=True):
        assert line["tokens"] == list(expected.tokens)
        assert line["forward"] == pytest.approx(expected.forward.tolist(), rel=1e-5)
        assert line["begin"] == pytest.approx(expected.begin, rel=1e-5)
    plain = run("score", text, *given).stdout.split("\n\n")[0].splitlines()
    assert [line.split("\t")[0] for line in plain] == SENTENCES[0]
    assert plain[4].endswith("\tunknown")
    sentence = " ".join(SENTENCES[0])
    done = run("substitutes", sentence, "--word", "oak", *given, "--json", "-k", 3)
    assert [each["word"] for each in json.loads(done.stdout)] == [
        s.word for s in substitutes(model, SENTENCES[0], 1, 3)
    ]
    assert "log p (forward)" in run("substitutes", sentence, "--position", 1, *given, "--side", "forward").stdout


def test_substitutes_in_a_text_are_those_in_its_sentence(model, tmp_path):
    native.save(replace(model, text=TextConfig()), tmp_path / "model")
    given = ("--model", tmp_path / "model", "--json", "-k", 3)
    expected = [each.word for each in substitutes(model, ["An", "oak", "fell", "."], 1, 3)]
    text = "It rained. An oak fell."
    for flags in (("--word", "oak"), ("--position", 4)):
        done = run("substitutes", text, *flags, *given)
        assert [each["word"] for each in json.loads(done.stdout)] == expected
    done = run("substitutes", text, "--word", "fell.", "--pretokenized", *given)
    whole = [each.word for each in substitutes(model, text.split(), 4, 3)]
    assert [each["word"] for each in json.loads(done.stdout)] == whole
    refusal(run("substitutes", text, "--word", "ock", *given), "'ock'", "oak")
    refusal(run("substitutes", text, "--position", 7, *given), "position is 7", "7 tokens")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ((), "give one of --word and --position"),
        (("--word", "elm", "--position", "1"), "give one of --word and --position"),
        (("--word", "beech"), "'beech' is not a token of"),
        (("--position", "9"), "position is 9"),
    ],
)
def test_command_without_a_place_is_refused(flags, message):
    refusal(run("substitutes", "the elm .", *flags), message)


def test_a_long_line_is_not_read_beside_short_ones_that_would_be_as_long(model: Model, monkeypatch) -> None:
    sentences = [["oak"], ["elm"] * 3000, *[["pine"]] * 40, ["ash"] * 1500, ["elm", "oak"]]
    sizes: list[tuple[int, int]] = []
    original = scoring.reading_backwards

    def read(lengths: Tensor, steps: int) -> Tensor:
        sizes.append((len(lengths), steps))
        return original(lengths, steps)

    monkeypatch.setattr(scoring, "reading_backwards", read)
    assert [len(found.tokens) for found in score(model, sentences)] == [len(sentence) for sentence in sentences]
    assert all(rows == 1 or rows * longest <= BATCH_TOKENS for rows, longest in sizes)
    assert (1, 3002) in sizes
    assert len(sizes) == 5
