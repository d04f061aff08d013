"""Describes the arms of a task, which are compared: runs whose networks read other inputs, with their scores."""

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from elmo.errors import InputError
from elmo.forking import cached_property
from elmo.formats.opened import is_bilm
from elmo_lab.report.collect import RecordedRun
from elmo_lab.tasks import task as tasks
from elmo_lab.tasks.queue import TRIAL


@dataclass(frozen=True)
class MeanScore:
    """A mean in percent, its sample standard deviation and the number of seeds."""

    value: float
    std: float = 0.0
    seeds: int = 1

    def __str__(self) -> str:
        return f"{self.value:.2f}" + (f" ± {self.std:.2f}" if self.seeds > 1 else "")


@dataclass(frozen=True)
class Arm:
    """The run of a task with one set of inputs; its record has a row for each seed."""

    name: str
    run: RecordedRun

    @property
    def place(self) -> str:
        """The place where the network reads ELMo: none, input, output or both."""
        return self.run.record.settings["inputs"].get("elmo", "none")

    @property
    def vectors(self) -> str | None:
        """The hash of the static vectors; None if there are none."""
        return self.run.record.data.get("vectors")

    @property
    def bilm(self) -> Mapping[str, Any]:
        """The card of the biLM; empty if there is none."""
        return self.run.record.bilm or {}

    @property
    def has_elmo(self) -> bool:
        """Whether the network reads a biLM, not a translation model."""
        return self.place != "none" and is_bilm(self.bilm)

    @property
    def is_fine_tuned(self) -> bool:
        """Whether the biLM was trained further on a text after it had been trained on another."""
        origin = self.bilm.get("init_from")
        return bool(origin) and not origin.get("continues")

    @property
    def minutes(self) -> float:
        """The minutes that a seed took, on average."""
        return statistics.fmean(row["seconds"] for row in self.run.record.rows) / 60

    @cached_property
    def scores(self) -> tuple[str, ...]:
        """The names of the scores that are shown. The first of them is compared."""
        try:
            task = tasks.find(self.run.record.name)
        except InputError:  # the task's package is not installed here
            return tuple(self.run.record.rows[0]["dev"])
        return tuple(dict.fromkeys((task.metric, *task.columns)))

    def values(self, part: str) -> list[float]:
        """Returns the compared score of each seed on a part of the data; none if a seed lacks it."""
        rows = self.run.record.rows
        return [row[part][self.scores[0]] for row in rows] if all(part in row for row in rows) else []

    def score(self, part: str) -> MeanScore:
        """Returns the mean over the seeds on dev or test."""
        return score_of(self.values(part))


def score_of(numbers: Iterable[float]) -> MeanScore:
    """Returns the mean of the numbers of several seeds."""
    found = list(numbers)
    return MeanScore(statistics.fmean(found), statistics.stdev(found) if len(found) > 1 else 0.0, len(found))


def common_part(arms: Iterable[Arm]) -> str:
    """Returns the part of the data that is reported: test if all arms have it, else dev."""
    return "test" if all(arm.values("test") for arm in arms) else "dev"


def arm_of(run: RecordedRun) -> tuple[str, Arm]:
    """Returns the folder of a run's arm, and the arm; a trial (`arm/trial-1`) belongs to the folder above it."""
    parts = run.name.split("/")
    is_trial = len(parts) > 1 and TRIAL.fullmatch(parts[-1]) is not None
    *folder, name = parts[:-1] if is_trial else parts
    return "/".join(folder), Arm(name, run)


def is_better(arm: Arm, other: Arm | None) -> bool:
    """Returns whether the first seed of an arm's trial is better on dev than that of the `other`, as in a queue."""
    return other is None or arm.values("dev")[0] > other.values("dev")[0]
