"""What a task is: a module of this package with these names. Nothing is registered; a task is found by its file."""

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol, cast, runtime_checkable

from jaxtyping import Float
from torch import Tensor, nn

from elmo.errors import InputError
from elmo.tasks.inputs import Inputs, Tokens

NAMES = ("ner", "sst5", "snli", "srl", "coref", "squad")
"""The tasks of the paper's Table 1; `elmo.tasks.NAME` is the module."""


@runtime_checkable
class TaskModel(Protocol):
    """The network of a task: an nn.Module that keeps its `inputs` and has these two methods."""

    inputs: Inputs

    def loss(self, tokens: Tokens, examples: Sequence[Any]) -> Float[Tensor, ""]:
        """The mean over the examples; without `inputs.penalty()`, which the training adds."""
        ...

    def decode(self, tokens: Tokens, examples: Sequence[Any]) -> list[Any]:
        """One prediction for each example; looks at no gold label. Mode and gradients are the caller's business."""
        ...


@runtime_checkable
class Task(Protocol):
    """The names that the module of a task has.

    A task whose labels are whatever the training data shows, or may be missing, has also
    `check(examples, labels, path)`, which raises InputError, naming the line of the file, where an example has a label
    that training never had, or none. One whose `read` leaves out what can be neither learned from nor scored has also
    `read_all(path)`, which does not. One that learns from more than what is scored has `training(examples, config)`,
    which gives the examples of a training set.
    """

    NAME: str
    VERSION: str
    """Changes when the same predictions would be scored, or the same files read, in another way."""
    METRIC: str
    """The name, in what `score` gives, of the number that chooses the best epoch; higher is better."""
    Config: type[Any]
    """Sizes and dropouts of the network: a frozen dataclass that says where the paper's are others."""
    Labels: type[Any]
    """What the network must know from the training data: a frozen dataclass of plain JSON values (tuples, no dicts)."""

    def Model(self, config: Any, inputs: Inputs, labels: Any) -> nn.Module:
        """The class of the network; what it makes is also a `TaskModel`."""
        ...

    def read(self, path: Path) -> list[Any]:
        """The examples of a file; InputError names file and line."""
        ...

    def sentences(self, example: Any) -> list[list[str]]:
        """The token lists of an example that are embedded; of every example of the task equally many, or any number."""
        ...

    def labels_of(self, examples: Sequence[Any]) -> Any:
        """The `Labels` of training examples."""
        ...

    def unlabelled(self, sentences: Sequence[Sequence[str]], line: int = 0) -> Any:
        """An example to predict for, without gold labels, of a line of text; InputError where it is none of the task.

        By its line, from 1, it is told from others where the format that is written has names for examples.
        """
        ...

    def score(self, examples: Sequence[Any], predictions: Sequence[Any]) -> dict[str, float]:
        """Numbers in percent, `METRIC` among them."""
        ...

    def combine(self, members: Sequence[Sequence[Any]]) -> list[Any]:
        """The predictions of an ensemble from those of its members."""
        ...

    def write(self, path: Path, examples: Sequence[Any], predictions: Sequence[Any]) -> None:
        """The standard format, with the predictions in the place of gold labels; replaces what is there."""
        ...


def find(name: str) -> Task:
    """The task of that name. Raises InputError where there is none."""
    if name not in available():
        raise InputError(f"unknown task {name!r}; the tasks are {', '.join(available())}")
    return cast(Task, import_module(f"elmo.tasks.{name}"))


def read_examples(task: Task, path: Path) -> list[Any]:
    """The examples of a file to learn from or to score. Raises InputError where there is none in it."""
    examples = task.read(path)
    if not examples:
        raise InputError(f"{path}: no examples; give a file in the format of the task {task.NAME}")
    return examples


def read_all(task: Task, path: Path) -> list[Any]:
    """The examples of a file to predict for, or to take the text of."""
    read = getattr(task, "read_all", task.read)
    return read(path)


def training(task: Task, examples: list[Any], config: Any) -> list[Any]:
    """What is learned from, of the examples of a training file and the `Config` of the task."""
    make = getattr(task, "training", None)
    return examples if make is None else make(examples, config)


def check(task: Task, examples: Sequence[Any], labels: Any, path: Path) -> None:
    """Raises InputError where these examples of a file cannot be learned from, or scored, with such labels."""
    if (of_task := getattr(task, "check", None)) is not None:
        of_task(examples, labels, path)


def available() -> list[str]:
    """The names of the tasks that are built."""
    return [name for name in NAMES if find_spec(f"elmo.tasks.{name}") is not None]
