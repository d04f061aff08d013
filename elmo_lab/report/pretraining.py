"""The section of a report on runs of `elmo train`: the perplexities, and the learning curves."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elmo.disk.run import read_json
from elmo.errors import InputError
from elmo_lab import figures
from elmo_lab.document import ABSENT, Block, Code, Details, Figure, Figures, Section, Text, slug, table
from elmo_lab.record import REMEDY, setting_lines

SETTINGS, METRICS = FILES = "train.json", "metrics.jsonl"
"""The files of a run that `read` needs."""


@dataclass(frozen=True)
class PretrainingRun:
    """A run of `elmo train`."""

    name: str
    config: dict[str, Any]
    card: dict[str, Any]
    """The card of the newest model; empty if there is none yet."""
    curve: list[dict[str, Any]]
    """The perplexities of the newest held-out text, by words read."""
    words_a_second: float | None


def read(name: str, folder: Path) -> PretrainingRun:
    """Reads the run in a folder; skips unfinished lines of its metrics. Raises InputError if a file is damaged."""
    points = []
    for line in (folder / METRICS).read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            points.append(json.loads(line))
        except (ValueError, RecursionError):
            continue
    model = folder / "model" / "config.json"
    try:
        speeds = sorted(point["tokens_per_s"] for point in points if "tokens_per_s" in point)
        card = read_json(model, REMEDY).get("card", {}) if model.is_file() else {}
        speed = float(speeds[len(speeds) // 2]) if speeds else None
        return PretrainingRun(name, read_json(folder / SETTINGS, REMEDY), card, newest_perplexities(points), speed)
    except (TypeError, AttributeError, ValueError) as error:
        raise InputError(f"{folder}: not the metrics of elmo train ({error}); {REMEDY}") from error


def newest_perplexities(metrics: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the lines of `metrics.jsonl` with the newest held-out text; a resumed run may have had another one."""
    points = [point for point in metrics if point.get("carry_mean") is not None]  # null in a network that has diverged
    text = points[-1].get("measured_on") if points else None
    return [point for point in points if point.get("measured_on", text) == text]


def sections(runs: Sequence[PretrainingRun]) -> Iterator[Section]:
    """Yields one section, if there are runs."""
    if not runs:
        return
    head = ("run", "words read", "held-out text", "carried", "by sentence", "without unknown", "words a second", "date")
    note = (
        "Perplexity of the held-out text, mean of both directions, full softmax: with the LSTM state carried from"
        " sentence to sentence, and reset at each sentence. Without unknown words: state carried, only words in the"
        " vocabulary."
    )
    rows, curves, settings = [], list[Block](), list[Block]()
    for run in runs:
        try:
            rows.append(_cells(run))
            curves += [_curve(run)] if len(run.curve) > 1 else []
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"{run.name}: not the metrics and model of elmo train ({error!r}); {REMEDY}") from error
        lines = [*setting_lines(run.config), *setting_lines(run.card, "card.")]
        settings.append(Details(f"{run.name}: settings and card", (Code("\n".join(lines)),)))
    yield Section("Pretraining", (table(head, rows), Text(note), *curves, *settings))


def _cells(run: PretrainingRun) -> tuple[str, ...]:
    found = run.card.get("perplexity") or {}
    carry, reset = (found.get(policy) or {} for policy in ("carry", "reset"))
    words = run.card.get("words_read")
    numbers = (carry.get("mean"), reset.get("mean"), carry.get("mean_known"))
    return (
        run.name,
        f"{words:,}" if words else ABSENT,
        ", ".join(map(str, run.card.get("heldout") or [])),
        *(ABSENT if number is None else f"{number:,.2f}" for number in numbers),
        "" if run.words_a_second is None else f"{run.words_a_second:,.0f}",
        str(run.card.get("date", "")),
    )


def _curve(run: PretrainingRun) -> Figures:
    """Draws the perplexity against the words read, for both state policies."""
    words = [float(point.get("tokens", point["step"])) for point in run.curve]
    lines = [
        figures.Series(name, words, [float(point[f"{policy}_mean"]) for point in run.curve])
        for name, policy in (("state carried", "carry"), ("sentence by sentence", "reset"))
        if all(point.get(f"{policy}_mean") is not None for point in run.curve)
    ]
    last = ", ".join(f"{line.name} {line.y[-1]:.1f}" for line in lines)
    figure = Figure(
        slug(f"pretraining {run.name}"),
        f"Perplexity of {run.name} against words read; at {words[-1]:,.0f} words: {last}",
        lambda dark: figures.lines(lines, "words read", "perplexity", dark, y_scale="log"),
    )
    return Figures((figure,), f"{run.name}: perplexity of the held-out text while it was trained.")
