"""The table of a queue: every arm's scores beside those of the first one, as in Table 1 of the paper."""

import json
import statistics
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from elmo.tasks import task as tasks
from elmo.tasks import train
from elmo.tasks.queue import ENSEMBLE, Queue, Row, on_dev, results_of, trials
from elmo.training.disk import write_whole

TABLE = "table"


def write_tables(queue: Queue, output: Path) -> str:
    """Writes `table.json` and `table.md` of what is done, and returns the latter."""
    rows = [found for row in queue.rows for found in _compared(row, output)]
    text = _markdown(rows)
    output.mkdir(parents=True, exist_ok=True)
    write_whole(output / f"{TABLE}.json", (json.dumps(rows, indent=2) + "\n").encode())
    write_whole(output / f"{TABLE}.md", text.encode())
    return text


def _compared(row: Row, output: Path) -> Iterator[dict[str, Any]]:
    """What is known of every arm, beside the first one: plain JSON values."""
    baseline: dict[str, Any] | None = None
    for arm in row.arms:
        found = _measured(row, arm, output)
        if found is None:
            continue
        if baseline is not None:
            gain = found["mean"] - baseline["mean"]
            found["absolute"] = gain
            found["relative_error_reduction"] = 100 * gain / max(1e-9, 100 - baseline["mean"])
        elif arm == next(iter(row.arms)):
            baseline = found
        yield found


def _measured(row: Row, arm: str, output: Path) -> dict[str, Any] | None:
    """The score of an arm over the seeds that are done, of the trial that is best on dev; None where there is none."""
    tried = [work for work in trials(row, arm, output) if work.result.is_file()]
    if not tried:
        return None
    best = max(tried, key=on_dev)
    results = results_of(row, best.folder)
    settings = train.read_json(best.folder / train.CONFIG)
    task = tasks.find(settings["task"])
    scores = [scores_of(result)[task.METRIC] for result in results]
    ensemble = best.folder / ENSEMBLE
    joined = train.read_json(ensemble) if ensemble.is_file() else None
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
        "ensemble": None if joined is None else scores_of(joined)[task.METRIC],
        "members": None if joined is None else joined["members"],
        "trials": [{"settings": list(work.settings), "dev": on_dev(work)} for work in tried],
        "minutes": statistics.fmean(result["seconds"] for result in results) / 60,
        "bilm": results[0]["bilm"],
        "settings": settings,
    }


def scores_of(result: Mapping[str, Any]) -> dict[str, float]:
    """Those on test, or on dev where there was no test."""
    return result["test" if "test" in result else "dev"]


def _markdown(rows: list[dict[str, Any]]) -> str:
    lines = [
        "| task | score | arm | mean | std | seeds | absolute | relative error reduction | minutes a seed |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        gains = ["", ""]
        if "absolute" in row:
            gains = [f"{row['absolute']:+.2f}", f"{row['relative_error_reduction']:+.1f} %"]
        what = [row["title"], f"{row['data']} {row['metric']}"]
        numbers = [f"{row['mean']:.2f}", f"{row['std']:.2f}", str(len(row["seeds"])), *gains, f"{row['minutes']:.1f}"]
        lines.append("| " + " | ".join([*what, row["arm"], *numbers]) + " |")
        if row["ensemble"] is not None:
            joined = [f"{row['arm']}, {row['members']} joined", f"{row['ensemble']:.2f}", "", "", "", "", ""]
            lines.append("| " + " | ".join([*what, *joined]) + " |")
    return "\n".join(lines) + "\n"
