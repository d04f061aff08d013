"""Groups the lines of tables for comparison: the arms of a task, their scores, and the best arm."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from elmo_lab.probes import weights
from elmo_lab.record import RunRecord
from elmo_lab.report.arms import Arm, MeanScore, arm_of, common_part, is_better
from elmo_lab.report.collect import RecordedRun
from results.tables import Run, read

ORDER = ("none", "as-it-is", "input", "output", "both", "cove", "fine-tuned")
"""The order of arms. The first of them that a task has is its baseline."""


@dataclass(frozen=True)
class Comparison:
    """The arms of a task on the same data; the first is the baseline."""

    name: str
    arms: tuple[Arm, ...]

    @property
    def part(self) -> str:
        """The part of the data that is reported: test if all arms have it, else dev."""
        return common_part(self.arms)

    def score(self, arm: Arm) -> MeanScore:
        """Returns the score of an arm on `part`."""
        return arm.score(self.part)

    def best(self, fine_tuned: bool | None = None) -> Arm | None:
        """Returns the arm with ELMo that is best on dev. `fine_tuned` restricts the arms by their biLM."""
        found = [arm for arm in self.arms if arm.has_elmo and fine_tuned in (None, arm.is_fine_tuned)]
        return max(found, key=lambda arm: arm.score("dev").value, default=None)

    def before_tuning(self, tuned: Arm) -> Arm | None:
        """Returns the arm with the biLM from which a fine-tuned one began, at the same place."""
        found = [arm for arm in self.arms if arm.has_elmo and not arm.is_fine_tuned and arm.place == tuned.place]
        words = tuned.bilm["init_from"].get("words_read")
        found = [arm for arm in found if arm.bilm.get("words_read") == words]
        return max(found, key=lambda arm: arm.score("dev").value, default=None)


def comparisons(table: str, below: str = "") -> dict[str, Comparison]:
    """Returns the tasks of a table, by name. Only runs whose ids begin with `below` count.

    Of an arm's trials, only the one whose first seed is best on dev counts, as in a queue.
    """
    rows: dict[str, dict[str, Arm]] = {}
    for name, run in read(table).items():
        if run["kind"] != "task" or not name.startswith(below):
            continue
        row, arm = arm_of(_recorded(name.removeprefix(below), run))
        if is_better(arm, rows.setdefault(row, {}).get(arm.name)):
            rows[row][arm.name] = arm
    order = {name: number for number, name in enumerate(ORDER)}  # unknown arms come last
    return {
        row: Comparison(row, tuple(sorted(arms.values(), key=lambda arm: (order.get(arm.name, len(ORDER)), arm.name))))
        for row, arms in rows.items()
        if len(arms) > 1
    }


def _recorded(name: str, run: Run) -> RecordedRun:
    """Returns a line of a table as a record, without the command and the machine, which old lines do not have."""
    fields = {key: run[key] for key in ("kind", "name", "version", "settings", "rows")}
    given = {"bilm": run.get("bilm"), "data": run.get("data") or {}}
    return RecordedRun(name, Path(name), RunRecord(**fields, **given, argv=[], versions={}, machine={}))


def layer_weights(compared: Iterable[Comparison]) -> list[weights.MeanWeightRow]:
    """Returns the layers' weights in the mixes that these tasks learned, as `elmo probe weights` gives them."""
    rows = [
        weights.WeightRow(record.name, f"{each.name}/{arm.name}", row["seed"], place, layer, weight, mix["gamma"])
        for each in compared
        for arm in each.arms
        for record in [arm.run.record]
        if arm.has_elmo and record.settings["inputs"].get("layers") != "average"
        for row in record.rows
        for place, mix in row["mixes"].items()
        for layer, weight in enumerate(mix["weights"])
        if len(mix["weights"]) > 1
    ]
    return weights.means(rows)
