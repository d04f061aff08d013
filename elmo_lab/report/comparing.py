"""Compares records of tasks: the arms of a task on the same data, as in the paper's Table 1."""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from elmo.errors import InputError
from elmo_lab import figures
from elmo_lab.document import ABSENT, Block, Details, Figure, Figures, Section, Text, table
from elmo_lab.probes import blocks
from elmo_lab.report.collect import RecordedRun
from elmo_lab.report.provenance import provenance
from elmo_lab.tasks import task as tasks
from elmo_lab.tasks.queue import TRIAL
from elmo_lab.tasks.table import count_seeds, error_reduction, signed_percent

NOTE = (
    "Mean and standard deviation over the seeds, in percent. Error reduction is the difference as a share of the first"
    " arm's errors (100 minus its score)."
)


@dataclass(frozen=True)
class ReportedArm:
    """A run of a task, with the name of its arm."""

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


def sections(runs: Sequence[RecordedRun]) -> Iterator[Section]:
    """Yields one section, if there are runs of tasks. Raises InputError if a record has no scores."""
    if not runs:
        return
    try:
        yield Section("Tasks", tuple(_blocks(runs)))
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        names = ", ".join(run.name for run in runs[:3])
        raise InputError(f"{names}: records without a task's scores ({error!r}); train again") from error


def _blocks(runs: Sequence[RecordedRun]) -> Iterator[Block]:
    found = comparable_arms(runs)
    gains = [gain for group in found if (gain := _gain(group)) is not None]
    if gains:
        alt = "; ".join(f"{gain.name} {', '.join(f'{score:.1f}' for score in gain.scores)}" for gain in gains)
        figure = Figure("tasks", f"Scores without and with ELMo: {alt}", lambda dark: figures.gains(gains, "%", dark))
        yield Figures((figure,), "Each task without ELMo, and with it where that is best on development data.")
    rows = [row for group in found for row in _rows(group)]
    head = ("task", "arm", "score", "mean", "std", "seeds", "difference", "error reduction", "minutes a seed")
    yield table(head, rows, groups=True)
    yield Text(NOTE)
    for group in found:
        for arm in group:
            yield Details(f"{arm.run.name}: seeds, command, settings", (_by_seed(arm), *provenance(arm.run.record)))


def comparable_arms(runs: Sequence[RecordedRun]) -> list[list[ReportedArm]]:
    """Groups the arms of a folder by task and data, the best without ELMo first, then the others by name.

    Of an arm's trials (`arm/trial-1` ...), only the one whose first seed is best on dev is an arm. If arms have
    different static vectors, they are also grouped by these vectors' hash.
    """
    alike: dict[str, dict[tuple[str, str], ReportedArm]] = {}
    for run in runs:
        parts = run.name.split("/")
        is_trial = len(parts) > 1 and TRIAL.fullmatch(parts[-1]) is not None
        *parent, name = parts[:-1] if is_trial else parts
        record, arm = run.record, ReportedArm(name, run)
        data = [record.data.get(part) or record.settings.get(part) for part in ("train", "dev", "test")]
        limits = [record.settings.get(key) for key in ("max_train", "train_fraction")]
        arms = alike.setdefault(repr([parent, record.name, record.version, data, limits]), {})
        key = name, arm.place  # runs with ELMo at another place are no trials of this arm
        if key not in arms or arm.values("dev")[0] > arms[key].values("dev")[0]:
            arms[key] = arm
    found: dict[tuple[str, str | None], list[ReportedArm]] = {}
    for group, arms in alike.items():
        several = len({arm.vectors for arm in arms.values()} - {None}) > 1
        for arm in arms.values():
            found.setdefault((group, arm.vectors if several else None), []).append(arm)
    return [_ordered(arms) for arms in found.values()]


def _ordered(arms: Sequence[ReportedArm]) -> list[ReportedArm]:
    """Orders arms: the best without ELMo first, then the others by name."""
    bare = [arm for arm in arms if arm.place == "none"]
    first = max(bare, key=lambda arm: statistics.fmean(arm.values("dev")), default=None)
    return sorted(arms, key=lambda arm: (arm is not first, arm.name))


def _part(arms: Sequence[ReportedArm]) -> str:
    return "test" if all(arm.values("test") for arm in arms) else "dev"


def _title(arms: Sequence[ReportedArm]) -> str:
    """Names the folder of the arms, and the task if the folder does not name it."""
    record = arms[0].run.record
    folder = arms[0].run.name.rpartition("/")[0] if len(arms) > 1 else arms[0].run.name
    return folder if record.name in folder else f"{folder} ({record.name})"


def _gain(arms: Sequence[ReportedArm]) -> figures.Gain | None:
    """Compares the first arm with the best with ELMo; returns None if one is missing."""
    part, first = _part(arms), arms[0]
    best = max(
        (arm for arm in arms if arm.place != "none"), key=lambda arm: statistics.fmean(arm.values("dev")), default=None
    )
    if best is None or first.place != "none":
        return None
    before, after = (statistics.fmean(arm.values(part)) for arm in (first, best))
    return figures.Gain(_title(arms), before, after)


def _rows(arms: Sequence[ReportedArm]) -> Iterator[tuple[str, ...]]:
    part = _part(arms)
    baseline = statistics.fmean(arms[0].values(part))
    for arm in arms:
        values, record = arm.values(part), arm.run.record
        mean, gain = statistics.fmean(values), ("", "")
        if arm is not arms[0] and arms[0].place == "none":
            gain = f"{mean - baseline:+.2f}", signed_percent(error_reduction(mean, baseline))
        std = f"{statistics.stdev(values):.2f}" if len(values) > 1 else ABSENT
        seeds = count_seeds(len(values), len(record.settings.get("seeds") or ()))
        minutes = statistics.fmean(row["seconds"] for row in record.rows) / 60
        score = f"{part} {arm.scores[0]}"
        yield (_title(arms), arm.name, score, f"{mean:.2f}", std, seeds, *gain, f"{minutes:.1f}")


def _by_seed(arm: ReportedArm) -> Block:
    """Shows one row per seed: the scores, and how training went."""
    parts = [part for part in ("dev", "test") if arm.values(part)]
    head = ["seed", *(f"{part} {name}" for part in parts for name in arm.scores), "best epoch", "updates", "ended by"]
    rows = [
        [
            str(row["seed"]),
            *(blocks.cell(row[part].get(name)) for part in parts for name in arm.scores),
            *(str(row.get(key, "")) for key in ("best_epoch", "steps", "stopped")),
        ]
        for row in arm.run.record.rows
    ]
    return table(head, rows)
