"""What several verbs have in common."""

import argparse
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from elmo.errors import InputError

DEMO_TEXT = Path(__file__).parent.parent / "assets" / "demo.txt"
RECIPES = Path(__file__).parent.parent / "recipes"
LAYERS_HELP = "all, concat, average, sum, top, a number, or weights as 0.2,0.3,0.5"


def add_verb(verbs: Any, name: str, run: Callable[..., None] | None, text: str) -> argparse.ArgumentParser:
    """A verb, and what runs it: None where it has verbs of its own."""
    parser = verbs.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
    if run is not None:
        parser.set_defaults(run=run)
    return parser


def add_model(parser: argparse.ArgumentParser) -> None:
    """The model that is asked."""
    parser.add_argument("--model", default="default", help="a model's folder, file or name (default: the packaged one)")


def add_weights(parser: argparse.ArgumentParser) -> None:
    """The second of the two paths that make a model."""
    parser.add_argument("--weights", metavar="FILE", help="where the model is an options file: its weights")


def add_input(parser: argparse.ArgumentParser, several: bool = False) -> None:
    """What is read, and how it is told apart."""
    parser.add_argument(
        "input", nargs="+" if several else None, help="text, .conllu or .fasta (also .gz, .xz), or - for standard input"
    )
    parser.add_argument("--kind", choices=["text", "conllu", "fasta"], help="of the input (default: by its name)")
    parser.add_argument("--pretokenized", action="store_true", help="tokens are separated by white space")


def tokenizer_of(text: Any, pretokenized: bool) -> Any:
    """A model's own tokenizer, of one sentence a line; or white space."""
    from elmo.text.tokenizer import TextConfig, Tokenizer

    return Tokenizer(TextConfig("whitespace", "line") if pretokenized else text or TextConfig(sentences="line"))


def is_first_process() -> bool:
    """Of those that train together: the variables are torchrun's and lightning's."""
    rank = os.environ.get("RANK") or os.environ.get("LOCAL_RANK") or ""
    return not rank.isdecimal() or int(rank) == 0


def find_recipe(name: str, kind: str = "") -> Path:
    """The file of a recipe: a path, or a name in the package's folder of recipes, or in its folder `kind`."""
    path = Path(name)
    if path.is_file():
        if path.suffix != ".toml":
            raise InputError(
                f"{name}: stands where a recipe (.toml) is expected; put a pattern of files into quotes, as in"
                " --train 'corpus/*.txt'"
            )
        return path
    return packaged_recipe(name, kind)


def packaged_recipe(name: str, kind: str = "") -> Path:
    """The file of the recipe `name` in the package's folder of recipes, or in its folder `kind`."""
    folder = RECIPES / kind
    packaged = folder / f"{name.removesuffix('.toml')}.toml"
    if packaged.is_file():
        return packaged
    names = ", ".join(sorted(recipe.stem for recipe in folder.glob("*.toml")))
    raise FileNotFoundError(f"{name}: no such file, nor a recipe of the package (these are: {names})")


def recipe_and_overrides(arguments: argparse.Namespace) -> tuple[str | None, list[str]]:
    """Where no recipe is given, the first override stands in its place."""
    if arguments.recipe is not None and "=" in arguments.recipe:
        return None, [arguments.recipe, *arguments.overrides]
    return arguments.recipe, list(arguments.overrides)


def add_jobs(parser: argparse.ArgumentParser) -> None:
    """For what works off a queue."""
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="runs at a time; they share the cores")


def run_in(jobs: int) -> None:
    """The same command in several processes, which share the work; returns when there is none left."""
    again = [sys.executable, "-m", "elmo", *sys.argv[1:], "--jobs", "1"]
    threads = {"OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // jobs))}
    running = [subprocess.Popen(again, env=os.environ | threads, stdout=subprocess.DEVNULL) for _ in range(jobs)]
    try:
        codes = [process.wait() for process in running]
    finally:
        for process in running:
            process.terminate()
    if any(codes):
        sys.exit(max(map(abs, codes)))
