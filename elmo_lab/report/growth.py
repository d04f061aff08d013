"""Probes of models that have read different amounts of text -> how their layers' scores develop."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from elmo_lab import figures
from elmo_lab.report import alike, probing
from elmo_lab.report.collect import Probe
from elmo_lab.report.document import Figure, Figures, Section, Table, slug, table


@dataclass(frozen=True)
class Point:
    """A model."""

    size: tuple[int, ...]
    """From `alike.size`."""
    words: int
    sha256: str
    scores: dict[str, float]
    """Scores of its layers, their mix and the baselines."""


def sections(probes: Sequence[Probe]) -> Iterator[Section]:
    """One section, with a figure and a table per kind of probe that at least two models of a size have."""
    blocks = []
    for kind, (_, what) in probing.BY_LAYER.items():
        known = alike.pretrained([probe for probe in probes if probe.probe == kind])
        found = [_points(group, probing.column_of(group)) for group in alike.groups(known)]
        points = next((points for points in found if _curves(points)), None)
        if points is not None:
            blocks += [_drawn(kind, what, points), _listed(points)]
    if blocks:
        yield Section("What more text gives", tuple(blocks))


def _points(probes: Sequence[Probe], column: str) -> list[Point]:
    """The models by size and words read, ascending; for repeated probes of a model, the last one's scores."""
    found: dict[tuple[tuple[int, ...], int, str], Point] = {}
    for probe in probes:
        scores = {str(row["layer"]): float(row[column]) for row in probe.rows if row.get(column) is not None}
        model = (alike.size(probe), alike.words_read(probe), str(probe.record["bilm"].get("sha256", "")))
        if scores:
            found[model] = Point(*model, scores)
    return [found[model] for model in sorted(found)]


def _curves(points: Sequence[Point]) -> list[list[Point]]:
    """The models of every size for which several amounts of text exist."""
    sizes = [[point for point in points if point.size == size] for size in dict.fromkeys(p.size for p in points)]
    return [models for models in sizes if len({point.words for point in models}) > 1]


def _rows(points: Sequence[Point]) -> list[str]:
    """The labels that all models have."""
    return [row for row in points[0].scores if all(row in point.scores for point in points)]


def _drawn(kind: str, what: str, points: Sequence[Point]) -> Figures:
    """A figure a size."""
    drawings = tuple(_curve(kind, what, models) for models in _curves(points))
    return Figures(drawings, f"{probing.TITLES[kind]}: {what} against the words that the model was trained on.")


def _curve(kind: str, what: str, models: Sequence[Point]) -> Figure:
    words = [float(model.words) for model in models]
    series = [
        figures.Series(
            f"layer {row}" if row.isdecimal() else row,
            words,
            [model.scores[row] for model in models],
            dashed=not row.isdecimal(),
        )
        for row in _rows(models)
    ]
    size = _said(models[0].size)
    label = "words read in training" + (f", cells / projection {size}" if size else "")
    alt = "; ".join(f"{one.name} " + ", ".join(f"{y:.1f}" for y in one.y) for one in series)
    ticks = {each: f"{each / 1e6:.3g}M" for each in words}
    return Figure(
        slug(f"growth {kind} {size}"),
        f"{what} by {label} ({', '.join(f'{model.words:,}' for model in models)}): {alt}",
        lambda dark: figures.lines(series, label, what, dark, x_scale="log", x_ticks=ticks),
    )


def _said(size: tuple[int, ...]) -> str:
    return " / ".join(f"{number:,}" for number in size)


def _listed(points: Sequence[Point]) -> Table:
    rows = _rows(points)
    cells = [(_said(p.size), f"{p.words:,}", *(f"{p.scores[row]:.2f}" for row in rows)) for p in points]
    return table(("cells / projection", "words read", *rows), cells)
