"""Sample efficiency: what ELMo saves in updates and in training data (section 5.4 and Figure 1 of the paper).

The probe is a resumable queue of task runs, with and without ELMo, on growing parts of the training data; larger parts
contain the smaller ones. It gives three kinds of rows: `PartScore` for a part of the data, `CurvePoint` for an epoch of
a run on the largest part, and `EfficiencyAnswer` for the paper's questions about both.
"""

import json
import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from elmo import config as configs
from elmo.errors import InputError
from elmo_lab import RECIPES, figures, record
from elmo_lab.document import Block, Figure, Figures, slug, table
from elmo_lab.probes import blocks, queues
from elmo_lab.probes.probe import Context, Probe
from elmo_lab.record import RunRecord
from elmo_lab.tasks.queue import Queue
from elmo_lab.tasks.queue import QueueRow as TaskRow
from elmo_lab.tasks.task import Place

NAME, VERSION = "efficiency", "1"
BASELINE, ELMO = "none", "elmo"


@dataclass(frozen=True)
class EfficiencyConfig:
    """The tasks, the parts of their data, and what all runs have in common."""

    output: str
    """The folder for the runs and the tables."""
    recipes: tuple[str, ...] = ("snli", "srl")
    """The task recipes, which are names of packaged ones, or files."""
    fractions: tuple[float, ...] = (0.01, 0.1, 1.0)
    """The parts of the training examples, as fractions of all."""
    seeds: tuple[int, ...] = (1,)
    """The seeds of each arm, whose scores are means over them."""
    place: Place = "paper"
    """The place where the network uses ELMo."""
    settings: tuple[str, ...] = ()
    """Settings for all runs, as `section.key=value`; they override the recipes."""
    small_settings: tuple[str, ...] = ()
    """Settings for runs on smaller parts than the largest, where an epoch is few updates; they override `settings`."""
    data: str | None = None
    """The folder of the recipes' data files."""
    vectors: str | None = None
    """The file of static word vectors for all runs."""
    model: str | None = None
    """The biLM for all runs."""

    def __post_init__(self) -> None:
        configs.check_lists(self, ("recipes", "fractions", "seeds"))
        configs.check_above(self, ("fractions",), 1)
        configs.check_range(self, ("seeds",), 0, configs.SEEDS)


@dataclass(frozen=True, kw_only=True)
class PartScore(queues.ArmScores):
    """The scores of an arm, `none` or `elmo`, on a part of the training data."""

    fraction: float
    examples: int
    kind: Literal["score"] = "score"


@dataclass(frozen=True)
class CurvePoint:
    """The score on development data after an epoch of a run on the largest part."""

    recipe: str
    task: str
    arm: str
    fraction: float
    metric: str
    seed: int
    step: int
    """The updates so far."""
    dev: float
    kind: Literal["point"] = "point"


@dataclass(frozen=True)
class EfficiencyAnswer:
    """An answer to a question about what ELMo saves.

    - `updates`: the updates with ELMo until the baseline's best score on development data, divided by the baseline's
      own updates; this is computed for each seed, and `value` is the mean over the seeds that reached the score
    - `data`: the part of the data with which ELMo scores as high as the baseline with the largest part
    - `baseline`: the part of the data with which the baseline scores as high as ELMo with the smallest part
    """

    recipe: str
    task: str
    metric: str
    question: Literal["updates", "data", "baseline"]
    value: float | None
    """The fraction that answers the question; None if the score was not reached."""
    at_most: bool
    """Whether the first epoch, or the smallest part, already reached the score, so that the true value may be lower."""
    text: str
    """The answer as a sentence."""
    reached: int | None = None
    """The number of seeds that reached the score, for `updates`; `value` is their mean."""
    seeds: int | None = None
    """The number of seeds that both arms have, for `updates`."""
    std: float | None = None
    """The sample standard deviation over the seeds that reached the score, for `updates`; None for fewer than two."""
    sooner: int | None = None
    """The number of seeds that reached the score with fewer updates than the baseline, for `updates`."""
    kind: Literal["answer"] = "answer"


Row = PartScore | CurvePoint | EfficiencyAnswer


def train_parts(config: EfficiencyConfig, context: Context) -> list[Row]:
    """Trains what is missing, and writes the record to `config.output` after every run.

    Raises InputError if settings or data cannot be used.
    """
    output = Path(config.output)
    record.check_replaced(output, NAME)
    queue = plan(config, context.find_recipe)
    given = queues.common_settings(config.settings, config.data, config.vectors, config.model)
    return queues.train_all(queue, output, given, context, lambda: write(config, queue))


def plan(config: EfficiencyConfig, find_recipe: Callable[[str], Path]) -> Queue:
    """Returns what to train, the smallest part of the data first."""
    rows = []
    for recipe in config.recipes:
        places = {BASELINE: "none", ELMO: queues.place_for(find_recipe(recipe), config.place)}
        arms: dict[str, list[str]] = {}
        for fraction in sorted(config.fractions):
            settings = () if fraction == max(config.fractions) else config.small_settings
            for arm, place in places.items():
                own = [f"inputs.elmo={place}", *settings, f"train_fraction={float(fraction)!r}"]
                arms[_folder(arm, fraction)] = own
        rows.append(TaskRow(queues.folder_of(recipe), recipe, arms, config.seeds))
    return Queue(tuple(rows))


def write(config: EfficiencyConfig, queue: Queue) -> list[Row]:
    """Writes the record of finished runs, and returns the scores, points and answers of each task."""
    output = Path(config.output)
    rows: list[Row] = []
    results: list[dict[str, Any]] = []
    for row in queue.rows:
        scores, points = [], []
        for arm in (BASELINE, ELMO):
            for fraction in sorted(config.fractions):
                folder = output / row.name / _folder(arm, fraction)
                done = queues.finished_runs(row, folder)
                if done is None:
                    continue
                examples = done.results[0]["examples"]["train"]
                part = {"recipe": row.name, "arm": arm, "fraction": fraction, "examples": examples}
                scores.append(PartScore(**part, **done.numbers()))
                if fraction == max(config.fractions):
                    points += _points(row.name, arm, fraction, folder, done)
                results += done.results
        rows += [*scores, *points, *answer_questions(scores, points)]
    queues.write_record(output, NAME, VERSION, config, rows, results)
    return rows


def answer_questions(scores: Sequence[PartScore], points: Sequence[CurvePoint]) -> Iterator[EfficiencyAnswer]:
    """Answers the paper's two questions, and its example, for one task; omits an answer if its runs are missing."""
    baseline, elmo = ([score for score in scores if score.arm == arm] for arm in (BASELINE, ELMO))
    if not baseline or not elmo:
        return
    most = max(score.fraction for score in scores)
    seeds = [{point.seed for point in points if point.arm == arm} for arm in (BASELINE, ELMO)]
    if both := sorted(set.intersection(*seeds)):  # points belong to the largest part, which may not be finished yet
        yield _updates(elmo[-1], points, both)
    if baseline[-1].fraction == elmo[-1].fraction == most and len(elmo) > 1:
        yield _data("data", baseline[-1], elmo)
    if len(baseline) > 1 and baseline[0].fraction == elmo[0].fraction:
        yield _data("baseline", elmo[0], baseline)


def first_reached(curve: Sequence[tuple[float, float]], score: float) -> tuple[float | None, bool]:
    """Finds where a curve of (x, score), with rising x, first reaches `score`, by linear interpolation.

    Returns that x, or None if there is none, and whether the first point already reaches the score. In that case the
    curve may have reached it before.
    """
    for number, (x, y) in enumerate(curve):
        if y >= score:
            if number == 0:
                return x, True
            x_before, y_before = curve[number - 1]  # this score is lower, so y > y_before
            return x_before + (x - x_before) * (score - y_before) / (y - y_before), False
    return None, False


def _updates(score: PartScore, points: Sequence[CurvePoint], seeds: Sequence[int]) -> EfficiencyAnswer:
    """Answers how soon the runs with ELMo reach the best score of those without, with the same seed."""
    found: list[float] = []
    at_most = False
    for seed in seeds:
        curves = {
            arm: [(float(p.step), p.dev) for p in points if p.arm == arm and p.seed == seed] for arm in (BASELINE, ELMO)
        }
        best = max(dev for _, dev in curves[BASELINE])
        step, early = first_reached(curves[ELMO], best)
        if step is not None:
            found.append(step / next(step for step, dev in curves[BASELINE] if dev == best))
            at_most = at_most or early
    value = std = None
    text = "ELMo does not reach the baseline's best score"
    if found:
        value = statistics.fmean(found)
        text = f"ELMo reaches the baseline's best score after {_percent(value, at_most)} of its updates"
    if len(found) > 1:
        std = statistics.stdev(found)
        text += f" (std {_percent(std)})"
    text += "" if len(seeds) == 1 else f", with {len(found)} of {len(seeds)} seeds"
    sooner = sum(ratio < 1 for ratio in found)
    return EfficiencyAnswer(
        score.recipe, score.task, score.metric, "updates", value, at_most, text, len(found), len(seeds), std, sooner
    )


def _data(question: Literal["data", "baseline"], wanted: PartScore, scores: Sequence[PartScore]) -> EfficiencyAnswer:
    """Finds the part of the data with which an arm reaches the other's score, linear in the part's logarithm."""
    part = "dev" if wanted.test is None else "test"
    curve = [(math.log(score.fraction), getattr(score, part)) for score in scores]
    found, at_most = first_reached(curve, getattr(wanted, part))
    value = None if found is None else math.exp(found)
    names = {BASELINE: "the baseline", ELMO: "ELMo"}
    share, scored = _percent(scores[-1].fraction), "does not score"
    if value is not None:
        share, scored = _percent(value, at_most), "scores"
    one, other = names[scores[0].arm], names[wanted.arm]
    text = f"With {share} of the data {one} {scored} what {other} does with {_percent(wanted.fraction)}"
    return EfficiencyAnswer(wanted.recipe, wanted.task, wanted.metric, question, value, at_most, text)


def _percent(fraction: float, at_most: bool = False) -> str:
    return f"{'at most ' if at_most else ''}{100 * fraction:.3g} %"


def _points(recipe: str, arm: str, fraction: float, folder: Path, done: queues.FinishedRuns) -> Iterator[CurvePoint]:
    """Yields the scores that the runs recorded after each epoch."""
    task = done.task
    for result in done.results:
        file = folder / f"seed-{result['seed']}" / "metrics.jsonl"
        try:
            for line in map(json.loads, file.read_text(encoding="utf-8").splitlines()):
                step, score = line["step"], line[task.metric]
                yield CurvePoint(recipe, task.name, arm, fraction, task.metric, result["seed"], step, score)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise InputError(f"{file}: not the metrics of a run ({error!r}); train it again") from error


def _folder(arm: str, fraction: float) -> str:
    """The folder name of an arm's runs, such as none-0.01 or elmo-1."""
    return f"{arm}-{fraction:.12g}"


def _show(record: RunRecord) -> Iterator[Block]:
    """Shows Figure 1, the scores and the answers."""
    scores, answers = ([row for row in record.rows if row["kind"] == kind] for kind in ("score", "answer"))
    recipes = list(dict.fromkeys(row["recipe"] for row in scores))
    if (drawn := figure(record.rows)).figures:
        yield drawn
    cells = [
        (
            row["recipe"], f"{100 * row['fraction']:g} %", f"{row['examples']:,}", row["arm"],
            blocks.cell(row["dev"]), blocks.seed_deviation(row, "dev"),
            blocks.cell(row["test"]), blocks.seed_deviation(row, "test"),
            str(len(row["seeds"])), f"{row['steps']:,}", blocks.stop_reasons(row["stopped"]),
        )
        for row in sorted(scores, key=lambda row: (recipes.index(row["recipe"]), row["fraction"]))
    ]  # fmt: skip
    head = ("task", "data", "examples", "arm", "dev", "std", "test", "std", "seeds", "updates", "ended by")
    yield table(head, cells, groups=True)
    if answers:
        yield table(("task", "what ELMo saves"), [(row["recipe"], row["text"]) for row in answers], groups=True)


def figure(rows: Sequence[Mapping[str, Any]]) -> Figures:
    """Draws Figure 1 of the paper: the scores of the rows against the data, and against the updates."""
    recipes = list(dict.fromkeys(row["recipe"] for row in rows))
    drawn = [
        draw(recipe, found)
        for kind, draw in (("score", _by_data), ("point", _by_updates))
        for recipe in recipes
        if (found := [row for row in rows if (row["recipe"], row["kind"]) == (recipe, kind)])
    ]
    kept = tuple(each for each in drawn if each is not None)
    return Figures(kept, "Figure 1: the score against the part of the data, and against the updates.")


def _by_data(recipe: str, rows: Sequence[Mapping[str, Any]]) -> Figure | None:
    """Draws the scores by fraction of the data, with the spread over seeds; returns None for a single fraction."""
    part = blocks.part_of(rows)
    fractions = sorted({row["fraction"] for row in rows})
    if len(fractions) < 2:
        return None
    series = []
    for arm in dict.fromkeys(row["arm"] for row in rows):
        mine = sorted((row for row in rows if row["arm"] == arm), key=lambda row: row["fraction"])
        deviations = [row[f"{part}_std"] for row in mine] if any(len(row["seeds"]) > 1 for row in mine) else None
        scores = [row[part] for row in mine]
        series.append(figures.Series(arm, [row["fraction"] for row in mine], scores, deviations))
    ticks = {float(fraction): f"{100 * fraction:g} %" for fraction in fractions}
    metric = f"{part} {rows[0]['metric']}"
    alt = "; ".join(f"{one.name} " + ", ".join(f"{y:.1f}" for y in one.y) for one in series)
    return Figure(
        slug(f"efficiency {recipe} data"),
        f"{recipe}, {metric} with {', '.join(ticks.values())} of the data: {alt}",
        lambda dark: figures.lines(series, f"{recipe}: part of the data", metric, dark, ticks, "log"),
    )


def _by_updates(recipe: str, rows: Sequence[Mapping[str, Any]]) -> Figure:
    """Draws the scores after every epoch, as one line per seed."""
    series = []
    for arm, seed in dict.fromkeys((row["arm"], row["seed"]) for row in rows):
        mine = [row for row in rows if (row["arm"], row["seed"]) == (arm, seed)]
        steps, scores = [float(row["step"]) for row in mine], [row["dev"] for row in mine]
        series.append(figures.Series(f"{arm}, seed {seed}", steps, scores, dashed=arm == BASELINE))
    metric = f"dev {rows[0]['metric']}"
    alt = "; ".join(f"{one.name} best {max(one.y):.1f} of {len(one.y)} epochs" for one in series)
    return Figure(
        slug(f"efficiency {recipe} updates"),
        f"{recipe}, {metric} after every epoch: {alt}",
        lambda dark: figures.lines(series, f"{recipe}: updates", metric, dark),
    )


PROBE = Probe(
    name=NAME,
    version=VERSION,
    title="Sample efficiency",
    config=EfficiencyConfig,
    run=train_parts,
    show=_show,
    recipe=RECIPES / "probes" / f"{NAME}.toml",
    trains=True,
)
