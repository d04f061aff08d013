"""What each layer knows: `elmo probe`."""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from elmo import config
from elmo.cli.arguments import DEMO_TEXT, add_model, add_verb, find_recipe, recipe_and_overrides
from elmo.errors import InputError
from elmo.terminal import print_table

SENSES = DEMO_TEXT.with_name("senses.tsv")


def add_verbs(verbs: Any) -> None:
    """Those of this file."""
    probe = add_verb(verbs, "probe", None, "what each layer knows")
    probes = probe.add_subparsers(title="probes", metavar="PROBE", required=True)
    senses = add_verb(probes, "senses", senses_verb, "nearest-neighbour sense accuracy of each layer on labelled words")
    senses.add_argument("--data", default=str(SENSES), help="word, sense, index, sentence between tabs")
    add_model(senses)
    senses.add_argument("--json", action="store_true", help="print JSON lines")
    _add_queues(probes)


def add_probe(probes: Any, name: str, run: Any, text: str) -> argparse.ArgumentParser:
    """A probe that has a recipe: what all of those are asked with."""
    parser = add_verb(probes, name, run, text)
    parser.add_argument("recipe", nargs="?", help=f"a TOML file, or a recipe of the package (default: {name})")
    parser.add_argument("overrides", nargs="*", metavar="section.key=value", help="settings")
    parser.add_argument("--data", metavar="FOLDER", help="where a recipe's files are (default: the variable ELMO_DATA)")
    parser.add_argument("--output", metavar="FOLDER", help="where rows.jsonl and probe.json go")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON lines")
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    return parser


def values_of(arguments: argparse.Namespace, name: str, flags: Mapping[str, Any]) -> dict[str, Any]:
    """Recipe, then flags that were given, then overrides: the later wins."""
    recipe, overrides = recipe_and_overrides(arguments)
    values = config.load_toml(find_recipe(recipe or name, "probes"))
    values |= {key: value for key, value in flags.items() if value is not None}
    return config.merge(values, config.parse_overrides(overrides))


def print_rows(rows: Sequence[Any], as_json: bool) -> None:
    """Dataclasses of the same kind: as JSON lines, or as a table with their fields as its columns."""
    if as_json:
        for row in rows:
            print(json.dumps(vars(row), ensure_ascii=False))
    elif rows:
        print_table(
            [name.replace("_", " ") for name in vars(rows[0])], [list(map(_shown, vars(r).values())) for r in rows]
        )


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.2f}"
    if isinstance(value, tuple):
        return ", ".join(map(_shown, value))
    return f"{value:,}" if isinstance(value, int) else "" if value is None else str(value)


def senses_verb(arguments: argparse.Namespace) -> None:
    from elmo.embedding.embedder import Embedder
    from elmo.probes import senses

    rows = senses.run(Embedder.load(arguments.model), senses.read_occurrences(Path(arguments.data)))
    if arguments.json:
        print_rows(rows, as_json=True)
    else:
        print_senses(rows)


def print_senses(rows: Sequence[Any]) -> None:
    """The table of `elmo probe senses`, a column a word."""
    print(
        f"How often the nearest other occurrence of a word has its sense ({rows[0].occurrences} labelled occurrences):"
    )
    words = list(rows[0].by_word)
    print_table(
        ["layer", "all", *words],
        [[str(row.layer), f"{row.accuracy:.1%}", *(f"{row.by_word[word]:.0%}" for word in words)] for row in rows],
    )


def _add_queues(probes: Any) -> None:
    """The probes that train tasks: a queue of runs, and what came out of it."""
    for name, verb, text in (
        ("ablate", ablate_verb, "train tasks with parts of ELMo left out: places, layers, gamma, static vectors"),
        ("efficiency", efficiency_verb, "train tasks with and without ELMo on growing parts of their data"),
    ):
        parser = add_probe(probes, name, verb, text)
        parser.add_argument("--vectors", metavar="FILE", help="static word vectors of all runs")
        parser.add_argument("--model", metavar="MODEL", help="the biLM of all runs (default: the packaged one)")


def ablate_verb(arguments: argparse.Namespace) -> None:
    from elmo.probes import ablate

    print_rows(_run_queue(arguments, ablate), arguments.json)


def efficiency_verb(arguments: argparse.Namespace) -> None:
    from elmo.probes import efficiency

    rows = _run_queue(arguments, efficiency)
    if arguments.json:
        print_rows(rows, as_json=True)
        return
    print_rows([row for row in rows if row.kind == "score"], as_json=False)
    for row in rows:
        if row.kind == "answer":
            print(f"{row.recipe}: {row.text}")


def _run_queue(arguments: argparse.Namespace, probe: Any) -> list[Any]:
    """Trains what is not done yet, into the folder of the output, which has the rows after every run."""
    flags = {name: getattr(arguments, name) for name in ("output", "data", "vectors", "model")}
    values = values_of(arguments, probe.NAME, flags)
    if "output" not in values:
        raise InputError(f"--output is missing; for example: elmo probe {probe.NAME} --output {probe.NAME}/")

    def show(line: str) -> None:
        if not arguments.quiet:
            print(line, file=sys.stderr)

    made = config.from_dict(probe.Config, values)
    return probe.run(made, lambda name: find_recipe(name, "tasks"), arguments.quiet, show)
