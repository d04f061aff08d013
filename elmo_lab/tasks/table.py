"""The table of a queue, which compares every arm's scores with those of the first arm, as in Table 1 of the paper."""

import json
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from elmo import config as configs
from elmo.disk.files import write_run_file
from elmo.disk.run import read_json
from elmo.errors import InputError
from elmo_lab.tasks import task as tasks
from elmo_lab.tasks import train
from elmo_lab.tasks.queue import ENSEMBLE, Queue, QueueRow, first_seeds, on_dev, results_of

TABLE = "table"


def write_tables(queue: Queue, output: Path) -> str:
    """Writes `table.json` and `table.md` of the finished work, and returns the latter.

    Rows of other queues in the folder's table follow those of this queue, as long as their runs exist. Rows of the same
    name are merged: this queue's arms come first, then those that only the other row has.
    """
    check_table(queue, output)
    earlier = _earlier(output) or []
    rows: list[dict[str, Any]] = []
    for row in queue.rows:
        own = [found for arm in row.arms if (found := _measured(row, arm, output)) is not None]
        others = [old for old in earlier if old["row"] == row.name and old["arm"] not in row.arms]
        rows += _compared(own + others, next(iter(row.arms)))
    names = [row.name for row in queue.rows]
    rows += [old for old in earlier if old["row"] not in names]
    text = _markdown(rows)
    output.mkdir(parents=True, exist_ok=True)
    write_run_file(output / f"{TABLE}.json", (json.dumps(rows, indent=2) + "\n").encode())
    write_run_file(output / f"{TABLE}.md", text.encode())
    return text


def _earlier(output: Path) -> list[dict[str, Any]] | None:
    """Reads the rows of the folder's table whose runs exist; None if there is no table, or it is damaged."""
    try:
        rows = configs.load_json(output / f"{TABLE}.json")
        return [row for row in rows if (output / row["row"] / row["arm"]).is_dir()]
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def check_table(queue: Queue, output: Path) -> None:
    """Raises InputError if the table would replace somebody else's file, beside which there is no run of the queue."""
    if any((output / row.name / arm).is_dir() for row in queue.rows for arm in row.arms):
        return
    found = [file for file in (output / f"{TABLE}.json", output / f"{TABLE}.md") if file.exists()]
    if found and _earlier(output) is None:
        raise InputError(f"{found[0]}: is no table of elmo task compare; move it, or name another --output")


def _compared(rows: list[dict[str, Any]], first: str) -> list[dict[str, Any]]:
    """Adds to each arm of a row its gain over the first arm, if that has a score."""
    baseline = next((row["mean"] for row in rows if row["arm"] == first), None)
    if baseline is None:
        return rows
    for row in rows:
        if row["arm"] != first:
            reduction = error_reduction(row["mean"], baseline)
            row |= {"absolute": row["mean"] - baseline, "relative_error_reduction": reduction}
    return rows


def error_reduction(score: float, baseline: float) -> float | None:
    """Returns the gain in percent of the baseline's distance to 100 (Table 1 of the paper); None if that is 0."""
    return None if baseline >= 100 else 100 * (score - baseline) / (100 - baseline)


def signed_percent(number: float | None) -> str:
    """Formats a percentage with its sign; None becomes an empty string."""
    return "" if number is None else f"{number:+.1f} %"


def _measured(row: QueueRow, arm: str, output: Path) -> dict[str, Any] | None:
    """Returns the scores of an arm over its finished seeds, from the trial that is best on dev; None if there are none.

    The ensemble may have other seeds, so the mean of its members is included.
    """
    tried = [work for work in first_seeds(row, arm, output) if work.done]
    if not tried:
        return None
    best = max(tried, key=on_dev)
    results = results_of(best.folder, row.seeds)
    settings = read_json(best.folder / train.CONFIG)
    task = tasks.find(settings["task"])
    scores = [scores_of(result)[task.metric] for result in results]
    ensemble = best.folder / ENSEMBLE
    joined = read_json(ensemble) if ensemble.is_file() else None
    members = [] if joined is None else results_of(best.folder, joined["seeds"])
    return {
        "row": row.name,
        "title": row.title or row.name,
        "arm": arm,
        "baseline": next(iter(row.arms)),
        "task": task.name,
        "version": train.version_of(best.folder),
        "metric": task.metric,
        "data": "test" if "test" in results[0] else "dev",
        "seeds": [result["seed"] for result in results],
        "seeds_wanted": len(row.seeds),
        "scores": scores,
        "mean": statistics.fmean(scores),
        "std": statistics.stdev(scores) if len(scores) > 1 else 0.0,
        "ensemble": None if joined is None else scores_of(joined)[task.metric],
        "members": None if joined is None else joined["members"],
        "members_mean": statistics.fmean(scores_of(each)[task.metric] for each in members) if members else None,
        "trials": [{"settings": list(work.settings), "dev": on_dev(work)} for work in tried],
        "minutes": statistics.fmean(result["seconds"] for result in results) / 60,
        "bilm": results[0]["bilm"],
        "settings": settings,
    }


def scores_of(result: Mapping[str, Any]) -> dict[str, float]:
    """Returns the scores on test, or on dev if there are none on test."""
    return result["test" if "test" in result else "dev"]


def count_seeds(done: int, wanted: int) -> str:
    """Formats the number of finished seeds, with the number of all seeds if some are not finished."""
    return f"{done} of {wanted}" if done < wanted else str(done)


def _markdown(rows: list[dict[str, Any]]) -> str:
    lines = [
        "| task | version | score | arm | mean | std | seeds | absolute | relative error reduction | minutes a seed |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        gains = ["", ""]
        if "absolute" in row:
            gains = [f"{row['absolute']:+.2f}", signed_percent(row["relative_error_reduction"])]
        what = [row["title"], f"{row['task']} {row['version']}", f"{row['data']} {row['metric']}"]
        seeds = count_seeds(len(row["seeds"]), row["seeds_wanted"])
        numbers = [f"{row['mean']:.2f}", f"{row['std']:.2f}", seeds, *gains, f"{row['minutes']:.1f}"]
        lines.append(_cells([*what, row["arm"], *numbers]))
        if row["ensemble"] is not None:
            alone = f"each alone: {row['members_mean']:.2f}"
            joined = [f"{row['arm']}, {row['members']} joined ({alone})", f"{row['ensemble']:.2f}", "", "", "", "", ""]
            lines.append(_cells([*what, *joined]))
    return "\n".join(lines) + "\n"


def _cells(cells: list[str]) -> str:
    return "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells) + " |"
