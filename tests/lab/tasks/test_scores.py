"""Scores against official scorers: their published examples, and random cases that they or their peers have scored.

`data/scores/make.py` tells how the random cases of expected.json were scored.
"""

import json
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from places import DATA

from elmo_lab.tasks import coref_scores, scores

EXPECTED = json.loads((DATA / "scores" / "expected.json").read_text(encoding="utf-8"))


# spans and roles


@pytest.mark.parametrize("case", EXPECTED["spans"])
def test_spans_agree_with_seqeval(case: dict[str, Any]) -> None:
    found = scores.span_scores(case["gold"], case["predicted"])
    assert [found["precision"], found["recall"], found["f1"]] == pytest.approx(case["scores"])


def test_spans_are_counted_over_all_sentences() -> None:
    gold = [["B-X", "I-X", "O"], ["I-X", "B-X", "I-Y"]]  # chunks of 2; of 1, 1, 1
    predicted = [["I-X", "I-X", "O"], ["B-X", "I-X", "I-Y"]]  # of 2; of 2, 1
    found = scores.span_scores(gold, predicted)
    assert found == pytest.approx({"precision": 100 * 2 / 3, "recall": 100 * 2 / 4, "f1": 100 * 4 / 7})


@pytest.mark.parametrize("case", EXPECTED["roles"])
def test_roles_agree_with_the_official_script(case: dict[str, Any]) -> None:
    right, excess, missed = case["correct_excess_missed"]
    found = scores.role_scores([case["gold"]], [case["predicted"]])
    assert found["precision"] == pytest.approx(100 * right / max(1, right + excess))
    assert found["recall"] == pytest.approx(100 * right / max(1, right + missed))


def test_roles_are_summed_over_predicates() -> None:
    cases = EXPECTED["roles"]
    right, excess, missed = (sum(case["correct_excess_missed"][place] for case in cases) for place in range(3))
    found = scores.role_scores([case["gold"] for case in cases], [case["predicted"] for case in cases])
    assert found["f1"] == pytest.approx(200 * right / (2 * right + excess + missed))


def test_a_continued_argument_is_one() -> None:
    tags = ["B-A1", "B-V", "B-C-A1", "I-C-A1", "B-C-V", "B-C-A2"]
    assert scores.arguments_of(tags) == [("A1", ((0, 1), (2, 4))), ("V", ((1, 2), (4, 5))), ("A2", ((5, 6),))]


def test_accuracy() -> None:
    assert scores.accuracy([1, 2, 3, 1], [1, 2, 1, 1]) == 75.0
    assert scores.accuracy([], []) == 0.0
    assert scores.accuracy([None, 2, None], [1, 2, 3]) == 100.0


# SQuAD


@pytest.mark.parametrize("case", EXPECTED["squad"])
def test_squad_agrees_with_torchmetrics(case: dict[str, Any]) -> None:
    found = scores.squad_scores([case["answers"]], [case["predicted"]])
    assert [found["em"], found["f1"]] == pytest.approx(case["scores"], rel=1e-5)


def test_squad_joins_what_punctuation_parts_before_it_looks_for_articles() -> None:
    """As its script does: the hyphen goes first, so that no article stands before it."""
    assert scores.normalize_answer("The-cat  (A) sat.") == "thecat sat"


def test_squad_takes_the_best_answer_and_the_mean_of_questions() -> None:
    found = scores.squad_scores([["the Tarn", "a river"], ["1712"]], ["River!", "built 1712, by"])
    assert found == pytest.approx({"em": 50.0, "f1": 100 * (1 + 2 / 4) / 2})
    assert scores.squad_scores([], []) == {"em": 0.0, "f1": 0.0}


# coreference

KEY = "a bc def"
PUBLISHED = {  # key, response -> recall and precision of MUC, B3, CEAF-phi4, or None where the scorer's tests have none
    ("A1", KEY, "a bc def"): [(1, 1), (1, 1), (1, 1)],
    ("A2", KEY, "a de"): [(1 / 3, 1), (7 / 18, 1), (0.6, 0.9)],
    ("A3", KEY, "a bcx defy z"): [(1, 3 / 5), (1, 55 / 108), (0.88571, 0.66429)],
    ("A4", KEY, "a bcx dy z"): [(1 / 3, 1 / 3), (5 / 9, 17 / 42), (0.73333, 0.55)],
    ("A5", KEY, "a bcxB dy z"): [(1 / 3, 1 / 4), (5 / 9, 5 / 16), (0.68889, 0.51667)],
    ("A6", KEY, "a bcx dy Bz"): [(1 / 3, 1 / 4), (5 / 9, 17 / 48), (0.73333, 0.55)],
    ("A7", KEY, "a bcxb dy z"): [(1 / 3, 1 / 3), (5 / 9, 17 / 42), (0.73333, 0.55)],
    ("A8", KEY, "a bcx dy bz"): [(1 / 3, 1 / 3), (5 / 9, 17 / 42), (0.73333, 0.55)],
    ("A9", KEY, "a bcx dy bbbbbbbbbbz"): [(1 / 3, 1 / 3), (5 / 9, 17 / 42), (0.73333, 0.55)],
    ("A10", KEY, "a b c d e f"): [(0, 0), (1 / 2, 1), None],
    ("A11", KEY, "abcdef"): [(1, 3 / 5), (1, 7 / 18), None],
    ("A12", KEY, "a x y c d e z"): [(0, 0), (13 / 36, 4 / 7), None],
    ("A13", KEY, "axycdez"): [(1 / 3, 1 / 6), (17 / 36, 6 / 49), None],
    ("D1", "12345 67 89ABC", "12345 6789ABC"): [(1, 9 / 10), (1, 16 / 21), None],
    ("E1", "12345 67 89ABC", "1234589ABC 67"): [(1, 9 / 10), (1, 7 / 12), None],
    ("F1", "ABCD", "AB CD"): [(2 / 3, 1), None, None],
    ("G1", "AB CD", "ABCD"): [(1, 2 / 3), None, None],
    ("J1", "ABC", "AC"): [(1 / 2, 1), None, None],
    ("K1", "BCDEGHJ", "ABC DEF GHI"): [(3 / 6, 3 / 6), None, None],
    ("L1", "ABC DEFG", "AB CD FGH"): [(2 / 5, 2 / 4), None, None],
    ("M1", "abcdef", "abcdef"): [(1, 1), (1, 1), (1, 1)],
    ("M2", "abcdef", "a b c d e f"): [(0, 0), None, None],
    ("N1", "a b c d e f", "a b c d e f"): [(0, 0), (1, 1), (1, 1)],
}
"""The test cases of CoNLL's reference scorer, version 8.01: a cluster a word, a mention a letter."""


@pytest.mark.parametrize(("case", "expected"), PUBLISHED.items(), ids=lambda value: value[0])
def test_coreference_agrees_with_the_reference_scorers_tests(case, expected) -> None:
    _, key, response = case
    found = coref_scores.coref_scores([key.split()], [response.split()])
    for name, numbers in zip(("muc", "b3", "ceaf"), expected, strict=True):
        if numbers is not None:
            recall, precision = (100 * number for number in numbers)
            assert found[f"{name}_recall"] == pytest.approx(recall, abs=1e-3)
            assert found[f"{name}_precision"] == pytest.approx(precision, abs=1e-3)
            f1 = 2 * recall * precision / (recall + precision) if recall + precision else 0
            assert found[f"{name}_f1"] == pytest.approx(f1, abs=1e-3)


@pytest.mark.parametrize("case", EXPECTED["coref"])
def test_coreference_agrees_with_scorch(case: dict[str, Any]) -> None:
    found = coref_scores.coref_scores([case["gold"]], [case["predicted"]])
    for name, numbers in case["recall_precision_f1"].items():
        assert [found[f"{name}_{part}"] for part in ("recall", "precision", "f1")] == pytest.approx(numbers)
    f1s = [numbers[2] for numbers in case["recall_precision_f1"].values()]
    assert found["f1"] == pytest.approx(sum(f1s) / 3)


CLUSTERS = st.dictionaries(st.integers(0, 7), st.integers(0, 3), max_size=8).map(
    lambda places: [{mention for mention in places if places[mention] == place} for place in sorted({*places.values()})]
)


@given(CLUSTERS, CLUSTERS)
def test_ceaf_tries_every_alignment(gold, predicted) -> None:
    fewer, more = sorted([gold, predicted], key=len)
    best = max(
        sum(2 * len(a & b) / (len(a) + len(b)) for a, b in zip(fewer, order, strict=False))
        for order in permutations(more, len(fewer))
    )
    counts = coref_scores.ceaf(gold, predicted)
    assert counts.right_of_gold == counts.right_of_predicted == pytest.approx(best)
    assert (counts.gold, counts.predicted) == (len(gold), len(predicted))


def test_documents_are_summed_not_averaged() -> None:
    gold = [["ab", "cd"], ["ef"]]
    predicted = [["ab"], ["e", "f"]]
    found = coref_scores.coref_scores(gold, predicted)
    assert found["muc_recall"] == pytest.approx(100 / 3)
    assert found["b3_recall"] == pytest.approx(100 * (2 + 1) / 6)
    assert found["ceaf_recall"] == pytest.approx(100 * (1 + 2 / 3) / 3)
    assert found["ceaf_precision"] == pytest.approx(100 * (1 + 2 / 3) / 3)


def test_nothing_predicted_is_worth_nothing() -> None:
    assert set(coref_scores.coref_scores([["ab"]], [[]]).values()) == {0.0}
    assert set(coref_scores.coref_scores([], []).values()) == {0.0}
