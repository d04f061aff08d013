"""What each layer knows: `elmo probe`."""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from elmo import config
from elmo.cli.arguments import DEMO_TEXT, add_model, add_verb, find_recipe, recipe_and_overrides
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
    _add_weights(probes)


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


def _add_weights(probes: Any) -> None:
    weights = add_verb(probes, "weights", weights_verb, "which layers trained task models read, at input and output")
    weights.add_argument("runs", nargs="+", metavar="RUN", help="folders of elmo task train or elmo task compare")
    weights.add_argument("--figure", metavar="FILE", help="draw Figure 2 of the paper: .svg or .png")
    weights.add_argument("--dark", action="store_true", help="for a dark page")
    weights.add_argument("--output", metavar="FOLDER", help="where rows.jsonl and probe.json go")
    weights.add_argument("--overwrite", action="store_true", help="replace figure and output if they exist")
    weights.add_argument("--json", action="store_true", help="print the rows of all seeds as JSON lines")


def weights_verb(arguments: argparse.Namespace) -> None:
    from elmo import figures
    from elmo.formats.whole import check_output
    from elmo.probes import record, weights

    figure = None if arguments.figure is None else Path(arguments.figure)
    output = None if arguments.output is None else Path(arguments.output)
    if figure is not None:
        figures.check_path(figure)
    for path in (figure, output):
        if path is not None:
            check_output(path, arguments.overwrite)
    config = weights.Config(tuple(arguments.runs))
    rows = weights.run(config)
    mean = weights.means(rows)
    if figure is not None:
        figures.save(figures.layer_weights(mean, arguments.dark), figure, arguments.overwrite)
    if output is not None:
        record.write(output, "weights", weights.VERSION, config, rows)
    print_rows(rows if arguments.json else mean, arguments.json)
