"""A queue of runs over tasks, arms and seeds that goes on where it stopped, and the table that it is for.

    [[rows]]
    name = "ner-wnut17"            # the folder of its runs
    title = "NER, WNUT-17"         # in the table
    recipe = "ner-wnut17"
    seeds = [1, 2, 3, 4, 5]
    arms = { none = [], input = ["inputs.elmo=input"] }   # settings by name; the first arm is the baseline

First the first seed of everything is trained, then the second, so that a table is there early.
"""

import json
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from elmo import config as configs
from elmo.errors import InputError
from elmo.tasks import task as tasks
from elmo.tasks import train
from elmo.tasks.trained import RESULT
from elmo.training.disk import write_whole

TABLE = "table"


@dataclass(frozen=True)
class Row:
    """A task and its data, with its arms."""

    name: str
    recipe: str
    arms: dict
    """Settings (`section.key=value`) by name; the first arm is what the others are compared with."""
    seeds: tuple[int, ...] = (1,)
    title: str = ""

    def __post_init__(self) -> None:
        if len(self.arms) < 2:
            raise configs.ConfigError(f"arms of {self.name!r} are {list(self.arms)}; two at least are compared")
        for arm, settings in self.arms.items():
            if not isinstance(settings, list) or not all(isinstance(setting, str) for setting in settings):
                raise configs.ConfigError(
                    f"arm {arm!r} of {self.name!r} is {settings!r}; a list of settings is expected"
                )


@dataclass(frozen=True)
class Queue:
    """What is to be trained."""

    rows: tuple[Row, ...]

    def __post_init__(self) -> None:
        names = [row.name for row in self.rows]
        if len(set(names)) != len(names):
            raise configs.ConfigError(f"the rows are called {', '.join(names)}; different names are expected")


def read_queue(path: Path) -> Queue:
    """The queue of a TOML file. Raises InputError where it is none."""
    try:
        return configs.from_dict(Queue, configs.load_toml(path))
    except configs.ConfigError as error:
        raise InputError(str(error) if str(path) in str(error) else f"{path}: {error}") from error


def run(
    queue: Queue,
    output: Path,
    find_recipe: Callable[[str], Path],
    given: Mapping[str, Any],
    quiet: bool = False,
    show: Callable[[str], object] = lambda line: None,
) -> None:
    """Trains what is not done yet, and writes the tables after every run."""
    for _ in train_all(queue, output, find_recipe, given, quiet, show):
        write_tables(queue, output)


def train_all(
    queue: Queue,
    output: Path,
    find_recipe: Callable[[str], Path],
    given: Mapping[str, Any],
    quiet: bool = False,
    show: Callable[[str], object] = lambda line: None,
) -> Iterator[str]:
    """Trains what is not done yet; gives the name of each run when it has been trained.

    `given` are values for all runs, over those of the recipes and under the arms'. Raises InputError where a run that
    is there was made with other settings.
    """
    for row, arm, count in _turns(queue):
        folder = output / row.name / arm
        seed = row.seeds[count - 1]
        name = f"{row.name}, {arm}, seed {seed}"
        begun = (folder / train.CONFIG).is_file()
        config = config_of(find_recipe(row.recipe), given, row.arms[arm], folder, row.seeds[:count])
        if (folder / f"seed-{seed}" / RESULT).is_file():
            train.check_output(config, resume=True)
            continue
        show(name)
        report = train.main(config, resume=begun, quiet=quiet)
        show(f"{name}: {report['metric']} {_score(report['seeds'][-1], report['metric']):.2f}")
        yield name


def config_of(
    recipe: Path, given: Mapping[str, Any], settings: Sequence[str], folder: Path, seeds: Sequence[int]
) -> train.TaskConfig:
    """What a run is trained with: the recipe, then `given`, then the settings of its arm."""
    values = configs.merge(configs.merge(configs.load_toml(recipe), given), configs.parse_overrides(settings))
    values |= {"output": str(folder), "seeds": list(seeds)}
    config = configs.from_dict(train.TaskConfig, values)
    model = configs.from_dict(tasks.find(config.task).Config, config.model, "model.")
    return replace(config, model=configs.to_dict(model))


def write_tables(queue: Queue, output: Path) -> str:
    """Writes `table.json` and `table.md` of what is done, and returns the latter."""
    rows = [found for row in queue.rows for found in _compared(row, output)]
    text = _markdown(rows)
    output.mkdir(parents=True, exist_ok=True)
    write_whole(output / f"{TABLE}.json", (json.dumps(rows, indent=2) + "\n").encode())
    write_whole(output / f"{TABLE}.md", text.encode())
    return text


def _turns(queue: Queue) -> Iterator[tuple[Row, str, int]]:
    """Row, arm and how many of the row's seeds there are to be, in the order of the work."""
    for count in range(1, 1 + max((len(row.seeds) for row in queue.rows), default=0)):
        for row in queue.rows:
            for arm in row.arms if count <= len(row.seeds) else ():
                yield row, arm, count


def _compared(row: Row, output: Path) -> Iterator[dict[str, Any]]:
    """What is known of every arm, beside the first one: plain JSON values."""
    baseline: dict[str, Any] | None = None
    for arm in row.arms:
        found = _measured(row, arm, output / row.name / arm)
        if found is None:
            continue
        if baseline is not None:
            gain = found["mean"] - baseline["mean"]
            found["absolute"] = gain
            found["relative_error_reduction"] = 100 * gain / max(1e-9, 100 - baseline["mean"])
        elif arm == next(iter(row.arms)):
            baseline = found
        yield found


def results_of(row: Row, folder: Path) -> list[dict[str, Any]]:
    """What is in `result.json` of the seeds that are done, in their order."""
    files = [folder / f"seed-{seed}" / RESULT for seed in row.seeds]
    return [json.loads(file.read_text(encoding="utf-8")) for file in files if file.is_file()]


def _measured(row: Row, arm: str, folder: Path) -> dict[str, Any] | None:
    """The score of an arm over the seeds that are done; None where there is none."""
    results = results_of(row, folder)
    if not results:
        return None
    settings = json.loads((folder / train.CONFIG).read_text(encoding="utf-8"))
    task = tasks.find(settings["task"])
    scores = [_score(result, task.METRIC) for result in results]
    return {
        "row": row.name,
        "title": row.title or row.name,
        "arm": arm,
        "task": task.NAME,
        "version": task.VERSION,
        "metric": task.METRIC,
        "data": "test" if "test" in results[0] else "dev",
        "seeds": [result["seed"] for result in results],
        "scores": scores,
        "mean": statistics.fmean(scores),
        "std": statistics.stdev(scores) if len(scores) > 1 else 0.0,
        "minutes": statistics.fmean(result["seconds"] for result in results) / 60,
        "bilm": results[0]["bilm"],
        "settings": settings,
    }


def _score(result: Mapping[str, Any], metric: str) -> float:
    return result["test" if "test" in result else "dev"][metric]


def _markdown(rows: list[dict[str, Any]]) -> str:
    lines = [
        "| task | score | arm | mean | std | seeds | absolute | relative error reduction | minutes a seed |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        gains = ["", ""]
        if "absolute" in row:
            gains = [f"{row['absolute']:+.2f}", f"{row['relative_error_reduction']:+.1f} %"]
        numbers = [f"{row['mean']:.2f}", f"{row['std']:.2f}", str(len(row["seeds"])), *gains, f"{row['minutes']:.1f}"]
        lines.append("| " + " | ".join([row["title"], f"{row['data']} {row['metric']}", row["arm"], *numbers]) + " |")
    return "\n".join(lines) + "\n"
