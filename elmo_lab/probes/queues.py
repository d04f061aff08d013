"""The settings of all runs, and the results of finished runs, for probes that train tasks."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elmo import config as configs
from elmo_lab import record
from elmo_lab.probes.probe import Context
from elmo_lab.tasks import compare, train
from elmo_lab.tasks import task as tasks
from elmo_lab.tasks.queue import Queue, QueueRow, results_of
from elmo_lab.tasks.task import Place, Task


@dataclass(frozen=True, kw_only=True)
class ArmScores:
    """The scores of an arm for one task: means over its seeds, in percent."""

    recipe: str
    task: str
    arm: str
    metric: str
    dev: float
    dev_std: float
    test: float | None
    test_std: float | None
    seeds: tuple[int, ...]
    steps: int
    """The updates of all seeds, summed."""
    stopped: tuple[str, ...]
    """The reason why the training of each seed ended: patience, epochs or minutes."""
    dev_scores: tuple[float, ...] | None = None
    """The scores on dev, in the order of `seeds`."""
    test_scores: tuple[float, ...] | None = None


@dataclass(frozen=True)
class FinishedRuns:
    """The finished runs of an arm, one per seed."""

    task: Task
    results: list[dict[str, Any]]
    """The contents of the runs' `result.json`."""
    place: str
    """The place where the network has ELMo."""

    def numbers(self) -> dict[str, Any]:
        """Returns the fields of `ArmScores` that the results have: all but the recipe and the arm."""
        metric, means = self.task.metric, train.summarize(self.results)
        found: dict[str, Any] = {"task": self.task.name, "metric": metric}
        for part in ("dev", "test"):
            of = means[part][metric] if part in means else {"mean": None, "std": None}
            scores = tuple(result[part][metric] for result in self.results) if part in means else None
            found |= {part: of["mean"], f"{part}_std": of["std"], f"{part}_scores": scores}
        return found | {
            "seeds": tuple(result["seed"] for result in self.results),
            "steps": sum(result["steps"] for result in self.results),
            "stopped": tuple(result["stopped"] for result in self.results),
        }


def finished_runs(row: QueueRow, folder: Path) -> FinishedRuns | None:
    """Reads the finished runs of an arm in `folder`; returns None if there are none."""
    results = results_of(folder, row.seeds)
    if not results:
        return None
    config = train.read_config(folder / train.CONFIG)
    return FinishedRuns(tasks.find(config.task), results, config.inputs.elmo)


def common_settings(
    settings: Sequence[str], data: str | None, vectors: str | None, model: str | None
) -> dict[str, Any]:
    """Returns the values for all runs, which override the recipes."""
    return configs.combined({}, {"data": data, "inputs": {"vectors": vectors, "model": model}}, settings)


def place_for(recipe: Path, place: Place) -> str:
    """Returns the place where a recipe's network has ELMo. A recipe that names no task is refused later."""
    name = train.read_recipe(recipe).get("task")
    if place != "paper":
        return place
    return tasks.find(name).place if name in tasks.available() else "input"


def train_all(
    queue: Queue, output: Path, given: Mapping[str, Any], context: Context, write: Callable[[], list[Any]]
) -> list[Any]:
    """Trains the missing runs of a queue; `write` writes the record after every run, and returns its rows."""
    for _ in compare.work_off(queue, output, context.find_recipe, given, context.quiet, context.show):
        with compare.lock_output(output):
            write()
    with compare.lock_output(output):
        return write()


def write_record(
    output: Path, name: str, version: str, config: Any, rows: list[Any], results: Sequence[Mapping[str, Any]]
) -> None:
    """Writes the record of a probe, with the biLM and the seconds of its finished runs (`results`)."""
    bilm = next((result["bilm"] for result in results if result["bilm"] is not None), None)
    seconds = sum(result["seconds"] for result in results)
    record.write(output, record.probe_record(name, version, config, rows, bilm, seconds))


def folder_of(recipe: str) -> str:
    """Returns the name of the folder for a recipe's runs."""
    return Path(recipe).name.removesuffix(".toml")
