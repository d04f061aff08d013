"""The page of commands is what the commands say, and help comes at once."""

import argparse
import subprocess
import sys
from collections.abc import Iterator

from docs import commands
from elmo import formats
from elmo.cli import arguments, build_parser
from elmo.cli.parser import Parser
from elmo.cli.settings import settings_of
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


def test_help_of_every_verb_comes_without_what_is_slow() -> None:
    """The settings of train are read from their source."""
    program = """
import argparse, sys
slow = ("torch", "numpy", "h5py", "spacy", "matplotlib", "lightning_fabric", "rich")
sys.modules.update(dict.fromkeys(slow))
from elmo.cli import build_parser
def helps(parser):
    parser.format_help()
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for verb in action.choices.values():
                helps(verb)
helps(build_parser())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
