"""What a probe is. Probes are found by their names among the entry points of the group `elmo.probes`."""

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
"""The entry points by which a package brings probes: each names a `Probe`."""


@dataclass(frozen=True)
class Context:
    """What a command gives a probe besides its settings."""

    source: OpenedModel | None = None
    """The biLM of the setting `model`; None if the probe has no such setting."""
    folder: Path | None = None
    """The output folder, if there is one."""
    resume: bool = False
    """Whether to go on from the probe's checkpoint in that folder."""
    quiet: bool = False
    progress: Callable[..., object] = lambda done, total=None: None
    """Is told how many of the probe's `units` are done, and the total."""
    show: Callable[[str], object] = lambda line: None
    """Is told what is being done, for a probe that trains."""
    find_recipe: Callable[[str], Path] = Path
    """The file of a recipe for a task, by its name."""
    figure: Path | None = None
    """The file of --figure, which may be written, for a probe that draws its vectors."""


@dataclass(frozen=True)
class Probe:
    """A probe: its settings, what it computes, and how its rows are shown."""

    name: str
    version: str
    """Changes when the same settings give other numbers."""
    title: str
    """The heading of its section in a report."""
    config: type[Any]
    """The settings: a frozen dataclass. With a field `model`, the command opens that biLM; with a field `data`, it is
    the folder of files that are not in the working directory."""
    run: Callable[[Any, Context], list[Any]]
    """The rows, which are frozen dataclasses of JSON values. InputError if data or settings cannot be used."""
    columns: tuple[str, ...] = ()
    """The fields of rows that a table shows; by default all."""
    show: Callable[[RunRecord], Iterable[Block]] | None = None
    """The tables, texts and figures of a record, for terminals and reports; by default a table of `columns`."""
    units: str = "sentences"
    """What its progress counts."""
    recipe: Path | None = None
    """The default settings, as TOML."""
    goes_with: Mapping[str, set[str]] = field(default_factory=dict)
    """Settings of the recipe that are dropped if all of these are given, since they belong to its data."""
    checkpoint: str | None = None
    """The file in its output folder from which an interrupted run goes on; None if it cannot."""
    trains: bool = False
    """Whether it trains tasks in its output folder, and writes its record there after each run."""

    def blocks(self, record: RunRecord) -> list[Block]:
        """What is shown of a record. Raises InputError if its rows are not this probe's."""
        if not record.rows:
            return [Text("No rows yet.")]
        try:
            found = blocks.plain_tables(record.rows, self.columns) if self.show is None else self.show(record)
            return list(found)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise InputError(f"rows that the probe {self.name} does not write ({error!r}); probe again") from error


def find(name: str) -> Probe:
    """The probe of that name. Raises InputError for an unknown one, or one whose package cannot be imported."""
    return plugins.find(GROUP, Probe, name)
