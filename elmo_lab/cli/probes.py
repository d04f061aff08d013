"""What each layer knows: `elmo probe`."""

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from itertools import groupby
from pathlib import Path
from typing import Any

from elmo import config
from elmo.cli.arguments import (
    BILM_HELP,
    add_jobs,
    add_model,
    add_quiet,
    add_verb,
    find_recipe,
    packaged_recipe,
    print_json,
    recipe_and_overrides,
    run_in,
)
from elmo.cli.looking import SENSES, print_senses
from elmo.errors import InputError
from elmo.terminal import Counter, print_table
from elmo_lab import RECIPES

LEFT_OUT = {"dev_scores", "test_scores", "differences"}


def add_verbs(verbs: Any) -> None:
    """Adds the verbs of this file."""
    probe = add_verb(
        verbs,
        "probe",
        None,
        "measure what each layer knows",
        "elmo probe senses",
        "the paper's tasks, and what layers know",
    )
    probes = probe.add_subparsers(title="probes", metavar="PROBE", required=True)
    senses = add_verb(probes, "senses", senses_verb, "measure each layer's nearest-neighbour accuracy on word senses")
    senses.add_argument(
        "--data", metavar="FILE", help="tab-separated word, sense, index, sentence (default: packaged data)"
    )
    add_model(senses)
    states = ["reset", "echo", "warm"]  # no carry: the sentences are unrelated
    senses.add_argument(
        "--state", choices=states, default="reset", help="LSTM state before a sentence; echo reads it twice"
    )
    senses.add_argument(
        "--figure", metavar="FILE", help="draw the uses of the first words at the top: .svg, .png, .pdf"
    )
    senses.add_argument("--output", metavar="FOLDER", help="folder for rows.jsonl and probe.json")
    senses.add_argument("--json", action="store_true", help="print JSON lines")
    add_quiet(senses)
    wsd = add_probe(probes, "wsd", wsd_verb, "disambiguate word senses by the nearest sense average")
    wsd.add_argument("--resume", action="store_true", help="continue the run in --output, with the same result")
    pos = add_probe(probes, "pos", pos_verb, "predict parts of speech with a linear classifier on each layer")
    neighbors = add_probe(probes, "neighbors", neighbors_verb, "list the nearest uses of given words, by layer")
    neighbors.add_argument("--vectors", metavar="FILE", help="static vectors in GloVe's text format, to compare with")
    for parser in (senses, wsd, pos, neighbors):
        parser.add_argument("--overwrite", action="store_true", help="replace the output if it exists")
    _add_weights(probes)
    _add_queues(probes)


def add_probe(probes: Any, name: str, run: Any, text: str) -> argparse.ArgumentParser:
    """Adds a probe with a recipe, and the arguments that all of those share."""
    parser = add_verb(probes, name, run, text)
    parser.add_argument("recipe", nargs="?", help=f"a TOML file or a packaged recipe (default: {name})")
    parser.add_argument("overrides", nargs="*", metavar="section.key=value", help="settings")
    parser.add_argument("--data", metavar="FOLDER", help="folder of a recipe's files (default: the variable ELMO_DATA)")
    parser.add_argument("--model", metavar="MODEL", help=BILM_HELP)
    parser.add_argument("--output", metavar="FOLDER", help="folder for rows.jsonl and probe.json")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON lines")
    add_quiet(parser)
    return parser


def values_of(arguments: argparse.Namespace, name: str, flags: Mapping[str, Any]) -> dict[str, Any]:
    """Recipe, then given flags, then overrides; later ones win."""
    recipe, overrides = recipe_and_overrides(arguments)
    changes = config.parse_overrides(overrides)
    folder = RECIPES / "probes"
    values = config.load_toml(find_recipe(recipe, folder) if recipe else packaged_recipe(name, folder))
    goes_with = getattr(import_module(f"elmo_lab.probes.{name}"), "GOES_WITH", {})
    left_out = {key for key, given in goes_with.items() if given <= set(changes)}
    values = {key: value for key, value in values.items() if key not in left_out}
    values |= {key: value for key, value in flags.items() if value is not None}
    return config.merge(values, changes)


def print_rows(rows: Sequence[Any], as_json: bool) -> None:
    """Prints dataclasses of one kind as JSON lines, or as a table with their fields as columns.

    The table omits the scores of single seeds, and intervals; the rows have them.
    """
    if as_json:
        for row in rows:
            print_json(vars(row))
    elif rows:
        names = [name for name in vars(rows[0]) if name not in LEFT_OUT]
        print_table([name.replace("_", " ") for name in names], [[_cell(row, name) for name in names] for row in rows])


def _cell(row: Any, name: str) -> str:
    """A field of a row as text. One seed has no deviation; a fraction may be small."""
    value = getattr(row, name)
    if name.endswith("_std") and value is not None:
        count = row.seeds if isinstance(row.seeds, int) else len(row.seeds)
        return "-" if count == 1 else _shown(value)
    return f"{value:g}" if name == "fraction" else _shown(value)


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "*" if value else ""
    if isinstance(value, float):
        return f"{value:.2f}"
    if isinstance(value, tuple):
        return ", ".join(map(_shown, value))
    return f"{value:,}" if isinstance(value, int) else "" if value is None else str(value)


def senses_verb(arguments: argparse.Namespace) -> None:
    from elmo.disk.files import check_output
    from elmo.embedding.embedder import Embedder
    from elmo.search import picture, senses

    figure = None if arguments.figure is None else Path(arguments.figure)
    if figure is not None:
        picture.check_path(figure)
        check_output(figure, arguments.overwrite)
    made = senses.Config(arguments.data, arguments.model, arguments.state)
    folder, occurrences = _output(arguments), senses.read_occurrences(Path(made.data or SENSES))

    def run(made: senses.Config, progress: Any, *, source: Any) -> list[Any]:
        model = source.model
        embedder = Embedder(model.bilm(), text=model.text, vocabulary=model.inputs, state=made.state)
        if figure is not None:
            picture.save(picture.draw(senses.panels(embedder, occurrences)), figure, arguments.overwrite)
        return senses.run(embedder, occurrences, progress)

    rows = _probed(arguments, "senses", made, folder, "sentences", run)
    if arguments.json:
        print_rows(rows, as_json=True)
    else:
        print_senses(rows)


def wsd_verb(arguments: argparse.Namespace) -> None:
    from elmo_lab.probes import wsd

    made = config.from_dict(wsd.Config, values_of(arguments, "wsd", _given(arguments)))
    folder = _output(arguments, arguments.resume, wsd.CHECKPOINT)
    run = partial(wsd.run, folder=folder, resume=arguments.resume)
    with _alone(folder):
        _output(arguments, arguments.resume, wsd.CHECKPOINT)  # again: another process may have worked here until now
        rows = _probed(arguments, "wsd", made, folder, "sentences", run)
        if folder is not None:
            (folder / wsd.CHECKPOINT).unlink(missing_ok=True)
    if arguments.json:
        print_rows(rows, as_json=True)
    else:
        print_wsd(rows, made.choose)


def print_wsd(rows: Sequence[Any], choose: str | None) -> None:
    """The table of `elmo probe wsd`, one column per test set."""
    names = list(rows[0].f1)
    rest = f"ALL{len(names) - 1}"  # all test sets but the one that chooses
    columns = {name: [row.f1[name] for row in rows] for name in names} | {"ALL": [row.all for row in rows]}
    columns |= {} if choose is None else {rest: [row.others for row in rows]}
    cells = zip(*([f"{number:.1f}" for number in column] for column in columns.values()), strict=True)
    print_table(
        ["layer", *columns, "chosen"],
        [[row.layer, *scores, _shown(row.chosen)] for row, scores in zip(rows, cells, strict=True)],
    )
    first = rows[0]
    print(
        f"F1 of {first.instances:,} instances; {first.backed_off:,} of lemmas unseen in training,"
        f" {first.unanswered:,} of these without an answer (counted as wrong)"
    )
    for row in rows:
        if row.chosen:
            print(f"layer {row.layer} is the best on {choose}: {row.others:.1f} on {rest}")
            for other, (points, low, high) in row.differences.items():
                print(f"  {points:+.1f} points against {other} (95 % interval {low:+.1f} to {high:+.1f})")


def pos_verb(arguments: argparse.Namespace) -> None:
    from elmo_lab.probes import pos

    made = config.from_dict(pos.Config, values_of(arguments, "pos", _given(arguments)))
    print_rows(_probed(arguments, "pos", made, _output(arguments), "tokens", pos.run), arguments.json)


def neighbors_verb(arguments: argparse.Namespace) -> None:
    from elmo_lab.probes import neighbors

    flags = _given(arguments) | {"vectors": arguments.vectors}
    made = config.from_dict(neighbors.Config, values_of(arguments, "neighbors", flags))
    rows = _probed(arguments, "neighbors", made, _output(arguments), "sentences", neighbors.run)
    if arguments.json:
        print_rows(rows, as_json=True)
    else:
        print_neighbor_rows(rows)


def print_neighbor_rows(rows: Sequence[Any]) -> None:
    """Prints each query and its neighbours by layer; a star marks the published one."""
    for query, of_query in groupby(rows, key=lambda row: row.query):
        print(query)
        for (layer, candidates), found in groupby(of_query, key=lambda row: (row.layer, row.candidates)):
            print(f"  layer {layer}, of {candidates:,}" if candidates else "  static vectors")
            for row in found:
                print(f"  {'*' if row.published else ' '}{row.rank:4}  {row.similarity:.3f}  {row.neighbor}")
    if any(row.published for row in rows):
        print("* the published neighbour")


def _probed(
    arguments: argparse.Namespace, name: str, made: Any, folder: Path | None, units: str, run: Callable[..., list[Any]]
) -> list[Any]:
    """Runs a probe with the settings `made`, and writes its rows and their record to `folder`.

    Calls `run` like a probe's own: with the settings, a progress callback that counts `units`, and the biLM.
    """
    from elmo.formats.source import open_model
    from elmo_lab.probes import record

    source, began = open_model(made.model), time.monotonic()
    if folder is not None:
        record.make_output(folder)
    with Counter(units, arguments.quiet) as counter:
        rows = run(made, counter.update, source=source)
    if folder is not None:
        version = import_module(type(made).__module__).VERSION  # the probe's own
        record.write(folder, name, version, made, rows, source.card(), time.monotonic() - began)
    return rows


def _given(arguments: argparse.Namespace) -> dict[str, Any]:
    """The flags of a probe that are also settings."""
    return {"data": arguments.data, "model": arguments.model}


def _output(arguments: argparse.Namespace, resume: bool = False, checkpoint: str | None = None) -> Path | None:
    """The output folder. Raises InputError if it may not be written to."""
    from elmo_lab.probes import record

    if arguments.output is None:
        if resume:
            raise InputError("--resume needs --output, the folder of the run to continue; omit it to start a new run")
        return None
    folder = Path(arguments.output)
    record.check_output(folder, arguments.overwrite, resume, checkpoint)
    return folder


@contextmanager
def _alone(folder: Path | None) -> Iterator[None]:
    """Locks the output folder for the block, if there is one. Raises InputError if another process works there."""
    from elmo.disk.run import alone
    from elmo_lab.probes import record

    if folder is None:
        yield
        return
    record.make_output(folder)
    with alone(folder, "works here"):
        yield


def _add_weights(probes: Any) -> None:
    weights = add_verb(
        probes, "weights", weights_verb, "show how trained task models weight the layers, at input and output"
    )
    weights.add_argument(
        "runs", nargs="+", metavar="RUN", help="output folders of elmo task train or elmo task compare"
    )
    weights.add_argument("--figure", metavar="FILE", help="draw Figure 2 of the paper: .svg or .png")
    weights.add_argument("--dark", action="store_true", help="draw for a dark page")
    weights.add_argument("--output", metavar="FOLDER", help="folder for rows.jsonl and probe.json")
    weights.add_argument("--overwrite", action="store_true", help="replace the figure and the output if they exist")
    weights.add_argument("--json", action="store_true", help="print the rows of all seeds as JSON lines")


def weights_verb(arguments: argparse.Namespace) -> None:
    from elmo.disk.files import check_output
    from elmo_lab import figures
    from elmo_lab.probes import record, weights

    figure = None if arguments.figure is None else Path(arguments.figure)
    if figure is not None:
        figures.check_path(figure)
        check_output(figure, arguments.overwrite)
    output = _output(arguments)
    config = weights.Config(tuple(arguments.runs))
    left_out: set[str] = set()
    rows = weights.run(config, left_out.add)
    mean, mixes = weights.means(rows), len({(row.run, row.seed, row.place) for row in rows})
    if figure is not None:
        figures.save(figures.layer_weights(mean, arguments.dark), figure, arguments.overwrite)
    if output is not None:
        record.write(output, "weights", weights.VERSION, config, rows)
    print_rows(rows if arguments.json else mean, arguments.json)
    if left_out and not arguments.json:
        print(f"omitted, since they learn no layer weights: {len(left_out)} of {len(left_out) + mixes} mixes")


def _add_queues(probes: Any) -> None:
    """Adds the probes that train tasks: a queue of runs, and its results."""
    for name, verb, text in (
        ("ablate", ablate_verb, "train tasks without parts of ELMo: places, layers, gamma, static vectors"),
        ("efficiency", efficiency_verb, "train tasks with and without ELMo on growing fractions of their data"),
    ):
        parser = add_probe(probes, name, verb, text)
        parser.add_argument("--vectors", metavar="FILE", help="static word vectors for all runs")
        add_jobs(parser)


def ablate_verb(arguments: argparse.Namespace) -> None:
    from elmo_lab.probes import ablate

    print_rows(_run_queue(arguments, ablate), arguments.json)


def efficiency_verb(arguments: argparse.Namespace) -> None:
    from elmo_lab.probes import efficiency

    rows = _run_queue(arguments, efficiency)
    if arguments.json:
        print_rows(rows, as_json=True)
        return
    print_rows([row for row in rows if row.kind == "score"], as_json=False)
    for row in rows:
        if row.kind == "answer":
            print(f"{row.recipe}: {row.text}")


def _run_queue(arguments: argparse.Namespace, probe: Any) -> list[Any]:
    """Trains the remaining runs into the output folder; its rows are updated after each run."""
    flags = {name: getattr(arguments, name) for name in ("output", "data", "vectors", "model")}
    values = values_of(arguments, probe.NAME, flags)
    if "output" not in values:
        raise InputError(f"--output is missing; for example: elmo probe {probe.NAME} --output {probe.NAME}/")

    def show(line: str) -> None:
        if not arguments.quiet:
            print(line, file=sys.stderr)

    made = config.from_dict(probe.Config, values)
    if arguments.jobs > 1:
        run_in(arguments.jobs)
    return probe.run(made, lambda name: find_recipe(name, RECIPES / "tasks"), arguments.quiet, show)
