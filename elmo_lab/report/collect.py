"""Finds the results in folders: records of tasks and probes, runs of `elmo train`, and files of --json outputs.

Names are relative to the given folders, so that no other part of a machine's paths gets into a report.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from elmo.config import parse_json, read_regular
from elmo.errors import InputError
from elmo_lab import record
from elmo_lab.record import REMEDY, RunRecord
from elmo_lab.report import pretraining
from elmo_lab.report.pretraining import PretrainingRun

SKIPPED = {"tensorboard", "checkpoints", "__pycache__"}
LARGEST = 4_000_000
"""The most bytes of a JSON file that may be a result."""
PERPLEXITY, EVALUATION = {"text", "vocabulary", "perplexity"}, {"task", "version", "examples", "members"}
"""The keys of the outputs of `elmo perplexity --json` and `elmo task eval --json`."""


@dataclass(frozen=True)
class RecordedRun:
    """A folder with the record of a task or probe."""

    name: str
    folder: Path
    record: RunRecord


@dataclass(frozen=True)
class JsonFile:
    """A file with the --json output of a command."""

    name: str
    values: dict[str, Any]


@dataclass(frozen=True)
class Results:
    """All results, by their kind."""

    tasks: list[RecordedRun] = field(default_factory=list)
    probes: list[RecordedRun] = field(default_factory=list)
    pretrainings: list[PretrainingRun] = field(default_factory=list)
    perplexities: list[JsonFile] = field(default_factory=list)
    evaluations: list[JsonFile] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)
    """The files that all this was read from."""


def collect(paths: Sequence[Path]) -> Results:
    """Finds the results in folders and files. Raises InputError if one is missing or damaged, or there are none."""
    results = Results()
    for path in paths:
        if not path.exists():
            raise InputError(f"{path}: no such file or folder; give results, such as a folder of elmo task train")
    seen: set[str] = set()
    for root, name in _named([path.absolute() for path in paths]).items():
        if root.is_file() and not _add_file(results, root, name):
            raise InputError(f"{root}: no results; give the --json output of elmo perplexity or elmo task eval")
        for folder, inside, files in os.walk(root, followlinks=True):
            inside[:] = sorted(each for each in inside if each not in SKIPPED and not each.startswith("."))
            if (real := os.path.realpath(folder)) in seen:
                inside.clear()  # this folder was searched before, or a link leads back to it
                continue
            seen.add(real)
            below = "/".join((name, *Path(folder).relative_to(root).parts))
            inside[:] = _add_folder(results, Path(folder), below, set(files), inside)
    if results == Results():
        named = ", ".join(map(str, paths))
        raise InputError(f"{named}: no results; give output folders of elmo task, elmo probe or elmo train")
    return results


def _named(roots: Sequence[Path]) -> dict[Path, str]:
    """Names the given paths; equal names get as much of the path as distinguishes them."""
    found: dict[Path, str] = {}
    for root in dict.fromkeys(roots):
        others = [other for other in set(roots) if other != root]
        ends = (root.parts[-length:] for length in range(1, len(root.parts) + 1))
        found[root] = "/".join(next(end for end in ends if all(other.parts[-len(end) :] != end for other in others)))
    return found


def _add_folder(results: Results, folder: Path, name: str, files: set[str], inside: list[str]) -> list[str]:
    """Adds the results that a folder is; returns the folders inside that may hold others."""
    if record.RECORD in files:
        found = RecordedRun(name, folder, record.read(folder))
        results.files.append(folder / record.RECORD)
        if found.record.kind == "probe":
            results.probes.append(found)
            return []  # the probe's rows have the runs that it trained
        results.tasks.append(found)
    if set(pretraining.FILES) <= files:
        results.pretrainings.append(pretraining.read(name, folder))
        results.files.extend(folder / each for each in pretraining.FILES)
        inside = [each for each in inside if each != "model"]
    for file in sorted(files):
        _add_file(results, folder / file, f"{name}/{file}")
    return inside


def _add_file(results: Results, path: Path, name: str) -> bool:
    """Adds a file with a command's output; returns False for any other file."""
    values = read_output(path)
    if set(values) >= PERPLEXITY:
        results.perplexities.append(JsonFile(name, values))
    elif set(values) >= EVALUATION:
        results.evaluations.append(JsonFile(name, values))
    else:
        return False
    results.files.append(path)
    return True


def read_output(path: Path) -> dict[str, Any]:
    """Returns the JSON object of a command's output; it is empty if the file is something else, or too large for one.

    Raises InputError for a damaged file that has most of a result's keys.
    """
    if path.suffix != ".json" or not path.is_file() or path.stat().st_size > LARGEST:
        return {}
    content = read_regular(path)
    try:
        values = parse_json(content)
    except ValueError as error:
        for keys in (PERPLEXITY, EVALUATION):
            if sum(f'"{key}"'.encode() in content for key in keys) >= len(keys) - 1:
                raise InputError(f"{path}: not valid JSON ({error}); {REMEDY}") from error
        return {}
    return values if isinstance(values, dict) else {}
