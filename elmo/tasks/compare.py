"""A queue of runs over tasks, arms and seeds that goes on where it stopped, and the table that it is for.

    [[rows]]
    name = "ner-wnut17"            # the folder of its runs
    title = "NER, WNUT-17"         # in the table
    recipe = "ner-wnut17"
    seeds = [1, 2, 3, 4, 5]
    arms = { none = [], input = ["inputs.elmo=input"] }   # settings by name; the first arm is the baseline
    tuning = [[], ["training.lr=5e-4"]]                   # every arm is tried with each; the best on dev is kept
    ensemble = true                                       # the networks of all seeds, joined

First the first seed of everything is trained, then the second, so that a table is there early. Several processes may
work on one folder at once: what one of them is at, the others leave alone.
"""

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from elmo import config as configs
from elmo.tasks import train, trained
from elmo.tasks.queue import Queue, Work, metric_of, pending
from elmo.tasks.table import TABLE, scores_of, write_tables
from elmo.training.disk import locked, write_whole

WAIT = 5.0
"""Seconds between two looks at whether the other processes have left something to do."""


def run(
    queue: Queue,
    output: Path,
    find_recipe: Callable[[str], Path],
    given: Mapping[str, Any],
    quiet: bool = False,
    show: Callable[[str], object] = lambda line: None,
) -> None:
    """Does what is not done yet. `given` are values for all runs, over those of the recipes and under the arms'."""
    while works := list(pending(queue, output)):
        for work in works:
            with locked(work.folder.with_name(f"{work.folder.name}.lock")) as mine:
                if not mine or work.result.is_file():
                    continue
                show(str(work))
                scores = _join(work) if work.seed is None else _train(work, find_recipe, given, quiet)
                metric = metric_of(work.folder)
                show(f"{work}: {metric} {scores[metric]:.2f}")
            with locked(output / f"{TABLE}.lock", wait=True):
                write_tables(queue, output)
            break
        else:
            time.sleep(WAIT)


def _train(work: Work, find_recipe: Callable[[str], Path], given: Mapping[str, Any], quiet: bool) -> dict[str, float]:
    """Trains a seed, or goes on with it; its scores."""
    assert work.seed is not None
    row, folder = work.row, work.folder
    values = configs.merge(configs.load_toml(find_recipe(row.recipe)), given)
    values = configs.merge(values, configs.parse_overrides([*row.arms[work.arm], *work.settings]))
    values |= {"output": str(folder), "seeds": list(row.seeds[: row.seeds.index(work.seed) + 1])}
    config = configs.from_dict(train.TaskConfig, values)
    return scores_of(train.main(config, resume=(folder / train.CONFIG).is_file(), quiet=quiet)["seeds"][-1])


def _join(work: Work) -> dict[str, float]:
    """Scores the networks of all seeds together, and writes what came out."""
    config = configs.from_dict(train.TaskConfig, train.read_json(work.folder / train.CONFIG))
    members = [trained.TrainedTask.load(train.seed_folder(config, seed)) for seed in work.row.seeds]
    report: dict[str, Any] = {"members": len(members)}
    for part in ("dev", "test"):
        path = getattr(config, part)
        if path is not None:
            examples = train.read_examples(members[0].task, path, config.data)
            report[part] = members[0].task.score(examples, trained.ensemble(members, examples))
    write_whole(work.result, (json.dumps(report, indent=2) + "\n").encode())
    return scores_of(report)
