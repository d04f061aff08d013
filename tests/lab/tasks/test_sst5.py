"""Sentiment: the biattentive network against its equations one sentence at a time, phrases, files."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from refusals import refused
from toy_inputs import read_both_ways as read
from toy_inputs import toy_inputs

from elmo_lab.tasks import sst5
from elmo_lab.tasks.readers_trees import Node

TREES = """\
(3 (2 The) (3 (4 (3 warm) (2 soup)) (2 (2 was) (2 (2 quite) (3 good)))))
(1 (2 Cold) (1 (1 stale) (2 bread)))
(4 Yes)
"""
CONFIG = sst5.Sst5Config(hidden_dim=3)


@pytest.fixture
def examples(file: Callable[..., Path]) -> list[sst5.Sst5Example]:
    return sst5.read(file(TREES, "trees.txt"))


def network(examples: list[sst5.Sst5Example], config: sst5.Sst5Config = CONFIG, elmo: str = "none") -> tuple:
    """A model, and the batch of its examples."""
    collate, inputs = toy_inputs([word for example in examples for word in example.tokens], elmo)
    tokens = collate([list(example.tokens) for example in examples])
    return sst5.Sst5Model(config, inputs, sst5.TASK.labels_of(examples)), tokens


def test_a_tree_is_a_sentence_with_phrases(examples) -> None:
    assert [example.label for example in examples] == [3, 1, 4]
    assert sst5.TASK.sentences(examples[1]) == [["Cold", "stale", "bread"]]
    assert examples[1].phrases[0] == Node(0, 3, 1)
    assert Node(1, 3, 1) in examples[1].phrases


def by_equations(model: sst5.Sst5Model, vectors: torch.Tensor, output: torch.Tensor | None) -> torch.Tensor:
    """McCann et al. 2017, sec. 5, for one sentence (T, I) without padding, and so without masks."""

    x = read(model.encoder, torch.relu(vectors @ model.feed_forward[0].weight.T + model.feed_forward[0].bias))
    if output is not None:
        x = torch.cat([x, output if model.output_encoder is None else read(model.output_encoder, output)], dim=1)
    context = torch.stack([sum(w * row for w, row in zip((x @ row).softmax(0), x, strict=True)) for row in x])
    integrated = read(model.integrator, torch.cat([x, x - context, x * context], dim=1))
    beta = torch.stack([model.pool_scores(row)[0] for row in integrated]).softmax(0)
    pools = [integrated.amax(0), integrated.mean(0), integrated.amin(0), beta @ integrated]
    first, _, _, second, _, _, last = model.head
    hidden = (torch.cat(pools) @ first.weight.T + first.bias).clamp(min=0)
    return last((hidden @ second.weight.T + second.bias).clamp(min=0))


@pytest.mark.parametrize(("elmo", "second"), [("none", True), ("both", True), ("both", False)])
def test_scores_are_those_of_the_equations(examples, elmo, second) -> None:
    """With a second biLSTM for ELMo at the output, as in the paper, and without."""
    model, tokens = network(examples, sst5.Sst5Config(hidden_dim=3, output_encoder=second), elmo)
    model.eval()
    vectors, output = model.inputs(tokens)
    seen = model(vectors, output, tokens.lengths)
    for row, example in enumerate(examples):
        own = slice(len(example.tokens))
        expected = by_equations(model, vectors[row, own], None if output is None else output[row, own])
        torch.testing.assert_close(seen[row], expected)


def test_phrases_are_examples_of_their_own_in_training(examples) -> None:
    made = sst5.training(examples, sst5.Sst5Config(phrase_tokens=2))
    assert [(" ".join(each.tokens), each.label) for each in made] == [
        ("The warm soup was quite good", 3), ("warm soup was quite good", 3), ("warm soup", 4), ("was quite good", 2),
        ("quite good", 2), ("Cold stale bread", 1), ("stale bread", 1), ("Yes", 4),
    ]  # fmt: skip
    assert sst5.training(examples, sst5.Sst5Config(phrase_tokens=7)) == examples
    assert sst5.training(examples, sst5.Sst5Config(phrase_tokens=0)) == examples
    assert [len(each.tokens) for each in sst5.training(examples, sst5.Sst5Config())] == [6, 5, 3, 1], "of four or more"


def test_loss_is_the_mean_over_the_examples(examples) -> None:
    model, tokens = network(examples, sst5.Sst5Config(3, True, 0.0, 0.0, (0.0, 0.0)), "both")
    vectors, output = model.inputs(tokens)
    losses = []
    for row, each in enumerate(examples):
        own = slice(len(each.tokens))
        losses.append(-by_equations(model, vectors[row, own], output[row, own]).log_softmax(0)[each.label])
    assert model.loss(tokens, examples).item() == pytest.approx(torch.stack(losses).mean().item(), abs=1e-5)


def predictions(*labels: int) -> list[sst5.ClassPrediction]:
    return [sst5.ClassPrediction(label, tuple(float(label == other) for other in range(5))) for label in labels]


def test_score_is_the_percentage_of_labelled_sentences(examples) -> None:
    assert sst5.TASK.score(examples, predictions(3, 0, 4)) == {"accuracy": pytest.approx(200 / 3)}
    unknown = [*examples, sst5.Sst5Example(("Well",))]
    assert sst5.TASK.score(unknown, predictions(3, 0, 4, 2)) == {"accuracy": pytest.approx(200 / 3)}
    assert sst5.TASK.score([], []) == {"accuracy": 0}


def test_an_ensemble_is_the_mean_of_probabilities() -> None:
    sure, doubtful = (0.0, 0.0, 0.1, 0.9, 0.0), (0.0, 0.0, 0.6, 0.4, 0.0)
    members = [
        [sst5.ClassPrediction(3, sure)],
        [sst5.ClassPrediction(2, doubtful)],
        [sst5.ClassPrediction(2, doubtful)],
    ]
    [together] = sst5.TASK.combine(members)
    assert together.label == 3
    assert together.probabilities == pytest.approx((0, 0, 1.3 / 3, 1.7 / 3, 0))
    assert sst5.TASK.combine([[], []]) == []


def test_written_trees_have_the_predictions_at_their_roots(examples, tmp_path) -> None:
    without_tree = sst5.Sst5Example(("Rather", "(", "dry"))
    path = tmp_path / "out.txt"
    sst5.write(path, [*examples, without_tree], predictions(0, 1, 2, 4))
    written = path.read_text(encoding="utf-8").splitlines()
    assert written[0] == "(0" + TREES.splitlines()[0][2:]
    assert written[3] == "(4 (2 Rather) (2 -LRB-) (2 dry))"
    again = sst5.read(path)
    assert [example.label for example in again] == [0, 1, 2, 4]
    assert [example.tokens for example in again] == [example.tokens for example in [*examples, without_tree]]
    assert again[0].phrases[1:] == examples[0].phrases[1:]


def test_labelled_text_without_trees_is_written_as_trees(tmp_path) -> None:
    path, out = tmp_path / "in.jsonl", tmp_path / "out.txt"
    path.write_text('{"text": "Rather dry .", "label": 1}\n{"text": " ", "label": 2}\n{"text": "Fine", "label": 3}\n')
    examples = sst5.read(path, unlabelled=True)
    sst5.write(out, examples, predictions(0, 2, 4))
    assert [(each.tokens, each.label) for each in sst5.read(out)] == [(("Rather", "dry", "."), 0), (("Fine",), 4)]
    assert out.read_text().splitlines()[1] == ""


def test_prediction_needs_none_of_the_labels_of_a_tree(tmp_path) -> None:
    """A treebank with seven classes has such labels."""
    path, out = tmp_path / "in.txt", tmp_path / "out.txt"
    path.write_text("(6 (2 Rather) (2 dry))\n(1 (9 Fine) (2 bread))\n(1 (2 Old) (2 bread))\n")
    with refused(path, "line 1", "0 to 4"):
        sst5.read(path)
    examples = sst5.read(path, unlabelled=True)
    assert [(each.tokens, each.label) for each in examples] == [
        (("Rather", "dry"), None), (("Fine", "bread"), None), (("Old", "bread"), 1)
    ]  # fmt: skip
    sst5.write(out, examples, predictions(1, 3, 4))
    assert [(each.tokens, each.label) for each in sst5.read(out)] == [
        (("Rather", "dry"), 1), (("Fine", "bread"), 3), (("Old", "bread"), 4)
    ]  # fmt: skip
