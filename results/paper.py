"""The numbers of the paper (Peters et al. 2018, "Deep contextualized word representations"), shown beside ours."""

from dataclasses import dataclass


@dataclass(frozen=True)
class PublishedNumber:
    """A number of the paper, in percent."""

    quantity: str
    task: str
    """The name of the task in `elmo task list`; empty if the number belongs to none."""
    arm: str
    """The name of the arm or layer in the results here; empty if the number belongs to none."""
    value: float
    source: str


def _tasks(quantity: str, source: str, **values: float) -> list[PublishedNumber]:
    return [PublishedNumber(quantity, task, "", value, source) for task, value in values.items()]


def _arms(quantity: str, task: str, source: str, arms: tuple[str, ...], *values: float) -> list[PublishedNumber]:
    return [PublishedNumber(quantity, task, arm, value, source) for arm, value in zip(arms, values, strict=True)]


LAYERS = ("none", "top", "lambda-1", "lambda-0.001")
PLACES = ("input", "both", "output")
TYPES = ("static", "layer-0", "elmo", "static-elmo")
PUBLISHED: tuple[PublishedNumber, ...] = (
    *_tasks("error reduction", "Table 1", squad=24.9, snli=5.8, srl=17.2, coref=9.8, ner=21.0, sst5=6.8),
    *_arms("layers", "squad", "Table 2", LAYERS, 80.8, 84.7, 85.0, 85.2),
    *_arms("layers", "snli", "Table 2", LAYERS, 88.1, 89.1, 89.3, 89.5),
    *_arms("layers", "srl", "Table 2", LAYERS, 81.6, 84.1, 84.6, 84.8),
    *_arms("places", "squad", "Table 3", PLACES, 85.1, 85.6, 84.8),
    *_arms("places", "snli", "Table 3", PLACES, 88.9, 89.5, 88.7),
    *_arms("places", "srl", "Table 3", PLACES, 84.7, 84.3, 80.9),
    *_arms("types", "squad", "Table 7", TYPES, 80.8, 81.4, 85.3, 85.6),
    *_arms("types", "snli", "Table 7", TYPES, 88.1, 88.5, 89.1, 89.5),
    *_arms("types", "srl", "Table 7", TYPES, 81.6, 81.7, 84.5, 84.7),
    *_arms("wsd", "", "Table 5", ("1", "2"), 67.4, 69.0),
    *_arms("pos", "", "Table 6", ("1", "2"), 97.3, 96.8),
    *_tasks("updates", "section 5.4", srl=100 * 10 / 486),
    *_tasks("data", "section 5.4", srl=10.0),
)
"""The published numbers. Tables 2, 3 and 7 are on development data.

`updates` are the epochs with ELMo to the baseline's best score, as a share of the baseline's own epochs. `data` is the
part of the data with which the baseline scores what ELMo does with 1 %."""


def published_number(quantity: str, task: str = "", arm: str = "") -> PublishedNumber | None:
    """Returns the paper's number, or None if the paper has none."""
    wanted = (quantity, task, arm)
    return next((each for each in PUBLISHED if (each.quantity, each.task, each.arm) == wanted), None)


def cell(quantity: str, task: str = "", arm: str = "", form: str = "{:.1f}") -> str:
    """Formats the paper's number as a table cell, which is empty if there is none."""
    found = published_number(quantity, task, arm)
    return "" if found is None else form.format(found.value)
