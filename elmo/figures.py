"""Figures of results, drawn on demand by matplotlib (the extra `probes`), for light and dark pages.

The same numbers give the same bytes: no date is written, and the ids in an SVG are a hash of what it shows.
"""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from elmo.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, HEIGHT = 4.6, 3.0
"""Inches; narrow, so that letters are still read where a telephone shrinks a figure."""
COLORS = {
    False: ("#0067a5", "#c8500a", "#00805c", "#a8488c", "#6d6a75", "#8a6d00"),
    True: ("#62b6ee", "#f2994f", "#3fc79a", "#e59bcb", "#a9a6b2", "#d9bd4a"),
}
"""Of lines, by whether the page is dark; each has a marker of its own, for those who see fewer colours."""
MARKERS = ("o", "s", "^", "D", "v", "P")
INK = {False: "#2a2a2e", True: "#dddce2"}
FAINT = {False: "#d9d8dd", True: "#3c3c44"}
PAPER = {False: "#ffffff", True: "#17171b"}


@dataclass(frozen=True)
class Series:
    """A line of a figure."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    error: Sequence[float] | None = None
    """Drawn up and down from `y`."""
    dashed: bool = False
    """For what the others are compared with."""
    marked: bool = True
    """Whether the points are shown, not the line alone."""


@dataclass(frozen=True)
class Gain:
    """A task's scores without and with ELMo."""

    name: str
    before: float
    after: float


def svg(figure: "Figure", transparent: bool = True) -> bytes:
    """The figure as SVG, its letters as shapes: it looks the same wherever it is opened."""
    return _saved(figure, "svg", transparent)


def png(figure: "Figure", transparent: bool = False) -> bytes:
    """The figure as PNG, at 144 dots an inch."""
    return _saved(figure, "png", transparent)


def lines(
    series: Sequence[Series],
    x_label: str,
    y_label: str,
    dark: bool = False,
    x_ticks: Mapping[float, str] | None = None,
    x_scale: Literal["linear", "log"] = "linear",
    y_scale: Literal["linear", "log"] = "linear",
) -> "Figure":
    """Lines over one x, with a legend below where there are several. `x_ticks`, where given, are all there are."""
    figure, axes = _canvas(dark)
    axes.set_xscale(x_scale)
    axes.set_yscale(y_scale)
    for number, one in enumerate(series):
        color = COLORS[dark][number % len(MARKERS)]
        style: dict[str, Any] = {"color": color, "linestyle": (0, (4, 2.5)) if one.dashed else "-", "linewidth": 1.7}
        if one.marked:
            style |= {"marker": MARKERS[number % len(MARKERS)], "markersize": 5}
        axes.errorbar(one.x, one.y, yerr=one.error, capsize=3, label=one.name, **style)
    if x_ticks is not None:
        axes.set_xticks(list(x_ticks), list(x_ticks.values()))
        axes.minorticks_off()
    elif x_scale == "linear":
        axes.xaxis.set_major_formatter(_short)
    if y_scale == "log":
        _few_ticks(axes)
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    if len(series) > 1:
        _legend(figure, axes, dark)
    return figure


def gains(rows: Sequence[Gain], x_label: str, dark: bool = False) -> "Figure":
    """For every task an arrow from its score without ELMo to that with it, the first task at the top."""
    figure, axes = _canvas(dark, height=0.9 + 0.42 * len(rows))
    before, after = COLORS[dark][4], COLORS[dark][0]
    for place, row in enumerate(rows):
        axes.plot([row.before, row.after], [place, place], color=after, linewidth=2, solid_capstyle="butt")
        axes.plot([row.before], [place], "o", color=before, markersize=6, label="without ELMo" if not place else None)
        axes.plot([row.after], [place], "o", color=after, markersize=6, label="with ELMo" if not place else None)
    axes.set_yticks(range(len(rows)), [row.name for row in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.margins(x=0.08)
    axes.set_xlabel(x_label)
    axes.grid(axis="y", visible=False)
    axes.tick_params(axis="y", length=0)
    _legend(figure, axes, dark)
    return figure


def layer_weights(rows: Sequence[Any], dark: bool = False) -> "Figure":
    """Figure 2: the weight of every layer in a task's mix, a line a task and place, the mean over its seeds.

    `rows` have `task`, `place`, `layer` and `weight`.
    """
    found: dict[str, dict[int, list[float]]] = {}
    for row in rows:
        values = row if isinstance(row, Mapping) else vars(row)
        line = found.setdefault(f"{values['task']}, {values['place']}", {})
        line.setdefault(int(values["layer"]), []).append(float(values["weight"]))
    layers = sorted({layer for line in found.values() for layer in line})
    series = [
        Series(name, list(map(float, sorted(line))), [sum(line[layer]) / len(line[layer]) for layer in sorted(line)])
        for name, line in found.items()
    ]
    return lines(series, "layer", "weight", dark, {float(layer): str(layer) for layer in layers})


def _canvas(dark: bool, width: float = WIDTH, height: float = HEIGHT) -> "tuple[Figure, Axes]":
    """An empty figure in the colours of its page. Raises InputError where matplotlib is not installed."""
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError as error:
        raise InputError(f"figures need matplotlib ({error}): pip install 'elmo-torch[probes]'") from error
    ink, faint = INK[dark], FAINT[dark]
    with rc_context({"font.size": 9.5, "font.family": "DejaVu Sans", "axes.titlesize": 9.5}):
        figure = Figure(figsize=(width, height), layout="constrained", facecolor=PAPER[dark])
        axes = figure.add_subplot(facecolor="none")
        for side, spine in axes.spines.items():
            spine.set_visible(side in ("left", "bottom"))
            spine.set_color(faint)
        axes.tick_params(which="both", color=faint, labelcolor=ink)
        axes.grid(color=faint, linewidth=0.6)
        axes.set_axisbelow(True)
        axes.xaxis.label.set_color(ink)
        axes.yaxis.label.set_color(ink)
    return figure, axes


def _legend(figure: "Figure", axes: "Axes", dark: bool) -> None:
    handles, labels = axes.get_legend_handles_labels()
    columns = 2 if len(labels) < 5 and max(map(len, labels)) < 24 else 1
    figure.legend(
        handles, labels, loc="outside lower center", ncols=columns, frameon=False, labelcolor=INK[dark], fontsize=9.5
    )


def _few_ticks(axes: "Axes") -> None:
    """Whole numbers at 1, 2 and 5 times the powers of ten, not the powers alone."""
    from matplotlib.ticker import LogLocator, NullFormatter, NullLocator

    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 3, 5)))
    axes.yaxis.set_major_formatter(lambda value, place: f"{value:g}")
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_minor_formatter(NullFormatter())


def _short(value: float, place: Any) -> str:
    """1.5M, 20k, 300."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def _saved(figure: "Figure", kind: str, transparent: bool) -> bytes:
    from matplotlib import rc_context

    buffer = io.BytesIO()
    metadata: dict[str, Any] = {"Date": None, "Creator": None} if kind == "svg" else {"Software": None}
    with rc_context({"svg.hashsalt": "elmo", "svg.fonttype": "path"}):
        figure.savefig(buffer, format=kind, dpi=144, transparent=transparent, metadata=metadata)
    return buffer.getvalue()
