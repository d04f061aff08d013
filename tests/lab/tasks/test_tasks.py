"""What every task's network must do. Parametrised over the tasks; what is peculiar to one is tested beside it."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest
import torch
from small_tasks import SMALL, SQUAD, network, run_config, write_small
from tiny import CONFIG, DIM, tiny_model
from torch import nn

from elmo import config as configs
from elmo.embedding.embedder import Embedder
from elmo.text.batching import to_batch
from elmo_lab import RECIPES
from elmo_lab.tasks import ner, train, vectors
from elmo_lab.tasks import task as tasks
from elmo_lab.tasks.batches import BatchConfig
from elmo_lab.tasks.inputs import Collator, InputConfig, Inputs
from elmo_lab.tasks.layers import VariationalDropout
from elmo_lab.tasks.tagging import TagPrediction
from elmo_lab.tasks.task import Task, TaskModel
from elmo_lab.tasks.trained import TrainedTask, predict, tokens_of

CPU = torch.device("cpu")
PLACES = ("none", "input", "output", "both")
every_task = pytest.mark.parametrize("name", tasks.available())


@pytest.mark.parametrize(("name", "last", "inside"), [("ner", "scores", "I-place"), ("srl", "output", "I-A0")])
def test_tags_keep_the_rules_of_bio(path: Path, name: str, last: str, inside: str) -> None:
    """A network that would rather begin with I-place: no such tag without its B-place before it."""
    examples = tasks.find(name).read(path)
    task, model, collate = network(name, examples)
    with torch.no_grad():
        getattr(model, last).bias[task.labels_of(examples).tags.index(inside)] = 10.0
    found = predict(task, cast(nn.Module, model).eval(), collate, examples, BatchConfig(), CPU)
    for prediction in found:
        for before, tag in pairwise(("O", *prediction.tags)):
            assert tag[0] != "I" or before in (f"B{tag[1:]}", tag)
    assert any(inside in prediction.tags for prediction in found)


def test_of_a_tie_between_two_members_the_first_ones_entities_stay() -> None:
    one, other = TagPrediction(("B-place", "O")), TagPrediction(("O", "B-person"))
    assert ner.combine([[one], [other]]) == [one]
    assert ner.combine([[other], [one]]) == [other]


def steps(task: Task, model: TaskModel, collate: Collator, examples: list[Any], n: int, rate: float) -> list[float]:
    """The losses of `n` steps on all examples, and the one after them."""
    module = cast(nn.Module, model)
    optimizer = torch.optim.Adam([p for p in module.parameters() if p.requires_grad], lr=rate)
    tokens = tokens_of(task, collate, examples, CPU)
    losses = []
    for _ in range(n + 1):
        loss = model.loss(tokens, examples) + model.inputs.penalty()
        losses.append(float(loss.detach()))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return losses


class Taught(NamedTuple):
    """A network that has seen the examples of a task's file many times, and its predictions."""

    task: Task
    examples: list[Any]
    losses: list[float]
    before: list[Any]
    """What it predicted at first."""
    predictions: list[Any]


@pytest.fixture(scope="module")
def taught(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Taught:
    name = request.param
    examples = tasks.find(name).read(write_small(tmp_path_factory.mktemp("taught"), name))
    task, model, collate = network(name, examples, elmo="both")
    module = cast(nn.Module, model)
    before = predict(task, module.eval(), collate, examples, BatchConfig(), CPU)
    losses = steps(task, model, collate, examples, SMALL[name].steps, SMALL[name].rate)
    return Taught(task, examples, losses, before, predict(task, module.eval(), collate, examples, BatchConfig(), CPU))


every_taught = pytest.mark.parametrize("taught", tasks.available(), indirect=True)


@pytest.fixture
def path(tmp_path: Path, name: str) -> Path:
    return write_small(tmp_path, name)


@pytest.mark.parametrize("recipe", ["ner", "ner-wnut17", "ner-gum", "snli", "squad", "srl"])
def test_elmo_at_the_input_has_one_dropout(recipe: str, tmp_path: Path) -> None:
    """By the packaged recipes, the network's variational one: a second one beside it would keep their product.

    Semantic roles have none there: their LSTMs have it.
    """
    values = configs.load_toml(RECIPES / "tasks" / f"{recipe}.toml")
    task = tasks.find(values["task"])
    examples = task.read(write_small(tmp_path, task.name)) * 30
    read = configs.from_dict(InputConfig, values["inputs"] | {"characters": None, "elmo": "input", "min_count": 1})
    words = vectors.make_vectors(read, [sentence for example in examples for sentence in task.sentences(example)], [])
    settings = configs.from_dict(task.config, values["model"])
    model = task.network(settings, Inputs(read, words.table, CONFIG), task.labels_of(examples)).train()
    seen: list[torch.Tensor] = []
    parts = [cast(TaskModel, model).inputs, *(part for part in model.modules() if isinstance(part, VariationalDropout))]
    for part in parts[:2]:
        part.register_forward_hook(lambda _, given, out: seen.append(out[0] if isinstance(out, tuple) else out))
    collate = Collator(read, words.words, Embedder(tiny_model().bilm(), device="cpu").embed, to_batch)
    cast(TaskModel, model).loss(tokens_of(task, collate, examples, CPU), examples)
    shares = [(each[:, 0, -DIM:] != 0).float().mean().item() for each in seen[:2]]
    assert shares[0] == 1
    assert len(parts) == 1 or shares[1] == pytest.approx(1 - values["model"]["dropout"], abs=0.05)


@every_task
def test_reads_its_file(name: str, path: Path) -> None:
    task = tasks.find(name)
    examples = task.read(path)
    assert len(examples) == 8
    assert name == task.name
    assert all(sentence for example in examples for sentence in task.sentences(example))
    values = json.loads(json.dumps(configs.to_dict(task.labels_of(examples))))
    assert configs.from_dict(task.labels, values) == task.labels_of(examples)


@every_task
@pytest.mark.parametrize(("elmo", "tuned"), [*((place, False) for place in PLACES), ("both", True)])
def test_one_step_lowers_the_loss(name: str, path: Path, elmo: str, tuned: bool) -> None:
    """With ELMo everywhere it can be; and its mixes, and a biLM that is tuned, are reached by the gradient."""
    examples = tasks.find(name).read(path)
    task, model, collate = network(name, examples, elmo=elmo, tuned=tuned)
    before, after = steps(task, model, collate, examples, 1, 1e-3)
    assert after < before
    assert model.inputs.output_dim == (DIM if elmo in ("output", "both") else 0)
    for mix in (model.inputs.input_mix, model.inputs.output_mix):
        assert mix is None or (mix.gamma.grad is not None and mix.gamma.grad != 0)
    if model.inputs.bilm is not None:
        gradients = [p.grad for p in model.inputs.bilm.parameters()]
        assert all(gradient is not None for gradient in gradients)
        assert any(gradient.abs().sum() > 0 for gradient in gradients if gradient is not None)


@every_taught
def test_learns_eight_examples_by_heart(taught: Taught) -> None:
    task, examples, losses, before, predictions = taught
    assert losses[-1] < 0.2 * losses[0]
    scores = task.score(examples, predictions)
    assert scores[task.metric] == pytest.approx(100.0)
    assert all(0 <= score <= 100 for score in scores.values())
    assert task.score(examples, before)[task.metric] < 90


@every_task
@pytest.mark.parametrize("tuned", [False, True])
def test_batch_mates_do_not_matter(name: str, path: Path, tuned: bool) -> None:
    """The gradient of an example's loss, which everything in the network has a part in, and its prediction."""
    examples = tasks.find(name).read(path)
    task, model, collate = network(name, examples, elmo="both", tuned=tuned)
    module = cast(nn.Module, model)
    module.eval()
    together = model.loss(tokens_of(task, collate, examples, CPU), examples)
    alone = [model.loss(tokens_of(task, collate, [example], CPU), [example]) for example in examples]
    assert float(together.detach()) == pytest.approx(float(torch.stack(alone).mean().detach()), rel=1e-5)
    one_by_one = [predict(task, module, collate, [example], BatchConfig(), CPU)[0] for example in examples]
    for prediction, other in zip(predict(task, module, collate, examples, BatchConfig(), CPU), one_by_one, strict=True):
        assert_same(configs.to_dict(prediction), configs.to_dict(other))


def assert_same(left: Any, right: Any) -> None:
    """Equal, but for the last digits of probabilities."""
    if isinstance(left, float):
        assert left == pytest.approx(right, abs=1e-5)
    elif isinstance(left, dict):
        assert left.keys() == right.keys()
        for key in left:
            assert_same(left[key], right[key])
    elif isinstance(left, list | tuple):
        assert len(left) == len(right)
        for ours, theirs in zip(left, right, strict=True):
            assert_same(ours, theirs)
    else:
        assert left == right


@every_task
@pytest.mark.parametrize("elmo", ["none", "both"])
def test_empty_and_one_token(name: str, path: Path, elmo: str) -> None:
    """Alone, where a batch has no token, and beside a longer example."""
    examples = tasks.find(name).read(path)
    task, model, collate = network(name, examples, elmo=elmo)
    module = cast(nn.Module, model).eval()
    usual = task.unlabelled(SMALL[name].unlabelled)
    short = [task.unlabelled(each) for each in SMALL[name].short]
    for batch in ([usual], *([each] for each in short), [*short, usual]):
        predictions = predict(task, module, collate, batch, BatchConfig(), CPU)
        assert len(predictions) == len(batch)


@every_taught
def test_predictions_are_written_in_the_format_that_is_read(taught: Taught, tmp_path: Path) -> None:
    """What is written of predictions that are all right scores 100 against them when it is read back."""
    task, examples, _, _, predictions = taught
    written = tmp_path / SMALL[task.name].file
    task.write(written, examples, predictions)
    if task.name == "squad":  # whose predictions have a format of their own: an answer by the question's id
        answers = [answer for _, _, answer in SQUAD]
        assert list(json.loads(written.read_text(encoding="utf-8")).values()) == answers
        return
    assert task.score(task.read(written), predictions)[task.metric] == pytest.approx(100.0)


@every_taught
def test_ensembles(taught: Taught) -> None:
    """Of equal members it is what they predict; two are more than one, whose place does not matter."""
    task, examples, _, before, predictions = taught
    for members in ([predictions], [predictions] * 2, [before, predictions, predictions], [predictions] * 2 + [before]):
        combined = task.combine(members)
        assert len(combined) == len(examples)
        if before not in members or task.name not in ("sst5", "snli"):  # which have the mean of probabilities
            assert task.score(examples, combined)[task.metric] == pytest.approx(100.0)


@every_task
@pytest.mark.parametrize("elmo", ["none", "both"])
def test_trained_saved_loaded_predict_alike(name: str, path: Path, tmp_path: Path, elmo: str) -> None:
    config = run_config(tmp_path, task=name, inputs={"elmo": elmo}, training={"epochs": 2})
    report = train.train_task(config, quiet=True)
    task = tasks.find(name)
    examples = task.read(path)
    trained = TrainedTask.load(tmp_path / "run")
    scores = trained.score(examples)
    assert scores == pytest.approx(report.rows[0]["dev"])
    assert report.version == task.version
    assert (report.bilm is None) == (elmo == "none")
    assert len(trained([task.unlabelled(SMALL[name].unlabelled)])) == 1


@every_task
@pytest.mark.parametrize("place", ["none", "both"])
def test_another_device_gives_the_same(name: str, place: str, there: torch.device, path: Path) -> None:
    """The losses, gradients and predictions, on a device that is not the CPU."""
    examples = tasks.find(name).read(path)
    found, predictions = [], []
    for device in (CPU, there):
        task, model, collate = network(name, examples, elmo=place)
        module = cast(nn.Module, model).to(device)
        torch.manual_seed(3)
        loss = model.loss(tokens_of(task, collate, examples, device), examples) + model.inputs.penalty()
        loss.backward()
        found.append({n: p.grad.cpu() for n, p in module.named_parameters() if p.grad is not None})
        found[-1]["loss"] = loss.detach().cpu()
        predictions.append(predict(task, module.eval(), collate, examples, BatchConfig(), device))
    assert found[0].keys() == found[1].keys()
    for part in found[0]:
        torch.testing.assert_close(found[0][part], found[1][part], atol=1e-5, rtol=1e-4)
    assert task.score(examples, predictions[0]) == task.score(examples, predictions[1])
