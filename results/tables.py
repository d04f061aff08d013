"""Tables of results, which are files of JSON lines. A line is a run, with an `id` that is unique in its table.

A table is named by its path below this folder without the suffix, such as `english-base/tasks`.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from elmo.disk.files import write_run_file as write_file
from elmo.disk.run import read_json
from elmo.errors import InputError
from elmo_lab import record
from elmo_lab.record import without_folders
from elmo_lab.report.collect import PERPLEXITY, read_output

FOLDER = Path(__file__).parent

Run = dict[str, Any]


def read(name: str) -> dict[str, Run]:
    """Reads the lines of a table by their ids; there are none if there is no such table."""
    file = FOLDER / f"{name}.jsonl"
    if not file.is_file():
        return {}
    runs = map(json.loads, file.read_text(encoding="utf-8").splitlines())
    return {run["id"]: run for run in runs}


def add(name: str, folder: Path, given: str | None = None) -> list[str]:
    """Puts every run in `folder` into a table, replacing lines with the same id; returns the ids.

    The id is the run's path below `folder`. If the folder is itself a run, its id is `given` or else the folder's name.
    Raises InputError if there is no run.
    """
    found = {run["id"]: run for run in _runs_in(folder, given)}
    if not found:
        raise InputError(f"{folder}: no finished run of elmo task, elmo probe or elmo perplexity --json")
    table = read(name) | found
    lines = (json.dumps(table[key], ensure_ascii=False) + "\n" for key in sorted(table))
    file = FOLDER / f"{name}.jsonl"
    file.parent.mkdir(exist_ok=True)
    write_file(file, "".join(lines).encode())
    return list(found)


def _runs_in(folder: Path, given: str | None) -> Iterator[Run]:
    for here, inside, _ in os.walk(folder):
        inside.sort()
        path = Path(here)
        name = path.relative_to(folder).as_posix()
        name = given or path.name if name == "." else name
        if (run := _run(path)) is not None:
            yield {"id": name} | run
        for file in sorted(path.glob("*.json")):
            if set(values := read_output(file)) >= PERPLEXITY:
                name = (path / file.stem).relative_to(folder).as_posix()
                yield {"id": name, "kind": "perplexity"} | without_folders(values)
        inside[:] = [each for each in inside if not each.startswith("seed-")]


def _run(folder: Path) -> Run | None:
    """Makes the line of a folder; returns None if it is no run, or no seed is finished."""
    if (folder / record.RECORD).is_file():
        run = asdict(record.read(folder))
    elif (folder / "config.json").is_file() and any(folder.glob("seed-*/result.json")):
        run = _unfinished_task(folder)
    else:
        return None
    rows, settings = run.pop("rows"), run.pop("settings")
    if run["kind"] == "task":
        rows = [row | _elsewhere(folder / f"seed-{row['seed']}") for row in rows]
        settings |= {"cache": {"dtype": settings["cache"]["dtype"]}}
        for key in ("bilm", "machine"):  # these are kept once, if they are the same for all seeds
            run.pop(key, None)
            if all(row.get(key) == rows[0].get(key) for row in rows):
                run[key] = rows[0].get(key)
                rows = [{name: value for name, value in row.items() if name != key} for row in rows]
        if (folder / "ensemble.json").is_file():
            run["ensemble"] = read_json(folder / "ensemble.json")
    left_out = ("task", "output", "data")
    settings = {key: value for key, value in settings.items() if key not in left_out}
    head = {key: run.pop(key) for key in ("kind", "name", "version")}
    return without_folders(head | {"settings": settings} | run) | {"rows": rows}


def _unfinished_task(folder: Path) -> Run:
    """Reads the run of a task that is not finished, so it has no `record.json`."""
    files = sorted(folder.glob("seed-*/result.json"), key=lambda file: int(file.parent.name[5:]))
    settings, origin = read_json(folder / "config.json"), read_json(folder / "origin.json")
    run = {"kind": "task", "name": settings["task"], "version": origin["version"], "settings": settings}
    return run | {"data": origin["data"], "rows": [read_json(file) for file in files]}


def _elsewhere(seed: Path) -> dict[str, Any]:
    """Returns the scores of a seed's network on other data: the `elmo task eval --json` files of its folder by name."""
    found = {file.stem: read_json(file) for file in sorted(seed.glob("*.json"))}
    scores = {name: values for name, values in found.items() if {"task", "examples", "members"} <= set(values)}
    return {"elsewhere": scores} if scores else {}
