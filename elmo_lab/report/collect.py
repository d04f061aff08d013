"""Folders -> the results in them, recognized by content, not by location.

Names are relative to the given folders: no other part of a machine's paths gets into a report.
"""

import json
import os
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import Any

from elmo import config as configs
from elmo.errors import InputError
from elmo.formats.source import is_bilm
from elmo.pretraining.counting import SESSIONS
from elmo_lab.probes import record
from elmo_lab.report import shapes
from elmo_lab.tasks import task as tasks
from elmo_lab.tasks import train
from elmo_lab.tasks.queue import ENSEMBLE, TRIAL
from elmo_lab.tasks.table import TABLE
from elmo_lab.tasks.trained import RESULT, SEED

SKIPPED = {"tensorboard", "checkpoints", "__pycache__"}
QUEUES = {"ablate", "efficiency"}
"""Probes whose folders contain their runs."""
LARGEST = 4_000_000
"""Most bytes of a JSON file that may be a result."""


@dataclass(frozen=True)
class TaskRun:
    """A run of `elmo task train`, with its finished seeds."""

    name: str
    folder: Path
    config: dict[str, Any]
    results: list[dict[str, Any]]
    """The content of `result.json`, by seed."""
    version: str
    """The task's version; empty if unknown."""
    ensemble: dict[str, Any] | None = None
    """The scores of the ensemble of its networks, and their number (`members`)."""
    tried: tuple[tuple[str, float], ...] = ()
    """For a tuned arm, every trial with its score on dev; the run is the best of them."""
    wanted: int = 0
    """Seeds that the run or its queue should have."""
    data: dict[str, str] = field(default_factory=dict)
    """The sha256 of its files by part of the data; empty if unknown."""
    elsewhere: dict[str, list[float]] = field(default_factory=dict)
    """The scores of its seeds on other test data, by the name of the file (`seed-N/NAME.json`)."""

    @property
    def task(self) -> str:
        """The name of its task."""
        return self.config["task"]

    @property
    def metric(self) -> str:
        """The name of the score that is compared."""
        return tasks.find(self.task).METRIC

    @property
    def elmo(self) -> str:
        """Where its network reads ELMo: none, input, output or both."""
        return self.config["inputs"].get("elmo", "none")

    @property
    def bilm(self) -> dict[str, Any]:
        """The description of its biLM; empty if it has none."""
        return self.results[0].get("bilm") or {}

    @property
    def has_elmo(self) -> bool:
        """Whether its network reads a biLM."""
        return self.elmo != "none" and all(is_bilm(each.get("bilm") or {}) for each in self.results)

    @property
    def is_fine_tuned(self) -> bool:
        """Whether that biLM was fine-tuned on another text than its first."""
        return any(is_fine_tuned(each.get("bilm") or {}) for each in self.results)

    @property
    def first(self) -> dict[str, Any]:
        """The result of the seed by which a queue chooses a trial."""
        seeds = self.config.get("seeds") or ()
        return next((result for result in self.results if result["seed"] in seeds[:1]), self.results[0])

    @property
    def on_dev(self) -> float:
        """The mean score on dev, by which one of several runs is chosen."""
        return statistics.fmean(result["dev"][self.metric] for result in self.results)

    def scores(self, part: str) -> list[float]:
        """Of the seeds that were scored on that part of the data."""
        return [result[part][self.metric] for result in self.results if part in result]

    def score(self, part: str) -> tuple[float, float] | None:
        """Mean and standard deviation over the seeds; None if that part of the data was not scored."""
        scores = self.scores(part)
        if len(scores) < len(self.results):
            return None
        return spread(scores)


@dataclass(frozen=True)
class Comparison:
    """Runs of one task on the same data; the first is the baseline, if there is one."""

    name: str
    title: str
    runs: tuple[TaskRun, ...]
    has_baseline: bool

    @property
    def part(self) -> str:
        """The data that all runs were scored on: test if possible, else dev."""
        return "test" if all(run.score("test") is not None for run in self.runs) else "dev"

    def score(self, run: TaskRun) -> tuple[float, float]:
        """Mean and standard deviation of a run on that data."""
        score = run.score(self.part)
        assert score is not None, "every run is scored on dev"
        return score

    def with_elmo(self) -> list[TaskRun]:
        """The runs with ELMo; empty if there is no baseline without it."""
        baseline, *others = self.runs
        if not self.has_baseline or baseline.elmo != "none":
            return []
        return [run for run in others if run.has_elmo]

    def best_with_elmo(self, fine_tuned: bool | None = None) -> TaskRun | None:
        """The run with ELMo that is best on dev: of all, or of those with a fine-tuned biLM or with one as it is."""
        runs = [run for run in self.with_elmo() if fine_tuned in (None, run.is_fine_tuned)]
        return max(runs, key=lambda run: run.on_dev, default=None)

    def before_tuning(self, tuned: TaskRun) -> TaskRun | None:
        """The run with the biLM that a fine-tuned one began from, at the same place; of several the best on dev."""
        runs = [run for run in self.with_elmo() if not run.is_fine_tuned and run.elmo == tuned.elmo]
        runs = [run for run in runs if began_from(tuned.bilm, run.bilm)]
        return max(runs, key=lambda run: run.on_dev, default=None)


def is_fine_tuned(bilm: Mapping[str, Any]) -> bool:
    """Whether a biLM, as a result describes it, started from one that had read another text."""
    origin = bilm.get("init_from")
    return bool(origin) and not origin.get("continues")


def began_from(tuned: Mapping[str, Any], given: Mapping[str, Any]) -> bool:
    """Whether a fine-tuned biLM began from another, by the name and the words read.

    Older records may call a biLM "default", which is no name: then the words read must be known.
    """
    origin = tuned.get("init_from") or {}
    words = [each["words_read"] for each in (origin, given) if each.get("words_read") is not None]
    if len(set(words)) > 1:
        return False
    names = {PurePath(str(each.get("model", ""))).name for each in (origin, given)}
    return len(names) == 1 or ("default" in names and len(words) == 2)


@dataclass(frozen=True)
class Probe:
    """The folder of a probe."""

    name: str
    probe: str
    record: dict[str, Any]
    rows: list[dict[str, Any]]


@dataclass(frozen=True)
class Pretraining:
    """A run of `elmo train`."""

    name: str
    config: dict[str, Any]
    card: dict[str, Any]
    """The card of its newest model; empty if there is none yet."""
    curve: list[dict[str, Any]]
    """The perplexities of the newest held-out text, by words read."""
    words_a_second: float | None
    sessions: list[dict[str, Any]] = field(default_factory=list)
    """The settings by the step from which it had them, if it was resumed with others."""


@dataclass(frozen=True)
class Scored:
    """A file with the output of `elmo perplexity --json` or `elmo task eval --json`."""

    name: str
    values: dict[str, Any]


@dataclass(frozen=True)
class Results:
    """All results, ordered by name."""

    comparisons: list[Comparison] = field(default_factory=list)
    runs: list[TaskRun] = field(default_factory=list)
    """Runs without a comparison."""
    probes: list[Probe] = field(default_factory=list)
    pretrainings: list[Pretraining] = field(default_factory=list)
    perplexities: list[Scored] = field(default_factory=list)
    evaluations: list[Scored] = field(default_factory=list)

    def machines(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """The machine of every result that names one, with the result's name."""
        for run in (*(run for each in self.comparisons for run in each.runs), *self.runs):
            yield from ((run.name, result["machine"]) for result in run.results if "machine" in result)
        yield from ((probe.name, probe.record["machine"]) for probe in self.probes if "machine" in probe.record)


def spread(scores: Sequence[float]) -> tuple[float, float]:
    """Mean and (sample) standard deviation; the latter is 0 for one score."""
    return statistics.fmean(scores), statistics.stdev(scores) if len(scores) > 1 else 0.0


def part_of(rows: Iterable[Mapping[str, Any]]) -> str:
    """The data by which to compare a probe's rows: test if all were scored on it, else dev."""
    return "test" if all(row.get("test") is not None for row in rows) else "dev"


def collect(paths: Sequence[Path]) -> Results:
    """The results in folders and files. Raises InputError if one is missing or damaged, or nothing is found."""
    results = Results()
    runs: list[TaskRun] = []
    seen: set[str] = set()
    for path in paths:
        if not path.exists():
            raise InputError(f"{path}: no such file or folder; give results, such as a folder of elmo task train")
    for root, name in _named([path.absolute() for path in paths]).items():
        if root.is_file() and not _add_file(results, root, name):
            raise InputError(f"{root}: no results; give the --json output of elmo perplexity or elmo task eval")
        for folder, inside, files in os.walk(root, followlinks=True):
            inside[:] = sorted(each for each in inside if each not in SKIPPED and not each.startswith("."))
            if (real := os.path.realpath(folder)) in seen:
                inside.clear()  # it was fully searched, or a link leads back to it
                continue
            seen.add(real)
            below = "/".join((name, *Path(folder).relative_to(root).parts))
            _add_folder(results, runs, Path(folder), below, set(files), inside)
    _compare(results, _tuned(runs))
    if results == Results():
        named = ", ".join(map(str, paths))
        raise InputError(f"{named}: no results; give output folders of elmo task, elmo probe or elmo train")
    return results


def _named(roots: Sequence[Path]) -> dict[Path, str]:
    """The given paths by name; equal names get as much of the path as distinguishes them."""
    found: dict[Path, str] = {}
    for root in dict.fromkeys(roots):
        others = [other for other in set(roots) if other != root]
        lengths = range(1, len(root.parts) + 1)
        ends = (root.parts[-length:] for length in lengths)
        found[root] = "/".join(next(end for end in ends if all(other.parts[-len(end) :] != end for other in others)))
    return found


def _add_folder(
    results: Results, runs: list[TaskRun], folder: Path, name: str, files: set[str], inside: list[str]
) -> None:
    """Adds the result that a folder is, and removes its parts from `inside`."""
    if {record.RECORD, record.ROWS} <= files:
        probe = _probe(name, folder)
        results.probes.append(probe)
        if probe.probe in QUEUES:
            runs_of = {row.get("recipe") for row in probe.rows}
            inside[:] = [each for each in inside if each not in runs_of]
    if {"train.json", "metrics.jsonl"} <= files:
        results.pretrainings.append(_pretraining(name, folder))
        inside[:] = [each for each in inside if each != "model"]
    seeds = [each for each in inside if SEED.fullmatch(each)]
    if train.CONFIG in files and seeds:
        inside[:] = [each for each in inside if not each.startswith("seed-")]
        run = _task_run(name, folder, seeds)
        if run is not None:
            runs.append(run)
        return
    for file in sorted(files):
        _add_file(results, folder / file, f"{name}/{file}")


def _probe(name: str, folder: Path) -> Probe:
    """The probe; accuracies as fractions become percent, like all other scores."""
    values, rows = record.read(folder)
    shapes.check(values, shapes.PROBE, str(folder / record.RECORD))
    probe = values.get("probe", "")
    _name_default(values.get("config") or {}, values.get("bilm"))
    for number, row in enumerate(rows, 1):
        shapes.check(row, shapes.row_shape(probe, row), f"{folder / record.ROWS}, line {number}")
    if probe == "senses":
        rows = [row | {"accuracy": 100 * row["accuracy"], "by_word": _percent(row.get("by_word", {}))} for row in rows]
    return Probe(name, probe, values, rows)


def _name_default(settings: dict[str, Any], bilm: Mapping[str, Any] | None) -> None:
    """Gives the default model its own name, if the record has it: another version may have another default."""
    if bilm is not None and settings.get("model", "") in (None, "default"):
        settings["model"] = bilm.get("model", "default")


def _percent(fractions: Mapping[str, float]) -> dict[str, float]:
    return {name: 100 * fraction for name, fraction in fractions.items()}


def _add_file(results: Results, path: Path, name: str) -> bool:
    """Adds a file with a command's output; returns False for any other file."""
    values = _object(path)
    if {"text", "vocabulary", "perplexity"} <= set(values):
        shapes.check(values, shapes.PERPLEXITY, str(path))
        results.perplexities.append(Scored(name, values))
    elif (values := _evaluation(path)) is not None:
        results.evaluations.append(Scored(name, values))
    else:
        return False
    return True


def _evaluation(path: Path) -> dict[str, Any] | None:
    """The output of `elmo task eval --json`; None for any other file."""
    values = _object(path)
    if not {"task", "version", "examples", "members"} <= set(values):
        return None
    shapes.check(values, shapes.EVALUATION, str(path))
    return values


def _object(path: Path) -> dict[str, Any]:
    """The JSON object of a file; empty if it is something else, or too large to be a result."""
    if path.suffix != ".json" or not path.is_file() or path.stat().st_size > LARGEST:
        return {}
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        return {}
    return values if isinstance(values, dict) else {}


def _task_run(name: str, folder: Path, seeds: Sequence[str]) -> TaskRun | None:
    """The run; None if no seed is finished, or it is not a task's."""
    config = shapes.read(folder / train.CONFIG, shapes.RUN)
    files = sorted((folder / seed / RESULT for seed in seeds), key=lambda file: (len(file.parent.name), str(file)))
    files = [file for file in files if file.is_file()]
    if "task" not in config or not files:
        return None
    config.setdefault("inputs", {})
    config = _completed(config)
    metric = tasks.find(config["task"]).METRIC
    results = [shapes.read(file, _scored(shapes.RESULT, metric)) for file in files]
    _name_default(config["inputs"], results[0].get("bilm"))
    summary = shapes.read(folder / train.RESULTS, shapes.SUMMARY) if (folder / train.RESULTS).is_file() else {}
    origin = shapes.read(folder / train.ORIGIN, shapes.ORIGIN) if (folder / train.ORIGIN).is_file() else {}
    joined = shapes.read(folder / ENSEMBLE, _scored(shapes.ENSEMBLE, metric)) if (folder / ENSEMBLE).is_file() else None
    wanted = len(config.get("seeds") or ())
    version = origin.get("version") or summary.get("version", "")
    data, elsewhere = origin.get("data", {}), _elsewhere([file.parent for file in files], metric)
    return TaskRun(name, folder, config, results, version, joined, wanted=wanted, data=data, elsewhere=elsewhere)


def _elsewhere(seeds: Sequence[Path], metric: str) -> dict[str, list[float]]:
    """The scores of `elmo task eval --json` in the networks' folders, by the name of the file."""
    found: dict[str, list[float]] = {}
    for file in sorted(file for seed in seeds for file in seed.glob("*.json")):
        values = _evaluation(file)
        if values is not None:
            shapes.check(values, {metric: float}, str(file))
            found.setdefault(file.stem, []).append(values[metric])
    return found


def _completed(config: dict[str, Any]) -> dict[str, Any]:
    """Adds the defaults of newer settings; unchanged if it is from a later version."""
    try:
        made = train.completed(configs.from_dict(train.TaskConfig, config))
    except InputError:
        return config
    return json.loads(configs.to_json(made))


def _scored(shape: dict[str, Any], metric: str) -> dict[str, Any]:
    """The shape of scores that contain that number."""
    return shape | {part: {metric: float, "*": float} for part in ("dev", "test?")}


def _tuned(runs: Sequence[TaskRun]) -> list[TaskRun]:
    """The runs; of an arm's trials (`arm/trial-1` ...) only the best on dev by the first seed.

    Runs of different tasks, data or places of ELMo are not an arm's trials, whatever their names.
    """
    arms: dict[Path, list[TaskRun]] = {}
    for run in runs:
        is_trial = TRIAL.fullmatch(run.folder.name) and "/" in run.name  # else it was given directly
        arms.setdefault(run.folder.parent if is_trial else run.folder, []).append(run)
    found = []
    for folder, trials in arms.items():
        if len({(run.task, _data(run), run.elmo) for run in trials}) > 1:
            found += trials
            continue
        scores = [run.first["dev"][run.metric] for run in trials]
        best = trials[scores.index(max(scores))]
        if best.folder != folder:
            tried = tuple((run.folder.name, score) for run, score in zip(trials, scores, strict=True))
            best = replace(best, name=best.name.rpartition("/")[0], folder=folder, tried=tried)
        found.append(best)
    return found


def _compare(results: Results, runs: Sequence[TaskRun]) -> None:
    """Groups a folder's runs by task, data and static vectors."""
    groups = _groups(runs)
    found = []
    for (parent, task, _, vectors), group in groups.items():
        if len(group) == 1:
            results.runs.extend(group)
            continue
        name = group[0].name.rpartition("/")[0] or parent.name
        rows = _table(parent)
        row = next(iter(rows.values()), {})
        title = row.get("title", "")
        order = list(rows)
        group = [replace(run, wanted=rows.get(run.folder.name, {}).get("seeds_wanted", run.wanted)) for run in group]
        arms = sorted(group, key=lambda run: (*_place(run, order), run.name))
        has_baseline = arms[0].folder.name == row.get("baseline", order[0]) if rows else arms[0].elmo == "none"
        beside = [key[1] for key in groups if key[0] == parent]
        said = f"{title or task} on {_said(group[0], bool(vectors))}" if beside.count(task) > 1 else title or task
        if not title:
            said = f"{said}, {name}" if len(beside) > 1 else name
        found.append(Comparison(name, said, tuple(arms), has_baseline))
    titles = [each.title for each in found]
    named = [f"{each.title}, {each.name}" if titles.count(each.title) > 1 else each.title for each in found]
    for number, (each, title) in enumerate(zip(found, named, strict=True)):
        earlier = named[:number].count(title)  # data of the same name but other content, or another version of the task
        results.comparisons.append(replace(each, title=f"{title} ({earlier + 1})" if earlier else title))


def _groups(runs: Sequence[TaskRun]) -> dict[tuple[Path, str, str, str | None], list[TaskRun]]:
    """A folder's runs of one task on the same data, divided by the hash of their static vectors if there are several.

    A run without a hash, as one without static vectors, is beside all others if they have the same.
    """
    alike: dict[tuple[Path, str, str], list[TaskRun]] = {}
    for run in runs:
        alike.setdefault((run.folder.parent, run.task, _data(run)), []).append(run)
    groups: dict[tuple[Path, str, str, str | None], list[TaskRun]] = {}
    for key, group in alike.items():
        has_several = len({run.data["vectors"] for run in group if "vectors" in run.data}) > 1
        for run in group:
            groups.setdefault((*key, run.data.get("vectors", "") if has_several else None), []).append(run)
    return groups


def _data(run: TaskRun) -> str:
    """A key of runs that trained and were scored on the same examples, by one version of the task.

    Files are the same by content; by path if the run does not know it.
    """
    parts = [run.data.get(part) or run.config.get(part) for part in ("train", "dev", "test")]
    return json.dumps([parts, run.config.get("max_train"), run.config.get("train_fraction", 1.0), run.version])


def _said(run: TaskRun, with_vectors: bool) -> str:
    """A run's training data, and its static vectors if asked."""
    fraction, most = run.config.get("train_fraction", 1.0), run.config.get("max_train")
    limits = [f"{100 * fraction:g} %"] if fraction != 1 else []
    limits += [f"{most:,} examples"] if most is not None else []
    limits += [PurePath(str(run.config["inputs"].get("vectors"))).name] if with_vectors else []
    return ", ".join([PurePath(str(run.config.get("train"))).name, *limits])


def _place(run: TaskRun, order: Sequence[str]) -> tuple[int, bool, float]:
    """Where an arm is: in the order of its queue; without one, first the run without ELMo that is best on dev."""
    arm, is_without = run.folder.name, run.elmo == "none"
    place = order.index(arm) if arm in order else len(order)
    return place, not is_without, -run.on_dev if is_without and not order else 0.0


def _table(folder: Path) -> dict[str, dict[str, Any]]:
    """The arms of a row in order, from the table of `elmo task compare`; none without a table."""
    file = folder.parent / f"{TABLE}.json"
    rows = shapes.read(file, shapes.TABLE) if file.is_file() else []
    return {row.get("arm", ""): row for row in rows if row.get("row") == folder.name}


def _pretraining(name: str, folder: Path) -> Pretraining:
    """The run; unfinished lines of its metrics are skipped."""
    points = []
    speeds = []
    file = folder / "metrics.jsonl"
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        try:
            point = json.loads(line)
        except ValueError:
            continue
        shapes.check(point, shapes.POINT, f"{file}, line {number}")
        points.append(point)
        speeds += [point["tokens_per_s"]] if "tokens_per_s" in point else []
    model = folder / "model" / "config.json"
    card = shapes.read(model, shapes.MODEL).get("card", {}) if model.is_file() else {}
    speed = float(sorted(speeds)[len(speeds) // 2]) if speeds else None
    sessions = shapes.read(folder / SESSIONS, shapes.SESSIONS) if (folder / SESSIONS).is_file() else []
    return Pretraining(name, shapes.read(folder / "train.json", dict), card, measured(points), speed, sessions)


def measured(metrics: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The perplexities of the newest held-out text, of the lines of `metrics.jsonl`; a resumed run may have another."""
    points = [point for point in metrics if point.get("carry_mean") is not None]  # null in a network that has diverged
    text = points[-1].get("measured_on") if points else None
    return [point for point in points if point.get("measured_on", text) == text]
