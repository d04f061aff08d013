"""Figures: rows of numbers -> drawings of matplotlib, for a light page and for a dark one.

- a function a figure; each takes `dark` and returns a `Figure`, which `save` writes as SVG or PNG
- no window, no global state: neither pyplot nor a file of settings has a part in it; the same rows give the same bytes
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elmo.errors import InputError
from elmo.formats.whole import whole
from elmo.probes.weights import PLACES, MeanRow

SUFFIXES = (".svg", ".png")
PNG_DPI = 160
THIRD = 1 / 3
"""Figure 2 of the paper marks weights below it: less than an even share of three layers."""


DARKEST = 0.8
"""The share from which on a cell of its heat map gets no darker."""


@dataclass(frozen=True)
class Style:
    """The colours of a page."""

    paper: str
    ink: str
    faint: str
    """Of lines and notes that are not to be seen first."""
    low: str
    """Of a small number in a heat map, and of a large one."""
    high: str


LIGHT = Style("#ffffff", "#1f2430", "#8a91a0", "#f1f4fa", "#1d4e89")
DARK = Style("#14171d", "#e6e9ef", "#98a1b0", "#1e242e", "#7fb2ee")


def style_of(dark: bool) -> Style:
    """The style of a light page or of a dark one."""
    return DARK if dark else LIGHT


@contextmanager
def _drawing() -> Iterator[None]:
    """Inside it matplotlib has its own defaults and ours, whatever the user's settings; outside nothing changes."""
    try:
        import matplotlib
    except ImportError as error:
        raise InputError(f"a figure needs matplotlib ({error}): pip install 'elmo-torch[probes]'") from error
    settings: dict[Any, Any] = {
        name: value for name, value in matplotlib.rcParamsDefault.items() if not name.startswith("backend")
    }
    settings |= {"font.family": ["DejaVu Sans"], "font.size": 9.0, "svg.hashsalt": "elmo", "hatch.linewidth": 0.6}
    with matplotlib.rc_context(settings):
        yield


def _axes(width: float, height: float, style: Style, columns: int = 1) -> tuple[Any, list[Any]]:
    """A figure of so many inches, and axes side by side without frames."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), facecolor=style.paper, layout="constrained")
    axes = [figure.add_subplot(1, columns, column + 1) for column in range(columns)]
    for each in axes:
        each.set_facecolor(style.paper)
        each.tick_params(colors=style.ink, length=0)
        for spine in each.spines.values():
            spine.set_visible(False)
    return figure, axes


def save(figure: Any, path: Path, overwrite: bool = False) -> None:
    """Writes a figure as SVG or PNG, as the name says. Raises InputError for other names, OSError where it exists."""
    check_path(path)
    with _drawing(), whole(path, overwrite) as temporary:
        metadata = {"Date": None} if path.suffix == ".svg" else {"Software": None}
        figure.savefig(temporary, format=path.suffix[1:], dpi=PNG_DPI, metadata=metadata)


def check_path(path: Path) -> None:
    """Raises InputError where no figure can have this name."""
    if path.suffix not in SUFFIXES:
        raise InputError(f"{path}: its suffix is {path.suffix!r}; one of {', '.join(SUFFIXES)} is expected")


def layer_weights(rows: Sequence[MeanRow], dark: bool = False) -> Any:
    """Which layers the task models read: a line a run, a column a layer, a panel a place. (Figure 2 of the paper)

    The number is the layer's share; shares below a third are hatched. Beside each line stands the mix's gamma.
    """
    from matplotlib.colors import LinearSegmentedColormap

    if not rows:
        raise InputError("no weights to draw; give runs with ELMo")
    style = style_of(dark)
    places = [place for place in PLACES if any(row.place == place for row in rows)]
    runs = list(dict.fromkeys((row.task, row.run) for row in rows))
    layers = 1 + max(row.layer for row in rows)
    colours = LinearSegmentedColormap.from_list("shares", [style.low, style.high])
    with _drawing():
        size = 1.6 + len(places) * (0.75 * layers + 0.7), 0.9 + 0.42 * len(runs)
        figure, panels = _axes(*size, style, len(places))
        for place, axes in zip(places, panels, strict=True):
            _heat_map([row for row in rows if row.place == place], runs, layers, axes, colours, style)
            middle = layers / (2 * layers + 1.7)  # of the cells, without the column of gammas
            axes.set_title(f"at the {place}", x=middle, color=style.ink, fontsize=10)
        panels[0].set_yticks(range(len(runs)), [_label(*run) for run in runs], color=style.ink)
    return figure


def _heat_map(
    rows: Sequence[MeanRow], runs: Sequence[tuple[str, str]], layers: int, axes: Any, colours: Any, style: Style
) -> None:
    """The cells of one place."""
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
            axes.text(layers - 0.35, line, note, ha="left", va="center", color=style.faint, fontsize=8)
    axes.set_xlim(-0.5, layers + 0.35)
    axes.set_ylim(len(runs) - 0.5, -0.5)
    axes.set_xticks(range(layers), [f"layer {layer}" for layer in range(layers)], color=style.ink)
    axes.set_yticks([])


def _label(task: str, run: str) -> str:
    """A run's name, and its task's where it is not in it."""
    return run if task in run else f"{task}: {run}"
