"""Combines the predictions of several trained networks."""

from collections.abc import Sequence
from dataclasses import fields, replace
from itertools import chain
from typing import Any

from elmo_lab.tasks.tagging import TagPrediction, spans


def mean_of_spans(chosen: Sequence[str], members: Sequence[TagPrediction]) -> tuple[float, ...]:
    """Averages the probability of each span of the chosen BIO tags over the members, with 0 for those without the span.

    The result is empty if no member has probabilities.
    """
    if not any(member.probabilities for member in members):
        return ()
    known = [dict(zip(spans(member.tags), member.probabilities, strict=False)) for member in members]
    return tuple(sum(each.get(span, 0.0) for each in known) / len(members) for span in spans(chosen))


def joint_labels(members: Sequence[Any]) -> Any:
    """Joins the labels (`Task.labels`) of networks with different training data: each list has those of all members."""
    first = members[0]
    names = [each.name for each in fields(first) if isinstance(getattr(first, each.name), tuple)]
    found = {name: chain.from_iterable(getattr(each, name) for each in members) for name in names}
    return replace(first, **{name: tuple(dict.fromkeys(values)) for name, values in found.items()})
