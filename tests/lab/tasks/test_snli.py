"""Entailment: ESIM against its equations one pair at a time, empty sentences, files."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from toy_inputs import read_both_ways as read
from toy_inputs import toy_inputs

from elmo_lab.tasks import snli

PAIRS = [
    ("entailment", "Two boys row a boat.", "Boys are in a boat."),
    ("-", "A dog sleeps.", "The dog is old."),
    ("contradiction", "Rain falls on the harbour, and nobody is out.", "It's dry."),
    ("neutral", "Go!", "She is late for the ferry."),
]


@pytest.fixture
def path(file: Callable[..., Path]) -> Path:
    rows = [{"gold_label": label, "sentence1": premise, "sentence2": other} for label, premise, other in PAIRS]
    return file("".join(json.dumps(row) + "\n" for row in rows), "pairs.jsonl")


def network(examples: list[snli.SnliExample], elmo: str = "none", **settings: float) -> tuple:
    """A model, and the batch of its examples."""
    rows = [sentence for example in examples for sentence in snli.TASK.sentences(example)]
    collate, inputs = toy_inputs([word for row in rows for word in row], elmo)
    model = snli.SnliModel(snli.SnliConfig(hidden_dim=3, **settings), inputs, snli.TASK.labels_of(examples))
    return model.eval(), collate(rows)


def test_pairs_without_agreement_are_left_out(path) -> None:
    examples = snli.read(path)
    assert [example.label for example in examples] == ["entailment", "contradiction", "neutral"]
    assert examples[1].hypothesis == ("It", "'s", "dry", ".")
    assert snli.TASK.sentences(examples[2]) == [["Go", "!"], ["She", "is", "late", "for", "the", "ferry", "."]]
    every = snli.read(path, unlabelled=True)  # to predict for: no line is lost
    assert [example.label for example in every] == [None] * 4
    assert [example.line for example in every] == [1, 2, 3, 4]


def by_equations(
    model: snli.SnliModel, vectors: list[torch.Tensor], outputs: list[torch.Tensor] | None
) -> torch.Tensor:
    """Chen et al. 2017, sec. 3.1-3.3, for one pair (T, I), (S, I) without padding, and so without masks."""

    a, b = (read(model.encoder, sentence) for sentence in vectors)
    if outputs is not None:
        a, b = (torch.cat(both, dim=1) for both in zip((a, b), outputs, strict=True))
    e = torch.tensor([[float(x @ y) for y in b.detach()] for x in a.detach()])
    aligned_a = torch.stack([sum(w * y for w, y in zip(row.softmax(0), b, strict=True)) for row in e])
    aligned_b = torch.stack([sum(w * x for w, x in zip(row.softmax(0), a, strict=True)) for row in e.T])
    pools = []
    for own, aligned in ((a, aligned_a), (b, aligned_b)):
        compared = torch.cat([own, aligned, own - aligned, own * aligned], dim=1)
        composed = read(model.composition, torch.relu(model.projection[0](compared)))
        pools += [composed.mean(0), composed.amax(0)]
    _, hidden, _, _, last = model.head
    return last(hidden(torch.cat(pools)).clamp(min=0))


@pytest.mark.parametrize("elmo", ["none", "input", "output", "both"])
def test_scores_are_those_of_the_equations(path, elmo) -> None:
    examples = snli.read(path)
    model, tokens = network(examples, elmo)
    seen = model(tokens)
    vectors, output = model.inputs(tokens)
    assert (output is None) == (elmo in ("none", "input"))
    for pair in range(3):
        rows = [(row, slice(int(tokens.lengths[row]))) for row in (2 * pair, 2 * pair + 1)]
        outputs = None if output is None else [output[row] for row in rows]
        torch.testing.assert_close(seen[pair], by_equations(model, [vectors[row] for row in rows], outputs))


def test_dropout_after_the_attention_is_of_what_the_projection_reads(path) -> None:
    examples = snli.read(path)
    seen: list[torch.Tensor] = []
    for rate in (0.0, 0.5):
        model, tokens = network(examples, dropout=0.0, attention_dropout=rate)
        model.projection.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
        model.train()(tokens)
    without, dropped = ((each[tokens.mask] != 0).float().mean().item() for each in seen)
    assert without > 0.99
    assert 0.4 < dropped < 0.6


def test_loss_is_the_mean_cross_entropy(path) -> None:
    examples = snli.read(path)
    model, tokens = network(examples)
    chances = model(tokens).softmax(1)
    expected = -(chances[0, 0].log() + chances[1, 1].log() + chances[2, 2].log()) / 3
    torch.testing.assert_close(model.loss(tokens, examples), expected)


def test_an_empty_sentence_says_nothing_and_breaks_nothing() -> None:
    examples = [snli.SnliExample(("A", "cat"), (), "neutral"), snli.SnliExample((), (), "entailment")]
    model, tokens = network([*examples, snli.SnliExample(("A",), ("cat", "sat"), "neutral")], "both")
    loss = model.loss(tokens, [*examples, examples[0]])
    loss.backward()
    assert loss.isfinite()
    assert all(weights.grad is None or weights.grad.isfinite().all() for weights in model.parameters())


def test_score_counts_labelled_pairs_alone() -> None:
    examples = [snli.SnliExample(("a",), ("b",), label) for label in ("neutral", "entailment", None)]
    found = [snli.ClassPrediction("neutral", (0.0, 0.0, 1.0))] * 3
    assert snli.TASK.score(examples, found) == {"accuracy": 50}
    assert snli.TASK.score([], []) == {"accuracy": 0}


def test_an_ensemble_is_the_mean_of_probabilities() -> None:
    one, two = (0.9, 0.1, 0.0), (0.4, 0.6, 0.0)
    members = [[snli.ClassPrediction("entailment", one)], *[[snli.ClassPrediction("contradiction", two)]] * 2]
    [together] = snli.TASK.combine(members)
    assert together.label == "entailment"
    assert together.probabilities == pytest.approx((1.7 / 3, 1.3 / 3, 0))


def test_written_pairs_are_the_texts_with_the_predictions(path, tmp_path) -> None:
    examples = [*snli.read(path), snli.SnliExample(("Hello", "there"), ("No",))]
    found = [
        snli.ClassPrediction(label, (1.0, 0.0, 0.0)) for label in ("neutral", "neutral", "entailment", "contradiction")
    ]
    out = tmp_path / "out.jsonl"
    snli.TASK.write(out, examples, found)
    rows = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    chances = [row.pop("probabilities") for row in rows]
    assert chances == [dict(zip(snli.SNLI_LABELS, found[0].probabilities, strict=True))] * len(rows)
    assert rows[0] == {"gold_label": "neutral", "sentence1": PAIRS[0][1], "sentence2": PAIRS[0][2]}
    assert rows[3] == {"gold_label": "contradiction", "sentence1": "Hello there", "sentence2": "No"}
    assert [example.label for example in snli.read(out)] == [prediction.label for prediction in found]
