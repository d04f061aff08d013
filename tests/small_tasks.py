"""A file of eight examples for every task, a network that learns them by heart in seconds, and a small run."""

import itertools
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast
from unittest import mock

import pytest
import torch
from safetensors.torch import load_file
from tiny import CONFIG, tiny_model, write_tiny

from elmo import config as configs
from elmo.embedding.embedder import Embedder
from elmo.text.batching import to_batch
from elmo.training import epochs
from elmo_lab.tasks import task as tasks
from elmo_lab.tasks import train, vectors
from elmo_lab.tasks.inputs import CharactersConfig, Collator, InputConfig, Inputs
from elmo_lab.tasks.task import Task, TaskModel

NER = [
    "Nora/B-person Quill/I-person sings/O in/O Lisbon/B-place",
    "The/O harbour/O of/O Oslo/B-place sleeps/O",
    "Yesterday/O Ivo/B-person Marsh/I-person called/O",
    "Nobody/O answered/O",
    "Lisbon/B-place and/O Oslo/B-place are/O far/O",
    "Ivo/B-person met/O Nora/B-person",
    "Old/O boats/O leave/O Porto/B-place Novo/I-place",
    "Rain/O",
]
SST5 = [
    "(4 (2 What) (4 (2 a) (4 (4 splendid) (2 film))))",
    "(0 (0 Dreadful) (1 (2 from) (1 (2 start) (2 (2 to) (2 end)))))",
    "(2 (2 It) (2 (2 lasts) (2 (2 two) (2 hours))))",
    "(3 (3 Mostly) (3 (3 charming) (2 stuff)))",
    "(1 (1 Rather) (1 dull))",
    "(4 (4 Wonderful) (2 (2 from) (2 (2 here) (2 on))))",
    "(0 (2 We) (0 (0 hated) (2 it)))",
    "(3 Nice)",
]
SNLI = [
    ("A man plays a drum", "A man makes noise", "entailment"),
    ("A man plays a drum", "A man is asleep", "contradiction"),
    ("A man plays a drum", "A man is famous", "neutral"),
    ("Two girls run home", "Girls are moving", "entailment"),
    ("Two girls run home", "Girls stand still", "contradiction"),
    ("Two girls run home", "Sisters are late", "neutral"),
    ("Snow falls", "It is cold", "entailment"),
    ("Snow falls", "The sun is out", "contradiction"),
]
SRL = [
    ("Mia paints the old gate", 1, "B-A0 B-V B-A1 I-A1 I-A1"),
    ("The gate was painted", 3, "B-A1 I-A1 O B-V"),
    ("Mia sells pears on Monday", 1, "B-A0 B-V B-A1 B-TMP I-TMP"),
    ("On Monday pears sell", 3, "B-TMP I-TMP B-A1 B-V"),
    ("Mia laughed", 1, "B-A0 B-V"),
    ("Run", 0, "B-V"),
    ("They say Mia laughed", 1, "B-A0 B-V B-A1 I-A1"),
    ("They say Mia laughed", 3, "O O B-A0 B-V"),
]
COREF = [
    (["Mia fed the cat .", "She likes it ."], [[[0, 0], [5, 5]], [[2, 3], [7, 7]]]),
    (["Tom waved .", "He smiled ."], [[[0, 0], [3, 3]]]),
    (["The bus left .", "It was full ."], [[[0, 1], [4, 4]]]),
    (["Ann saw Bo .", "He saw her ."], [[[0, 0], [6, 6]], [[2, 2], [4, 4]]]),
    (["The girls ran .", "They won ."], [[[0, 1], [4, 4]]]),
    (["Bo sings .", "Ann heard him ."], [[[0, 0], [5, 5]]]),
    (["A dog barked .", "The dog was old ."], [[[0, 1], [4, 5]]]),
    (["Tom has a hat .", "It is red ."], [[[2, 3], [5, 5]]]),
]
SQUAD = [
    ("Mia bought pears in Porto on Monday.", "Where did Mia buy pears?", "Porto"),
    ("Mia bought pears in Porto on Monday.", "When did Mia buy pears?", "Monday"),
    ("Mia bought pears in Porto on Monday.", "What did Mia buy?", "pears"),
    ("Mia bought pears in Porto on Monday.", "Who bought pears?", "Mia"),
    ("The old bridge has seven arches.", "How many arches has it?", "seven"),
    ("The old bridge has seven arches.", "What has seven arches?", "The old bridge"),
    ("Rain fell for nine days.", "What fell?", "Rain"),
    ("Rain fell for nine days.", "How long did it fall?", "nine days"),
]


@dataclass(frozen=True)
class Small:
    """What the tests of a task need."""

    file: str
    text: str
    unlabelled: tuple[list[str], ...]
    """The sentences of an example to predict for."""
    short: tuple[tuple[list[str], ...], ...]
    """Those of an example of one token, and of one without any, where there can be one."""
    model: dict[str, Any] = field(default_factory=dict)
    """Settings of the network."""
    steps: int = 40
    """In which it learns the eight examples by heart."""
    rate: float = 0.02


def _lines(records: list[Any]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def _squad() -> str:
    paragraphs = []
    for n, (context, question, answer) in enumerate(SQUAD):
        answers = [{"text": answer, "answer_start": context.index(answer)}]
        paragraphs.append({"context": context, "qas": [{"id": str(n), "question": question, "answers": answers}]})
    return json.dumps({"version": "1.1", "data": [{"title": "small", "paragraphs": paragraphs}]})


SMALL = {
    "ner": Small(
        "small.conll",
        "\n\n".join("\n".join(token.replace("/", "\t") for token in line.split()) for line in NER) + "\n",
        (["Nora", "sings"],),
        ((["Mia"],), ([],)),
        {"hidden_dims": [12, 8], "dropout": 0.0},
    ),
    "sst5": Small(
        "small.txt",
        "\n".join(SST5) + "\n",
        (["A", "splendid", "film"],),
        ((["Mia"],), ([],)),
        {"hidden_dim": 12, "feed_forward_dropout": 0.0, "integrator_dropout": 0.0, "head_dropout": [0.0, 0.0]},
    ),
    "snli": Small(
        "small.jsonl",
        _lines([{"sentence1": a, "sentence2": b, "gold_label": label} for a, b, label in SNLI]),
        (["Snow", "falls"], ["It", "is", "cold"]),
        ((["Mia"], ["Tom"]), ([], [])),
        {"hidden_dim": 12, "dropout": 0.0},
    ),
    "srl": Small(
        "small.jsonl",
        _lines(
            [
                {"tokens": text.split(), "props": [{"pred": predicate, "tags": tags.split()}]}
                for text, predicate, tags in SRL
            ]
        ),
        (["Mia", "laughed"], ["1"]),
        ((["Run"], ["0"]),),
        {"n_layers": 2, "hidden_size": 16, "predicate_dim": 4, "dropout": 0.0},
    ),
    "coref": Small(
        "small.jsonl",
        _lines(
            [
                {"doc_key": f"d{n}", "sentences": [text.split() for text in texts], "clusters": clusters}
                for n, (texts, clusters) in enumerate(COREF)
            ]
        ),
        (["Mia", "slept", "."], ["She", "dreamt", "."]),
        ((["Mia"],), ([],)),
        {
            "hidden_size": 16,
            "feed_forward": [20],
            "feature_dim": 4,
            "max_width": 2,
            "spans_per_token": 2.0,
            "dropout": 0.0,
        },
        steps=80,
        rate=0.01,
    ),
    "squad": Small(
        "small.json",
        _squad(),
        (["Who", "slept", "?"], ["Mia", "slept", "."]),
        ((["Who"], ["Mia"]), ([], [])),
        {"hidden_dim": 12, "dropout": 0.0},
        steps=80,
    ),
}
"""By the name of the task."""


def write_small(folder: Path, task: str) -> Path:
    """The file of a task's eight examples."""
    path = folder / SMALL[task].file
    path.write_text(SMALL[task].text, encoding="utf-8")
    return path


INPUTS = {
    "vectors_dim": 6,
    "min_count": 1,
    "characters": {"embedding_dim": 3, "filters": [[2, 4]]},
    "elmo": "input",
}


def run_config(folder: Path, name: str = "run", task: str = "ner", **values: object) -> train.TaskConfig:
    """A small run, of NER with dropout, so that random numbers matter."""
    (folder / "bilm").exists() or write_tiny(folder / "bilm")
    path = str(write_small(folder, task))
    base = {
        "task": task,
        **dict.fromkeys(("train", "dev", "test"), path),
        "output": str(folder / name),
        "inputs": INPUTS | {"model": str(folder / "bilm")},
        "model": {"hidden_dims": [6]} if task == "ner" else SMALL[task].model,
        "training": {"epochs": 4, "lr": 0.01, "checkpoint_minutes": 0.0},
        "batch": {"examples": 3},
        "cache": {"folder": str(folder / "cache")},
    }
    return configs.from_dict(train.TaskConfig, configs.merge_tables(base, values))


def write_recipe(path: Path, **values: object) -> Path:
    """Writes the settings of `run_config` in the recipe's folder, all but the output."""
    made = configs.to_dict(run_config(path.parent, **values))
    path.write_text(as_toml({key: value for key, value in made.items() if key != "output"}), encoding="utf-8")
    return path


def as_toml(values: dict[str, Any], name: str = "") -> str:
    """Plain values as TOML; what is None is "none"."""
    plain = {key: value for key, value in values.items() if not isinstance(value, dict)}
    lines = [f"{key} = {json.dumps('none' if value is None else value)}" for key, value in plain.items()]
    tables = [as_toml(value, f"{name}{key}.") for key, value in values.items() if isinstance(value, dict)]
    return "\n".join(([f"[{name[:-1]}]"] if name else []) + lines + tables)


def weights_of(folder: Path) -> dict[str, bytes]:
    """The bytes of a network's weights, by name."""
    return {name: tensor.numpy().tobytes() for name, tensor in load_file(folder / "model.safetensors").items()}


PLAIN = InputConfig(
    vectors_dim=12, min_count=1, characters=CharactersConfig(4, ((3, 6),)), dropout=0.0, elmo_dropout=0.0
)


def network(name: str, examples: Sequence[Any], **inputs: Any) -> tuple[Task, TaskModel, Collator]:
    """A small network for these examples, random but always the same, in training mode."""
    task = tasks.find(name)
    settings = replace(PLAIN, **inputs)
    words = vectors.make_vectors(
        settings, [sentence for example in examples for sentence in task.sentences(example)], []
    )
    torch.manual_seed(1)
    read = Inputs(settings, words.table, CONFIG)
    bilm = tiny_model().bilm()
    if read.bilm is not None:
        read.bilm.load_state_dict(tiny_model().weights)
    config = configs.from_dict(task.config, SMALL[name].model)
    model = task.network(config, read, task.labels_of(examples))
    layers_of = None if settings.elmo == "none" else Embedder(bilm, device="cpu").embed
    return task, cast(TaskModel, model), Collator(settings, words.words, layers_of, to_batch)


@contextmanager
def killed_after(steps: int) -> Iterator[None]:
    """Training by epochs in this block ends after so many steps, as if its process were killed."""

    class Killed(Exception):
        pass

    seed, done = epochs.seed_step, itertools.count()

    def seed_or_die(*arguments: int) -> None:
        if next(done) == steps:
            raise Killed
        seed(*arguments)

    with mock.patch.object(epochs, "seed_step", seed_or_die), pytest.raises(Killed):
        yield
