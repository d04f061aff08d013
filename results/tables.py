"""Tables of results: JSON lines, one line a run, each with an `id` that is unique in its table.

A table is named by its path below this folder without the suffix, such as `english-base/tasks`.
"""

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from elmo.disk.files import write as write_file
from elmo.disk.run import read_json
from elmo.errors import InputError

FOLDER = Path(__file__).parent
PARTS = {"text", "vocabulary", "perplexity"}
"""The keys of the output of `elmo perplexity --json`."""

Run = dict[str, Any]


def read(name: str) -> dict[str, Run]:
    """The lines of a table by their ids, in order; none if there is no such table."""
    file = FOLDER / f"{name}.jsonl"
    if not file.is_file():
        return {}
    runs = map(json.loads, file.read_text(encoding="utf-8").splitlines())
    return {run["id"]: run for run in runs}


def add(name: str, folder: Path, given: str | None = None) -> list[str]:
    """Puts every run in `folder` into a table, in place of lines with the same id; returns the ids.

    The id is the run's path below `folder`; for a folder that is itself a run it is `given`, or else the folder's name.
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
    for here, inside, files in os.walk(folder):
        inside.sort()
        path = Path(here)
        name = path.relative_to(folder).as_posix()
        name = given or path.name if name == "." else name
        if (run := _probe(path) if "probe.json" in files else _task(path)) is not None:
            yield {"id": name} | run
        for file in sorted(path.glob("*.json")):
            values = json.loads(file.read_text(encoding="utf-8"))
            if isinstance(values, dict) and set(values) >= PARTS:
                yield {"id": (path / file.stem).relative_to(folder).as_posix(), "kind": "perplexity"} | shown(values)
        inside[:] = [each for each in inside if not each.startswith("seed-")]


def _probe(folder: Path) -> Run:
    """The line of a folder of `elmo probe`."""
    record = read_json(folder / "probe.json")
    rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text(encoding="utf-8").splitlines()]
    settings = {key: value for key, value in record["config"].items() if key not in ("output", "data")}
    run = {"kind": "probe", "name": record["probe"], "version": record["version"], "settings": settings}
    return shown(run | {key: record[key] for key in ("bilm", "machine", "seconds")}) | {"rows": rows}


def _task(folder: Path) -> Run | None:
    """The line of a folder of `elmo task train`; None if it is none, or no seed is finished."""
    files = sorted(folder.glob("seed-*/result.json"), key=lambda file: int(file.parent.name[5:]))
    if not (folder / "config.json").is_file() or not files:
        return None
    config, origin = read_json(folder / "config.json"), read_json(folder / "origin.json")
    rows = [read_json(file) | _elsewhere(file.parent) for file in files]
    common = {}
    for key in ("bilm", "machine"):  # once, if they are the same for all seeds
        if all(row.get(key) == rows[0].get(key) for row in rows):
            common[key] = rows[0].get(key)
            rows = [{name: value for name, value in row.items() if name != key} for row in rows]
    settings = {key: value for key, value in config.items() if key not in ("task", "output", "data")}
    settings["cache"] = {"dtype": config["cache"]["dtype"]}
    run = {"kind": "task", "name": config["task"], "version": origin["version"], "settings": settings}
    if (folder / "ensemble.json").is_file():
        common["ensemble"] = read_json(folder / "ensemble.json")
    return shown(run | {"data": origin["data"]} | common) | {"rows": rows}


def _elsewhere(seed: Path) -> dict[str, Any]:
    """The scores of a seed's network on other data: the output of `elmo task eval --json` in its folder, by name."""
    found = {file.stem: read_json(file) for file in sorted(seed.glob("*.json"))}
    scores = {name: values for name, values in found.items() if {"task", "examples", "members"} <= set(values)}
    return {"elsewhere": scores} if scores else {}


def shown(value: Any) -> Any:
    """A value without folders of the machine: absolute paths become their last part."""
    if isinstance(value, Mapping):
        return {key: shown(each) for key, each in value.items()}
    if isinstance(value, list):
        return [shown(each) for each in value]
    if isinstance(value, str):
        for kind in (PurePosixPath, PureWindowsPath):
            if kind(value).is_absolute():
                return kind(value).name
    return value
