"""Draws rows of numbers with matplotlib (the extra `probes`), for light and dark pages.

- Each figure has a function, which takes `dark` and returns a `Figure`. `svg` turns it into bytes, and `save` writes it
  to a file.
- There is no window and no global state, since pyplot and its settings files are not used.
- The same rows give the same bytes: no date is written, and the ids in an SVG are a hash of its content.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from elmo.disk import figure as figure_file
from elmo.disk.figure import plot_defaults
from elmo.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SUFFIXES = (".svg", ".png")
WIDTH, HEIGHT = 4.6, 3.0
"""The usual size in inches. It is narrow, so that text stays readable when a phone shrinks the figure."""
LETTER = 0.07
"""The approximate width of a letter of a label, in inches."""
MARKERS = ("o", "s", "^", "D", "v", "P")
"""The markers of lines. Together with the colours, they tell lines apart for colour-blind readers."""
THIRD = 1 / 3
"""The weight below which Figure 2 of the paper marks a layer: an even share of three layers."""
DARKEST = 0.8
"""The share at which a heat map's cell is darkest."""


@dataclass(frozen=True)
class Style:
    """The colours of a page."""

    paper: str
    ink: str
    note: str
    """The colour of secondary text."""
    faint: str
    """The colour of axes and grids."""
    low: str
    """The colour of small numbers in a heat map."""
    high: str
    """The colour of large numbers in a heat map."""
    lines: tuple[str, ...]


LIGHT = Style(
    "#ffffff", "#2a2a2e", "#6d6a75", "#d9d8dd", "#f1f4fa", "#1d4e89",
    ("#0067a5", "#c8500a", "#00805c", "#a8488c", "#6d6a75", "#8a6d00"),
)  # fmt: skip
DARK = Style(
    "#17171b", "#dddce2", "#a9a6b2", "#3c3c44", "#1e242e", "#7fb2ee",
    ("#62b6ee", "#f2994f", "#3fc79a", "#e59bcb", "#a9a6b2", "#d9bd4a"),
)  # fmt: skip


@dataclass(frozen=True)
class Series:
    """A line of a figure."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    error: Sequence[float] | None = None
    """The error bars, which extend up and down from `y`."""
    dashed: bool = False
    """Whether the line is dashed, as a baseline's is."""
    marked: bool = True
    """Whether the points of the line have markers."""


@dataclass(frozen=True)
class Gain:
    """The scores of a task. A score is None if there is no such run."""

    name: str
    before: float
    """The score without ELMo."""
    after: float | None
    """The score with ELMo."""
    tuned: float | None = None
    """The score with a biLM fine-tuned on the task's text."""

    @property
    def scores(self) -> list[float]:
        """The scores that are not None."""
        return [score for score in (self.before, self.after, self.tuned) if score is not None]


@dataclass(frozen=True)
class LayerShare:
    """The share of a layer in the mix of a task's networks."""

    task: str
    run: str
    place: str
    layer: int
    weight: float
    gamma: float


def svg(figure: "Figure", transparent: bool = True) -> bytes:
    """Returns the figure as SVG. Its text is drawn as shapes, so it looks the same everywhere."""
    return figure_file.as_bytes(figure, "svg", transparent)


def save(figure: "Figure", path: Path, overwrite: bool = False) -> None:
    """Writes a figure as SVG or PNG, by the file's name. Raises InputError for other names, OSError if it exists."""
    figure_file.save_figure(figure, path, SUFFIXES, overwrite)


def lines(
    series: Sequence[Series],
    x_label: str,
    y_label: str,
    dark: bool = False,
    x_ticks: Mapping[float, str] | None = None,
    x_scale: Literal["linear", "log"] = "linear",
    y_scale: Literal["linear", "log"] = "linear",
) -> "Figure":
    """Draws lines, with a legend below if there are several. If `x_ticks` are given, they are the only ticks of x."""
    style = style_of(dark)
    with plot_defaults():
        figure, axes = _canvas(style)
        axes.set_xscale(x_scale)
        axes.set_yscale(y_scale)
        for number, one in enumerate(series):
            look: dict[str, Any] = {"linestyle": (0, (4, 2.5)) if one.dashed else "-", "linewidth": 1.7}
            if one.marked:
                look |= {"marker": MARKERS[number % len(MARKERS)], "markersize": 5}
            color = style.lines[number % len(style.lines)]
            axes.errorbar(one.x, one.y, yerr=one.error, capsize=3, label=one.name, color=color, **look)
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
            _legend(figure, axes, style)
    return figure


def gains(rows: Sequence[Gain], x_label: str, dark: bool = False) -> "Figure":
    """Draws a line per task, from its score without ELMo to that with it; the first task is at the top."""
    style = style_of(dark)
    points = {
        "without ELMo": (style.note, "o", [row.before for row in rows]),
        "with ELMo": (style.lines[0], "o", [row.after for row in rows]),
        "fine-tuned biLM": (style.lines[1], "D", [row.tuned for row in rows]),
    }
    with plot_defaults():
        width = max(WIDTH, 1.9 + _length(row.name for row in rows))
        figure, axes = _canvas(style, width, 0.9 + 0.42 * len(rows))
        for place, row in enumerate(rows):
            ends = [min(row.scores), max(row.scores)]
            axes.plot(ends, [place, place], color=style.lines[0], linewidth=2, solid_capstyle="butt")
        for name, (colour, marker, scores) in points.items():
            found = [(score, place) for place, score in enumerate(scores) if score is not None]
            if found:
                axes.plot(*zip(*found, strict=True), marker, color=colour, markersize=6, label=name)
        axes.set_yticks(range(len(rows)), [row.name for row in rows])
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.margins(x=0.08)
        axes.set_xlabel(x_label)
        axes.grid(axis="y", visible=False)
        axes.tick_params(axis="y", length=0)
        _legend(figure, axes, style)
    return figure


def layer_weights(rows: Sequence[LayerShare], dark: bool = False) -> "Figure":
    """Draws the layers that task models read: a row per run, a column per layer, a panel per place (Figure 2).

    Each number is the layer's share; shares below a third are hatched. The mix's gamma is beside its row.
    """
    if not rows:
        raise InputError("no weights to draw; give runs with ELMo")
    style = style_of(dark)
    places = sorted({row.place for row in rows})
    runs = list(dict.fromkeys((row.task, row.run) for row in rows))
    layers = 1 + max(row.layer for row in rows)
    with plot_defaults():
        from matplotlib.colors import LinearSegmentedColormap

        colours = LinearSegmentedColormap.from_list("shares", [style.low, style.high])
        width = max(1.6, _length(_label(*run) for run in runs)) + len(places) * (0.75 * layers + 0.7)
        size = width, 0.9 + 0.42 * len(runs)
        figure, panels = _axes(*size, style, len(places))
        for place, axes in zip(places, panels, strict=True):
            _heat_map([row for row in rows if row.place == place], runs, layers, axes, colours, style)
            middle = layers / (2 * layers + 1.7)  # this centres the title over the cells, without the gamma column
            axes.set_title(f"at the {place}", x=middle, color=style.ink, fontsize=10)
        panels[0].set_yticks(range(len(runs)), [_label(*run) for run in runs], color=style.ink)
    return figure


def _heat_map(
    rows: Sequence[LayerShare], runs: Sequence[tuple[str, str]], layers: int, axes: Any, colours: Any, style: Style
) -> None:
    """Draws the cells of one place."""
    from matplotlib.patches import Rectangle

    lines = {run: number for number, run in enumerate(runs)}
    for row in rows:
        line, colour, small = lines[row.task, row.run], colours(row.weight / DARKEST), row.weight < THIRD
        cell = Rectangle((row.layer - 0.49, line - 0.48), 0.98, 0.96, facecolor=colour, linewidth=0)
        if small:
            cell.set(hatch="---", edgecolor=colours(row.weight / DARKEST + 0.25))
        axes.add_patch(cell)
        ink = "#ffffff" if sum(colour[:3]) < 1.5 else "#14171d"
        text = axes.text(row.layer, line, f"{row.weight:.2f}", ha="center", va="center", color=ink)
        text.set_bbox({"facecolor": colour, "edgecolor": "none", "pad": 1.5})
        if row.layer == 0:
            note = f"\N{GREEK SMALL LETTER GAMMA} {row.gamma:.2f}"
            axes.text(layers - 0.35, line, note, ha="left", va="center", color=style.note, fontsize=8)
    axes.set_xlim(-0.5, layers + 0.35)
    axes.set_ylim(len(runs) - 0.5, -0.5)
    axes.set_xticks(range(layers), [f"layer {layer}" for layer in range(layers)], color=style.ink)
    axes.set_yticks([])


def _label(task: str, run: str) -> str:
    """Returns a run's name, with its task if the name lacks it."""
    return run if task in run else f"{task}: {run}"


def _length(names: Iterable[str]) -> float:
    """Estimates how many inches the longest name takes."""
    return LETTER * max(map(len, names), default=0)


def style_of(dark: bool) -> Style:
    """Returns the style of a light or a dark page."""
    return DARK if dark else LIGHT


def _axes(width: float, height: float, style: Style, columns: int = 1) -> "tuple[Figure, list[Axes]]":
    """Makes a figure of this size in inches, with axes side by side without frames."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), facecolor=style.paper, layout="constrained")
    axes = [figure.add_subplot(1, columns, column + 1, facecolor="none") for column in range(columns)]
    for each in axes:
        each.tick_params(labelcolor=style.ink, length=0)
        for spine in each.spines.values():
            spine.set_visible(False)
    return figure, axes


def _canvas(style: Style, width: float = WIDTH, height: float = HEIGHT) -> "tuple[Figure, Axes]":
    """Makes a figure with one pair of axes and a grid."""
    figure, (axes,) = _axes(width, height, style)
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(True)
        axes.spines[side].set_color(style.faint)
    axes.tick_params(which="both", color=style.faint, labelcolor=style.ink, length=3.5)
    axes.grid(color=style.faint, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.xaxis.label.set_color(style.ink)
    axes.yaxis.label.set_color(style.ink)
    return figure, axes


def _legend(figure: "Figure", axes: "Axes", style: Style) -> None:
    handles, labels = axes.get_legend_handles_labels()
    columns = 2 if len(labels) < 5 and max(map(len, labels)) < 24 else 1
    figure.legend(
        handles, labels, loc="outside lower center", ncols=columns, frameon=False, labelcolor=style.ink, fontsize=9.5
    )


def _few_ticks(axes: "Axes") -> None:
    """Puts labels at 1, 2, 3 and 5 times the powers of ten."""
    from matplotlib.ticker import LogLocator, NullFormatter, NullLocator

    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 3, 5)))
    axes.yaxis.set_major_formatter(lambda value, place: f"{value:g}")
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_minor_formatter(NullFormatter())


def _short(value: float, place: Any) -> str:
    """Formats a number for an axis, such as 1.5M, 20k or 300."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"
