"""Judges which claims of the paper hold here. Each has its numbers, an interval and a verdict."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from elmo import config as configs
from elmo_lab import RECIPES
from elmo_lab.probes.blocks import part_of
from elmo_lab.probes.weights import MeanWeightRow
from elmo_lab.probes.wsd import BASELINE
from elmo_lab.report.arms import Arm, MeanScore
from elmo_lab.tasks import task as tasks
from results.runs import Comparison
from results.tables import Run

HOLDS, FAILS, OPEN = "holds", "does not hold", "undecided"
NOTE = (
    "A claim holds if its interval is above zero, does not hold if it is below, and is undecided otherwise. Of arms,"
    " the interval is the difference, less and plus the standard deviations of both sides over their seeds; one seed"
    " has none and decides nothing. Of layers, it is the 95 % bootstrap interval over draws of the test sentences;"
    " records made before 2026-11-28 have none. Ablations are scored on development data, as in the paper. Arms and"
    " layers are chosen on development data."
)
PLACES = {"snli": "both", "squad": "both", "srl": "input"}
"""The best place for ELMo in Table 3 of the paper."""
ABLATIONS = (
    ("layers", "lambda-0.001", "top", "All layers are better than the top layer alone", "Table 2"),
    ("layers", "lambda-0.001", "lambda-1", "A weak pull towards equal weights is better than a strong one", "Table 2"),
    ("gamma", "top-gamma-learned", "top-gamma-1", "A learned gamma helps the top layer alone", "A.2"),
    ("types", "elmo", "static", "ELMo alone is better than static vectors alone", "Table 7"),
    ("types", "elmo", "layer-0", "Context helps: all layers are better than layer 0", "Table 7"),
    ("types", "static-elmo", "elmo", "Static vectors beside ELMo still help", "Table 7"),
)
"""The claims about ablations: analysis, the arm that is better in the paper, the other arm, claim, and source."""


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, and what decides it here."""

    text: str
    source: str
    """The place in the paper."""
    better: str
    """The name and score of what the paper found better."""
    worse: str
    """The name and score of what the paper found worse."""
    difference: float | None = None
    interval: tuple[float, float] | None = None
    verdict: str = ""

    @property
    def cells(self) -> tuple[str, ...]:
        """The claim as a row of the table."""
        interval = "" if self.interval is None else "{:+.2f} to {:+.2f}".format(*self.interval)
        difference = "" if self.difference is None else f"{self.difference:+.2f}"
        return self.text, self.verdict, self.better, self.worse, difference, interval, self.source


HEAD = ("claim", "here", "better in the paper", "than", "difference", "interval", "paper")


def of_arms(text: str, source: str, better: tuple[str, MeanScore], worse: tuple[str, MeanScore]) -> Claim:
    """Judges a claim about means over seeds."""
    (name, one), (other_name, other) = better, worse
    difference, spread = one.value - other.value, one.std + other.std
    seeds = min(one.seeds, other.seeds)
    interval = None if seeds == 1 else (difference - spread, difference + spread)
    verdict = "one seed" if interval is None else _verdict(interval)
    return Claim(text, source, f"{name} {one}", f"{other_name} {other}", difference, interval, verdict)


def _verdict(interval: tuple[float, float]) -> str:
    low, high = interval
    return HOLDS if low > 0 else FAILS if high < 0 else OPEN


def of_layers(text: str, source: str, rows: Mapping[str, Any], better: str, worse: str, column: str) -> Claim:
    """Judges a claim about layers on the same sentences, by the interval of their difference."""
    one, other = rows[better][column], rows[worse][column]
    found = (rows[better].get("differences") or {}).get(worse)
    names = f"{better}: {one:.2f}", f"{worse}: {other:.2f}"
    if found is None:
        return Claim(text, source, *names, one - other, None, "no interval")
    return Claim(text, source, *names, found[0], (found[1], found[2]), _verdict((found[1], found[2])))


def of_task(title: str, compared: Comparison) -> Iterator[Claim]:
    """Judges whether ELMo improves a task, and whether fine-tuning its biLM does."""
    if (best := compared.best()) is not None and compared.arms[0].place == "none":
        yield of_arms(f"ELMo improves {title}", "Table 1", _scored(compared, best), _scored(compared, compared.arms[0]))
    tuned = compared.best(fine_tuned=True)
    given = None if tuned is None else compared.before_tuning(tuned)
    if tuned is not None and given is not None:
        pair = _scored(compared, tuned), _scored(compared, given)
        yield of_arms(f"Fine-tuning the biLM improves {title}", "section 3.4", *pair)


def _scored(compared: Comparison, arm: Arm) -> tuple[str, MeanScore]:
    return arm.name, compared.score(arm)


def of_senses(run: Run) -> Iterator[Claim]:
    """Judges the claims of Table 5, on word senses."""
    state = run["settings"].get("state") or "reset"
    how = "" if state == "reset" else f" (state {state})"
    rows = {str(row["layer"]): row for row in run["rows"]}
    column = "others" if all("others" in row for row in run["rows"]) else "all"
    yield of_layers(f"Layer 2 knows senses better than layer 1{how}", "Table 5", rows, "2", "1", column)
    layers = [name for name in rows if name.isdecimal()]
    chosen = next((str(row["layer"]) for row in run["rows"] if row.get("chosen")), None)
    best = chosen or max(layers, key=lambda name: rows[name][column])
    claim = f"The chosen layer is above the most frequent sense{how}"
    yield of_layers(claim, "Table 5", rows, best, BASELINE, column)


def of_tags(run: Run) -> Iterator[Claim]:
    """Judges the claim of Table 6, on parts of speech."""
    rows = {str(row["layer"]): row for row in run["rows"]}
    claim = "Layer 1 knows parts of speech better than layer 2"
    yield of_layers(claim, "Table 6", rows, "1", "2", part_of(run["rows"]))


def of_neighbors(run: Run) -> Iterator[Claim]:
    """Judges Table 4: whether the neighbours that the paper found are the nearest here, too."""
    queries = configs.load_toml(RECIPES / "probes" / "neighbors.toml")["queries"]
    rows = [row for row in run["rows"] if row["layer"].isdecimal()]
    top = max((row["layer"] for row in rows), key=int)
    ranks = [row["rank"] for row in rows if row["layer"] == top and row["published"]]
    said = [*map(str, ranks), *["not found"] * (len(queries) - len(ranks))]
    state = run["settings"].get("state") or "reset"
    yield Claim(
        "The paper's neighbours are the nearest" + ("" if state == "reset" else f" (state {state})"),
        "Table 4",
        f"ranks {' and '.join(said)} of {rows[0]['candidates']} at layer {top}",
        "",
        verdict=HOLDS if ranks == [1] * len(queries) else FAILS,
    )


def of_ablations(rows: Sequence[Mapping[str, Any]]) -> Iterator[Claim]:
    """Judges Tables 2, 3 and 7. Runs with ELMo at a place that the paper does not use for the task decide nothing."""
    found: dict[tuple[str, str, str], dict[str, MeanScore]] = {}
    for row in rows:
        place = row.get("place") or "input"
        if row["analysis"] == "places" or place in ("none", tasks.find(row["task"]).place):
            score = MeanScore(row["dev"], row["dev_std"], len(row["seeds"]))
            found.setdefault((row["recipe"], row["task"], row["analysis"]), {})[row["arm"]] = score
    for (recipe, task, analysis), scores in found.items():
        for kind, better, worse, claim, source in ABLATIONS:
            if kind == analysis and {better, worse} <= set(scores):
                yield of_arms(f"{claim}: {recipe}", source, (better, scores[better]), (worse, scores[worse]))
        best = PLACES.get(task, "")
        if analysis == "places" and best and scores.keys() == {"input", "output", "both"}:
            other = max((arm for arm in scores if arm != best), key=lambda arm: scores[arm].value)
            claim = f"ELMo is best at {'both places' if best == 'both' else 'the ' + best}: {recipe}"
            yield of_arms(claim, "Table 3", (best, scores[best]), (other, scores[other]))


def of_efficiency(rows: Sequence[Mapping[str, Any]]) -> Iterator[Claim]:
    """Judges the claims of section 5.4, on sample efficiency."""
    scores = [row for row in rows if row["kind"] == "score"]
    for recipe in dict.fromkeys(row["recipe"] for row in scores):
        gains = _gains([row for row in scores if row["recipe"] == recipe])
        if len(gains) > 1:
            few, many = ((f"gain with {100 * part:g} %", gains[part]) for part in (min(gains), max(gains)))
            yield of_arms(f"ELMo helps more with fewer examples: {recipe}", "section 5.4", few, many)
    for row in rows:
        if row["kind"] == "answer" and row["question"] == "updates":
            seeds = row.get("seeds") or max(len(one["seeds"]) for one in scores if one["recipe"] == row["recipe"])
            sooner = HOLDS if row.get("sooner") == seeds else FAILS if row["value"] is None else OPEN
            verdict = "one seed" if seeds == 1 else sooner
            yield Claim(f"ELMo needs fewer updates: {row['recipe']}", "section 5.4", row["text"], "", verdict=verdict)


def _gains(rows: Sequence[Mapping[str, Any]]) -> dict[float, MeanScore]:
    """Returns the gain from ELMo by fraction of the data."""
    part = part_of(rows)
    arms: dict[float, dict[str, Mapping[str, Any]]] = {}
    for row in rows:
        arms.setdefault(row["fraction"], {})[row["arm"]] = row
    return {
        fraction: MeanScore(
            found["elmo"][part] - found["none"][part],
            math.hypot(found["elmo"][f"{part}_std"], found["none"][f"{part}_std"]),
            min(len(found[arm]["seeds"]) for arm in ("elmo", "none")),
        )
        for fraction, found in arms.items()
        if {"elmo", "none"} <= set(found)
    }


def of_weights(means: Iterable[MeanWeightRow]) -> Claim | None:
    """Judges Figure 2: in how many arms layer 1 has the largest weight at the input."""
    found: dict[str, dict[int, MeanScore]] = {}
    for mean in means:
        if mean.place == "input":
            found.setdefault(mean.run, {})[mean.layer] = MeanScore(mean.weight, mean.weight_std, mean.seeds)
    verdicts = []
    for layers in found.values():
        other = max((layer for layer in layers if layer != 1), key=lambda layer: layers[layer].value)
        verdicts.append(of_arms("", "", ("", layers[1]), ("", layers[other])).verdict)
    if not verdicts:
        return None
    said = ", ".join(f"{verdict} in {verdicts.count(verdict)}" for verdict in dict.fromkeys(verdicts))
    verdict = verdicts[0] if len(set(verdicts)) == 1 else OPEN
    claim = "Layer 1 has the largest weight at the input"
    return Claim(claim, "Figure 2", f"of {len(verdicts)} arms: {said}", "", verdict=verdict)
