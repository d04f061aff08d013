"""The examples in the help of the commands: each runs, or, where it needs what a test has not, is read."""

import argparse
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from command import printed
from links import link
from small_corpus import write_corpus
from small_results import plant_everything
from small_tasks import write_small
from tiny import write_tiny

from docs.commands import verbs_of
from elmo import formats
from elmo.cli import build_parser, parse
from elmo.cli.parser import Parser

ENDS = {
    "elmo allennlp": ["--options-file", "options/options.json", "--weight-file", "options/weights.hdf5"],
    "elmo train": ["--dry-run"],
    "elmo task train": ["--print-config"],
}
"""Arguments that spare some commands a download or minutes of training."""
ONLY_READ = {
    "elmo bench": "measures for half a minute",
    "elmo pull": "downloads",
    "elmo serve": "waits for requests",
    "elmo explore": "waits for requests",
    "elmo cove": "trains",
    "elmo probe wsd": "reads data that may not be shared",
    "elmo probe pos": "reads data that may not be shared",
    "elmo probe neighbors": "reads data that may not be shared",
    "elmo probe ablate": "trains",
    "elmo probe efficiency": "trains",
    "elmo probe weights": "reads trained networks",
    "elmo task eval": "reads trained networks",
    "elmo task predict": "reads trained networks",
    "elmo task compare": "trains",
}


def commands(parser: argparse.ArgumentParser) -> Iterator[Parser]:
    """Every command that runs, subcommands included."""
    for verb in verbs_of(parser).values():
        yield from [verb] if verb.get_default("run") else commands(verb)


EXAMPLES = {parser.prog: shlex.split(parser.example.partition(" > ")[0])[1:] for parser in commands(build_parser())}
"""The arguments of each command's example."""


def write_text(path: Path) -> None:
    path.write_text("She wrote a play .\nThe play was long .\n", encoding="utf-8")


def write_texts(folder: Path) -> None:
    folder.mkdir()
    for part in "ab":
        write_corpus(folder / f"{part}.txt", 20, seed=ord(part))


def write_labels(path: Path) -> None:
    write_small(path.parent, "ner").rename(path)


def link_model(path: Path) -> None:
    path.parent.mkdir()
    link(path, formats.find("english-base"))


MAKERS: dict[str, Callable[[Path], object]] = {
    "text.txt": write_text,
    "sentences.txt": write_text,
    "held.txt": write_text,
    "corpus/*.txt": lambda path: write_texts(path.parent),
    "texts/": write_texts,
    "run/model": link_model,
    "options_folder/": write_tiny,
    "options/options.json": lambda path: write_tiny(path.parent),
    "a.txt": write_labels,
    "b.txt": write_labels,
    "runs/": plant_everything,
}
"""What writes the files that the examples read."""


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_command_has_an_example_that_it_understands(name: str) -> None:
    assert parse(EXAMPLES[name]).parser.prog == name


@pytest.mark.parametrize("name", [name for name in EXAMPLES if name not in ONLY_READ])
def test_example_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = [*EXAMPLES[name], *ENDS.get(name, ())]
    for word in MAKERS.keys() & set(words):
        MAKERS[word](tmp_path / word)
    if name == "elmo push":
        link_model(tmp_path / "run" / "model")
    printed(*words)
