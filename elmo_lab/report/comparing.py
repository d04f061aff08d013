"""Compares records of tasks: the arms of a task on the same data, as in the paper's Table 1."""

from collections.abc import Iterator, Sequence

from elmo.errors import InputError
from elmo_lab import figures
from elmo_lab.document import ABSENT, Block, Details, Figure, Figures, Section, Text, table
from elmo_lab.probes import blocks
from elmo_lab.report.arms import Arm, arm_of, common_part, is_better
from elmo_lab.report.collect import RecordedRun
from elmo_lab.report.provenance import provenance
from elmo_lab.tasks.table import count_seeds, error_reduction, signed_percent

DAMAGED = (KeyError, TypeError, ValueError, IndexError, AttributeError)
"""The errors of reading a record of another shape."""
NOTE = (
    "Mean and standard deviation over the seeds, in percent. Error reduction is the difference as a share of the first"
    " arm's errors (100 minus its score)."
)


def sections(runs: Sequence[RecordedRun]) -> Iterator[Section]:
    """Yields one section, if there are runs of tasks. Raises InputError if a record has no scores."""
    if not runs:
        return
    try:
        yield Section("Tasks", tuple(_blocks(runs)))
    except DAMAGED as error:
        named = [run.name for run in runs if not _is_whole(run)] or [run.name for run in runs]
        names = ", ".join(named[:3])
        raise InputError(f"{names}: records without a task's scores ({error!r}); train again") from error


def _is_whole(run: RecordedRun) -> bool:
    """Returns whether a run can be shown alone."""
    try:
        return bool(list(_blocks([run])))
    except DAMAGED:
        return False


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


def comparable_arms(runs: Sequence[RecordedRun]) -> list[list[Arm]]:
    """Groups the arms of a folder by task and data, the best without ELMo first, then the others by name.

    Of an arm's trials (`arm/trial-1` ...), only the one whose first seed is best on dev is an arm. If arms have
    different static vectors, they are also grouped by these vectors' hash.
    """
    alike: dict[str, dict[tuple[str, str], Arm]] = {}
    for run in runs:
        record, (parent, arm) = run.record, arm_of(run)
        data = [record.data.get(part) or record.settings.get(part) for part in ("train", "dev", "test")]
        limits = [record.settings.get(key) for key in ("max_train", "train_fraction")]
        arms = alike.setdefault(repr([parent, record.name, record.version, data, limits]), {})
        key = arm.name, arm.place  # runs with ELMo at another place are no trials of this arm
        if is_better(arm, arms.get(key)):
            arms[key] = arm
    found: dict[tuple[str, str | None], list[Arm]] = {}
    for group, arms in alike.items():
        several = len({arm.vectors for arm in arms.values()} - {None}) > 1
        for arm in arms.values():
            found.setdefault((group, arm.vectors if several else None), []).append(arm)
    return [_ordered(arms) for arms in found.values()]


def _ordered(arms: Sequence[Arm]) -> list[Arm]:
    """Orders arms: the best without ELMo first, then the others by name."""
    bare = [arm for arm in arms if arm.place == "none"]
    first = max(bare, key=lambda arm: arm.score("dev").value, default=None)
    return sorted(arms, key=lambda arm: (arm is not first, arm.name))


def _title(arms: Sequence[Arm]) -> str:
    """Names the folder of the arms, and the task if the folder does not name it."""
    record = arms[0].run.record
    folder = arms[0].run.name.rpartition("/")[0] if len(arms) > 1 else arms[0].run.name
    return folder if record.name in folder else f"{folder} ({record.name})"


def _gain(arms: Sequence[Arm]) -> figures.Gain | None:
    """Compares the first arm with the best with ELMo; returns None if one is missing."""
    part, first = common_part(arms), arms[0]
    best = max((arm for arm in arms if arm.place != "none"), key=lambda arm: arm.score("dev").value, default=None)
    if best is None or first.place != "none":
        return None
    return figures.Gain(_title(arms), first.score(part).value, best.score(part).value)


def _rows(arms: Sequence[Arm]) -> Iterator[tuple[str, ...]]:
    part = common_part(arms)
    baseline = arms[0].score(part).value
    for arm in arms:
        score, gain = arm.score(part), ("", "")
        if arm is not arms[0] and arms[0].place == "none":
            gain = f"{score.value - baseline:+.2f}", signed_percent(error_reduction(score.value, baseline))
        std = f"{score.std:.2f}" if score.seeds > 1 else ABSENT
        seeds = count_seeds(score.seeds, len(arm.run.record.settings.get("seeds") or ()))
        cells = f"{part} {arm.scores[0]}", f"{score.value:.2f}", std, seeds
        yield (_title(arms), arm.name, *cells, *gain, f"{arm.minutes:.1f}")


def _by_seed(arm: Arm) -> Block:
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
