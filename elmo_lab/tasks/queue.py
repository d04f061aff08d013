"""The parts of a comparison: rows (a task and its data), arms, trials and seeds; and the remaining work."""

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from elmo import config as configs
from elmo.disk.run import read_json
from elmo.errors import InputError
from elmo_lab.tasks import task as tasks
from elmo_lab.tasks import train
from elmo_lab.tasks.trained import RESULT

ENSEMBLE = "ensemble.json"
TRIAL = re.compile(r"trial-\d+")
"""The name of a trial's folder inside its arm's; a trial is one of several settings for an arm."""

OTHER_NAMES = "names of folders are expected, different in more than upper and lower case, and not seed-N or trial-N"
NO_NAME = re.compile(r"\.{0,2}|.*[/\\\\].*|(seed|trial)-\d+", re.DOTALL)

Settings = tuple[str, ...]
"""Settings of the form `section.key=value`."""


@dataclass(frozen=True)
class QueueRow:
    """A task and its data, with its arms."""

    name: str
    recipe: str
    arms: dict
    """Settings by name; the first arm is the baseline."""
    seeds: tuple[int, ...] = (1,)
    title: str = ""
    tuning: tuple[Settings, ...] = ((),)
    """The settings that each arm tries with its first seed. Those that are best on dev are used for the other seeds, so
    all arms have the same budget."""
    ensemble: bool = False
    """Whether the networks of all seeds are also scored as an ensemble."""

    def __post_init__(self) -> None:
        configs.check_lists(self, ("seeds", "tuning"), f"{self.name}.")
        configs.check_range(self, ("seeds",), 0, configs.SEEDS, f"{self.name}.")
        if len(self.arms) < 2:
            raise configs.ConfigError(f"arms of {self.name!r} are {list(self.arms)}; at least two are expected")
        if not _have_folders(self.arms):
            raise configs.ConfigError(f"arms of {self.name!r} are {list(self.arms)}; {OTHER_NAMES}")
        for arm, settings in self.arms.items():
            if not isinstance(settings, list) or not all(isinstance(setting, str) for setting in settings):
                raise configs.ConfigError(f"arm {arm!r} of {self.name!r} is {settings!r}; give a list of settings")


@dataclass(frozen=True)
class Queue:
    """The rows to train."""

    rows: tuple[QueueRow, ...]

    def __post_init__(self) -> None:
        names = [row.name for row in self.rows]
        if not _have_folders(names):
            raise configs.ConfigError(f"the rows are called {', '.join(names)}; {OTHER_NAMES}")


@dataclass(frozen=True)
class Work:
    """A piece of work: a seed of a trial of an arm, or the arm's ensemble."""

    row: QueueRow
    arm: str
    settings: Settings
    """The settings of the trial."""
    folder: Path
    seed: int | None
    """The seed; None for the ensemble."""

    @property
    def result(self) -> Path:
        """The file that exists once the work is done."""
        return self.folder / ENSEMBLE if self.seed is None else self.folder / f"seed-{self.seed}" / RESULT

    @property
    def done(self) -> bool:
        """Whether the work is done. An ensemble of other seeds than the row's does not count."""
        if not self.result.is_file():
            return False
        return self.seed is not None or read_json(self.result)["seeds"] == list(self.row.seeds)

    def __str__(self) -> str:
        trial = ["with " + " ".join(self.settings)] if self.settings else []
        return ", ".join([self.row.name, self.arm, *trial, "ensemble" if self.seed is None else f"seed {self.seed}"])


def _have_folders(names: Collection[str]) -> bool:
    """Whether all names give folders of their own, even if the file system ignores case."""
    return len({name.casefold() for name in names}) == len(names) and not any(map(NO_NAME.fullmatch, names))


def read_queue(path: Path) -> Queue:
    """Reads a queue from a TOML file. Raises InputError if the file does not describe one."""
    try:
        return configs.from_dict(Queue, configs.load_toml(path))
    except configs.ConfigError as error:
        raise InputError(str(error) if str(path) in str(error) else f"{path}: {error}") from error


def _works(queue: Queue, output: Path) -> Iterator[Work]:
    """Yields the work that is done or can start now, in order."""
    for count in range(1, 1 + max((len(row.seeds) for row in queue.rows), default=0)):
        for row in queue.rows:
            for arm in row.arms if count <= len(row.seeds) else ():
                yield from first_seeds(row, arm, output) if count == 1 else _chosen_works(row, arm, output, count)


def pending_work(queue: Queue, output: Path) -> Iterator[Work]:
    """Yields the remaining work that can start now, in order."""
    return (work for work in _works(queue, output) if not work.done)


def count_works(queue: Queue, output: Path) -> tuple[int, int]:
    """Returns how much of the work is done, and how much there is, of all processes."""
    of_arms = (
        len(row.arms) * (len(row.tuning) + len(row.seeds) - 1 + (row.ensemble and len(row.seeds) > 1))
        for row in queue.rows
    )
    return sum(work.done for work in _works(queue, output)), sum(of_arms)


def chosen_work(row: QueueRow, arm: str, output: Path) -> Work | None:
    """Returns the work of the first seed in an arm's best trial, or None until all trials are done."""
    works = first_seeds(row, arm, output)
    if not all(work.done for work in works):
        return None
    return max(works, key=on_dev)


def first_seeds(row: QueueRow, arm: str, output: Path) -> list[Work]:
    """Returns the work of the first seed in each trial."""
    folder = output / row.name / arm
    several = len(row.tuning) > 1
    return [
        Work(row, arm, settings, folder / f"trial-{number}" if several else folder, row.seeds[0])
        for number, settings in enumerate(row.tuning, 1)
    ]


def _chosen_works(row: QueueRow, arm: str, output: Path, count: int) -> Iterator[Work]:
    """A later seed of the best trial and, after the last one, the ensemble."""
    best = chosen_work(row, arm, output)
    if best is None:
        return
    make = partial(Work, row, arm, best.settings, best.folder)
    yield make(row.seeds[count - 1])
    if row.ensemble and count == len(row.seeds) and all(make(seed).done for seed in row.seeds):
        yield make(None)


def metric_of(folder: Path) -> str:
    """Returns the name of the score by which the task of a run's folder chooses."""
    return tasks.find(read_json(folder / train.CONFIG)["task"]).metric


def on_dev(work: Work) -> float:
    """Returns the score on dev of finished work, by which trials are chosen."""
    return read_json(work.result)["dev"][metric_of(work.folder)]


def results_of(folder: Path, seeds: Iterable[int]) -> list[dict[str, Any]]:
    """Reads `result.json` of the finished seeds, in order."""
    files = [folder / f"seed-{seed}" / RESULT for seed in seeds]
    return [read_json(file) for file in files if file.is_file()]
