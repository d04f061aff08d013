"""A resumable queue of runs over tasks, arms and seeds (docs/tasks.md shows its file), and the table of their scores.

The first seed of everything is trained first, then the second, so that a table exists early. Several processes may
work on one folder at once: each takes work that no other is doing. Several queues may share a folder, too.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

from elmo import config as configs
from elmo.disk.files import write_run_file
from elmo.disk.lock import locked
from elmo.errors import InputError
from elmo_lab.tasks import task as tasks
from elmo_lab.tasks import train, trained
from elmo_lab.tasks.files import find_file
from elmo_lab.tasks.queue import Queue, Work, count_works, first_seeds, metric_of, pending_work
from elmo_lab.tasks.table import TABLE, check_table, scores_of, write_tables

WAIT = 5.0
"""The seconds between checks for work that other processes have left."""


def train_queue(
    queue: Queue,
    output: Path,
    find_recipe: Callable[[str], Path],
    given: Mapping[str, Any],
    quiet: bool = False,
    show: Callable[[str], object] = lambda line: None,
) -> None:
    """Does the remaining work, and updates the tables after each piece.

    Raises the errors of `work_off`, and InputError if a file of the table's name belongs to somebody else.
    """
    check_table(queue, output)
    for _ in work_off(queue, output, find_recipe, given, quiet, show):
        with lock_output(output):
            write_tables(queue, output)


def work_off(
    queue: Queue,
    output: Path,
    find_recipe: Callable[[str], Path],
    given: Mapping[str, Any],
    quiet: bool = False,
    show: Callable[[str], object] = lambda line: None,
) -> Iterator[Work]:
    """Does the remaining work, and yields each piece when it is done.

    `given` are settings for all runs; they override the recipes, and arms override them. Raises InputError if an
    existing run has other settings, or used other data, word vectors or biLM of the same name, or if a file of an
    unfinished row is missing.
    """
    first = [trial for row in queue.rows for arm in row.arms for trial in first_seeds(row, arm, output)]
    rows = {work.row.name for work in pending_work(queue, output)}
    for work in first:
        config = _config(work, find_recipe, given)
        train.check_output(config, resume=True)
        if work.row.name in rows:
            train.check_files(config)  # a missing file is found now, not after hours of training other rows
    folders = [work.folder for work in first]
    while works := list(pending_work(queue, output)):
        for work in works:
            with locked(work.folder.with_name(f"{work.folder.name}.lock")) as mine:
                if not mine or work.done:
                    continue
                done, total = count_works(queue, output)
                show(f"{work} ({done:,} of {total:,} runs done)")
                config = _config(work, find_recipe, given)
                if work.seed is None:
                    scores = _join(work, config)
                else:
                    begun = (work.folder / train.CONFIG).is_file()
                    tell = partial(_tell, show, work)
                    scores = scores_of(train.train_task(config, begun, quiet, tell, folders).rows[-1])
                metric = metric_of(work.folder)
                show(f"{work}: {metric} {scores[metric]:.2f}")
            yield work
            break
        else:
            time.sleep(WAIT)


def lock_output(output: Path) -> AbstractContextManager[bool]:
    """Returns a lock for the files that all processes of a folder write."""
    return locked(output / f"{TABLE}.lock", wait=True)


def config_of(
    recipe: Path, given: Mapping[str, Any], settings: Sequence[str], folder: Path, seeds: Sequence[int]
) -> train.TaskConfig:
    """Combines the settings of a run: its recipe's, which `given` overrides, which those of its arm override."""
    values = configs.combined(train.read_recipe(recipe), given, settings)
    values |= {"output": str(folder), "seeds": list(seeds)}
    return train.with_defaults(configs.from_dict(train.TaskConfig, values))


def _config(work: Work, find_recipe: Callable[[str], Path], given: Mapping[str, Any]) -> train.TaskConfig:
    row = work.row
    seeds = row.seeds if work.seed is None else row.seeds[: row.seeds.index(work.seed) + 1]
    try:
        return config_of(find_recipe(row.recipe), given, [*row.arms[work.arm], *work.settings], work.folder, seeds)
    except configs.ConfigError as error:
        raise InputError(f"row {row.name!r}, arm {work.arm!r}, recipe {row.recipe!r}: {error}") from error


def _tell(show: Callable[[str], object], work: Work, done: int, total: int) -> None:
    """Shows the progress of a biLM that reads for a long time."""
    show(f"{work}: the biLM has read {done:,} of {total:,} tokens")


def _join(work: Work, config: train.TaskConfig) -> dict[str, float]:
    """Scores the networks of all seeds as an ensemble, and writes the result."""
    folders = [train.seed_folder(config, seed) for seed in work.row.seeds]
    members = [trained.TrainedTask.load(folder, config.inputs.model, config.cache) for folder in folders]
    report: dict[str, Any] = {"members": len(members), "seeds": list(work.row.seeds)}
    for part in ("dev", "test"):
        path = getattr(config, part)
        if path is not None:
            examples = tasks.read_examples(members[0].task, find_file(path, config.data))
            report[part] = members[0].task.score(examples, trained.predict_jointly(members, examples))
    write_run_file(work.result, (json.dumps(report, indent=2) + "\n").encode())
    return scores_of(report)
