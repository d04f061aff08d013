"""Shows what a record's numbers depend on: the command, the settings and the versions."""

import shlex
from collections.abc import Iterator

from elmo_lab.document import Block, Code, Text
from elmo_lab.record import RunRecord, setting_lines, without_folders


def provenance(record: RunRecord) -> Iterator[Block]:
    """Shows the command that made a record, the settings, the biLM, the data and the versions."""
    yield Text("Made by:")
    yield Code(shlex.join(without_folders(record.argv)))
    settings = {key: value for key, value in record.settings.items() if key != "output"}
    parts = {"settings": settings, "bilm": record.bilm, "data": record.data, "versions": record.versions}
    lines = [f"{record.kind} = {record.name}, version {record.version}"]
    for name, values in parts.items():
        lines += setting_lines(values or {}, f"{name}.")
    yield Code("\n".join(lines))
