"""A probe's folder: `rows.jsonl`, the numbers, one row per line; and `probe.json`, everything they depend on."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from elmo import config as configs
from elmo import machine
from elmo.disk import files
from elmo.disk.run import is_used
from elmo.errors import InputError

RECORD, ROWS = "probe.json", "rows.jsonl"


def write(
    folder: Path,
    probe: str,
    version: str,
    config: Any,
    rows: Sequence[Any],
    bilm: Mapping[str, Any] | None = None,
    seconds: float | None = None,
) -> None:
    """Writes both files. `config` and `rows` are dataclasses; `bilm` is the card of the probed model."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps(asdict(row), ensure_ascii=False) + "\n" for row in rows)
    files.write(folder / ROWS, lines.encode(errors="backslashreplace"))
    record = {
        "probe": probe,
        "version": version,
        "config": configs.to_dict(config),
        "bilm": None if bilm is None else dict(bilm),
        "seconds": seconds,
        "machine": machine.card(),
    }
    files.write(folder / RECORD, configs.as_json(record).encode(errors="backslashreplace"))


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
        raise InputError(f"{folder}: the probe is finished; read its {ROWS}, or add --overwrite to start over")
    if not resume:
        remedy = "add --resume to continue it, --overwrite to start over" if is_broken else "add --overwrite"
        raise InputError(f"{folder}: the output exists; {remedy}, or name another --output")


def make_output(folder: Path) -> None:
    """Creates the folder, before a probe reads for hours. Raises OSError with the remedy if that fails."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(error.errno, f"{error.strerror}; name another --output", str(folder)) from error


def read(folder: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What `write` wrote: the record and the rows, as plain values. Raises InputError if they are damaged."""
    record = read_record(folder)
    try:
        rows = [json.loads(line) for line in (folder / ROWS).read_text(encoding="utf-8").split("\n") if line]
    except (OSError, ValueError) as error:
        raise InputError(f"{folder}: no complete record of a probe ({error}); run the probe again") from error
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise InputError(
                f"{folder / ROWS}, line {number}: not a JSON object, so not a row of a probe; run the probe again"
            )
    return record, rows


def read_record(folder: Path) -> dict[str, Any]:
    """The record alone. Raises InputError if it is damaged."""
    try:
        record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{folder}: no complete record of a probe ({error}); run the probe again") from error
    if not isinstance(record, dict):
        raise InputError(f"{folder / RECORD}: not a JSON object, so not the record of a probe; run the probe again")
    return record
