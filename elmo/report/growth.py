"""Probes of models that read different amounts of text -> which way their layers go."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from elmo import figures
from elmo.report import alike
from elmo.report.collect import Probe
from elmo.report.document import Figure, Figures, Section, Table, slug, table
from elmo.report.probing import BY_LAYER, TITLES


@dataclass(frozen=True)
class Point:
    """A model."""

    size: tuple[int, ...]
    """Cells and projection; empty where it is not known."""
    words: int
    sha256: str
    scores: dict[str, float]
    """Of its layers, their mix and the baselines."""


def sections(probes: Sequence[Probe]) -> Iterator[Section]:
    """One section, with a figure and a table for every kind of probe that was asked of two models of a size or more."""
    blocks = []
    for kind, (column, what) in BY_LAYER.items():
        known = alike.pretrained([probe for probe in probes if probe.probe == kind])
        curves = [_points(group, column) for group in alike.groups(known)]
        points = next((points for points in curves if _is_curve(points)), None)
        if points is not None:
            blocks += [_drawn(kind, what, points), _listed(points)]
    if blocks:
        yield Section("What more text gives", tuple(blocks))


def _points(probes: Sequence[Probe], column: str) -> list[Point]:
    """The models by size and words read, rising; of several probes of a model the last one's scores."""
    found: dict[tuple[tuple[int, ...], int, str], Point] = {}
    for probe in probes:
        scores = {str(row["layer"]): float(row[column]) for row in probe.rows if row.get(column) is not None}
        model = (alike.size(probe), alike.words_read(probe), str(probe.record["bilm"].get("sha256", "")))
        if scores:
            found[model] = Point(*model, scores)
    return [found[model] for model in sorted(found)]


def _is_curve(points: Sequence[Point]) -> bool:
    """Whether two models of a size have read different amounts."""
    return len({(point.size, point.words) for point in points}) > len({point.size for point in points})


def _rows(points: Sequence[Point]) -> list[str]:
    """Those that all of the models have."""
    return [row for row in points[0].scores if all(row in point.scores for point in points)]


def _drawn(kind: str, what: str, points: Sequence[Point]) -> Figures:
    sizes = list(dict.fromkeys(point.size for point in points))
    series = [
        _series(row, [point for point in points if point.size == size], len(sizes) > 1)
        for size in sizes
        for row in _rows(points)
    ]
    words = sorted({point.words for point in points})
    alt = "; ".join(f"{one.name} " + ", ".join(f"{y:.1f}" for y in one.y) for one in series)
    ticks = {float(each): f"{each / 1e6:.3g}M" for each in words}
    figure = Figure(
        slug(f"growth {kind}"),
        f"{what} by words read ({', '.join(f'{each:,}' for each in words)}): {alt}",
        lambda dark: figures.lines(series, "words read in training", what, dark, x_scale="log", x_ticks=ticks),
    )
    return Figures((figure,), f"{TITLES[kind]}: {what} against the words that the model was trained on.")


def _series(row: str, points: Sequence[Point], is_named: bool) -> figures.Series:
    """A row of the models of one size, which is said where there are others."""
    name = f"layer {row}" if row.isdecimal() else row
    name += f", {_said(points[0].size) or 'size unknown'}" if is_named else ""
    scores = [point.scores[row] for point in points]
    return figures.Series(name, [float(point.words) for point in points], scores, dashed=not row.isdecimal())


def _said(size: tuple[int, ...]) -> str:
    return " / ".join(f"{number:,}" for number in size)


def _listed(points: Sequence[Point]) -> Table:
    rows = _rows(points)
    cells = [(_said(p.size), f"{p.words:,}", *(f"{p.scores[row]:.2f}" for row in rows)) for p in points]
    return table(("cells / projection", "words read", *rows), cells)
