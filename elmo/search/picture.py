"""Draws uses of a word in the plane in which their vectors differ most, as the server's page does, with matplotlib."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from elmo.disk import figure as figure_file
from elmo.embedding.embedder import Embedder
from elmo.embedding.texts import texts_and_tokens
from elmo.errors import InputError, did_you_mean, shown
from elmo.search.nearest import even_places, in_context, layer_numbers, query_vectors

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIXES = (".svg", ".png", ".pdf")
MOST_USES = 200
NAMED = 20
"""The most uses in a picture that shows the words of each use beside its point."""
CONTEXT = 12
"""The characters on either side of the word that are shown beside a point."""
COLUMNS = 4
PANEL = 4.2
"""The width and height of a panel, in inches."""


@dataclass(frozen=True)
class Panel:
    """One plane: its vectors, the text beside each of them and, if it is known, the sense of each."""

    title: str
    vectors: Float[np.ndarray, "uses D"]
    names: Sequence[str]
    groups: Sequence[str] | None = None


def project_to_plane(vectors: Float[np.ndarray, "uses D"]) -> tuple[Float[np.ndarray, "uses 2"], list[float]]:
    """Returns the places of vectors on their first two principal components, and the share of variance of each."""
    centred = vectors.astype(np.float64) - vectors.mean(axis=0, dtype=np.float64)
    left, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    points = np.zeros((len(vectors), 2))
    kept = min(2, len(sizes))
    points[:, :kept] = (left * sizes)[:, :kept]
    points *= np.where(points[np.abs(points).argmax(axis=0), [0, 1]] < 0, -1, 1)  # signs are arbitrary
    total = float((sizes**2).sum())
    return points, [float(size**2) / total if total else 0.0 for size in sizes[:kept]]


def plot(
    word: str, sentences: Any, model: "str | Path | Embedder | None" = None, layers: int | Sequence[int] | None = None
) -> "Figure":
    """Draws all uses of `word`; see `elmo.plot`."""
    embedder = model if isinstance(model, Embedder) else Embedder.load(model)
    chosen = layer_numbers([0, embedder.n_layers - 1] if layers is None else layers, embedder.n_layers)
    if not isinstance(word, str):
        raise InputError(f"the word is {shown(word)}; a string is expected")
    found: list[tuple[Sequence[str], int]] = []
    tokens: set[str] = set()
    for each in texts_and_tokens([sentences] if isinstance(sentences, str) else sentences):
        for sentence in embedder.split(each) if isinstance(each, str) else [list(each)]:
            found += [(sentence, place) for place, token in enumerate(sentence) if token == word]
            tokens.update(sentence)
    if len(found) < 2:
        meant = "" if found else did_you_mean(word, tokens)
        raise InputError(f"{shown(word)} occurs {len(found)} times in the sentences; a picture needs two uses{meant}")
    found = [found[number] for number in even_places(len(found), MOST_USES)]
    return draw(of_uses(found, query_vectors(embedder, found, chosen), chosen), f"{len(found)} uses of {word}")


def of_uses(
    uses: Sequence[tuple[Sequence[str], int]], vectors: Float[np.ndarray, "L uses D"], layers: Sequence[int]
) -> list[Panel]:
    """Returns a plane per layer; `vectors` are those of `nearest.query_vectors`."""
    names = [in_context(sentence, place, CONTEXT) for sentence, place in uses]
    return [Panel(f"layer {layer}", own, names) for layer, own in zip(layers, vectors, strict=True)]


def draw(panels: Sequence[Panel], title: str = "") -> "Figure":
    """Draws planes side by side in a figure, which a notebook shows by itself."""
    columns = min(COLUMNS, len(panels))
    rows = -(-len(panels) // columns)
    with figure_file.plot_defaults():  # also sets that words with dollar signs are no formulas
        from matplotlib.figure import Figure

        figure = Figure(figsize=(PANEL * columns, PANEL * rows), layout="constrained")
        for number, panel in enumerate(panels, 1):
            _draw(figure.add_subplot(rows, columns, number), panel)
        figure.suptitle(title)
        figure_file.choose_fonts(figure)
    show: Any = lambda: figure_file.as_bytes(figure, "png")  # noqa: E731
    figure._repr_png_ = show  # type: ignore[attr-defined]  # a notebook calls this; without pyplot, nothing else sets it
    return figure


def _draw(axes: Any, panel: Panel) -> None:
    points, parts = project_to_plane(panel.vectors)
    groups = panel.groups or [""] * len(points)
    for number, group in enumerate(dict.fromkeys(groups)):
        own = points[[each == group for each in groups]]
        axes.scatter(own[:, 0], own[:, 1], s=24, marker="os^Dv"[number % 5], label=group)
    if panel.groups:
        axes.legend(fontsize=7)
    if len(points) <= NAMED:
        for (x, y), name in zip(points, panel.names, strict=True):
            side, shift = ("right", -4) if x > points[:, 0].mean() else ("left", 4)  # the text runs towards the centre
            axes.annotate(name, (x, y), (shift, 3), textcoords="offset points", fontsize=6, ha=side)
    axes.set_title(f"{panel.title} ({sum(parts):.0%} of the variance)", fontsize=9)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.margins(0.15)
