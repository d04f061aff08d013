"""The CRF and Viterbi's search, against every sequence of tags in turn and against pytorch-crf's numbers."""

import math
from itertools import pairwise, product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from elmo_lab.tasks.crf import FORBIDDEN, Crf, Transitions, bio_transitions, span_probabilities, viterbi
from elmo_lab.tasks.tagging import spans

BIO = ["O", "B-A", "I-A", "B-B", "I-B"]


def random_crf(n_tags: int, allowed: Transitions | None = None) -> Crf:
    crf = Crf(n_tags, allowed)
    for scores in crf.parameters():
        scores.data.normal_(std=2)
    return crf


def score(crf: Crf, emissions: torch.Tensor, tags: tuple[int, ...]) -> float:
    """The score of one sequence, term by term."""
    if not tags:
        return 0.0
    start, between, end = (scores.tolist() for scores in (crf.start, crf.between, crf.end))
    total = start[tags[0]] + end[tags[-1]] + sum(between[before][after] for before, after in pairwise(tags))
    return total + sum(row[tag] for row, tag in zip(emissions.tolist(), tags, strict=False))


@st.composite
def batches(draw: st.DrawFn) -> tuple[int, list[int], int]:
    """Tags, lengths of the sentences (0 and 1 among them), and a seed."""
    return draw(st.integers(1, 4)), draw(st.lists(st.integers(0, 4), min_size=1, max_size=4)), draw(st.integers(0, 999))


def drawn(case: tuple[int, list[int], int]) -> tuple[Crf, torch.Tensor, torch.Tensor, torch.Tensor]:
    n_tags, lengths, seed = case
    torch.manual_seed(seed)
    longest = max(lengths)
    mask = torch.arange(longest) < torch.tensor(lengths)[:, None]
    tags = torch.randint(n_tags, (len(lengths), longest)).masked_fill(~mask, -100)  # which may be anything there
    return random_crf(n_tags), torch.randn(len(lengths), longest, n_tags) * 2, tags, mask


@given(batches())
def test_likelihood_is_that_of_all_sequences(case) -> None:
    crf, emissions, tags, mask = drawn(case)
    seen = crf.log_likelihood(emissions, tags, mask)
    for row, length in enumerate(case[1]):
        every = [score(crf, emissions[row], path) for path in product(range(case[0]), repeat=length)]
        gold = score(crf, emissions[row], tuple(tags[row, :length].tolist()))
        expected = gold - float(torch.tensor(every, dtype=torch.float64).logsumexp(0))
        assert seen[row].item() == pytest.approx(expected, abs=1e-4)


@given(batches())
def test_viterbi_finds_the_best_of_all_sequences(case) -> None:
    crf, emissions, _, mask = drawn(case)
    for row, path in enumerate(crf.viterbi(emissions, mask)):
        every = product(range(case[0]), repeat=case[1][row])
        assert tuple(path) == max(every, key=lambda tags: score(crf, emissions[row], tags))


def is_bio(tags: list[str]) -> bool:
    """Read as a machine would: an open span, and what may come next."""
    span = None
    for tag in tags:
        prefix, _, name = tag.partition("-")
        if prefix == "I" and span != name:
            return False
        span = name or None
    return True


@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_allowed_sequences_are_the_well_formed_ones(length) -> None:
    allowed = Crf(len(BIO))
    for scores, rule in zip(allowed.parameters(), bio_transitions(BIO), strict=True):
        scores.data.copy_(rule)
    nothing = torch.zeros(length, len(BIO))
    for path in product(range(len(BIO)), repeat=length):
        assert (score(allowed, nothing, path) == 0) == is_bio([BIO[tag] for tag in path])


def test_constrained_search_is_the_best_well_formed_sequence() -> None:
    crf = random_crf(len(BIO), bio_transitions(BIO))
    emissions = torch.randn(30, 3, len(BIO)) * 2
    mask = torch.arange(3) < torch.randint(0, 4, (30, 1))
    free = Crf(len(BIO))
    learns_nothing = viterbi(emissions, mask, bio_transitions(BIO))
    for row, length in enumerate(mask.sum(1).tolist()):
        legal = [p for p in product(range(len(BIO)), repeat=length) if is_bio([BIO[tag] for tag in p])]
        for model, seen in ((crf, crf.viterbi(emissions, mask)[row]), (free, learns_nothing[row])):
            assert tuple(seen) == max(legal, key=lambda path: score(model, emissions[row], path))


@torch.no_grad()
def test_probabilities_of_spans_are_sums_over_all_well_formed_sequences() -> None:
    """In sentences of different lengths."""
    crf = random_crf(len(BIO), bio_transitions(BIO))
    emissions, mask = torch.randn(2, 4, len(BIO)), torch.arange(4) < torch.tensor([[4], [2]])
    rows = [["B-A", "I-A", "O", "B-B"], ["O", "B-B"]]
    for row, chances in enumerate(span_probabilities(emissions, mask, crf.transitions(), BIO, rows)):
        weights = {
            tuple(BIO[tag] for tag in path): math.exp(score(crf, emissions[row], path))
            for path in product(range(len(BIO)), repeat=len(rows[row]))
        }
        legal = {tags: weight for tags, weight in weights.items() if is_bio(list(tags))}
        right = [sum(legal[tags] for tags in legal if span in spans(tags)) for span in spans(rows[row])]
        assert chances == pytest.approx([each / sum(legal.values()) for each in right], rel=1e-4)


@pytest.mark.parametrize("tag", ["LOC", "B-", "X-LOC", ""])
def test_unknown_tags_are_refused(tag) -> None:
    with pytest.raises(ValueError, match="expected 'O'"):
        bio_transitions(["O", tag])


def test_names_may_hold_hyphens() -> None:
    tags = ["O", "B-C-ARG1", "I-C-ARG1", "B-ARG1", "I-ARG1"]
    between = bio_transitions(tags).between
    assert between[1, 2] == 0
    assert between[3, 2] == FORBIDDEN


def test_agrees_with_pytorch_crf() -> None:
    """Numbers of pytorch-crf 0.7.2 (torch 2.13.0): likelihoods, gradients of the start scores, best tags.

    Its CRF(5, batch_first=True) with the parameters below: `crf(emissions, tags, mask, reduction="none")`, the
    gradient of its sum, and `crf.decode(emissions, mask)`. All inputs are normal numbers rounded to quarters.
    """
    crf = Crf(5)
    crf.start.data = torch.tensor([-1.0, -1.25, -1.0, 1.25, -0.5])
    crf.between.data = torch.tensor(
        [
            [-0.25, -0.25, 3.0, 0.5, 5.5],
            [2.5, -0.75, -2.0, -0.75, 0.5],
            [1.75, -4.75, 1.75, -1.25, 0.5],
            [-3.25, -3.25, -0.5, -1.0, -3.5],
            [-2.0, 1.25, -0.25, 0.75, 2.5],
        ]
    )
    crf.end.data = torch.tensor([4.0, 2.75, 0.25, -3.25, 1.25])
    rows = [
        "0.5 1.5 0 -1 3.25 2.5 3 1 1.25 -1.25 1.75 0.5 -3 -0.5 -1.25 -4 3.25 0.25 -1.25 -1.75 -0.75 0.75 -2.75 -0.25 4",
        "1.75 1.75 -0.75 2 2 1.75 3.75 2.25 0.75 1.5 -1.75 -0.25 2.5 -3 -1.75 0.5 0.75 1.25 0.5 2 3.5 -2.5 -0.25 -1.75"
        " 1.5",
        "-4 -0.25 -0.5 1.75 -1.5 0 1 -0.75 -2.25 -3.75 0 -3.5 -1 -0.75 0.25 1 -1.25 -1.5 -0.5 -1 1 -0.25 5.25 1.25"
        " -1.25",
    ]
    emissions = torch.tensor([[float(number) for number in row.split()] for row in rows]).view(3, 5, 5)
    tags = torch.tensor([[3, 4, 4, 4, 3], [0, 0, 1, 1, 1], [2, 3, 4, 4, 3]])
    mask = torch.arange(5) < torch.tensor([[5], [3], [1]])
    likelihood = crf.log_likelihood(emissions, tags, mask)
    likelihood.sum().backward()
    assert likelihood.tolist() == pytest.approx([-28.44405, -8.44624, -2.93564], abs=1e-4)
    assert crf.start.grad is not None
    assert crf.start.grad.tolist() == pytest.approx([0.38537, -0.88292, 0.92358, 0.78205, -1.20807], abs=1e-4)
    assert crf.viterbi(emissions, mask) == [[4, 1, 0, 4, 4], [0, 4, 1], [1]]
