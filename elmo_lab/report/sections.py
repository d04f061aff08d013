"""Makes the sections of a report from results."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from elmo.errors import InputError
from elmo_lab.document import ABSENT, Block, Details, Document, Section, Table, Text, table
from elmo_lab.plugins import entry_points_of
from elmo_lab.probes import blocks
from elmo_lab.probes import probe as probes
from elmo_lab.record import RECORD, REMEDY, without_folders
from elmo_lab.report import comparing, pretraining
from elmo_lab.report.collect import EVALUATION, JsonFile, RecordedRun, Results
from elmo_lab.report.provenance import provenance


def document(results: Results, title: str) -> Document:
    """Returns the whole report."""
    counts = {
        ("run", "runs"): len(results.tasks),
        ("probe", "probes"): len(results.probes),
        ("pretraining", "pretrainings"): len(results.pretrainings),
        ("perplexity", "perplexities"): len(results.perplexities),
        ("evaluation", "evaluations"): len(results.evaluations),
    }
    said = ", ".join(f"{n} {one if n == 1 else several}" for (one, several), n in counts.items() if n)
    intro = Text(
        f"Written by elmo report from folders of results: {said}. Every number is read from a file that an elmo command"
        " wrote. Commands and settings are folded below each table. Absolute paths are shortened to their last part."
    )
    found = [
        *comparing.sections(results.tasks),
        *_probes(results.probes),
        *pretraining.sections(results.pretrainings),
        *_perplexities(results.perplexities),
        *_evaluations(results.evaluations),
        *_machines(results),
    ]
    return Document(title, (intro,), tuple(found))


def _probes(runs: Sequence[RecordedRun]) -> Iterator[Section]:
    """Yields one section per record of a probe. Its title has the folder if a probe has several records."""
    names = [run.record.name for run in runs]
    for run in runs:
        title, found = _shown(run)
        title += f": {run.name}" if names.count(run.record.name) > 1 else ""
        model = without_folders((run.record.bilm or {}).get("model"))
        said = (Text(f"The biLM is {model}."),) if model else ()
        details = Details(f"{run.name}: command, settings, biLM", tuple(provenance(run.record)))
        yield Section(title, (*found, *said, details))


def _shown(run: RecordedRun) -> tuple[str, list[Block]]:
    """Returns the title and the blocks of a record; if the probe is not installed here, its rows are shown plainly."""
    name = run.record.name
    if name not in entry_points_of(probes.GROUP):
        return f"Probe {name}", list(blocks.plain_tables(run.record.rows)) if run.record.rows else []
    probe = probes.find(name)
    try:
        return probe.title, probe.blocks(run.record)
    except InputError as error:
        raise InputError(f"{run.folder / RECORD}: {error}") from error


def _perplexities(files: Sequence[JsonFile]) -> Iterator[Section]:
    if not files:
        return
    rows = []
    for file in files:
        try:
            rows += _policies(file)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"{file.name}: not the output of elmo perplexity --json ({error!r}); {REMEDY}") from error
    head = ("file", "biLM", "text", "state", "forward", "backward", "mean", "without unknown", "unknown", "vocabulary")
    note = "Full softmax. Only numbers of the same text with the same vocabulary are comparable."
    yield Section("Perplexity", (table(head, rows, groups=True), Text(note)))


def _policies(file: JsonFile) -> Iterator[tuple[str, ...]]:
    """Yields one row per state policy."""
    values, model = file.values, without_folders((file.values.get("bilm") or {}).get("model", ""))
    size = (values["vocabulary"] or {}).get("size", 0)
    for policy, numbers in values["perplexity"].items():
        means = [numbers.get(key) for key in ("forward", "backward", "mean", "mean_known")]
        unknown = numbers.get("unknown_rate")
        yield (
            file.name, str(model), ", ".join(map(str, without_folders(values["text"]))), policy,
            *(ABSENT if mean is None else f"{mean:,.2f}" for mean in means),
            ABSENT if unknown is None else f"{100 * unknown:.1f} %", f"{size:,}",
        )  # fmt: skip


def _evaluations(files: Sequence[JsonFile]) -> Iterator[Section]:
    if not files:
        return
    rows = []
    for file in files:
        scores = {name: value for name, value in file.values.items() if name not in EVALUATION}
        numbers = [f"{name} {value:.2f}" for name, value in scores.items() if isinstance(value, int | float)]
        fixed = (str(file.values[key]) for key in ("task", "members", "examples"))
        rows.append((file.name, *fixed, ", ".join(numbers)))
    yield Section("Evaluations", (table(("file", "task", "networks", "examples", "scores"), rows),))


def _machines(results: Results) -> Iterator[Section]:
    """Yields a section on the machines of the records, and the versions on them."""
    cards = [run.record.machine for run in (*results.tasks, *results.probes)]
    if cards:
        found = machines_table(cards, ("processor", "cores", "threads", "torch", "elmo"))
        yield Section("Machines and versions", (found,))


def machines_table(cards: Iterable[Mapping[str, Any]], keys: Sequence[str]) -> Table:
    """Shows one row per machine: these keys of its card, the first and last date, and the number of results."""
    made: dict[tuple[str, ...], list[str]] = {}
    for card in cards:
        made.setdefault(tuple(str(card.get(key, "")) for key in keys), []).append(str(card.get("date", "")))
    rows = []
    for kind, dates in sorted(made.items()):
        first, last = min(dates), max(dates)
        rows.append((*kind, first if first == last else f"{first} to {last}", f"{len(dates):,}"))
    return table((*keys, "dates", "results"), rows)
