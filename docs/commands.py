"""Writes commands.md from the command line's own help: `make commands`. A test compares the two."""

import os
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).with_name("commands.md")
COMMANDS = (
    (),
    ("text",),
    ("train",),
    ("perplexity",),
    ("score",),
    ("substitutes",),
    ("cove",),
    ("embed",),
    ("allennlp",),
    ("types",),
    ("info",),
    ("convert",),
    ("models",),
    ("pull",),
    ("push",),
    ("neighbors",),
    ("index",),
    ("probe",),
    ("probe", "senses"),
    ("probe", "wsd"),
    ("probe", "pos"),
    ("probe", "neighbors"),
    ("probe", "weights"),
    ("probe", "ablate"),
    ("probe", "efficiency"),
    ("task",),
    ("task", "list"),
    ("task", "train"),
    ("task", "eval"),
    ("task", "predict"),
    ("task", "sentences"),
    ("task", "compare"),
    ("report",),
    ("serve",),
    ("explore",),
    ("bench",),
    ("demo",),
    ("completion",),
)
HEAD = """# Commands

The output of `--help`, written by `make commands`.
"""


def help_of(command: tuple[str, ...]) -> str:
    """What `elmo COMMAND --help` prints on a terminal 100 columns wide."""
    program = Path(sys.executable).with_name("elmo")
    environment = os.environ | {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}
    done = subprocess.run([program, *command, "--help"], env=environment, capture_output=True, text=True, check=True)
    return "\n".join(line.rstrip() for line in done.stdout.strip().splitlines())


def section(command: tuple[str, ...]) -> str:
    """A command's part of the page."""
    return f"\n## {' '.join(('elmo', *command))}\n\n```text\n{help_of(command)}\n```\n"


if __name__ == "__main__":
    PAGE.write_text(HEAD + "".join(map(section, COMMANDS)), encoding="utf-8")
