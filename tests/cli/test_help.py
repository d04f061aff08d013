"""The page of commands is what the commands say.

Help, and what only describes models, comes without torch, which takes seconds to import, and what it does not need.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import tiny
from places import DATA
from refusals import names

from docs import commands
from elmo import formats
from elmo.cli import arguments, build_parser
from elmo.cli.parser import Parser
from elmo.cli.settings import settings_of
from elmo.formats import native
from elmo.terminal import print_table


def test_page_has_what_the_commands_say() -> None:
    assert commands.PAGE.read_text(encoding="utf-8") == commands.page(), "run `make commands`"


def test_every_setting_is_described() -> None:
    """A type, such as "an integer", does not say what a setting does."""
    homes = {home for parser in parsers(build_parser()) if (home := parser.home()) is not None}
    assert len(homes) > 5
    assert not [(home, each.name) for home in homes for each in settings_of(*home) if not each.about]


def parsers(parser: argparse.ArgumentParser) -> Iterator[Parser]:
    """Every command and subcommand."""
    for inner in commands.verbs_of(parser).values():
        yield inner
        yield from parsers(inner)


def test_tables_show_every_character_and_as_wide_as_they_are(capsys, monkeypatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # as Jupyter does; what is captured is no terminal
    head = [f"column {number} [b]" for number in range(40)]
    row = [f"[citation] {number} [/b] a[b]c" for number in range(40)]
    print_table(head, [row])
    shown = capsys.readouterr().out.splitlines()
    assert [" ".join(line.split()) for line in shown] == [" ".join(head), " ".join(row)]


def test_help_names_the_default_model() -> None:
    for text in (arguments.MODEL_HELP, arguments.BILM_HELP):
        assert f"(default: {formats.DEFAULT_MODEL})" in text


# Without what is slow


HEAVY = ("torch", "numpy", "h5py", "spacy", "pyarrow", "scipy", "matplotlib", "huggingface_hub")
PROGRAM = """
import json, sys
from elmo.cli import main
code, blocked, *commands = json.loads(sys.argv[1])
sys.modules.update(dict.fromkeys(blocked))  # an import of one of them is an error
for command in commands:
    try:
        main(command)
    except SystemExit as end:
        assert (end.code or 0) == code, (command, end.code)
"""


def run_without(blocked: tuple[str, ...], *commands: list[str], code: int = 0) -> str:
    """Returns what the commands print in one process without the blocked packages; each ends with this exit code."""
    given = json.dumps([code, blocked, *commands])
    done = subprocess.run([sys.executable, "-c", PROGRAM, given], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout if code == 0 else done.stderr


def test_help_of_every_verb_comes_without_what_is_slow() -> None:
    """The settings of train are read from their source."""
    helps = [[*parser.prog.split()[1:], "--help"] for parser in parsers(build_parser())]
    assert "usage: elmo task train" in run_without((*HEAVY, "lightning_fabric", "rich"), ["--help"], *helps)


def test_the_packaged_models_are_described_by_the_standard_library_alone() -> None:
    commands = ["info", "--json"], ["models"], ["models", "norwegian", "--json"], ["completion", "bash"], ["--help"]
    printed = run_without(HEAVY, *commands)
    assert "usage: elmo" in printed
    assert '"format": "elmo-torch"' in printed
    assert "nlpl" in printed


@pytest.mark.parametrize("layout", ["native", "allennlp", "tensorflow"])
def test_other_layouts_are_described_without_torch(layout: str, tmp_path: Path) -> None:
    """The files of AllenNLP need h5py; those of ELMoForManyLangs are torch's own."""
    if layout == "allennlp":
        tiny.write_tiny(tmp_path / "model")
    elif layout == "native":
        native.save(tiny.tiny_model(), tmp_path / "model")
    folder = DATA / "tensorflow" / "words" if layout == "tensorflow" else tmp_path / "model"
    needed = {"native": set(), "allennlp": {"numpy", "h5py"}, "tensorflow": {"numpy"}}[layout]
    blocked = tuple(name for name in HEAVY if name not in needed)
    found = json.loads(run_without(blocked, ["info", str(folder), "--json"]))
    assert found["parameters"] == formats.describe(folder).parameters


def test_a_name_that_is_no_model_is_said_without_torch() -> None:
    first, second, third = run_without(HEAVY, ["info", "english-bas"], ["embd"], ["info", "--jsn"], code=2).splitlines()
    names(first, "english-base")
    names(second, "embed")
    names(third, "--json")
