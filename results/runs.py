"""Groups the lines of tables for comparison: the arms of a task, their scores, and the best arm."""

import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from elmo.formats.opened import is_bilm
from elmo_lab.probes import weights
from elmo_lab.tasks import task as tasks
from elmo_lab.tasks.queue import TRIAL
from results.tables import Run, read

ORDER = ("none", "as-it-is", "input", "output", "both", "cove", "fine-tuned")
"""The order of arms. The first of them that a task has is its baseline."""


@dataclass(frozen=True)
class MeanScore:
    """A mean in percent, its sample standard deviation and the number of seeds."""

    value: float
    std: float = 0.0
    seeds: int = 1

    def __str__(self) -> str:
        return f"{self.value:.2f}" + (f" ± {self.std:.2f}" if self.seeds > 1 else "")


@dataclass(frozen=True)
class SeedRuns:
    """The runs of a task with one set of inputs, one for each seed."""

    name: str
    run: Run

    @property
    def metric(self) -> str:
        """The name of the score that is compared."""
        return tasks.find(self.run["name"]).metric

    @property
    def place(self) -> str:
        """The place where the network reads ELMo: none, input, output or both."""
        return self.run["settings"]["inputs"].get("elmo", "none")

    @property
    def bilm(self) -> dict[str, Any]:
        """The card of the biLM; empty if there is none."""
        return self.run.get("bilm") or {}

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
        return statistics.fmean(row["seconds"] for row in self.run["rows"]) / 60

    def score(self, part: str) -> MeanScore:
        """Returns the mean over the seeds on dev or test."""
        return score_of(row[part][self.metric] for row in self.run["rows"])


@dataclass(frozen=True)
class Comparison:
    """The arms of a task on the same data; the first is the baseline."""

    name: str
    arms: tuple[SeedRuns, ...]

    @property
    def part(self) -> str:
        """The part of the data that is reported: test if all arms have it, else dev."""
        return "test" if all("test" in row for arm in self.arms for row in arm.run["rows"]) else "dev"

    def score(self, arm: SeedRuns) -> MeanScore:
        """Returns the score of an arm on `part`."""
        return arm.score(self.part)

    def best(self, fine_tuned: bool | None = None) -> SeedRuns | None:
        """Returns the arm with ELMo that is best on dev. `fine_tuned` restricts the arms by their biLM."""
        found = [arm for arm in self.arms if arm.has_elmo and fine_tuned in (None, arm.is_fine_tuned)]
        return max(found, key=lambda arm: arm.score("dev").value, default=None)

    def before_tuning(self, tuned: SeedRuns) -> SeedRuns | None:
        """Returns the arm with the biLM from which a fine-tuned one began, at the same place."""
        found = [arm for arm in self.arms if arm.has_elmo and not arm.is_fine_tuned and arm.place == tuned.place]
        words = tuned.bilm["init_from"].get("words_read")
        found = [arm for arm in found if arm.bilm.get("words_read") == words]
        return max(found, key=lambda arm: arm.score("dev").value, default=None)


def score_of(numbers: Iterable[float]) -> MeanScore:
    """Returns the mean of the numbers of several seeds."""
    found = list(numbers)
    return MeanScore(statistics.fmean(found), statistics.stdev(found) if len(found) > 1 else 0.0, len(found))


def comparisons(table: str, below: str = "") -> dict[str, Comparison]:
    """Returns the tasks of a table, by name. Only runs whose ids begin with `below` count.

    Of an arm's trials, only the one whose first seed is best on dev counts, as in a queue.
    """
    chosen: dict[str, Run] = {}
    for name, run in read(table).items():
        if run["kind"] != "task" or not name.startswith(below):
            continue
        whole = name.removeprefix(below)
        arm, _, last = whole.rpartition("/")
        arm = arm if arm and TRIAL.fullmatch(last) else whole
        if arm not in chosen or _first(run) > _first(chosen[arm]):
            chosen[arm] = run
    rows: dict[str, list[SeedRuns]] = {}
    for name, run in chosen.items():
        row, _, arm = name.rpartition("/")
        rows.setdefault(row, []).append(SeedRuns(arm, run))
    order = {name: number for number, name in enumerate(ORDER)}  # unknown arms come last
    return {
        row: Comparison(row, tuple(sorted(arms, key=lambda arm: (order.get(arm.name, len(ORDER)), arm.name))))
        for row, arms in rows.items()
        if len(arms) > 1
    }


def _first(run: Run) -> float:
    """Returns the score on dev of a run's first seed."""
    return run["rows"][0]["dev"][tasks.find(run["name"]).metric]


def layer_weights(compared: Iterable[Comparison]) -> list[weights.MeanWeightRow]:
    """Returns the layers' weights in the mixes that these tasks learned, as `elmo probe weights` gives them."""
    rows = [
        weights.WeightRow(arm.run["name"], f"{each.name}/{arm.name}", row["seed"], place, layer, weight, mix["gamma"])
        for each in compared
        for arm in each.arms
        if arm.has_elmo and arm.run["settings"]["inputs"].get("layers") != "average"
        for row in arm.run["rows"]
        for place, mix in row["mixes"].items()
        for layer, weight in enumerate(mix["weights"])
        if len(mix["weights"]) > 1
    ]
    return weights.means(rows)
