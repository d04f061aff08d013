"""What only describes models starts without torch, which takes seconds to import, and without what it does not need."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import tiny
from places import DATA
from refusals import names

from elmo import formats
from elmo.formats import native

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
