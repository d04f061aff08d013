"""The record of a run, `record.json` in its folder. Reports and tables of results read nothing else of a run."""

import json
import platform
import re
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

import numpy as np
import torch

from elmo import __version__, machine
from elmo import config as configs
from elmo.disk import files
from elmo.disk.run import is_used, read_json
from elmo.errors import InputError

RECORD = "record.json"
KINDS = {
    "name": str, "version": str, "settings": dict, "rows": list, "argv": list, "versions": dict, "machine": dict
}  # fmt: skip
"""The types of the fields that every record has."""
FILE_ADDRESS = re.compile("file:/", re.IGNORECASE)
REMEDY = "produce the result again, or remove it"


def running_command() -> list[str]:
    """Returns the words of the running command; `python -m elmo` counts as `elmo`."""
    program = Path(sys.argv[0])
    return ["elmo" if program.stem in ("elmo", "__main__") else program.name, *sys.argv[1:]]


def package_versions() -> dict[str, str]:
    """Returns the versions of Python and of the packages that compute."""
    return {
        "elmo": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
    }


@dataclass(frozen=True)
class RunRecord:
    """The description of a run, and its numbers."""

    kind: Literal["task", "probe"]
    name: str
    """The name of the task or probe."""
    version: str
    """The version of the task or probe; numbers of different versions are not comparable."""
    settings: dict[str, Any]
    rows: list[dict[str, Any]]
    """The numbers. A task has one row per seed; a probe defines its own rows."""
    bilm: Mapping[str, Any] | None = None
    """The card of the biLM, with its hash; None if there is no biLM."""
    data: Mapping[str, str] = field(default_factory=dict)
    """The sha256 of each file of a task, by part of the data."""
    seconds: float | None = None
    argv: list[str] = field(default_factory=running_command)
    """The words of the command."""
    versions: Mapping[str, str] = field(default_factory=package_versions)
    machine: Mapping[str, Any] = field(default_factory=machine.card)


def probe_record(
    name: str,
    version: str,
    config: Any,
    rows: list[Any],
    bilm: Mapping[str, Any] | None = None,
    seconds: float | None = None,
) -> RunRecord:
    """Makes the record of a probe; `config` and `rows` are dataclasses."""
    plain = [configs.to_dict(row) for row in rows]
    return RunRecord("probe", name, version, configs.to_dict(config), plain, bilm, seconds=seconds)


def write(folder: Path, record: RunRecord) -> None:
    """Writes the record of a run to its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    files.write_run_file(folder / RECORD, configs.as_json(asdict(record)).encode(errors="backslashreplace"))


def read(folder: Path) -> RunRecord:
    """Reads the record in a folder. Raises InputError if there is none, or it is damaged."""
    file = folder / RECORD
    try:
        values = read_json(file, REMEDY)
    except OSError as error:
        raise InputError(f"{file}: no record of a run ({error.strerror}); {REMEDY}") from error
    for key, kind in KINDS.items():
        if not isinstance(values.get(key), kind):
            raise InputError(f"{file}: {key} is {values.get(key)!r:.40} where a {kind.__name__} is expected; {REMEDY}")
    if values.get("kind") not in ("task", "probe") or not all(isinstance(row, dict) for row in values["rows"]):
        raise InputError(f"{file}: not the record of a task or probe, with rows that are objects; {REMEDY}")
    try:
        return RunRecord(**values)
    except TypeError as error:
        raise InputError(f"{file}: not the record of a run ({error}); {REMEDY}") from error


def without_folders(value: Any) -> Any:
    """Removes this machine's folders from a value: absolute paths become their last part.

    So do the addresses of files, `file:///folder/name`, and those after a key, `key=path`.
    """
    if isinstance(value, Mapping):
        return {key: without_folders(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [without_folders(each) for each in value]
    if isinstance(value, str):
        if FILE_ADDRESS.match(value):
            return PurePosixPath(unquote(urlsplit(value).path)).name
        for kind in (PurePosixPath, PureWindowsPath):  # the result may come from another system
            if kind(value).is_absolute():
                return kind(value).name
        key, equals, place = value.partition("=")  # an override of a setting, such as inputs.vectors=PATH
        if equals:
            return f"{key}={without_folders(place)}"
    return value


def setting_lines(values: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Formats settings as `section.key = value`, with JSON values and without this machine's folders."""
    found = []
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            found += setting_lines(value, f"{prefix}{key}.")
        else:
            found.append(f"{prefix}{key} = {json.dumps(without_folders(value), ensure_ascii=False)}")
    return found


def check_output(folder: Path, overwrite: bool, resume: bool = False, checkpoint: str | None = None) -> None:
    """Raises InputError if `folder` is a file, or holds something that can be neither replaced nor resumed.

    `checkpoint` names the file that an interrupted run of this probe resumes from, if it has one.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: is a file; name a folder as --output")
    if overwrite or not is_used(folder):
        return
    is_broken = checkpoint is not None and (folder / checkpoint).is_file()
    if resume and not is_broken and (folder / RECORD).is_file():
        raise InputError(f"{folder}: the probe is finished; read its {RECORD}, or add --overwrite to start over")
    if not resume:
        remedy = "add --resume to continue it, --overwrite to start over" if is_broken else "add --overwrite"
        raise InputError(f"{folder}: the output exists; {remedy}, or name another --output")


def check_replaced(folder: Path, probe: str) -> None:
    """Raises InputError if `folder` holds the record of anything but this probe, which would be lost."""
    try:
        found = read(folder)
    except InputError:  # there is none, or a damaged one
        return
    if (found.kind, found.name) != ("probe", probe):
        raise InputError(f"{folder}: holds the record of the {found.kind} {found.name!r}; name another --output")
