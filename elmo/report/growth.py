"""Probes of models that read different amounts of text -> which way their layers go."""

from collections.abc import Iterator, Sequence

from elmo import figures
from elmo.report.collect import Probe
from elmo.report.document import Figure, Figures, Section, Table, slug, table
from elmo.report.probing import BY_LAYER, TITLES


def sections(probes: Sequence[Probe]) -> Iterator[Section]:
    """One section, with a figure and a table for every kind of probe that was asked of two models or more."""
    blocks = []
    for kind, (column, what) in BY_LAYER.items():
        scores = _scores([probe for probe in probes if probe.probe == kind], column)
        if len(scores) > 1:
            blocks += [_drawn(kind, what, scores), _listed(scores)]
    if blocks:
        yield Section("What more text gives", tuple(blocks))


def words_read(probe: Probe) -> int:
    """What the probe's model was trained on; 0 where it is not known."""
    return int((probe.record.get("bilm") or {}).get("words_read") or 0)


def _scores(probes: Sequence[Probe], column: str) -> dict[int, dict[str, float]]:
    """By the words that the model has read, rising, the score of every row; of several probes the last one's."""
    found: dict[int, dict[str, float]] = {}
    for probe in probes:
        words = words_read(probe)
        rows = {str(row["layer"]): float(row[column]) for row in probe.rows if row.get(column) is not None}
        if words and rows:
            found[words] = rows
    return dict(sorted(found.items()))


def _rows(scores: dict[int, dict[str, float]]) -> list[str]:
    """Those that all of the models have."""
    first, *others = scores.values()
    return [row for row in first if all(row in other for other in others)]


def _drawn(kind: str, what: str, scores: dict[int, dict[str, float]]) -> Figures:
    words = [float(each) for each in scores]
    series = [
        figures.Series(
            f"layer {row}" if row.isdecimal() else row,
            words,
            [score[row] for score in scores.values()],
            dashed=not row.isdecimal(),
        )
        for row in _rows(scores)
    ]
    alt = "; ".join(f"{one.name} " + ", ".join(f"{y:.1f}" for y in one.y) for one in series)
    figure = Figure(
        slug(f"growth {kind}"),
        f"{what} by words read ({', '.join(f'{each:,}' for each in scores)}): {alt}",
        lambda dark: figures.lines(series, "words read in training", what, dark, x_scale="log", x_ticks=_ticks(scores)),
    )
    return Figures((figure,), f"{TITLES[kind]}: {what} against the words that the model was trained on.")


def _ticks(scores: dict[int, dict[str, float]]) -> dict[float, str]:
    return {float(words): f"{words / 1e6:.3g}M" for words in scores}


def _listed(scores: dict[int, dict[str, float]]) -> Table:
    rows = _rows(scores)
    return table(("words read", *rows), [(f"{w:,}", *(f"{s[row]:.2f}" for row in rows)) for w, s in scores.items()])
