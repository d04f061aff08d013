"""What a task is. Tasks are found by their names among the entry points of the group `elmo.tasks`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn, Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor, nn

from elmo.errors import InputError
from elmo_lab import plugins
from elmo_lab.tasks.inputs import Inputs, Tokens

GROUP = "elmo.tasks"
"""The entry points by which a package brings tasks: each names a `Task`."""
Place = Literal["paper", "input", "output", "both"]
"""A place for ELMo in a task's network; `paper` is `Task.place`."""


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


def _lacks(*_: Any) -> NoReturn:
    """Stands for a part that a task does not have."""
    raise InputError("this task cannot do that; its `Task` has no function for it")


@dataclass(frozen=True)
class Task:
    """A task: how its examples are read, what learns it, how predictions are scored and written.

    The fields up to `score` are what `elmo task train` needs. Predictions and examples are of any kind, as the task's
    functions and its network use them; example files are named by paths.
    """

    name: str
    version: str
    """Changes when scoring or reading changes for the same predictions or files."""
    title: str
    """One line for tables."""
    metric: str
    """The score, of those that `score` returns, that chooses the best epoch; higher is better."""
    config: type[Any]
    """Sizes and dropouts of the network: a frozen dataclass with defaults."""
    labels: type[Any]
    """What the network needs from the training data: a frozen dataclass of plain JSON values (tuples, no dicts)."""
    network: Callable[[Any, Inputs, Any], nn.Module]
    """The network of a config, inputs and labels; an instance is a `TaskModel`."""
    read: Callable[[Path], list[Any]]
    """The examples of a file; InputError names file and line."""
    sentences: Callable[[Any], list[list[str]]]
    """The token lists of an example to embed; the same number for all examples of the task, or any number."""
    labels_of: Callable[[Sequence[Any]], Any]
    """The `labels` of training examples."""
    score: Callable[[Sequence[Any], Sequence[Any]], dict[str, float]]
    """Numbers in percent of examples and their predictions, `metric` among them."""
    columns: tuple[str, ...] = ()
    """The scores that a report shows; by default only `metric`."""
    place: str = "input"
    """Where the paper's network has ELMo: Table 3 and the supplement, A.3 to A.8."""
    by_label: Callable[[Sequence[Any], Sequence[Any]], dict[str, dict[str, float | int]]] = lambda *_: {}
    """Scores in percent of each label, and `support`, how many examples or parts of them have it."""
    combine: Callable[[Sequence[Sequence[Any]]], list[Any]] = _lacks
    """The predictions of an ensemble from those of its members."""
    write: Callable[[Path, Sequence[Any], Sequence[Any]], None] = _lacks
    """Writes the standard format, with predictions instead of gold labels, in place of a file.

    To `.jsonl`, it writes JSON lines with probabilities. An example that is None stands for a blank line.
    """
    record: Callable[[Any, Any], dict[str, Any]] = _lacks
    """A prediction for an example as a JSON object, with probabilities."""
    unlabelled: Callable[..., Any] = _lacks
    """An example without gold labels of a line's sentences, given the line's number (from 1, or 0 if it has none).

    Formats with names for examples make one of the number. InputError for sentences that are no example.
    """
    of_text: Callable[..., list[Any]] = _lacks
    """Examples without labels, given the parts of a line between tabs, a `Tokenizer` and the line's number.

    InputError for parts that are no example.
    """
    is_of_sentences: bool = False
    """Whether a line of text that `Tagger` is given is one example, even if a tokenizer finds several sentences."""
    read_all: Callable[[Path], list[Any]] | None = None
    """Like `read`, with the examples that can be neither learned from nor scored; by default `read`."""
    training: Callable[[list[Any], Any], list[Any]] | None = None
    """The examples to learn from, given those of the training file and the config; by default the same."""
    check: Callable[[Sequence[Any], Any, Path], None] | None = None
    """Raises InputError, naming the line, for an example whose label is missing or unknown to `labels`."""
    with_predicates: Callable[[Sequence[Any], Callable[[Sequence[str]], list[int]]], list[Any]] | None = None
    """Examples for the predicates that a function finds in sentences, for a task that is about predicates."""


def find(name: str) -> Task:
    """The task of that name. Raises InputError for an unknown one, or one whose package cannot be imported."""
    return plugins.find(GROUP, Task, name)


def available() -> list[str]:
    """The names of the tasks."""
    return list(plugins.entry_points_of(GROUP))


def read_examples(task: Task, path: Path) -> list[Any]:
    """The examples of a file to learn from or to score. Raises InputError without any."""
    examples = task.read(path)
    if not examples:
        raise InputError(f"{path}: no examples; give a file in the format of the task {task.name}")
    return examples


def read_all(task: Task, path: Path) -> list[Any]:
    """The examples of a file for prediction, or for their text."""
    return (task.read_all or task.read)(path)


def training(task: Task, examples: list[Any], config: Any) -> list[Any]:
    """The training examples, from those of a training file and the network's settings."""
    return examples if task.training is None else task.training(examples, config)


def check(task: Task, examples: Sequence[Any], labels: Any, path: Path) -> None:
    """Raises InputError if examples of a file cannot be learned from, or scored, with these labels."""
    if task.check is not None:
        task.check(examples, labels, path)
