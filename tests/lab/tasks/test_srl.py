"""Semantic roles: the rules of BIO, a sentence learned by heart, and what must not matter."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from toy_inputs import toy_inputs

from elmo.errors import IrregularInput
from elmo_lab.tasks import srl
from elmo_lab.tasks.ensemble import joint_labels
from elmo_lab.tasks.srl import SrlConfig, SrlExample, SrlModel
from elmo_lab.tasks.tagging import TagLabels, TagPrediction

GARDEN = ("The", "gardener", "gave", "her", "a", "pear", "and", "smiled")
EXAMPLES = [
    SrlExample(
        GARDEN, 2, ("B-ARG0", "I-ARG0", "B-V", "B-ARG2", "B-ARG1", "I-ARG1", "O", "O"), "g", "give", "give.01", 1
    ),
    SrlExample(GARDEN, 7, ("B-ARG0", "I-ARG0", "O", "O", "O", "O", "O", "B-V"), "g", "smile", "smile.01", 1),
    SrlExample(("Sleep", "now"), 0, ("B-V", "B-ARGM-TMP"), "s", "sleep", "sleep.01", 2),
    SrlExample(("Rain",), 0, ("B-V",), "r", "rain", "rain.01", 3),
]
SMALL = SrlConfig(n_layers=2, hidden_size=16, predicate_dim=4)


def toy(elmo: str = "none", config: SrlConfig = SMALL) -> tuple[SrlModel, object]:
    collate, inputs = toy_inputs([*GARDEN, "Sleep", "now", "Rain"], elmo)
    return SrlModel(config, inputs, srl.labels_of(EXAMPLES)), lambda examples: collate(
        [sentence for example in examples for sentence in srl.TASK.sentences(example)]
    )


@pytest.mark.parametrize("size", [3, 16])
def test_the_last_layer_begins_orthonormal(size: int) -> None:
    """Its rows, or its columns where it has fewer; like every block of the LSTMs."""
    model, _ = toy(config=replace(SMALL, hidden_size=size))
    weight = model.output.weight.detach()
    small = weight @ weight.T if len(weight) <= size else weight.T @ weight
    torch.testing.assert_close(small, torch.eye(len(small)), atol=1e-5, rtol=0)


def test_the_mark_is_on_the_predicate() -> None:
    _, collate = toy()
    marks = srl.predicate_marks(collate(EXAMPLES), EXAMPLES)
    assert marks.nonzero().tolist() == [[0, 2], [1, 7], [2, 0], [3, 0]]


def test_loss_is_the_likelihood_of_the_tags() -> None:
    model, collate = toy()
    example = EXAMPLES[2]
    scores = model.eval()(collate([example]), [example])[0].log_softmax(-1)
    tags = model.labels.tags
    expected = -sum(scores[place, tags.index(tag)] for place, tag in enumerate(example.tags or ()))
    torch.testing.assert_close(model.loss(collate([example]), [example]), expected)


def test_nothing_and_one_token() -> None:
    model, collate = toy("both")
    examples = [SrlExample((), None, ()), SrlExample(("Rain",), 0, ("B-V",)), SrlExample(("unheard",), None, ("O",))]
    model.loss(collate(examples), examples).backward()
    assert [len(prediction.tags) for prediction in model.eval().decode(collate(examples), examples)] == [0, 1, 1]
    empty = examples[:1]
    assert model.decode(collate(empty), empty) == [TagPrediction(())]
    assert not model.loss(collate(empty), empty)


def test_tags_that_training_never_had(tmp_path: Path) -> None:
    strange = [*EXAMPLES, replace(EXAMPLES[3], tags=("B-ARG7",), line=9)]
    with pytest.warns(IrregularInput, match=r"in\.jsonl.*'ARG7'.*line 9"):
        srl.check(strange, srl.labels_of(EXAMPLES), tmp_path / "in.jsonl")
    rare = [replace(EXAMPLES[2], tags=("I-V", tag)) for tag in ("B-R-ARG1", "B-C-ARG1", "B-C-R-ARG1", "I-ARGM-TMP")]
    srl.check([*EXAMPLES, *rare], srl.labels_of(EXAMPLES), tmp_path / "in.jsonl")


def test_labels_of_an_ensemble_are_those_of_all_members(tmp_path: Path) -> None:
    strange = [*EXAMPLES, replace(EXAMPLES[3], tags=("B-ARG7",), line=9)]
    members = [srl.labels_of(EXAMPLES), srl.labels_of(strange), srl.labels_of(strange)]
    for order in (members, members[::-1]):
        srl.check(strange, joint_labels(order), tmp_path / "in.jsonl")  # a warning would be an error
    with pytest.warns(IrregularInput, match="'ARG7'"):
        srl.check(strange, joint_labels(members[:1] * 2), tmp_path / "in.jsonl")


def test_score_knows_continued_arguments_and_leaves_the_predicate_out() -> None:
    gold = SrlExample(("a",) * 5, 0, ("B-V", "B-ARG1", "O", "B-C-ARG1", "B-ARG2"))
    found = TagPrediction(("O", "B-ARG1", "O", "B-ARG1", "B-ARG2"))
    scores = srl.score([gold], [found])
    assert scores["recall"] == 50
    assert scores["precision"] == pytest.approx(100 / 3)


def test_labels_are_both_tags_of_every_role() -> None:
    assert srl.labels_of(EXAMPLES[2:]) == TagLabels(("O", "B-ARGM-TMP", "I-ARGM-TMP", "B-V", "I-V"))


def test_combine() -> None:
    votes = [("B-A", "I-A", "O"), ("B-B", "I-B", "O"), ("B-B", "I-A", "O")]
    members = [[TagPrediction(vote), TagPrediction(())] for vote in votes]
    combined = srl.combine(members)
    assert combined[1] == TagPrediction(())
    assert combined[0].tags in [("B-A", "I-A", "O"), ("B-B", "I-B", "O")]  # token by token it were B-B I-A
    assert srl.combine(members[:2])[0].tags == votes[0]
    assert srl.combine(members[1::-1])[0].tags == votes[1]  # of a tie the first member's, not the first in the alphabet
    assert srl.combine([*members[1:2], *members[1:2], *members[:1]])[0].tags == votes[1]


def test_sentences_without_a_predicate_are_read_for_prediction_alone(tmp_path: Path) -> None:
    path, out = tmp_path / "roles.jsonl", tmp_path / "out.jsonl"
    lines = [{"tokens": ["Rain"], "props": []}, {"tokens": ["Run"], "props": [{"pred": 0, "tags": ["B-V"]}]}]
    path.write_text("".join(json.dumps(line) + "\n" for line in [*lines, {"id": "x", **lines[0]}]), encoding="utf-8")
    assert [example.tokens for example in srl.read(path)] == [("Run",)]
    everything = srl.read(path, unlabelled=True)
    srl.write(out, everything, [TagPrediction(("B-V",))] * 3)
    assert srl.read(out, unlabelled=True) == everything
    assert json.loads(out.read_text(encoding="utf-8").splitlines()[2]) == {"id": "x", "tokens": ["Rain"], "props": []}


def test_files(tmp_path: Path) -> None:
    """What is written is what is read, sentence by sentence, with the predicted tags."""
    path = tmp_path / "roles.jsonl"
    gold = [TagPrediction(example.tags or ()) for example in EXAMPLES]
    srl.write(path, EXAMPLES, gold)
    assert len(path.read_text(encoding="utf-8").splitlines()) == 3
    assert srl.read(path) == EXAMPLES
