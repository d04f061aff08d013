"""Sample efficiency: what ELMo saves in updates and in training data (sec. 5.4, Figure 1).

A resumable queue of task runs, with and without ELMo, on growing parts of the training data; larger parts contain the
smaller ones. It gives three kinds of rows: `Score`, for a part of the data; `Point`, for an epoch of a run on the
largest part; `Answer`, for the paper's questions about both.
"""

import json
import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from elmo import config as configs
from elmo_lab.probes import queues, record
from elmo_lab.tasks import compare
from elmo_lab.tasks.queue import Queue
from elmo_lab.tasks.queue import Row as TaskRow
from elmo_lab.tasks.task import Place

NAME, VERSION = "efficiency", "1"
BASELINE, ELMO = "none", "elmo"


@dataclass(frozen=True)
class Config:
    """The tasks, the parts of their data, and what all runs have in common."""

    output: str
    """The folder for the runs and the tables."""
    recipes: tuple[str, ...] = ("snli", "srl")
    """Task recipes: packaged ones, or files."""
    fractions: tuple[float, ...] = (0.01, 0.1, 1.0)
    """Parts of the training examples."""
    seeds: tuple[int, ...] = (1,)
    place: Place = "paper"
    """Where the network uses ELMo."""
    settings: tuple[str, ...] = ()
    """For all runs (`section.key=value`); they override the recipes."""
    small_settings: tuple[str, ...] = ()
    """For runs on less than the largest part, where an epoch is few updates; they override `settings`."""
    data: str | None = None
    """The folder of the recipes' data files."""
    vectors: str | None = None
    """Static word vectors for all runs."""
    model: str | None = None
    """The biLM for all runs."""

    def __post_init__(self) -> None:
        queues.check_lists(recipes=self.recipes, fractions=self.fractions, seeds=self.seeds)
        for fraction in self.fractions:
            if not 0 < fraction <= 1:
                raise configs.ConfigError(f"fractions has {fraction}; more than 0 and at most 1 is expected")


@dataclass(frozen=True)
class Score:
    """An arm, `none` or `elmo`, on a part of the training data: means over its seeds, in percent."""

    recipe: str
    task: str
    arm: str
    fraction: float
    examples: int
    metric: str
    dev: float
    dev_std: float
    test: float | None
    test_std: float | None
    seeds: tuple[int, ...]
    steps: int
    """Updates, summed over all seeds."""
    stopped: tuple[str, ...]
    """Why the training of each seed ended: patience, epochs or minutes."""
    dev_scores: tuple[float, ...] | None = None
    """By seed, in the order of `seeds`; None in rows from before 2026-11-22."""
    test_scores: tuple[float, ...] | None = None
    kind: Literal["score"] = "score"


@dataclass(frozen=True)
class Point:
    """The score on development data after an epoch of a run on the largest part."""

    recipe: str
    task: str
    arm: str
    fraction: float
    metric: str
    seed: int
    step: int
    """Updates so far."""
    dev: float
    kind: Literal["point"] = "point"


@dataclass(frozen=True)
class Answer:
    """What ELMo saves.

    - `updates`: updates with ELMo until the baseline's best score on development data, divided by the baseline's own;
      computed for each seed, and `value` is the mean over those that reached the score
    - `data`: part of the data with which ELMo scores as high as the baseline with the largest part
    - `baseline`: part of the data with which the baseline scores as high as ELMo with the smallest part
    """

    recipe: str
    task: str
    metric: str
    question: Literal["updates", "data", "baseline"]
    value: float | None
    """A fraction; None if the score was not reached."""
    at_most: bool
    """The first epoch, or the smallest part, already reached the score: the true value may be lower."""
    text: str
    """The answer as a sentence."""
    reached: int | None = None
    """For `updates`: the number of seeds that reached the score; `value` is their mean."""
    seeds: int | None = None
    """For `updates`: the number of seeds that both arms have."""
    std: float | None = None
    """For `updates`: sample standard deviation over the seeds that reached the score; None for fewer than two."""
    sooner: int | None = None
    """For `updates`: the number of seeds that reached it with fewer updates."""
    kind: Literal["answer"] = "answer"


Row = Score | Point | Answer


def run(
    config: Config,
    find_recipe: Callable[[str], Path],
    quiet: bool = False,
    progress: Callable[[str], object] = lambda line: None,
) -> list[Row]:
    """Trains what is missing, and writes the record and the rows to `config.output` after every run.

    `find_recipe` maps a recipe's name to its file; `progress` is told what is being trained. Raises InputError if
    settings or data cannot be used.
    """
    output = Path(config.output)
    queues.check_output(output, NAME)
    queue = plan(config, find_recipe)
    given = queues.given(config.settings, config.data, config.vectors, config.model)
    for _ in compare.work_off(queue, output, find_recipe, given, quiet, progress):
        with compare.writing(output):
            write(config, queue)
    with compare.writing(output):
        return write(config, queue)


def plan(config: Config, find_recipe: Callable[[str], Path]) -> Queue:
    """What to train, the smallest part of the data first."""
    rows = []
    for recipe in config.recipes:
        arms = _arms(config, queues.place_for(find_recipe(recipe), config.place))
        rows.append(TaskRow(queues.folder_of(recipe), recipe, arms, config.seeds))
    return Queue(tuple(rows))


def _arms(config: Config, place: str) -> dict[str, list[str]]:
    """The settings of every arm and part of the data, by the folder of their runs."""
    places = {BASELINE: "inputs.elmo=none", ELMO: f"inputs.elmo={place}"}
    return {
        _folder(arm, fraction): [
            place,
            *(() if fraction == max(config.fractions) else config.small_settings),
            f"train_fraction={float(fraction)!r}",
        ]
        for fraction in sorted(config.fractions)
        for arm, place in places.items()
    }


def write(config: Config, queue: Queue) -> list[Row]:
    """Writes the record of finished runs, and returns the scores, points and answers of each task."""
    output = Path(config.output)
    kept = _kept_points(output)
    rows: list[Row] = []
    results: list[dict[str, Any]] = []
    for row in queue.rows:
        scores, points = [], []
        for arm in (BASELINE, ELMO):
            for fraction in sorted(config.fractions):
                folder = output / row.name / _folder(arm, fraction)
                done = queues.done(row, folder)
                if done is None:
                    continue
                examples = done.results[0]["examples"]["train"]
                scores.append(Score(row.name, arm=arm, fraction=fraction, examples=examples, **done.numbers()))
                if fraction == max(config.fractions):
                    points += _points(row.name, arm, fraction, folder, done, kept)
                results += done.results
        rows += [*scores, *points, *answers(scores, points)]
    bilm = next((result["bilm"] for result in results if result["bilm"] is not None), None)
    record.write(output, NAME, VERSION, config, rows, bilm, sum(result["seconds"] for result in results))
    return rows


def answers(scores: Sequence[Score], points: Sequence[Point]) -> Iterator[Answer]:
    """Answers to the paper's two questions and its example, for one task; none if a run that they need is missing."""
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


def reached(curve: Sequence[tuple[float, float]], score: float) -> tuple[float | None, bool]:
    """Where a curve of (x, score), with rising x, first reaches `score`, by linear interpolation between points.

    None if it never does; and whether the first point already does, so the curve may have reached it before.
    """
    for number, (x, y) in enumerate(curve):
        if y >= score:
            if number == 0:
                return x, True
            x_before, y_before = curve[number - 1]  # lower than score: this point is the first that is not
            return x_before + (x - x_before) * (score - y_before) / (y - y_before), False
    return None, False


def _updates(score: Score, points: Sequence[Point], seeds: Sequence[int]) -> Answer:
    """How soon the runs with ELMo reach the best score of those without, for each seed."""
    found: list[float] = []
    at_most = False
    for seed in seeds:
        curves = {
            arm: [(float(p.step), p.dev) for p in points if p.arm == arm and p.seed == seed] for arm in (BASELINE, ELMO)
        }
        best = max(dev for _, dev in curves[BASELINE])
        step, early = reached(curves[ELMO], best)
        if step is not None:
            found.append(step / next(step for step, dev in curves[BASELINE] if dev == best))
            at_most = at_most or early
    value = statistics.fmean(found) if found else None
    std = statistics.stdev(found) if len(found) > 1 else None
    if value is None:
        text = "ELMo does not reach the baseline's best score"
    else:
        text = f"ELMo reaches the baseline's best score after {_percent(value, at_most)} of its updates"
        text += "" if std is None else f" (std {_percent(std, False)})"
    text += "" if len(seeds) == 1 else f", with {len(found)} of {len(seeds)} seeds"
    sooner = sum(ratio < 1 for ratio in found)
    return Answer(
        score.recipe, score.task, score.metric, "updates", value, at_most, text, len(found), len(seeds), std, sooner
    )


def _data(question: Literal["data", "baseline"], wanted: Score, scores: Sequence[Score]) -> Answer:
    """The part of the data with which the others reach the wanted score, linear in the logarithm of the part."""
    part = "dev" if wanted.test is None else "test"
    curve = [(math.log(score.fraction), getattr(score, part)) for score in scores]
    found, at_most = reached(curve, getattr(wanted, part))
    value = None if found is None else math.exp(found)
    names = {BASELINE: "the baseline", ELMO: "ELMo"}
    one, other, there = names[scores[0].arm], names[wanted.arm], _percent(wanted.fraction, False)
    if value is None:
        most = _percent(scores[-1].fraction, False)
        text = f"With {most} of the data {one} does not score what {other} does with {there}"
    else:
        text = f"With {_percent(value, at_most)} of the data {one} scores what {other} does with {there}"
    return Answer(wanted.recipe, wanted.task, wanted.metric, question, value, at_most, text)


def _percent(fraction: float, at_most: bool) -> str:
    return f"{'at most ' if at_most else ''}{100 * fraction:.3g} %"


def _points(
    recipe: str, arm: str, fraction: float, folder: Path, done: queues.Done, kept: Sequence[Point]
) -> Iterator[Point]:
    """The scores that the runs recorded after each epoch; of runs kept for their numbers alone, the `kept` points."""
    task = done.task
    for result in done.results:
        file = folder / f"seed-{result['seed']}" / "metrics.jsonl"
        if not file.is_file():
            run = (recipe, arm, fraction, result["seed"])
            yield from (point for point in kept if (point.recipe, point.arm, point.fraction, point.seed) == run)
            continue
        for line in map(json.loads, file.read_text(encoding="utf-8").splitlines()):
            yield Point(recipe, task.NAME, arm, fraction, task.METRIC, result["seed"], line["step"], line[task.METRIC])


def _kept_points(output: Path) -> list[Point]:
    """The points in the rows of the folder's record, if it has both."""
    has_both = all((output / name).is_file() for name in (record.RECORD, record.ROWS))
    rows = record.read(output)[1] if has_both else []
    return [Point(**row) for row in rows if row.get("kind") == "point"]


def _folder(arm: str, fraction: float) -> str:
    """The folder name of an arm's runs: none-0.01, elmo-1."""
    return f"{arm}-{fraction:.12g}"
