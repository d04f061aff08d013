"""Results -> the sections of a report: tasks, pretraining, perplexities, ensembles, machines; `probing` has probes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import PurePath
from typing import Any

from elmo_lab import figures
from elmo_lab.report import claims, commands, growth, paper, probing
from elmo_lab.report.collect import Comparison, Pretraining, Results, Scored, TaskRun, began_from, is_fine_tuned, spread
from elmo_lab.report.document import (
    ABSENT,
    Block,
    Code,
    Details,
    Document,
    Figure,
    Figures,
    Section,
    Table,
    Text,
    slug,
    table,
)
from elmo_lab.tasks.table import counted, error_reduction, percent

TASKS_NOTE = (
    "Mean and standard deviation over the seeds, in percent. ELMo is at the place that scores best on development data,"
    " with each biLM. Error reduction is the difference as a share of the first arm's errors (100 minus its score). The"
    " paper's are those of its Table 1, with other data, networks and biLM: they only show the range to expect."
)


def document(results: Results, title: str) -> Document:
    """The whole report."""
    found = [
        *_comparisons(results.comparisons),
        *_elsewhere(results.comparisons),
        *_runs(results.runs),
        *probing.sections(results.probes),
        *growth.sections(results.probes),
        *_pretrainings(results.pretrainings),
        *_perplexities(results.perplexities),
        *_evaluations(results.evaluations),
        *_machines(results),
    ]
    counts = {
        "comparison": len(results.comparisons),
        "single run": len(results.runs),
        "probe": len(results.probes),
        "pretraining": len(results.pretrainings),
        "perplexity": len(results.perplexities),
        "evaluation": len(results.evaluations),
    }
    said = ", ".join(f"{n} {_plural(what, n)}" for what, n in counts.items() if n)
    intro = Text(
        f"Written by elmo report from folders of results: {said}. Every number is read from a file that an elmo command"
        " wrote. Settings and commands are folded below each table. Absolute paths are shortened to their last part."
    )
    return Document(title, (intro,), (*_glance(results.comparisons), *claims.section(results), *found))


def _plural(what: str, number: int) -> str:
    if number == 1:
        return what
    return what[:-1] + "ies" if what.endswith("y") else what + "s"


def _glance(comparisons: Sequence[Comparison]) -> Iterator[Section]:
    """One figure and one table: each task without ELMo, with it and, where there is one, with a fine-tuned biLM."""
    shown = [each for each in comparisons if each.with_elmo()]
    if not shown:
        return
    rows, gains = [], []
    is_tuned = any(run.is_fine_tuned for each in shown for run in each.with_elmo())
    best = [[each.best_with_elmo(fine_tuned) for fine_tuned in (False, True)] for each in shown]
    names = [_bilms(given, tuned) for given, tuned in best]
    is_mixed = len(set(names)) > 1
    for each, (given, tuned), name in zip(shown, best, names, strict=True):
        baseline = each.runs[0]
        cells = [*_gained(each, given), *(_gained(each, tuned) if is_tuned else ())]
        published = paper.cell("error reduction", baseline.task, form="{:+.1f} %")
        score = f"{each.part} {baseline.metric}"
        rows.append((each.title, score, _glanced(each, baseline), *cells, published, name if is_mixed else ""))
        means = [each.score(run)[0] if run else None for run in (given, tuned)]
        gains.append(figures.Gain(each.title, each.score(baseline)[0], *means))
    drawing = Figure(
        "tasks",
        f"Scores without and with ELMo{', and with a fine-tuned biLM' if is_tuned else ''}: "
        + "; ".join(f"{gain.name} {', '.join(f'{score:.1f}' for score in gain.scores)}" for gain in gains),
        lambda dark: figures.gains(gains, "score, percent", dark),
    )
    head = ("task", "score", "without ELMo", "with ELMo", "error reduction")
    head += ("fine-tuned biLM", "error reduction") if is_tuned else ()
    said = "" if is_mixed else f"; the biLM is {names[0]}"
    figure = Figures((drawing,), f"Each task without ELMo and with it{said}.")
    note = f"{_static_vectors(each.runs[0] for each in shown)} {TASKS_NOTE}"
    yield Section("At a glance", (figure, table((*head, "paper's", "biLM"), rows), Text(note)))


def _static_vectors(baselines: Iterable[TaskRun]) -> str:
    """What the networks know of words without ELMo."""
    inputs = [run.config["inputs"] for run in baselines]
    files = {PurePath(each["vectors"]).name for each in inputs if each.get("static", True) and each.get("vectors")}
    if not files:
        return "The static vectors of words are learned with each network."
    return f"The static vectors of words, without and with ELMo, are those of {' and '.join(sorted(files))}."


def _bilms(given: TaskRun | None, tuned: TaskRun | None) -> str:
    """The name of the biLM as it is, and of what the fine-tuned one began with if that is another."""
    if given is None or tuned is None or began_from(tuned.bilm, given.bilm):
        return _bilm(given or tuned)
    return f"{_bilm(given)}; fine-tuned: {_bilm(tuned)}"


def _bilm(run: TaskRun | None) -> str:
    """The name of a run's biLM; if that is a fine-tuned one, of what it began with."""
    found = run.bilm if run else {}
    return commands.model_name(found["init_from"] if is_fine_tuned(found) else found) or ABSENT


def _gained(comparison: Comparison, run: TaskRun | None) -> tuple[str, str]:
    """The score with ELMo and its error reduction; empty without a run."""
    if run is None:
        return "", ""
    before, after = (comparison.score(each)[0] for each in (comparison.runs[0], run))
    return _glanced(comparison, run), percent(error_reduction(after, before))


def _glanced(comparison: Comparison, run: TaskRun) -> str:
    mean, std = comparison.score(run)
    return f"{mean:.1f} ± {std:.1f}" if len(run.results) > 1 else f"{mean:.1f}"


def _comparisons(comparisons: Sequence[Comparison]) -> Iterator[Section]:
    if not comparisons:
        return
    rows: list[tuple[str, ...]] = []
    for each in comparisons:
        rows += _arms(each)
    head = (
        "task",
        "arm",
        "score",
        "mean",
        "std",
        "seeds",
        "difference",
        "error reduction",
        "paper's",
        "minutes a seed",
    )
    blocks: list[Block] = [table(head, rows, groups=True)]
    blocks += [_provenance(each.title, each.runs) for each in comparisons]
    yield Section("Tasks with and without ELMo", tuple(blocks))


def _arms(comparison: Comparison) -> Iterator[tuple[str, ...]]:
    """The rows of a comparison."""
    part = comparison.part
    baseline = comparison.score(comparison.runs[0])[0] if comparison.has_baseline else None
    for run in comparison.runs:
        score = comparison.score(run)
        is_compared = comparison.has_baseline and run is not comparison.runs[0]
        gain = _gain(score[0], baseline if is_compared else None)
        is_published = is_compared and run.has_elmo and comparison.runs[0].elmo == "none"
        published = paper.cell("error reduction", run.task, form="{:+.1f} %") if is_published else ""
        yield (
            comparison.title, run.folder.name, f"{part} {run.metric}", f"{score[0]:.2f}", _std(score[1], run.results),
            _seeds(run), *gain, published, f"{_minutes(run):.1f}",
        )  # fmt: skip
        if run.ensemble is not None and part in run.ensemble:
            what = f"{run.folder.name}, {run.ensemble['members']} joined", f"{part} {run.metric}"
            yield (comparison.title, *what, f"{run.ensemble[part][run.metric]:.2f}", *[""] * 6)


def _elsewhere(comparisons: Sequence[Comparison]) -> Iterator[Section]:
    """The same networks on other test data, beside their own."""
    rows: list[tuple[str, ...]] = []
    for each in comparisons:
        names = [name for name in each.runs[0].elsewhere if all(name in run.elsewhere for run in each.runs)]
        for name in ("", *names) if names else ():
            found = [(run, run.elsewhere[name] if name else run.scores(each.part)) for run in each.runs]
            baseline = spread(found[0][1])[0] if each.has_baseline else None
            for run, scores in found:
                mean, std = spread(scores)
                gain = _gain(mean, baseline if run is not each.runs[0] else None)
                what = (each.title, name or f"{each.part}, its own", run.folder.name, run.metric)
                rows.append((*what, f"{mean:.2f}", _std(std, scores), str(len(scores)), *gain))
    if rows:
        head = ("task", "scored on", "arm", "score", "mean", "std", "seeds", "difference", "error reduction")
        note = "The networks of the table above, chosen on their own dev, on test data of other domains."
        yield Section("Other test data", (table(head, rows, groups=True), Text(note)))


def _gain(score: float, baseline: float | None) -> tuple[str, str]:
    """Difference and error reduction; empty without a baseline."""
    if baseline is None:
        return "", ""
    return f"{score - baseline:+.2f}", percent(error_reduction(score, baseline))


def _std(std: float, seeds: Sequence[Any]) -> str:
    return f"{std:.2f}" if len(seeds) > 1 else ABSENT


def _seeds(run: TaskRun) -> str:
    return counted(len(run.results), run.wanted)


def _minutes(run: TaskRun) -> float:
    return sum(result["seconds"] for result in run.results) / 60 / len(run.results)


def _runs(runs: Sequence[TaskRun]) -> Iterator[Section]:
    if not runs:
        return
    rows = []
    for run in runs:
        for part in ("dev", "test"):
            score = run.score(part)
            if score is not None:
                numbers = (f"{part} {run.metric}", f"{score[0]:.2f}", _std(score[1], run.results), _seeds(run))
                rows.append((run.name, run.task, run.elmo, *numbers, f"{_minutes(run):.1f}"))
    head = ("run", "task", "ELMo at", "score", "mean", "std", "seeds", "minutes a seed")
    blocks = [table(head, rows, groups=True), *(_provenance(run.name, [run]) for run in runs)]
    yield Section("Single runs of tasks", tuple(blocks))


def _provenance(title: str, runs: Sequence[TaskRun]) -> Details:
    """Everything that these runs' numbers depend on."""
    blocks: list[Block] = [_by_seed(runs)]
    for run in runs:
        if run.tried:
            scores = ", ".join(f"{trial} {score:.2f}" for trial, score in run.tried)
            blocks.append(Text(f"{run.name} is the best of {len(run.tried)} on dev, by the first seed: {scores}."))
    known = [commands.of_task(run.config, _seed_numbers(run), run.name) for run in runs]
    if any(known):
        blocks += [Text("To make it again:"), Code("\n".join(command for command in known if command))]
    version = f", version {runs[0].version}" if runs[0].version else ""
    blocks += [Text(f"Settings of {runs[0].name} (task {runs[0].task}{version}):"), settings(runs[0].config)]
    for run in runs[1:]:
        blocks += [Text(f"What is different in {run.name}:"), settings(run.config, runs[0].config)]
    return Details(f"{title}: seeds, commands, settings", tuple(blocks))


def _by_seed(runs: Sequence[TaskRun]) -> Table:
    """One row per seed: all scores, the course of training, the biLM, the machine."""
    names = list(dict.fromkeys(name for run in runs for result in run.results for name in result["dev"]))
    head = ["run", "seed"]
    head += [f"{part} {name}" for part in ("dev", "test") for name in names]
    head += ["epochs", "best epoch", "updates", "ended by", "parameters", "biLM", "sha256", "date"]
    rows = []
    for run in runs:
        for result in run.results:
            scores = [result.get(part, {}).get(name) for part in ("dev", "test") for name in names]
            bilm = result.get("bilm") or {}
            rest = [result.get(key) for key in ("epochs", "best_epoch", "steps")]
            rest += [probing.ends([str(result.get("stopped", ""))]), result.get("parameters")]
            model = str(commands.shown(str(bilm.get("model", ""))))
            dated = [model, str(bilm.get("sha256", ""))[:12], str(result.get("machine", {}).get("date", ""))]
            cells = [*("" if score is None else f"{score:.2f}" for score in scores), *map(probing.cell, rest), *dated]
            rows.append((run.folder.name, str(result["seed"]), *cells))
    return table(head, rows, groups=True)


def _seed_numbers(run: TaskRun) -> list[int]:
    return [result["seed"] for result in run.results]


def settings(values: Mapping[str, Any], base: Mapping[str, Any] | None = None) -> Code:
    """A configuration, or its differences from that of `base`, without locations."""
    old = probing.lines(base or {})
    kept = {key: value for key, value in values.items() if key not in {"output", "cache", "seeds"}}
    kept |= commands.cached(values)
    return Code("\n".join(line for line in probing.lines(kept) if line not in old))


def _pretrainings(runs: Sequence[Pretraining]) -> Iterator[Section]:
    if not runs:
        return
    rows = [_pretraining_row(run) for run in runs]
    head = (
        "run", "words read", "held-out text", "carried", "by sentence", "without unknown", "unknown", "vocabulary",
        "words a second", "date",
    )  # fmt: skip
    blocks: list[Block] = [
        table(head, rows),
        Text(
            "Perplexity of the held-out text, mean of both directions, full softmax: with the LSTM state carried from"
            " sentence to sentence, and reset at each sentence. Without unknown words: state carried, only words in the"
            " vocabulary. The paper's 39.7 (section 3.4) is of another text and vocabulary, so not comparable."
        ),
    ]
    blocks += [_learning(run) for run in runs if len(run.curve) > 1]
    for run in runs:
        command = commands.of_pretraining(run.config, run.name)
        again = [Text("To make it again:"), Code(command), *_resumed(run)] if command else []
        more: list[Block] = [*again, Text("Settings:"), settings(run.config)]
        more += [Text("Card of the model:"), settings(run.card)] if run.card else []
        blocks.append(Details(f"{run.name}: command, settings, card", tuple(more)))
    yield Section("Pretraining", tuple(blocks))


def _resumed(run: Pretraining) -> list[Block]:
    """What a command of the last settings does not say: with which ones the run was resumed, and what they were."""
    changes = []
    for before, after in pairwise(run.sessions):
        old, new = (dict(line.split(" = ", 1) for line in probing.lines(each["settings"])) for each in (before, after))
        said = [f"{key} = {new[key]} (before: {old[key]})" for key in new if key in old and new[key] != old[key]]
        changes += [f"at step {after['step']:,}: {', '.join(said)}"] if said else []
    text = f"Resumed with other settings {'; '.join(changes)}; the command has the last ones."
    return [Text(text)] if changes else []


def _pretraining_row(run: Pretraining) -> tuple[str, ...]:
    measured = run.card.get("perplexity") or {}
    carry, reset = (measured.get(policy) or {} for policy in ("carry", "reset"))
    words, unknown = run.card.get("words_read"), carry.get("unknown_rate")
    return (
        run.name, f"{words:,}" if words else ABSENT, ", ".join(map(str, run.card.get("heldout") or [])),
        *(_number(each.get(key)) for each, key in ((carry, "mean"), (reset, "mean"), (carry, "mean_known"))),
        "" if unknown is None else f"{100 * unknown:.1f} %", _size(run.card.get("vocabulary")),
        "" if run.words_a_second is None else f"{run.words_a_second:,.0f}", str(run.card.get("date", "")),
    )  # fmt: skip


def _learning(run: Pretraining) -> Figures:
    """Perplexity against words read, both state policies."""
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


def _perplexities(found: Sequence[Scored]) -> Iterator[Section]:
    if not found:
        return
    rows = []
    for each in found:
        for policy, numbers in each.values["perplexity"].items():
            keys = ("forward", "backward", "mean", "mean_known")
            tokens, unknown = numbers.get("tokens"), numbers.get("unknown_rate", 0)
            model, text = commands.model_name(each.values.get("bilm")), ", ".join(map(str, each.values["text"]))
            row = [each.name, model, text, policy]
            row += [_number(numbers.get(key)) for key in keys]
            row += [ABSENT if unknown is None else f"{100 * unknown:.1f} %", "" if tokens is None else f"{tokens:,}"]
            rows.append((*row, _size(each.values["vocabulary"])))
    head = (
        "file", "biLM", "text", "state", "forward", "backward", "mean", "without unknown", "unknown",
        "words and sentence ends", "vocabulary",
    )  # fmt: skip
    note = (
        "Full softmax. Only compare numbers of the same text with the same vocabulary; the paper's 39.7"
        " (section 3.4) is of another text and vocabulary."
    )
    yield Section("Perplexity", (table(head, rows, groups=True), Text(note)))


def _evaluations(found: Sequence[Scored]) -> Iterator[Section]:
    if not found:
        return
    fixed = ("task", "version", "examples", "members")
    rows = []
    for each in found:
        scores = {k: v for k, v in each.values.items() if k not in fixed and isinstance(v, int | float)}
        text = ", ".join(f"{name} {value:.2f}" for name, value in scores.items())
        rows.append(
            (each.name, str(each.values["task"]), str(each.values["members"]), f"{each.values['examples']:,}", text)
        )
    yield Section("Ensembles and evaluations", (table(("file", "task", "networks", "examples", "scores"), rows),))


def _machines(results: Results) -> Iterator[Section]:
    """The machines of the results: one row per machine and versions, with the first and last date."""
    rows: dict[tuple[str, ...], list[str]] = {}
    made: dict[tuple[str, ...], list[str]] = {}
    keys = ("processor", "cores", "threads", "torch", "elmo")
    for name, card in results.machines():
        kind = tuple(str(card.get(key, "")) for key in keys)
        rows.setdefault(kind, []).append(str(card.get("date", "")))
        made.setdefault(kind, []).append(name)
    if not rows:
        return
    cells = []
    for kind, dates in rows.items():
        first, last = min(dates), max(dates)
        days = first if first == last else f"{first} to {last}"
        cells.append((*kind, days, f"{len(set(made[kind])):,}"))
    yield Section("Machines and versions", (table((*keys, "dates", "results"), cells),))


def _number(value: Any) -> str:
    return ABSENT if value is None else f"{value:,.2f}"


def _size(vocabulary: Any) -> str:
    """A vocabulary's size, and the start of its hash."""
    if not isinstance(vocabulary, Mapping):
        return ""
    return f"{vocabulary.get('size', 0):,} ({str(vocabulary.get('sha256', ''))[:8]})"
