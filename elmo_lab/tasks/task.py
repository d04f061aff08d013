"""A task is a module of this package with these names. Nothing is registered; a task is found by its file name."""

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, Protocol, cast, runtime_checkable

from jaxtyping import Float
from torch import Tensor, nn

from elmo.errors import InputError
from elmo.text.tokenizer import Tokenizer
from elmo_lab.tasks.inputs import Inputs, Tokens

NAMES = ("ner", "sst5", "snli", "srl", "coref", "squad")
"""The tasks of the paper's Table 1; `elmo_lab.tasks.NAME` is the module."""

PLACES = {"ner": "input", "sst5": "both", "snli": "both", "srl": "input", "coref": "input", "squad": "both"}
"""Where the paper's networks have ELMo: Table 3 and the supplement, A.3 to A.8."""
Place = Literal["paper", "input", "output", "both"]
"""A place for ELMo; `paper` is that of `PLACES` for each task."""


@runtime_checkable
class TaskModel(Protocol):
    """The network of a task: an nn.Module that keeps its `inputs` and has these two methods."""

    inputs: Inputs

    def loss(self, tokens: Tokens, examples: Sequence[Any]) -> Float[Tensor, ""]:
        """The mean over the examples, without `inputs.penalty()`, which the trainer adds."""
        ...

    def decode(self, tokens: Tokens, examples: Sequence[Any]) -> list[Any]:
        """One prediction per example; ignores gold labels. The caller sets mode and gradients."""
        ...


@runtime_checkable
class Task(Protocol):
    """The names in a task's module.

    A task whose labels come from the training data, or may be missing, also has `check(examples, labels, path)`, which
    raises InputError, naming the line of the file, for an example with a label unknown in training, or with none. One
    whose `read` drops examples that can be neither learned from nor scored also has `read_all(path)`, which keeps them.
    One that learns from more than what is scored has `training(examples, config)`, which returns the training examples.
    """

    NAME: str
    VERSION: str
    """Changes when scoring or reading changes for the same predictions or files."""
    METRIC: str
    """The score, of those that `score` returns, that chooses the best epoch; higher is better."""
    Config: type[Any]
    """Sizes and dropouts of the network: a frozen dataclass that notes differences from the paper."""
    Labels: type[Any]
    """What the network needs from the training data: a frozen dataclass of plain JSON values (tuples, no dicts)."""

    def Model(self, config: Any, inputs: Inputs, labels: Any) -> nn.Module:
        """The class of the network; its instances are `TaskModel`s."""
        ...

    def read(self, path: Path) -> list[Any]:
        """The examples of a file; InputError names file and line."""
        ...

    def sentences(self, example: Any) -> list[list[str]]:
        """The token lists of an example to embed; the same number for all examples of the task, or any number."""
        ...

    def labels_of(self, examples: Sequence[Any]) -> Any:
        """The `Labels` of training examples."""
        ...

    def unlabelled(self, sentences: Sequence[Sequence[str]], line: int = 0) -> Any:
        """An example to predict for, without gold labels, of a line of text; InputError where it is none of the task.

        By its line, from 1, it is told from others where the format that is written has names for examples.
        """
        ...

    def of_text(self, parts: Sequence[str], tokenizer: Tokenizer, line: int = 0) -> list[Any]:
        """Examples without labels of a line of text, given its parts between tabs; InputError for other parts."""
        ...

    def record(self, example: Any, prediction: Any) -> dict[str, Any]:
        """A prediction as a JSON object, with probabilities."""
        ...

    def score(self, examples: Sequence[Any], predictions: Sequence[Any]) -> dict[str, float]:
        """Numbers in percent, `METRIC` among them."""
        ...

    def by_label(self, examples: Sequence[Any], predictions: Sequence[Any]) -> dict[str, dict[str, float | int]]:
        """Scores in percent of each label, and `support`, how many examples or parts of them have it."""
        ...

    def combine(self, members: Sequence[Sequence[Any]]) -> list[Any]:
        """The predictions of an ensemble from those of its members."""
        ...

    def write(self, path: Path, examples: Sequence[Any], predictions: Sequence[Any]) -> None:
        """Writes the standard format, with predictions instead of gold labels; replaces the file.

        To `.jsonl`, writes JSON lines with probabilities. An example that is None stands for a blank line.
        """
        ...


def find(name: str) -> Task:
    """The task of that name. Raises InputError for an unknown one."""
    if name not in available():
        raise InputError(f"unknown task {name!r}; the tasks are {', '.join(available())}")
    return cast(Task, import_module(f"elmo_lab.tasks.{name}"))


def read_examples(task: Task, path: Path) -> list[Any]:
    """The examples of a file to learn from or to score. Raises InputError without any."""
    examples = task.read(path)
    if not examples:
        raise InputError(f"{path}: no examples; give a file in the format of the task {task.NAME}")
    return examples


def read_all(task: Task, path: Path) -> list[Any]:
    """The examples of a file for prediction, or for their text."""
    read = getattr(task, "read_all", task.read)
    return read(path)


def training(task: Task, examples: list[Any], config: Any) -> list[Any]:
    """The training examples, from those of a training file and the task's `Config`."""
    make = getattr(task, "training", None)
    return examples if make is None else make(examples, config)


def check(task: Task, examples: Sequence[Any], labels: Any, path: Path) -> None:
    """Raises InputError if examples of a file cannot be learned from, or scored, with these labels."""
    if (of_task := getattr(task, "check", None)) is not None:
        of_task(examples, labels, path)


def available() -> list[str]:
    """The names of the available tasks."""
    return [name for name in NAMES if find_spec(f"elmo_lab.tasks.{name}") is not None]
