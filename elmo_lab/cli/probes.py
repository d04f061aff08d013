"""`elmo probe`, which measures what each layer knows. All probes share flags; the built-in ones may have more."""

import argparse
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from elmo import config
from elmo.cli.arguments import (
    BILM_HELP,
    Option,
    add_options,
    add_verb,
    check_processes,
    print_json,
    run_in,
)
from elmo.cli.settings import add_settings, config_of, only_shows, recipe_and_overrides, require, resumed_folder, show
from elmo.terminal import Counter, print_line, print_table
from elmo_lab import RECIPES
from elmo_lab.plugins import entry_points_of

GROUP = "the paper's tasks, and what layers know"

HELP = {
    "senses": ("measure each layer's nearest-neighbour accuracy on word senses", ""),
    "wsd": ("disambiguate word senses by the nearest sense average", "--data DATA --output wsd/"),
    "pos": ("predict parts of speech with a linear classifier on each layer", "--data DATA --output pos/"),
    "neighbors": ("list the nearest uses of given words, by layer", "--data DATA --output neighbors/"),
    "weights": (
        "show how trained task models weight the layers, at input and output",
        "runs/ner runs/sst5 --figure weights.svg",
    ),
    "ablate": (
        "train tasks without parts of ELMo: places, layers, gamma, static vectors",
        "--data DATA --output ablate/",
    ),
    "efficiency": (
        "train tasks with and without ELMo on growing fractions of their data",
        "--data DATA --output efficiency/",
    ),
}
"""The help text of each probe of this package, and the arguments of its example."""
FLAGS = ("output", "data", "model", "vectors", "state", "runs")
"""The arguments that are also settings, for probes that have a setting of the same name."""


def add_verbs(verbs: Any) -> None:
    """Adds the verbs of this file."""
    probe = add_verb(verbs, "probe", None, "measure what each layer knows", "elmo probe senses")
    probes = probe.add_subparsers(title="probes", metavar="PROBE", required=True)
    for name, point in entry_points_of("elmo.probes").items():
        text, example = HELP.get(name, (f"the probe {point.value}", ""))
        parser = add_verb(probes, name, partial(probe_verb, name), text, f"elmo probe {name} {example}".rstrip())
        if name not in WITHOUT_SETTINGS:
            add_settings(parser, partial(config_of, point.value), "a TOML file (default: the probe's own recipe)")
            data = "--data FOLDER", "folder of a recipe's files (default: the variable ELMO_DATA)"
            add_options(parser, data, ("--model MODEL", BILM_HELP), "--strict")
        if name == "weights":
            runs = "output folders of elmo task train or elmo task compare"
            parser.add_argument("runs", nargs="+", metavar="RUN", help=runs)
        add_options(parser, *OWN.get(name, ()))
        add_options(parser, ("--output FOLDER", "folder for record.json: the rows, and what they are of"))
        if name not in ("ablate", "efficiency"):
            add_options(parser, "--overwrite")
        add_options(parser, ("--json", "print the rows as JSON lines"), "--quiet")


OF_QUEUES: tuple[Option | str, ...] = ("--vectors FILE", "static word vectors for all runs"), "--jobs"
OWN: dict[str, tuple[Option | str, ...]] = {
    "senses": (
        ("--data FILE", "tab-separated word, sense, index, sentence (default: packaged data)"),
        "--model",
        # The sentences are unrelated, so no state is carried.
        ("--state reset|echo|warm", "LSTM state before a sentence; echo reads it twice", "reset"),
        ("--figure FILE", "draw the uses of the first words at the top: .svg, .png, .pdf"),
    ),
    "wsd": (("--resume", "continue the run in --output, with the same result"),),
    "neighbors": (("--vectors FILE", "static vectors in GloVe's text format, to compare with"),),
    "weights": (
        ("--figure FILE", "draw Figure 2 of the paper: .svg or .png"),
        ("--dark", "draw for a dark page"),
    ),
    "ablate": OF_QUEUES,
    "efficiency": OF_QUEUES,
}
"""The options that only these probes have."""
WITHOUT_SETTINGS = ("senses", "weights")
"""The probes whose few settings are all flags."""


def probe_verb(name: str, arguments: argparse.Namespace) -> None:
    from elmo.disk.run import lock_folder
    from elmo_lab import figures, record
    from elmo_lab.probes import probe as probes

    probe = probes.find(name)
    made = config.from_dict(probe.config, _values(probe, arguments))
    if name not in WITHOUT_SETTINGS and only_shows(arguments):
        show(arguments, made)
        return
    figure = _figure(name, arguments, made)
    check_processes("--jobs", getattr(arguments, "jobs", 1))
    if getattr(arguments, "jobs", 1) > 1:
        run_in(arguments.jobs)
    folder, resume = _output(probe, arguments, made), getattr(arguments, "resume", False)
    # Another process may continue from a checkpoint.
    with nullcontext() if folder is None or probe.checkpoint is None else lock_folder(folder, "works here"):
        _output(probe, arguments, made)  # another process may have worked here until now
        found = _run(probe, made, folder, resume, arguments.quiet, figure)
        if folder is not None and not probe.trains:
            record.write(folder, found)
        if folder is not None and probe.checkpoint is not None:
            (folder / probe.checkpoint).unlink(missing_ok=True)
    if arguments.json:
        for row in found.rows:
            print_json(row)
    else:
        print_blocks(probe.blocks(found))
    if figure is not None and name == "weights":
        from elmo_lab.probes import weights

        means = weights.means([weights.WeightRow(**row) for row in found.rows])
        figures.save(figures.layer_weights(means, arguments.dark), figure, arguments.overwrite)


def _values(probe: Any, arguments: argparse.Namespace) -> dict[str, Any]:
    """Combines the settings: the recipe, then given flags, then overrides, of which the last wins."""
    recipe, overrides = recipe_and_overrides(arguments) if hasattr(arguments, "recipe") else (None, [])
    changes = config.parse_overrides(overrides)
    file = probe.recipe if recipe is None else config.find_recipe(recipe, RECIPES / "probes")
    values = {} if file is None else config.load_toml(file)
    left_out = {key for key, given in probe.goes_with.items() if given <= set(changes)}
    values = {key: value for key, value in values.items() if key not in left_out}
    known = getattr(probe.config, "__dataclass_fields__", {})
    flags = {name: getattr(arguments, name, None) for name in FLAGS if name in known}
    values = config.combined(values, flags, changes)
    if probe.trains:
        shows = only_shows(arguments)
        require(values, {"output": "OUTPUT"}, shows, f"elmo probe {probe.name} --output {probe.name}/")
    return values


def _run(probe: Any, made: Any, folder: Path | None, resume: bool, quiet: bool, figure: Path | None) -> Any:
    """Runs a probe with the settings `made`, and returns its record."""
    from elmo.disk.run import make_folder
    from elmo.formats.opened import open_model
    from elmo_lab import record
    from elmo_lab.probes.probe import Context

    began, source = time.monotonic(), None
    if hasattr(made, "model") and not probe.trains:
        source = open_model(made.model)
    if folder is not None and not probe.trains:
        make_folder(folder)
    show = (lambda line: None) if quiet else print_line
    recipes = partial(config.find_recipe, folder=RECIPES / "tasks")
    with Counter(probe.units, quiet) as counter:
        rows = probe.run(made, Context(source, folder, resume, quiet, counter.update, show, recipes, figure))
    card = None if source is None else source.card()
    return record.probe_record(probe.name, probe.version, made, rows, card, time.monotonic() - began)


def _output(probe: Any, arguments: argparse.Namespace, made: Any) -> Path | None:
    """Returns the output folder, if there is one. Raises InputError if it may not be written to."""
    from elmo.disk.files import check_output
    from elmo_lab import record

    resume = getattr(arguments, "resume", False)
    if resume:
        resumed_folder(arguments.output)
    if arguments.output is None:
        return None
    folder = Path(arguments.output)
    if not probe.trains:
        record.check_output(folder, arguments.overwrite, resume, probe.checkpoint)
        record.check_replaced(folder, probe.name)
        if folder.is_dir():
            check_output(folder / record.RECORD, overwrite=True, inputs=_inputs(made))
    return folder


def print_blocks(found: Iterable[Any]) -> None:
    """Prints the tables and texts of a probe; figures are for reports alone."""
    from elmo_lab.document import Heading, Table, Text

    for block in found:
        match block:
            case Text(text) | Heading(text):
                print(text)
            case Table():
                rows = block.rows
                shown = [row if block.starts_group(place) else ("", *row[1:]) for place, row in enumerate(rows)]
                print_table(list(block.head), [list(row) for row in shown])


def _inputs(made: Any) -> list[Path]:
    """Returns the files that settings name, from this folder or from that of `data`, those of runs, and the model's."""
    from elmo import formats

    model = [] if getattr(made, "model", None) is None else formats.files_of(made.model)
    data = Path(getattr(made, "data", None) or "")
    named = [place / name for name in _strings(config.to_dict(made)) for place in (Path(), data)]
    kinds = "*.json", "*.safetensors"
    runs = [file for run in getattr(made, "runs", ()) for kind in kinds for file in Path(run).rglob(kind)]
    return [*model, *runs, *(path for path in named if os.path.isfile(path))]  # noqa: PTH113 - Path.is_file() raises for names that are too long


def _strings(value: Any) -> Iterator[str]:
    """Yields the strings in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _strings(each)


def _figure(name: str, arguments: argparse.Namespace, made: Any) -> Path | None:
    """Returns the file of --figure. Raises InputError or OSError if it cannot be written."""
    from elmo.disk.figure import check_path
    from elmo.disk.files import check_distinct, check_output
    from elmo.search import picture
    from elmo_lab import figures, record

    if getattr(arguments, "figure", None) is None:
        return None
    path = Path(arguments.figure)
    check_path(path, picture.SUFFIXES if name == "senses" else figures.SUFFIXES)
    check_output(path, arguments.overwrite, inputs=_inputs(made))
    check_distinct(None if arguments.output is None else Path(arguments.output, record.RECORD), path)
    return path
