"""Defines what a task is. Tasks are found by their names among the entry points of the group `elmo.tasks`."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn, Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor, nn

from elmo.errors import InputError
from elmo_lab import plugins
from elmo_lab.tasks.inputs import Inputs, Tokens
from elmo_lab.tasks.treebank import unescaped

GROUP = "elmo.tasks"
"""The group of the entry points by which a package adds tasks; each names a `Task`."""
Place = Literal["paper", "input", "output", "both"]
"""A place for ELMo in a task's network; `paper` means `Task.place`."""


@runtime_checkable
class TaskModel(Protocol):
    """The network of a task: an nn.Module that keeps its `inputs` and has these two methods.

    A network whose probabilities take time has a third, `decode_probable`: it decodes with the probabilities.
    """

    inputs: Inputs

    def loss(self, tokens: Tokens, examples: Sequence[Any]) -> Float[Tensor, ""]:
        """Returns the mean loss of the examples, without `inputs.penalty()`, which the trainer adds."""
        ...

    def decode(self, tokens: Tokens, examples: Sequence[Any]) -> list[Any]:
        """Returns one prediction per example, and ignores gold labels. The caller sets mode and gradients."""
        ...


def _lacks(*_: Any) -> NoReturn:
    """Stands for a part that a task does not have."""
    raise InputError("this task cannot do that; its `Task` has no function for it")


@dataclass(frozen=True)
class Task:
    """A task: how its examples are read, which network learns it, and how predictions are scored and written.

    `elmo task train` needs the fields up to `score`. Examples and predictions may be of any type that the functions and
    the network of the task agree on.
    """

    name: str
    version: str
    """The version of the task, which changes when files are read or predictions are scored differently."""
    title: str
    """The title of the task in tables, on one line."""
    metric: str
    """The name of the score that chooses the best epoch, among those that `score` returns; higher is better."""
    config: type[Any]
    """The class of the network's settings: a frozen dataclass with defaults."""
    labels: type[Any]
    """The class of what a network needs from the training data: a frozen dataclass of JSON values (no dicts)."""
    network: Callable[[Any, Inputs, Any], nn.Module]
    """Makes the network, a `TaskModel`, from its settings, inputs and labels."""
    read: Callable[[Path], list[Any]]
    """Reads the examples of a file. Raises InputError, which names file and line."""
    sentences: Callable[[Any], list[list[str]]]
    """Returns the token lists of an example to embed, in its file's spelling. Their number may vary."""
    labels_of: Callable[[Sequence[Any]], Any]
    """Returns the `labels` of training examples."""
    score: Callable[[Sequence[Any], Sequence[Any]], dict[str, float]]
    """Scores predictions of examples, in percent; `metric` is one of the scores."""
    columns: tuple[str, ...] = ()
    """The scores that a report shows; by default only `metric`."""
    place: str = "input"
    """The place of ELMo in the paper's network (Table 3; supplement, A.3 to A.8)."""
    by_label: Callable[[Sequence[Any], Sequence[Any]], dict[str, dict[str, float | int]]] = lambda *_: {}
    """Scores each label, in percent, with its `support`, the number of examples or parts of them that have it."""
    combine: Callable[[Sequence[Sequence[Any]]], list[Any]] = _lacks
    """Makes the predictions of an ensemble from those of its members."""
    write: Callable[[Path, Sequence[Any], Sequence[Any]], None] = _lacks
    """Writes a file in the standard format, with predictions instead of gold labels; an existing file is replaced.

    A `.jsonl` file gets JSON lines with probabilities. An example that is None stands for a blank line.
    """
    record: Callable[[Any, Any], dict[str, Any]] = _lacks
    """Returns a prediction for an example as a JSON object, with probabilities."""
    unlabelled: Callable[..., Any] = _lacks
    """Makes an example without gold labels from the sentences of a line and its number (from 1, or 0 if it has none).

    If examples have names, the number becomes the name. Raises InputError if the sentences are not an example.
    """
    of_text: Callable[..., list[Any]] = _lacks
    """Makes examples without labels from the parts of a line between tabs, a `Tokenizer` and the line's number.

    Raises InputError if the parts are not an example.
    """
    is_of_sentences: bool = False
    """Whether `Tagger` takes a line of text as one example, even if a tokenizer finds several sentences in it."""
    read_all: Callable[[Path], list[Any]] | None = None
    """Reads like `read`, but keeps examples that can be neither learned from nor scored, and needs no labels. The
    default is `read`."""
    training: Callable[[list[Any], Any], list[Any]] = lambda examples, config: examples
    """Makes the examples to learn from, given those of the training file and the network's settings. The default is to
    learn from all of them."""
    check: Callable[[Sequence[Any], Any, Path], None] = lambda *_: None
    """Raises InputError, naming the line, for an example whose label is missing or unknown to `labels`."""
    with_predicates: Callable[[Sequence[Any], Callable[[Sequence[str]], list[int]]], list[Any]] | None = None
    """Makes examples of the predicates that a function finds in sentences, for a task that is about predicates."""


def find(name: str) -> Task:
    """Finds a task by its name. Raises InputError if it is unknown, or if its package cannot be imported."""
    return plugins.find(GROUP, Task, name)


def available() -> list[str]:
    """Returns the names of the tasks."""
    return list(plugins.entry_points_of(GROUP))


def read_examples(task: Task, path: Path) -> list[Any]:
    """Reads the examples of a file to learn from or to score. Raises InputError if there are none."""
    examples = task.read(path)
    if not examples:
        raise InputError(f"{path}: no examples; give a file in the format of the task {task.name}")
    return examples


def read_all(task: Task, path: Path) -> list[Any]:
    """Reads the examples of a file for prediction, or for their text."""
    return (task.read_all or task.read)(path)


def sentences_of(task: Task, examples: Iterable[Any]) -> list[list[str]]:
    """Returns the token lists of examples in the spelling that networks and biLMs read: that of raw text."""
    return [list(map(unescaped, sentence)) for example in examples for sentence in task.sentences(example)]
