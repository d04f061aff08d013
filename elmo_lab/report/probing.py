"""Probes -> sections of a report: known probes get tables and figures, others a table of rows."""

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from elmo_lab import figures
from elmo_lab.probes import weights
from elmo_lab.report import commands, paper
from elmo_lab.report.collect import Probe, part_of
from elmo_lab.report.document import (
    ABSENT,
    Block,
    Code,
    Details,
    Figure,
    Figures,
    Heading,
    Section,
    Table,
    Text,
    slug,
    table,
)
from elmo_lab.tasks.table import counted

MOST_ROWS = 100
"""Most rows of a plain table; the probe's own file has all."""
TITLES = {
    "ablate": "Ablations",
    "efficiency": "Sample efficiency",
    "neighbors": "Nearest uses of a word, by layer (Table 4)",
    "pos": "Parts of speech, layer by layer",
    "senses": "Nearest neighbours' senses, layer by layer",
    "weights": "The layer weights that the tasks learned",
    "wsd": "Word senses, layer by layer",
}
ANALYSES = {
    "places": "Where ELMo is added (Table 3)",
    "layers": "Which layers are used (Table 2)",
    "gamma": "The scale of the mix (supplement A.2)",
    "types": "Static vectors and ELMo (Table 7)",
}
ARMS = {
    "input": "at the input",
    "output": "at the output",
    "both": "at both",
    "none": "no ELMo",
    "top": "top layer alone",
    "lambda-1": "all layers, lambda 1",
    "lambda-0.001": "all layers, lambda 0.001",
    "gamma-learned": "all layers, gamma learned",
    "gamma-1": "all layers, gamma 1",
    "top-gamma-learned": "top layer, gamma learned",
    "top-gamma-1": "top layer, gamma 1",
    "static": "static vectors alone",
    "layer-0": "ELMo's layer 0 alone",
    "elmo": "ELMo alone",
    "static-elmo": "static vectors and ELMo",
}
INTERVALS = "differences"
"""Of rows that are compared with others, for the claims."""
OTHER_DATA = "from other data and networks: only their order is comparable"
BY_LAYER = {"wsd": ("all", "F1"), "pos": ("test", "accuracy"), "senses": ("accuracy", "accuracy")}
"""For probes with one row per layer: the column to draw, and its meaning."""
NOTES = {
    "wsd": "The paper's numbers are from its Table 5: trained on SemCor, scored on the test sets of Raganato et al."
    " (2017) without SemEval-2007, with its own biLM. WordNet's first sense scores 65.9 there. `others` are the same"
    " four sets here; the layer is chosen on SemEval-2007.",
    "pos": "The paper's numbers are from its Table 6: linear classifiers on the Penn Treebank's Wall Street Journal. On"
    " other data, only the order of the layers is comparable.",
    "senses": "How often the nearest other occurrence of a word has the same sense. This probe is not in the paper.",
}


def column_of(probes: Sequence[Probe]) -> str:
    """The column to draw for a kind of probe with one row per layer; for `pos`, the data that all were scored on."""
    if probes[0].probe == "pos":
        return part_of(row for probe in probes for row in probe.rows)
    return BY_LAYER[probes[0].probe][0]


def sections(probes: Sequence[Probe]) -> Iterator[Section]:
    """One section per probe; titles include folders if there are several of a kind."""
    kinds = [probe.probe for probe in probes]
    for probe in probes:
        made = MADE.get(probe.probe, _rows)
        title = TITLES.get(probe.probe, f"Probe {probe.probe}")
        title += f": {probe.name}" if kinds.count(probe.probe) > 1 else ""
        model = commands.model_name(probe.record.get("bilm"))
        said = (Text(f"The biLM is {model}."),) if model else ()
        yield Section(title, (*made(probe), *said, _provenance(probe)))


def cell(value: Any) -> str:
    """A number or a word of a row."""
    if value is None:
        return ABSENT
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, float):
        return f"{value:.2f}" if abs(value) >= 1 or value == 0 else f"{value:.3f}"
    if isinstance(value, int):
        return f"{value:,}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def lines(values: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Settings as `section.key = value`, with JSON values, without folders of this machine."""
    found = []
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            found += lines(value, f"{prefix}{key}.")
        else:
            found.append(f"{prefix}{key} = {json.dumps(commands.shown(value), ensure_ascii=False)}")
    return found


def _provenance(probe: Probe) -> Details:
    """Command, settings, biLM and duration."""
    config = probe.record.get("config") or {}
    command = commands.of_probe(probe.probe, config, probe.name)
    blocks: list[Block] = [Text("To make it again:"), Code(command)] if command else []
    rest = {key: value for key, value in probe.record.items() if key != "machine"}
    blocks.append(Code("\n".join(lines(rest))))
    made = probe.record.get("machine", {}).get("date", "")
    return Details(f"{probe.name}: command, settings, biLM" + (f" ({made})" if made else ""), tuple(blocks))


def _ablations(probe: Probe) -> Iterator[Block]:
    """One table per analysis, the paper's numbers beside ours."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in probe.rows:
        found.setdefault(row["analysis"], []).append(row)
    head = ("task", "arm", "dev", "std", "difference", "test", "std", "difference", "seeds", "ended by", "paper's dev")
    for analysis, rows in found.items():
        yield Heading(ANALYSES.get(analysis, analysis))
        yield table(head, [_ablation(row, _seeds(probe, row)) for row in rows], groups=True)
    cut = sum("minutes" in row["stopped"] for row in probe.rows)
    limit = f" The time limit ended {cut} of {len(probe.rows)} arms." if cut else ""
    yield Text(f"Percent; differences are to the first arm of each table. The paper's numbers are {OTHER_DATA}.{limit}")


def _ablation(row: Mapping[str, Any], seeds: str) -> tuple[str, ...]:
    """An arm as a row of its analysis's table."""
    spread = [cell(row[f"{part}_std"]) if len(row["seeds"]) > 1 else "" for part in ("dev", "test")]
    numbers = [cell(row["dev"]), spread[0], signed(row["dev_difference"])]
    numbers += [] if row["test"] is None else [cell(row["test"]), spread[1], signed(row["test_difference"])]
    numbers += [""] * (6 - len(numbers))
    published = paper.cell(row["analysis"], row["task"], row["arm"])
    return (row["recipe"], ARMS.get(str(row["arm"]), str(row["arm"])), *numbers, seeds, ends(row["stopped"]), published)


def _seeds(probe: Probe, row: Mapping[str, Any]) -> str:
    return counted(len(row["seeds"]), len((probe.record.get("config") or {}).get("seeds") or ()))


def signed(value: float | None) -> str:
    """A difference; empty without a comparison."""
    return "" if value is None else f"{value:+.2f}"


def ends(stopped: Sequence[str]) -> str:
    """Why training ended, each reason once."""
    return ", ".join("time limit" if why == "minutes" else why for why in dict.fromkeys(stopped))


def _efficiency(probe: Probe) -> Iterator[Block]:
    """Figure 1: the score against the data and the updates, the answers and the table."""
    by_kind: dict[str, list[dict[str, Any]]] = {"score": [], "point": [], "answer": []}
    for row in probe.rows:
        by_kind.setdefault(row.get("kind", ""), []).append(row)
    said = {
        "updates": paper.cell("updates", "srl", form="{:.1f} %"),
        "baseline": paper.cell("data", "srl", form="{:.0f} %"),
    }
    answers = [
        (row["recipe"], row["text"], said.get(row["question"], "") if row["task"] == "srl" else "")
        for row in by_kind["answer"]
    ]
    if answers:
        yield table(("task", "what ELMo saves", "paper's"), answers, groups=True)
        yield Text(
            "Scores are interpolated linearly: between parts of the data in the part's logarithm, between epochs in the"
            f" updates. The paper's numbers are for semantic roles (section 5.4), {OTHER_DATA}."
        )
    recipes = list(dict.fromkeys(row["recipe"] for row in by_kind["score"]))
    for what, drawn in (("data", _by_data), ("updates", _by_updates)):
        kind = "score" if what == "data" else "point"
        made = [drawn(probe, recipe, [r for r in by_kind[kind] if r["recipe"] == recipe]) for recipe in recipes]
        captions = {"data": "the part of the training data", "updates": "the updates, on all of the data"}
        kept = tuple(figure for figure in made if figure is not None)
        if kept:
            yield Figures(kept, f"Figure 1: the score against {captions[what]}.")
    if not by_kind["score"]:
        return
    rows = [
        (
            row["recipe"], f"{100 * row['fraction']:g} %", cell(row["examples"]), _arm(row["arm"]), cell(row["dev"]),
            cell(row["test"]), _seeds(probe, row), cell(row["steps"]), ends(row["stopped"]),
        )
        for row in sorted(by_kind["score"], key=lambda row: (recipes.index(row["recipe"]), row["fraction"]))
    ]  # fmt: skip
    yield table(("task", "data", "examples", "arm", "dev", "test", "seeds", "updates", "ended by"), rows, groups=True)


def _arm(name: str) -> str:
    return {"none": "baseline", "elmo": "ELMo"}.get(name, name)


def _by_data(probe: Probe, recipe: str, rows: Sequence[Mapping[str, Any]]) -> Figure | None:
    """Scores by fraction of the data, with the spread over seeds."""
    part = part_of(rows)
    fractions = sorted({row["fraction"] for row in rows})
    if len(fractions) < 2:
        return None
    series = []
    for arm in dict.fromkeys(row["arm"] for row in rows):
        mine = sorted((row for row in rows if row["arm"] == arm), key=lambda row: row["fraction"])
        spread = _floats(mine, f"{part}_std") if any(len(row["seeds"]) > 1 for row in mine) else None
        series.append(figures.Series(_arm(arm), _floats(mine, "fraction"), _floats(mine, part), spread))
    ticks = {float(fraction): f"{100 * fraction:g} %" for fraction in fractions}
    metric = f"{part} {rows[0]['metric']}"
    alt = "; ".join(f"{s.name} " + ", ".join(f"{y:.1f}" for y in s.y) for s in series)
    return Figure(
        slug(f"{probe.name} {recipe} data"),
        f"{recipe}, {metric} with {', '.join(ticks.values())} of the data: {alt}",
        lambda dark: figures.lines(series, f"{recipe}: part of the data", metric, dark, ticks, "log"),
    )


def _by_updates(probe: Probe, recipe: str, rows: Sequence[Mapping[str, Any]]) -> Figure | None:
    """Scores after every epoch, one line per seed."""
    series = []
    for arm, seed in dict.fromkeys((row["arm"], row["seed"]) for row in rows):
        mine = sorted((row for row in rows if (row["arm"], row["seed"]) == (arm, seed)), key=lambda row: row["step"])
        several = len({row["seed"] for row in rows}) > 1
        name = f"{_arm(arm)}, seed {seed}" if several else _arm(arm)
        series.append(figures.Series(name, _floats(mine, "step"), _floats(mine, "dev"), dashed=arm == "none"))
    if not series:
        return None
    metric = f"dev {rows[0]['metric']}"
    alt = "; ".join(f"{s.name} best {max(s.y):.1f} of {len(s.y)} epochs" for s in series)
    return Figure(
        slug(f"{probe.name} {recipe} updates"),
        f"{recipe}, {metric} after every epoch: {alt}",
        lambda dark: figures.lines(series, f"{recipe}: updates", metric, dark),
    )


def _floats(rows: Sequence[Mapping[str, Any]], name: str) -> list[float]:
    return [float(row[name]) for row in rows]


def _weights(probe: Probe) -> Iterator[Block]:
    """Figure 2: the layer weights that the tasks learned, and the rows."""
    if probe.rows:
        means = weights.means(weight_rows(probe))
        tasks = ", ".join(dict.fromkeys(f"{row['task']} at the {row['place']}" for row in probe.rows))
        figure = Figure(
            slug(f"{probe.name} weights"),
            f"Weights of the biLM's layers in the mixes of {tasks}",
            lambda dark: figures.layer_weights(means, dark),
        )
        yield Figures((figure,), "Figure 2: the weight of every layer in the mixes that the tasks learned.")
    yield from _table(probe)


def weight_rows(probe: Probe) -> list[weights.Row]:
    """The rows of the probe `weights`, without additions of other versions."""
    names = [field.name for field in dataclasses.fields(weights.Row)]
    return [weights.Row(**{name: row[name] for name in names if name in row}) for row in probe.rows]


def _neighbors(probe: Probe) -> Iterator[Block]:
    """Table 4: every query, with its neighbours below."""
    for query in dict.fromkeys(row["query"] for row in probe.rows):
        mine = [row for row in probe.rows if row["query"] == query]
        yield Text(f"Nearest to: {query}")
        yield table(("layer", "rank", "cosine", "nearest", "published"), [_neighbor(row) for row in mine], groups=True)
    counts = [f"{count:,}" for count in dict.fromkeys(row["candidates"] for row in probe.rows) if count is not None]
    if counts:
        yield Text(
            f"The nearest of {' and '.join(counts)} candidates for every query, and the published neighbour with its"
            " rank (for the recipe's queries: from the paper's Table 4, found by its own biLM)."
        )


def _neighbor(row: Mapping[str, Any]) -> tuple[str, ...]:
    return (row["layer"], cell(row["rank"]), f"{row['similarity']:.3f}", row["neighbor"], cell(row["published"]))


def _rows(probe: Probe) -> Iterator[Block]:
    """Any probe: a figure if it has one row per layer, and its rows."""
    drawn = _by_layer(probe)
    if drawn is not None:
        yield drawn
    yield from _table(probe)
    if probe.probe in NOTES:
        yield Text(NOTES[probe.probe])


def _table(probe: Probe) -> Iterator[Block]:
    """The plain rows; numbers by name become columns, with the paper's beside them."""
    if not probe.rows:
        yield Text("No rows yet.")
        return
    flat = [_flat({key: value for key, value in row.items() if key != INTERVALS}) for row in probe.rows]
    names = list(dict.fromkeys(name for row in flat for name in row))
    same = [name for name in names[1:] if _is_same(flat, name)]  # the first column distinguishes the rows
    head = [name for name in names if name not in same]
    rows = [[cell(row[name]) if name in row else "" for name in head] for row in flat[:MOST_ROWS]]
    if probe.probe in ("wsd", "pos") and "layer" in head:
        head.append("paper's")
        for row in rows:
            row.append(paper.cell(probe.probe, arm=row[head.index("layer")]))
    yield table([_spoken(name) for name in head], rows)
    if same:
        yield Text(f"Of every row: {', '.join(f'{_spoken(name)} {cell(flat[0][name])}' for name in same)}.")
    if len(flat) > MOST_ROWS:
        yield Text(f"{len(flat) - MOST_ROWS:,} more rows are in {probe.name}/rows.jsonl.")


def _spoken(name: str) -> str:
    return name.replace("_", " ")


def _is_same(rows: Sequence[Mapping[str, Any]], name: str) -> bool:
    """Whether a column has the same count or word in several rows, so that it can be given once."""
    first, *others = (row.get(name) for row in rows)
    return bool(others) and isinstance(first, int | str) and bool(cell(first)) and all(each == first for each in others)


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row with its numbers by name, such as those of test sets, as separate columns."""
    found: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, Mapping):
            found |= {f"{name} {key}": each for key, each in value.items()}
        else:
            found[name] = value
    return found


def _by_layer(probe: Probe) -> Figures | None:
    """The scores of layers as a line, of mixes and baselines as dashed ones; None if unknown."""
    if probe.probe not in BY_LAYER:
        return None
    column, what = column_of([probe]), BY_LAYER[probe.probe][1]
    scores = {str(row["layer"]): float(row[column]) for row in probe.rows if row.get(column) is not None}
    layers = {name: score for name, score in scores.items() if name.isdecimal()}
    if len(layers) < 2:
        return None
    places = [float(name) for name in layers]
    series = [figures.Series("a layer", places, list(layers.values()))]
    ends = [min(places), max(places)]
    series += [
        figures.Series(name, ends, [score, score], dashed=True, marked=False)
        for name, score in scores.items()
        if name not in layers
    ]
    shown: Table = table(("layer", what), [(name, cell(score)) for name, score in scores.items()])
    figure = Figure(
        slug(f"{probe.name} layers"),
        f"{what} by layer: " + ", ".join(" ".join(row) for row in shown.rows),
        lambda dark: figures.lines(series, "layer", what, dark, {place: f"{place:g}" for place in places}),
    )
    return Figures((figure,), f"{probe.name}: {what} of every layer.")


MADE: dict[str, Callable[[Probe], Iterator[Block]]] = {
    "ablate": _ablations,
    "efficiency": _efficiency,
    "neighbors": _neighbors,
    "weights": _weights,
}
"""The sections, by probe, that are more than a table of rows."""
