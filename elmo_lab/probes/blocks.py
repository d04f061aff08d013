"""Shows the rows of a probe: cells, plain tables, and the line of a score by layer."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from elmo_lab import figures
from elmo_lab.document import ABSENT, Block, Figure, Figures, Text, slug, table

MOST_ROWS = 100
"""The most rows of a plain table; the record has all rows."""

Row = Mapping[str, Any]


def cell(value: Any) -> str:
    """Formats a number or a word of a row."""
    if value is None:
        return ABSENT
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, float):
        return f"{value:.2f}" if abs(value) >= 1 or value == 0 else f"{value:.3f}"
    if isinstance(value, int):
        return f"{value:,}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def plain_tables(rows: Sequence[Row], columns: Sequence[str] = ()) -> Iterator[Block]:
    """Shows the rows as a table of these columns, or of all; a mapping, such as F1 by test set, becomes columns."""
    flat = [_flat({key: row[key] for key in columns or row if key in row}) for row in rows]
    head = list(dict.fromkeys(name for row in flat for name in row))
    cells = [[cell(row[name]) if name in row else "" for name in head] for row in flat[:MOST_ROWS]]
    yield table([name.replace("_", " ") for name in head], cells)
    if len(flat) > MOST_ROWS:
        yield Text(f"{len(flat) - MOST_ROWS:,} more rows are in the record.")


def _flat(row: Row) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, Mapping):
            found |= {f"{name} {key}": each for key, each in value.items()}
        else:
            found[name] = value
    return found


def by_layer(name: str, rows: Sequence[Row], column: str, what: str) -> Iterator[Figures]:
    """Draws the layers' scores in `column` as a line, and the others dashed; yields nothing for a single layer."""
    scores = {str(row["layer"]): float(row[column]) for row in rows if row.get(column) is not None}
    layers = {layer: score for layer, score in scores.items() if layer.isdecimal()}
    if len(layers) < 2:
        return
    places = [float(layer) for layer in layers]
    series = [figures.Series("a layer", places, list(layers.values()))]
    ends = [min(places), max(places)]
    series += [
        figures.Series(layer, ends, [score, score], dashed=True, marked=False)
        for layer, score in scores.items()
        if layer not in layers
    ]
    figure = Figure(
        slug(f"{name} layers"),
        f"{what} by layer: " + ", ".join(f"{layer} {score:.2f}" for layer, score in scores.items()),
        lambda dark: figures.lines(series, "layer", what, dark, {place: f"{place:g}" for place in places}),
    )
    yield Figures((figure,), f"{what.capitalize()} of every layer.")


def part_of(rows: Sequence[Row]) -> str:
    """Returns the part of the data by which rows are compared: test if all were scored on it, else dev."""
    return "test" if all(row.get("test") is not None for row in rows) else "dev"


def signed_difference(value: float | None) -> str:
    """Formats a difference with its sign; a missing one is empty."""
    return "" if value is None else f"{value:+.2f}"


def seed_deviation(row: Row, part: str) -> str:
    """Formats the deviation over the seeds of a row; it is empty for a single seed."""
    return cell(row[f"{part}_std"]) if len(row["seeds"]) > 1 and row[part] is not None else ""


def stop_reasons(stopped: Sequence[str]) -> str:
    """Lists the reasons why trainings ended, each once."""
    return ", ".join("time limit" if why == "minutes" else why for why in dict.fromkeys(stopped))


def intervals(row: Row) -> str:
    """Lists the differences of a row from others, with their intervals."""
    return ", ".join(
        f"{other} {points:+.2f} ({low:+.2f} to {high:+.2f})"
        for other, (points, low, high) in row["differences"].items()
    )
