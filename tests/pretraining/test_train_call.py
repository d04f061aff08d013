"""`elmo.train`: the same run as by the command, told to any logger; and what is said before and after a run."""

import csv
import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import typechecker
from command import printed, run
from lightning_fabric.loggers.csv_logs import CSVLogger
from refusals import refused
from small_run import TINY, model_bytes, texts

import elmo
from elmo import config as configs
from elmo.pretraining import counting
from elmo.pretraining.plan import RunPlan, remarks
from elmo.pretraining.settings import TrainConfig
from elmo.training.optim import OptimConfig

FEW = (*TINY, "epochs=1", "max_words=600")
"""For the command."""
SETTINGS: dict[str, Any] = {
    "text": {"tokens": "whitespace", "sentences": "line"},
    **configs.parse_overrides([setting for setting in FEW if "=" in setting]),
    "loop": {"log_steps": 10},
}
"""The same for a call."""


@pytest.fixture(scope="module")
def flags(tmp_path_factory) -> tuple[str, ...]:
    return texts(tmp_path_factory.mktemp("texts"))


def test_a_call_trains_what_the_command_trains_and_tells_loggers(flags, tmp_path: Path) -> None:
    _, train, _, heldout = flags
    logger = CSVLogger(tmp_path / "logs")
    made = elmo.train(train, tmp_path / "call", heldout=[heldout], loggers=[logger], **SETTINGS)
    assert made == tmp_path / "call" / "model"
    printed("train", *flags, "--output", tmp_path / "command", "--quiet", *FEW, "loop.log_steps=10")
    assert model_bytes(tmp_path / "call") == model_bytes(tmp_path / "command")
    with Path(logger.log_dir, "metrics.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert {"loss", "lr", "carry_mean", "step"} <= rows[0].keys()
    assert any(row["loss"] for row in rows)
    assert elmo.load(made).embed([["a"]])[0].shape == (3, 1, 8)
    with pytest.raises(elmo.InputError, match="resume"):
        elmo.train(train, tmp_path / "call", heldout=heldout, **SETTINGS)
    again = elmo.train(train, tmp_path / "call", heldout=heldout, resume=True, epochs=1)
    assert model_bytes(tmp_path / "call") == model_bytes(tmp_path / "command")
    assert again == made


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("train", None, ["None", "path"]),
        ("train", [b"a.txt"], ["b'a.txt'", "path"]),
        ("train", {"a.txt"}, ["order"]),
        ("output", 5, ["output is 5", "path"]),
        ("heldout", [None], ["None", "path"]),
        ("recipe", {"lr": 1}, ["recipe", "path"]),
        ("loggers", "wandb", ["wandb", "list of loggers"]),
        ("loggers", [5], ["5", "log_metrics"]),
        ("optim", {1: 2}, ["optim.1"]),
        ("lr", 0.1, ["optim.lr"]),
    ],
)
def test_an_argument_of_another_kind_is_named_before_anything_is_written(name, value, words, tmp_path, monkeypatch):
    monkeypatch.setattr(typechecker, "CHECKED", -1)  # users have no checker of annotations
    arguments: dict[str, Any] = {"train": "a.txt", "output": tmp_path / "run"} | {name: value}
    with refused(*words):
        elmo.train(**arguments)
    assert not list(tmp_path.iterdir())


def test_a_recipe_has_a_name(tmp_path) -> None:
    with refused("did you mean english-small", error=FileNotFoundError):
        elmo.train("a.txt", tmp_path / "run", recipe="english-smal")
    with refused("a.txt"):
        elmo.train("a.txt", tmp_path / "run", recipe="english-small")


def test_the_end_has_the_perplexity_and_the_next_command(flags, tmp_path: Path) -> None:
    done = run("train", *flags, "--output", tmp_path / "run", "--quiet", *FEW)
    assert "perplexity" in done.stdout
    assert "(state carry)" in done.stdout
    (command,) = (line for line in done.stdout.splitlines() if line.startswith("next"))
    assert f"--model {tmp_path / 'run'}" in command


@pytest.mark.parametrize(
    ("words", "steps", "warmup", "said"),
    [
        (18, 1, 0, ["18 words"]),
        (2000, 5, 100, ["100 steps"]),
        (18, 1, 100, ["18 words", "100 steps"]),
        (2000, 5, 5, []),
    ],
)
def test_a_run_that_can_become_nothing_is_said_before_it(words, steps, warmup, said) -> None:
    config = TrainConfig(train=("a",), output="b")
    config = dataclasses.replace(config, optim=dataclasses.replace(config.optim, warmup_steps=warmup))
    found = list(remarks(RunPlan(words, 1280, steps), config))
    assert len(found) == len(said)
    assert all(part in remark for part, remark in zip(said, found, strict=True))


def test_sessions_are_those_whose_steps_count(tmp_path: Path) -> None:
    """A run without a change has no record of them; those that a run has gone back before are forgotten."""
    seen = []
    counting.write_record(TrainConfig(("a.txt",), str(tmp_path)))
    for step, lr in ((0, 1.0), (10, 1.0), (20, 2.0), (20, 3.0), (30, 3.0), (15, 5.0), (10, 1.0), (0, 7.0)):
        config = TrainConfig(("a.txt",), str(tmp_path), streams=step + 1, optim=OptimConfig(lr=lr))
        counting.record_session(config, step)
        file = tmp_path / "sessions.json"
        sessions = json.loads(file.read_text(encoding="utf-8")) if file.exists() else []
        seen.append([(each["step"], each["settings"]["optim"]["lr"]) for each in sessions])
    assert seen == [
        [],
        [],
        [(0, 1), (20, 2)],
        [(0, 1), (20, 3)],
        [(0, 1), (20, 3)],
        [(0, 1), (15, 5)],
        [(0, 1)],
        [(0, 7)],
    ]
    file.write_text("[{}]", encoding="utf-8")
    with refused("sessions.json", "damaged", "remove"):
        counting.record_session(TrainConfig(("a.txt",), str(tmp_path)), 20)
