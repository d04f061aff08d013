"""Measures how often the nearest other use of a word has the same sense, by layer (`elmo.search.senses`)."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from elmo.disk.figure import save_figure
from elmo.embedding.embedder import Embedder, StatePolicy
from elmo.formats.packages import ASSETS
from elmo.search import picture, senses
from elmo.search.senses import SenseRow
from elmo_lab.document import Block, Text
from elmo_lab.probes import blocks
from elmo_lab.probes.probe import Context, Probe
from elmo_lab.probes.resampling import Difference, differences
from elmo_lab.record import RunRecord


@dataclass(frozen=True)
class SensesConfig:
    """The data and the model."""

    data: str | None = None
    """The file of labelled occurrences; by default the packaged one."""
    model: str = "default"
    state: StatePolicy = "reset"
    """The LSTM state at the start of a sentence."""


@dataclass(frozen=True)
class ComparedRow(SenseRow):
    """The scores of one layer, beside those of the others."""

    differences: dict[str, Difference] = field(default_factory=dict)
    """The differences of this layer's accuracy from the other layers', in points, with their intervals, by the number
    of the other layer. Occurrences are drawn."""


def measure(config: SensesConfig, context: Context) -> list[ComparedRow]:
    """Returns one row per layer. Raises InputError if the data cannot be used."""
    occurrences = senses.read_occurrences(Path(config.data or ASSETS / "senses.tsv"))
    assert context.source is not None, "the command opens the biLM"
    embedder = Embedder.of(context.source.model, state=config.state)
    if context.figure is not None:
        drawn = picture.draw(senses.sense_panels(embedder, occurrences))
        save_figure(drawn, context.figure, picture.SUFFIXES, overwrite=True)
    scores = senses.agreements(embedder, occurrences, context.progress)
    by_layer = {str(layer): own.tolist() for layer, own in enumerate(scores)}
    ones = [1] * len(occurrences)
    return [
        ComparedRow(**vars(row), differences=differences(by_layer, str(row.layer), ones))
        for row in senses.rows_of(scores, occurrences)
    ]


def _show(record: RunRecord) -> Iterator[Block]:
    """Shows the accuracies in percent."""
    occurrences = record.rows[0]["occurrences"]
    yield Text(f"How often the nearest other occurrence of a word has its sense ({occurrences} labelled occurrences):")
    words = record.rows[0]["by_word"]
    rows = [
        {"layer": str(row["layer"]), "all": 100 * row["accuracy"]}
        | {word: 100 * row["by_word"][word] for word in words}
        for row in record.rows
    ]
    yield from blocks.by_layer("senses", rows, "all", "accuracy")
    yield from blocks.plain_tables(rows)
    for row in record.rows[-1:]:
        if "differences" in row:
            yield Text(f"Layer {row['layer']}; points against {blocks.intervals(row)}.")


PROBE = Probe("senses", senses.VERSION, "Nearest neighbours' senses", SensesConfig, measure, show=_show)
