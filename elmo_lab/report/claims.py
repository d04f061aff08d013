"""Results -> which claims of the paper hold here, each with the numbers that decide it."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from elmo import config as configs
from elmo_lab import RECIPES
from elmo_lab.probes import weights
from elmo_lab.probes.wsd import BASELINE
from elmo_lab.report import alike, probing
from elmo_lab.report.collect import Comparison, Probe, Results, TaskRun, part_of
from elmo_lab.report.document import Section, Text, table
from elmo_lab.tasks import task as tasks

HOLDS, FAILS, OPEN = "holds", "does not hold", "undecided"
NOTE = (
    "A claim holds if the claimed difference exceeds the sum of both sides' standard deviations over the seeds. It does"
    " not hold if the opposite difference does; otherwise it is undecided. One seed has no deviation and decides"
    " nothing: the difference is given instead. Ablations are scored on development data, as in the paper. Arms and"
    " layers are chosen on development data; an oracle is chosen on the test data itself. A claim of layers on the same"
    " sentences holds if the 95 % interval of the difference, over draws of the sentences, is above zero."
)
PLACES = {"snli": "both", "squad": "both", "srl": "input"}
"""The best place for ELMo in the paper (Table 3)."""
ABLATIONS = (
    ("layers", "lambda-0.001", "top", "All layers are better than the top layer alone", "Table 2"),
    ("layers", "lambda-0.001", "lambda-1", "A weak pull towards equal weights is better than a strong one", "Table 2"),
    ("gamma", "top-gamma-learned", "top-gamma-1", "A learned gamma helps the top layer alone", "supplement A.2"),
    ("types", "elmo", "static", "ELMo alone is better than static vectors alone", "Table 7"),
    ("types", "elmo", "layer-0", "Context helps: all layers are better than layer 0", "Table 7"),
    ("types", "static-elmo", "elmo", "Static vectors beside ELMo still help", "Table 7"),
)
"""By analysis: the arm that is better in the paper, and the other one."""

Row = tuple[str, ...]
"""Claim, verdict, numbers, place in the paper; the table also has the result's name."""

Decide = Callable[[Probe], Iterator[Row]]


@dataclass(frozen=True)
class Score:
    """A number with its deviation and seeds."""

    value: float
    std: float = 0.0
    seeds: int = 0
    """0 if it does not depend on chance."""

    def __str__(self) -> str:
        return f"{self.value:.2f}" + (f" ± {self.std:.2f}" if self.seeds > 1 else "")


def section(results: Results) -> Iterator[Section]:
    """One section, if any claim can be decided."""
    rows = [
        *_tasks(results.comparisons),
        *_of("wsd", _senses, results, latest=True),
        *_of("pos", _tags, results, latest=True),
        *_of("neighbors", _neighbors, results),
        *_of("ablate", _ablations, results),
        *_of("efficiency", _efficiency, results),
        *_of("weights", _weights, results),
    ]
    if rows:
        head = ("claim", "here", "numbers", "in the paper", "result")
        yield Section("The paper's claims here", (table(head, rows), Text(NOTE)))


def verdict(better: Score, worse: Score) -> str:
    """Whether the arm that should be better is; for one seed, by how much."""
    difference, spread = better.value - worse.value, better.std + worse.std
    if 1 in (better.seeds, worse.seeds):
        return f"one seed: {difference:+.2f}"
    return HOLDS if difference > spread else FAILS if -difference > spread else OPEN


def _compared(
    claim: str,
    source: str,
    rows: Mapping[str, Mapping[str, Any]],
    better: str,
    worse: str,
    column: str,
    how: str = "",
) -> Row:
    """The claim that one layer is better than another on the same sentences, by the interval of their difference.

    `how` says how the better one was chosen.
    """
    found = (rows[better].get(probing.INTERVALS) or {}).get(worse)
    values = [f"{better}{how}: {rows[better][column]:.2f}", f"{worse}: {rows[worse][column]:.2f}"]
    if found is None:  # a record of before
        return (claim, f"no interval: {rows[better][column] - rows[worse][column]:+.2f}", ", ".join(values), source)
    difference, low, high = found
    said = HOLDS if low > 0 else FAILS if high < 0 else OPEN
    return (claim, said, f"{', '.join(values)}, difference {difference:+.2f} ({low:+.2f} to {high:+.2f})", source)


def _row(claim: str, source: str, better: tuple[str, Score], worse: tuple[str, Score]) -> Row:
    counts = list(dict.fromkeys((better[1].seeds, worse[1].seeds)))
    seeds = f", seeds: {' and '.join(map(str, counts))}" if any(counts) else ""
    numbers = f"{better[0]} {better[1]}, {worse[0]} {worse[1]}{seeds}"
    return (claim, verdict(better[1], worse[1]), numbers, source)


def _tasks(comparisons: Sequence[Comparison]) -> Iterator[Row]:
    for each in comparisons:
        best = each.best_with_elmo()
        if best is not None:
            pair = _scored(each, best), _scored(each, each.runs[0])
            yield (*_row(f"ELMo improves {each.title}", "Table 1", *pair), each.name)
        tuned = each.best_with_elmo(fine_tuned=True)
        given = tuned and each.before_tuning(tuned)
        if given is not None and tuned is not None:
            pair = _scored(each, tuned), _scored(each, given)
            yield (*_row(f"Fine-tuning the biLM improves {each.title}", "section 3.4", *pair), each.name)


def _scored(comparison: Comparison, run: TaskRun) -> tuple[str, Score]:
    return run.folder.name, Score(*comparison.score(run), len(run.results))


def _of(kind: str, decide: Decide, results: Results, latest: bool = False) -> Iterator[Row]:
    """The claims that probes of biLMs decide, by kind; `latest`: only for the models that have read the most."""
    probes = [probe for probe in results.probes if probe.probe == kind and alike.has_bilm(probe)]
    for probe in _latest(probes) if latest else probes:
        yield from ((*row, probe.name) for row in decide(probe))


def _latest(probes: Sequence[Probe]) -> Iterator[Probe]:
    """For every state policy, the largest group's probe of the model that has read the most.

    Fine-tuned models only if there are no others.
    """
    for state in dict.fromkeys(map(alike.state, probes)):
        asked = [probe for probe in probes if alike.state(probe) == state]
        groups = alike.groups(alike.pretrained(asked) or asked)
        yield max(groups[0], key=alike.words_read)


def _how(probe: Probe) -> str:
    """The state policy, if it is not the usual one."""
    return "" if alike.state(probe) == alike.USUAL_STATE else f" (state {alike.state(probe)})"


def _senses(probe: Probe) -> Iterator[Row]:
    how, rows = _how(probe), {str(row["layer"]): row for row in probe.rows}
    column = "others" if all("others" in row for row in probe.rows) else "all"
    layers = [name for name in rows if name.isdecimal()]
    if {"1", "2"} <= set(layers):
        yield _compared(f"Layer 2 knows senses better than layer 1{how}", "Table 5", rows, "2", "1", column)
    if layers and BASELINE in rows:
        chosen = next((str(row["layer"]) for row in probe.rows if row.get("chosen")), None)
        best = chosen or max(layers, key=lambda name: rows[name][column])
        claim = f"The best layer is above the most frequent sense{how}"
        by = " (chosen)" if chosen else " (oracle)"
        yield _compared(claim, "Table 5", rows, best, BASELINE, column, by)


def _tags(probe: Probe) -> Iterator[Row]:
    part = part_of(probe.rows)
    rows = {str(row["layer"]): row for row in probe.rows if row.get(part) is not None}
    if {"1", "2"} <= set(rows):
        yield _compared("Layer 1 knows parts of speech better than layer 2", "Table 6", rows, "1", "2", part)


def _neighbors(probe: Probe) -> Iterator[Row]:
    """For the paper's own queries: whether its neighbours are the nearest here."""
    queries = configs.load_toml(RECIPES / "probes" / "neighbors.toml")["queries"]
    rows = [row for row in probe.rows if row["layer"].isdecimal()]
    if not rows or (probe.record.get("config") or {}).get("queries") != queries:
        return
    top = max((row["layer"] for row in rows), key=int)
    ranks = [row["rank"] for row in rows if row["layer"] == top and row["published"]]
    if ranks:
        claim, found = f"The paper's neighbours are the nearest{_how(probe)}", ranks == [1] * len(queries)
        said = [*map(str, ranks), *["not found"] * (len(queries) - len(ranks))]
        numbers = f"{' and '.join(said)} of {probing.cell(rows[0]['candidates'])} at layer {top}"
        yield (claim, HOLDS if found else FAILS, numbers, "Table 4")


def _ablations(probe: Probe) -> Iterator[Row]:
    found: dict[tuple[str, str, str], dict[str, Score]] = {}
    for row in probe.rows:
        if row["analysis"] != "places" and row.get("place", "input") not in ("none", tasks.PLACES.get(row["task"])):
            continue  # the paper says nothing of ELMo at this place
        key = (row["recipe"], row["task"], row["analysis"])
        found.setdefault(key, {})[row["arm"]] = Score(row["dev"], row["dev_std"], len(row["seeds"]))
    for (recipe, task, analysis), scores in found.items():
        for kind, better, worse, claim, source in ABLATIONS:
            if kind == analysis and {better, worse} <= set(scores):
                yield _row(f"{claim}: {recipe}", source, (better, scores[better]), (worse, scores[worse]))
        best = PLACES.get(task, "")
        if analysis == "places" and best and scores.keys() == {"input", "output", "both"}:
            other = max((arm for arm in scores if arm != best), key=lambda arm: scores[arm].value)
            claim = f"ELMo is best at {'both places' if best == 'both' else 'the ' + best}: {recipe}"
            yield _row(claim, "Table 3", (best, scores[best]), (other, scores[other]))


def _efficiency(probe: Probe) -> Iterator[Row]:
    scores = [row for row in probe.rows if row.get("kind") == "score"]
    for recipe in dict.fromkeys(row["recipe"] for row in scores):
        mine = [row for row in scores if row["recipe"] == recipe]
        gains = _gains(mine)
        if len(gains) > 1:
            few, many = min(gains), max(gains)
            claim = f"ELMo helps more with fewer examples: {recipe}"
            names = (f"gain with {100 * part:g} %" for part in (few, many))
            yield _row(claim, "section 5.4", (next(names), gains[few]), (next(names), gains[many]))
    for row in probe.rows:
        if row.get("kind") == "answer" and row["question"] == "updates":
            seeds = max((len(one["seeds"]) for one in scores if one["recipe"] == row["recipe"]), default=1)
            yield (f"ELMo needs fewer updates: {row['recipe']}", _sooner(row, seeds), row["text"], "section 5.4")


def _sooner(row: Mapping[str, Any], seeds: int) -> str:
    """Whether ELMo needs fewer updates, with every seed; `seeds` is for records that do not give their number.

    Such a record does not say either with how many seeds ELMo was sooner, so it decides only for one seed.
    """
    value, seeds = row["value"], row.get("seeds") or seeds
    if seeds == 1:
        limit = "at most " if row["at_most"] else ""
        return "one seed: not reached" if value is None else f"one seed: {limit}{100 * value:.0f} %"
    if value is None:
        return FAILS
    return HOLDS if row.get("sooner") == seeds else OPEN


def _gains(rows: Sequence[Mapping[str, Any]]) -> dict[float, Score]:
    """The gain from ELMo, by fraction of the data; an arm with one seed decides nothing."""
    part = part_of(rows)
    arms: dict[float, dict[str, Mapping[str, Any]]] = {}
    for row in rows:
        arms.setdefault(row["fraction"], {})[row["arm"]] = row
    return {
        fraction: Score(
            found["elmo"][part] - found["none"][part],
            math.hypot(found["elmo"][f"{part}_std"], found["none"][f"{part}_std"]),
            min(len(found[arm]["seeds"]) for arm in ("elmo", "none")),
        )
        for fraction, found in arms.items()
        if {"elmo", "none"} <= set(found)
    }


def _weights(probe: Probe) -> Iterator[Row]:
    found: dict[str, dict[int, Score]] = {}
    rows = [row for row in probing.weight_rows(probe) if row.encoder == weights.BILM]
    for mean in weights.means(rows):
        if mean.place == "input":
            found.setdefault(mean.run, {})[mean.layer] = Score(mean.weight, mean.weight_std, mean.seeds)
    for run, layers in found.items():
        if len(layers) > 2 and 1 in layers:
            other = max((layer for layer in layers if layer != 1), key=lambda layer: layers[layer].value)
            claim = f"Layer 1 has the largest weight at the input: {run}"
            yield _row(claim, "Figure 2", ("1:", layers[1]), (f"{other}:", layers[other]))
