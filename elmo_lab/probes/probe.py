"""The class of all probes, which are found by name among the entry points of the group `elmo.probes`."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from elmo.errors import InputError
from elmo.formats.opened import OpenedModel
from elmo_lab import plugins
from elmo_lab.document import Block, Text
from elmo_lab.probes import blocks
from elmo_lab.record import RunRecord

GROUP = "elmo.probes"
"""The group of entry points by which a package provides probes; each entry point names a `Probe`."""


@dataclass(frozen=True)
class Context:
    """The context of a run: what a command passes to a probe besides its settings."""

    source: OpenedModel | None = None
    """The biLM of the setting `model`; None if the probe has no such setting."""
    folder: Path | None = None
    """The output folder, if there is one."""
    resume: bool = False
    """Whether to go on from the probe's checkpoint in that folder."""
    quiet: bool = False
    progress: Callable[..., object] = lambda done, total=None: None
    """The function that the probe calls with the number of its `units` that are done, and the total."""
    show: Callable[[str], object] = lambda line: None
    """The function that a probe that trains calls with lines on what it is doing."""
    find_recipe: Callable[[str], Path] = Path
    """The function that returns the file of a task's recipe, given its name."""
    figure: Path | None = None
    """The file of --figure, for a probe that draws its vectors; it may be overwritten."""


@dataclass(frozen=True)
class Probe:
    """A probe, with its settings, what it computes, and how its rows are shown."""

    name: str
    version: str
    """The version, which changes when the same settings give other numbers."""
    title: str
    """The heading of its section in a report."""
    config: type[Any]
    """The frozen dataclass of the settings. If it has a field `model`, the command opens that biLM. A field `data` is
    the folder of files that are not in the working directory."""
    run: Callable[[Any, Context], list[Any]]
    """The function that computes the rows, which are frozen dataclasses of JSON values. It raises InputError if data or
    settings cannot be used."""
    columns: tuple[str, ...] = ()
    """The fields of rows that a table shows; by default all."""
    show: Callable[[RunRecord], Iterable[Block]] | None = None
    """The function that shows a record, in a terminal or report; by default, a table of `columns` is shown."""
    units: str = "sentences"
    """The name of what the progress counts."""
    recipe: Path | None = None
    """The default settings, as TOML."""
    goes_with: Mapping[str, set[str]] = field(default_factory=dict)
    """Settings of the recipe that belong to its data. Each is dropped if all settings in its set are given."""
    checkpoint: str | None = None
    """The file in the output folder from which an interrupted run continues; None if the probe cannot continue."""
    trains: bool = False
    """Whether the probe trains tasks in its output folder, and writes its record there after each run."""

    def blocks(self, record: RunRecord) -> list[Block]:
        """Returns what is shown of a record. Raises InputError if its rows are not this probe's."""
        if not record.rows:
            return [Text("No rows yet.")]
        try:
            found = blocks.plain_tables(record.rows, self.columns) if self.show is None else self.show(record)
            return list(found)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise InputError(f"rows that the probe {self.name} does not write ({error!r}); probe again") from error


def find(name: str) -> Probe:
    """Returns the probe with a name. Raises InputError if there is none, or its package cannot be imported."""
    return plugins.find(GROUP, Probe, name)
