"""A probe's folder: `rows.jsonl`, the numbers, a row a line; and `probe.json`, everything that they depend on."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from elmo import config as configs
from elmo import machine
from elmo.errors import InputError
from elmo.training.disk import write_whole

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
    """Writes both files. `config` and `rows` are dataclasses; `bilm` is the card of the model that was asked."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps(asdict(row), ensure_ascii=False) + "\n" for row in rows)
    write_whole(folder / ROWS, lines.encode())
    record = {
        "probe": probe,
        "version": version,
        "config": configs.to_dict(config),
        "bilm": None if bilm is None else dict(bilm),
        "seconds": seconds,
        "machine": machine.card(),
    }
    write_whole(folder / RECORD, (json.dumps(record, indent=2, ensure_ascii=False) + "\n").encode())


def read(folder: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What `write` wrote: the record and the rows, as plain values. Raises InputError where they are damaged."""
    try:
        record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        rows = [json.loads(line) for line in (folder / ROWS).read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError) as error:
        raise InputError(f"{folder}: no whole record of a probe ({error}); run the probe again") from error
    return record, rows
