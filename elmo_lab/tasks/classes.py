"""Labels, predictions, scores and ensembles of the tasks that give an example one of several classes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from elmo_lab.tasks.scores import LabelScores, accuracy, label_scores


@dataclass(frozen=True)
class ClassLabels:
    """The names of the classes."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class ClassPrediction:
    """The likeliest class of an example."""

    label: Any
    probabilities: tuple[float, ...]
    """The probability of each class, in the order of the labels."""


def likeliest(probabilities: Sequence[float], labels: Sequence[Any]) -> ClassPrediction:
    """Predicts the class with the highest probability."""
    best = max(range(len(probabilities)), key=probabilities.__getitem__)
    return ClassPrediction(labels[best], tuple(probabilities))


def combine(members: Sequence[Sequence[ClassPrediction]], labels: Sequence[Any]) -> list[ClassPrediction]:
    """Predicts the likeliest class of each example by the mean of the members' probabilities."""
    rows = [[prediction.probabilities for prediction in member] for member in members]
    return [likeliest(mean, labels) for mean in np.mean(np.array(rows, np.float64), axis=0).tolist()]


def score(examples: Sequence[Any], predictions: Sequence[ClassPrediction]) -> dict[str, float]:
    """Returns the percentage of labelled examples whose class is predicted."""
    return {"accuracy": accuracy([each.label for each in examples], [each.label for each in predictions])}


def by_class(gold: Sequence[str | None], predicted: Sequence[str]) -> LabelScores:
    """Returns precision, recall, F1 and support of each class, over labelled examples."""
    known = [(label, found) for label, found in zip(gold, predicted, strict=True) if label is not None]
    return label_scores([[("", label)] for label, _ in known], [[("", found)] for _, found in known])
