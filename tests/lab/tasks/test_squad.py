"""Questions: the network against its equations one passage at a time, the search of spans, files."""

import itertools
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from refusals import refused
from toy_inputs import read_both_ways as read
from toy_inputs import toy_inputs

from elmo_lab.tasks import squad
from elmo_lab.tasks.inputs import Collator
from elmo_lab.tasks.readers_squad import Answer

CONTEXT = "Odile built the mill-race in 1712, and the Tarn fed it."
QUESTIONS = [
    ("q1", "When was it built?", ["1712", "in 1712"]),
    ("q2", "What fed the mill-race of Odile, by which the village lived?", ["the Tarn"]),
    ("q3", "Who?", ["Odile"]),
]


@pytest.fixture
def path(file: Callable[..., Path]) -> Path:
    asked = [
        {"id": name, "question": question, "answers": [{"text": t, "answer_start": CONTEXT.index(t)} for t in answers]}
        for name, question, answers in QUESTIONS
    ]
    paragraphs = [{"context": CONTEXT, "qas": asked[:2]}, {"context": CONTEXT[: CONTEXT.index(",")], "qas": asked[2:]}]
    return file(json.dumps({"version": "1.1", "data": [{"paragraphs": paragraphs}]}), "questions.json")


def network(
    examples: list[squad.SquadExample], elmo: str = "none", **sizes: float
) -> tuple[squad.SquadModel, Collator]:
    """A model, and what makes its batches."""
    collate, inputs = toy_inputs(
        [word for each in examples for row in squad.TASK.sentences(each) for word in row], elmo
    )
    model = squad.SquadModel(squad.SquadConfig(**{"hidden_dim": 3, **sizes}), inputs, squad.TASK.labels_of(examples))
    return model.eval(), collate


def batch(collate: Collator, examples: list[squad.SquadExample]):
    return collate([row for example in examples for row in squad.TASK.sentences(example)])


def test_questions_are_read_with_their_passages(path) -> None:
    examples = squad.read(path)
    assert [example.id for example in examples] == ["q1", "q2", "q3"]
    question, passage = squad.TASK.sentences(examples[0])
    assert question == ["When", "was", "it", "built", "?"]
    assert " ".join(passage) == "Odile built the mill - race in 1712 , and the Tarn fed it ."
    assert examples[0].answers == (Answer("1712", 7, 7), Answer("in 1712", 6, 7))
    assert examples[0].passage is examples[1].passage


def bounds_by_equations(
    model: squad.SquadModel, question: torch.Tensor, passage: torch.Tensor, outputs: list[torch.Tensor] | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Clark and Gardner 2017, sec. 3.1, for a question (S, I) and a passage (T, I), a token at a time, unmasked."""

    def similarity(part, a, b):
        return part.left.weight[0] @ a + part.right.weight[0] @ b + part.product.weight[0] @ (a * b)

    q, p = read(model.encoder, question), read(model.encoder, passage)
    if outputs is not None:
        q, p = torch.cat([q, outputs[0]], dim=1), torch.cat([p, outputs[1]], dim=1)
    scores = torch.stack([torch.stack([similarity(model.attention.score, x, y) for y in q]) for x in p])
    whole = scores.amax(1).softmax(0) @ p
    rows = []
    for x, row in zip(p, scores, strict=True):
        seen = row.softmax(0) @ q
        rows.append(torch.relu(model.projection(torch.cat([x, seen, x * seen, x * whole]))))
    x = torch.stack(rows)
    block = read(model.block_encoder, x)
    added = []
    for i, a in enumerate(block):
        others = [j for j in range(len(block)) if j != i]
        scores_of_others = [similarity(model.self_attention.score, a, block[j]) for j in others]
        chances = torch.stack([*scores_of_others, model.self_attention.nothing]).softmax(0)
        seen = sum((chance * block[j] for chance, j in zip(chances, others, strict=False)), torch.zeros_like(a))
        added.append(torch.relu(model.block_projection(torch.cat([a, seen, a * seen]))))
    x = x + torch.stack(added)
    first = last = x
    if model.first_encoder is not None:
        first = read(model.first_encoder, x)
        last = read(model.last_encoder, torch.cat([x, first], dim=1))
    return model.first_score(first)[:, 0].log_softmax(0), model.last_score(last)[:, 0].log_softmax(0)


@pytest.mark.parametrize("elmo", ["none", "input", "output", "both"])
@pytest.mark.parametrize("answer_encoders", [False, True])
def test_bounds_are_those_of_the_equations(path, elmo, answer_encoders) -> None:
    examples = squad.read(path)
    model, collate = network(examples, elmo, answer_encoders=answer_encoders)
    tokens = batch(collate, examples)
    seen = model(tokens)
    vectors, output = model.inputs(tokens)
    assert (output is None) == (elmo in ("none", "input"))
    for pair in range(3):
        rows = [(row, slice(int(tokens.lengths[row]))) for row in (2 * pair, 2 * pair + 1)]
        outputs = None if output is None else [output[row] for row in rows]
        expected = bounds_by_equations(model, vectors[rows[0]], vectors[rows[1]], outputs)
        length = int(tokens.lengths[2 * pair + 1])
        torch.testing.assert_close(seen.first[pair, :length], expected[0])
        torch.testing.assert_close(seen.last[pair, :length], expected[1])
        assert (seen.first[pair, length:].exp() == 0).all()


def test_loss_is_that_any_answer_is_found(path) -> None:
    examples = squad.read(path)
    model, collate = network(examples)
    tokens = batch(collate, examples)
    first, last = (bound.exp() for bound in model(tokens))
    q1 = (first[0, 6] + first[0, 7]).log() + last[0, 7].log()
    q2 = first[1, 10].log() + last[1, 11].log()
    q3 = first[2, 0].log() + last[2, 0].log()
    torch.testing.assert_close(model.loss(tokens, examples), -(q1 + q2 + q3) / 3)


@pytest.mark.parametrize("longest", [1, 3, 17])
def test_candidates_are_the_best_of_all_spans(path, longest) -> None:
    examples = squad.read(path)
    model, collate = network(examples, max_answer=longest, n_best=9)
    tokens = batch(collate, examples)
    first, last = (bound.detach().exp() for bound in model(tokens))
    for row, (example, prediction) in enumerate(zip(examples, model.decode(tokens, examples), strict=True)):
        size = len(example.passage.tokens)
        spans = [(a, b) for a, b in itertools.product(range(size), repeat=2) if a <= b < a + longest]
        spans.sort(key=lambda span: -float(first[row, span[0]] * last[row, span[1]]))
        assert [(found.first, found.last) for found in prediction.candidates] == spans[: min(9, size)]
        begin, end = spans[0]
        assert prediction.candidates[0].probability == pytest.approx(float(first[row, begin] * last[row, end]))
        text = CONTEXT[example.passage.offsets[begin][0] : example.passage.offsets[end][1]]
        assert prediction.text == prediction.candidates[0].text == text


def test_empty_passages_and_questions_have_predictions() -> None:
    """The same alone and beside others."""
    asked = ([[], []], [["Why", "?"], []], [[], ["So"]], [["Who", "else"], ["Nobody"]])
    examples = [squad.unlabelled(rows) for rows in asked]
    model, collate = network(examples, "both")
    tokens = batch(collate, examples)
    together = model(tokens)
    for row, example in enumerate(examples):
        size = len(example.passage.tokens)
        for seen, alone in zip(together, model(batch(collate, [example])), strict=True):
            torch.testing.assert_close(seen[row, :size], alone[0, :size])
    found = model.decode(tokens, examples)
    assert [prediction.text for prediction in found] == ["", "", "So", "Nobody"]
    assert model.decode(batch(collate, examples[:1]), examples[:1]) == found[:1]


def test_tokens_alone_can_be_asked() -> None:
    example = squad.unlabelled([["Who", "?"], ["Ann", "a", "naive", "man"]])
    assert example.passage.text == "Ann a naive man"
    assert example.passage.offsets == ((0, 3), (4, 5), (6, 11), (12, 15))


def test_questions_without_answers_are_not_scored() -> None:
    with refused("''", "no answers"):
        squad.score([squad.unlabelled([["Who"], ["Ann"]])], [squad.SquadPrediction("Ann", ())])


def test_scores_and_predictions_by_id(path, tmp_path) -> None:
    examples = squad.read(path)
    predictions = [squad.SquadPrediction(text, ()) for text in ("In 1712.", "Tarn fed", "the mill")]
    assert squad.score(examples, predictions) == pytest.approx({"em": 100 / 3, "f1": 100 * (1 + 2 / 3 + 0) / 3})
    squad.write(tmp_path / "out.json", examples, predictions)
    assert json.loads((tmp_path / "out.json").read_text()) == {"q1": "In 1712.", "q2": "Tarn fed", "q3": "the mill"}
    with refused("lost.json", "2 questions", "id"):
        squad.write(tmp_path / "lost.json", [squad.unlabelled([["Who"], ["Ann"]])] * 2, predictions[:2])
    assert not (tmp_path / "lost.json").exists()


def test_an_ensemble_means_probabilities() -> None:
    def prediction(*found: tuple[str, int, float]) -> squad.SquadPrediction:
        candidates = tuple(squad.Candidate(text, place, place, chance) for text, place, chance in found)
        return squad.SquadPrediction(candidates[0].text, candidates)

    members = [prediction(("a", 0, 0.6), ("b", 1, 0.4)), prediction(("b", 1, 0.5), ("c", 2, 0.1))]
    (joined,) = squad.combine([[member] for member in members])
    assert joined.text == "b"
    assert [(each.text, each.probability) for each in joined.candidates] == [
        ("b", pytest.approx(0.45)),
        ("a", pytest.approx(0.3)),
        ("c", pytest.approx(0.05)),
    ]
