"""A task and a probe of another package: found by entry points, run by the commands, shown by a report."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from command import run_fresh, run_program
from refusals import refusal, refused
from tiny import write_tiny

from elmo_lab import plugins
from elmo_lab.probes import probe as probes
from elmo_lab.tasks import task as tasks

PACKAGE = '''
from dataclasses import dataclass
from pathlib import Path

from torch import nn

from elmo_lab.probes.probe import Context, Probe
from elmo_lab.tasks.inputs import Inputs
from elmo_lab.tasks.task import Task


@dataclass(frozen=True)
class Config:
    hidden: int = 4


@dataclass(frozen=True)
class Labels:
    names: tuple[str, ...]


class Network(nn.Module):
    """Whether a line is a question: the mean of its tokens' vectors, and a linear layer."""

    def __init__(self, config: Config, inputs: Inputs, labels: Labels) -> None:
        super().__init__()
        self.inputs, self.labels = inputs, labels
        self.scores = nn.Linear(inputs.dim, len(labels.names))

    def forward(self, tokens):
        return self.scores(self.inputs(tokens)[0].mean(dim=1))

    def loss(self, tokens, examples):
        import torch

        gold = torch.tensor([self.labels.names.index(label) for _, label in examples])
        return nn.functional.cross_entropy(self(tokens), gold)

    def decode(self, tokens, examples):
        return [self.labels.names[place] for place in self(tokens).argmax(-1).tolist()]


def read(path: Path):
    lines = (line.split("\\t") for line in path.read_text(encoding="utf-8").splitlines())
    return [(text.split(), label) for label, text in lines]


TASK = Task(
    name="questions",
    version="1",
    title="Whether a line is a question",
    metric="accuracy",
    columns=("accuracy", "errors"),
    config=Config,
    labels=Labels,
    network=Network,
    read=read,
    sentences=lambda example: [example[0]],
    labels_of=lambda examples: Labels(tuple(sorted({label for _, label in examples}))),
    score=lambda examples, found: {
        "accuracy": 100 * sum(label == each for (_, label), each in zip(examples, found)) / len(examples),
        "errors": float(sum(label != each for (_, label), each in zip(examples, found))),
    },
)


@dataclass(frozen=True)
class Lengths:
    word: str = "elm"
    model: str = "default"


@dataclass(frozen=True)
class Row:
    layer: int
    numbers: int
    hidden: str = "no column"


def measure(config: Lengths, context: Context):
    model = context.source.model.config
    return [Row(layer, len(config.word)) for layer in range(model.lstm.n_layers + 1)]


PROBE = Probe("lengths", "3", "How long a word is", Lengths, measure, columns=("layer", "numbers"))
'''
LINES = "yes\tis this an elm ?\nno\tthis is an elm .\nyes\twho came ?\nno\tshe came .\n"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an installed package with a task and a probe."""
    (tmp_path / "site" / "quiz").mkdir(parents=True)
    (tmp_path / "site" / "quiz" / "__init__.py").write_text(PACKAGE, encoding="utf-8")
    about = tmp_path / "site" / "quiz-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: quiz\nVersion: 1.0\n", encoding="utf-8")
    points = "[elmo.tasks]\nquestions = quiz:TASK\n[elmo.probes]\nlengths = quiz:PROBE\nlost = quiz:NOTHING\n"
    (about / "entry_points.txt").write_text(points, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path / "site")
    return tmp_path / "site"


def test_a_task_and_a_probe_of_another_package_are_run_and_shown(package: Path, tmp_path: Path) -> None:
    data = tmp_path / "lines.tsv"
    data.write_text(LINES, encoding="utf-8")
    write_tiny(tmp_path / "bilm")

    def run(*arguments: object) -> "subprocess.CompletedProcess[str]":
        words = ["elmo", *map(str, arguments)]
        path = f"import sys; sys.path.insert(0, {str(package)!r}); sys.argv = {words!r}"
        return run_program(f"{path}\nfrom elmo.cli import main\nmain()")

    listed = run("task", "list")
    assert "Whether a line is a question" in listed.stdout, listed.stderr
    assert all(name in listed.stdout for name in tasks.available())
    for arm in ("none", "input"):
        settings = [f"elmo={arm}", "training.epochs=2", "inputs.vectors_dim=4", "cache.enabled=false"]
        files = ["--train", data, "--dev", data, "--model", tmp_path / "bilm", "--output", tmp_path / "runs" / arm]
        done = run("task", "train", "questions", *settings, *files, "--quiet")
        assert done.returncode == 0, done.stderr
        assert "task questions, version 1" in done.stdout
    network = tmp_path / "runs" / "none" / "seed-1"
    scored = run("task", "eval", network, data)
    assert "accuracy" in scored.stdout, scored.stderr
    refusal(run("task", "eval", network, network, data), "cannot do that")  # it has no way of an ensemble
    output = tmp_path / "runs" / "lengths"
    asked = ("probe", "lengths", "word=oaks", "--model", tmp_path / "bilm", "--output", output, "--quiet")
    paths = os.pathsep.join([str(package), os.environ.get("PYTHONPATH", "")])
    done = run_fresh(*asked, env=os.environ | {"PYTHONPATH": paths})
    assert done.returncode == 0, done.stderr
    assert [line.split() for line in done.stdout.splitlines()] == [
        ["layer", "numbers"], ["0", "4"], ["1", "4"], ["2", "4"],
    ]  # fmt: skip
    kept = json.loads((output / "record.json").read_text(encoding="utf-8"))
    assert (kept["kind"], kept["version"], kept["settings"]["word"], len(kept["rows"])) == ("probe", "3", "oaks", 3)
    assert kept["argv"][:4] == ["elmo", "probe", "lengths", "word=oaks"]
    assert {"elmo", "python", "torch", "numpy"} <= set(kept["versions"])
    done = run("report", tmp_path / "runs", "--markdown", tmp_path / "page.md")
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert "## How long a word is" in page
    assert "| layer | numbers |" in page
    assert "dev accuracy | dev errors" in page
    assert "elmo task train questions" in page
    refusal(run("task", "predict", network, data, tmp_path / "out.txt"), "cannot do that")


def test_what_is_no_task_or_probe_is_an_error_of_one_line(package: Path) -> None:
    """Also a name without an object, or with one of another kind."""
    assert tasks.find("questions").name == "questions"
    assert probes.find("lengths").title == "How long a word is"
    with refused("import"):
        probes.find("lost")
    with refused("'nothing'", "senses", "lengths"):
        probes.find("nothing")
    with refused("'sense'", "did you mean senses"):
        probes.find("sense")
    (package / "quiz-1.0.dist-info" / "entry_points.txt").write_text(
        "[elmo.tasks]\nmine = quiz:PROBE\nother = quiz:TASK\n", encoding="utf-8"
    )
    for name in ("mine", "other"):
        with refused("Task"):
            tasks.find(name)


def test_own_tasks_and_probes_are_those_of_the_project_file() -> None:
    """In a clone they are there whenever it was installed; each is found, and has the name of its entry point."""
    assert list(plugins.entry_points_of(tasks.GROUP))[:6] == ["ner", "sst5", "snli", "srl", "coref", "squad"]
    for name in tasks.available():
        task = tasks.find(name)
        assert task.metric in task.columns
    for name in ("senses", "wsd", "pos", "neighbors", "weights", "ablate", "efficiency"):
        probe = probes.find(name)
        assert probe.recipe is None or probe.recipe.is_file()
