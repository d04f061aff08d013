"""The scripts of `elmo completion` in the shells that they are for."""

import shutil
import subprocess

import pytest
from command import printed, run, run_program
from refusals import refusal

ASK = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMPREPLY=()
eval "$(complete -p elmo | sed 's/.*-F \\([^ ]*\\).*/\\1/')"
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory) -> str:
    shown = printed("completion", "bash")
    path = tmp_path_factory.mktemp("completion") / "elmo"
    path.write_text(shown, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("elmo", "em"), {"embed"}),
        (("elmo", "task", "tr"), {"train"}),
        (("elmo", "embed", "--pre"), {"--pretokenized", "--precision"}),
        (("elmo", "embed", "--state", ""), {"reset", "echo", "carry", "warm"}),
        (("elmo", "embed", "--weights", "no"), {"notes.txt"}),
        (("elmo", "embed", "no"), {"notes.txt"}),
        (("elmo", "pull", "portuguese-"), {"portuguese-wikipedia", "portuguese-brwac"}),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, tuple) else "",
)
def test_bash_completes(script, tmp_path, words, expected):
    if shutil.which("bash") is None:
        pytest.skip("bash is not installed")
    (tmp_path / "notes.txt").touch()
    command = ["bash", "-c", ASK, "bash", script, *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == expected, done.stderr


def test_the_script_for_zsh_names_every_verb():
    shown = run("completion", "zsh").stdout
    assert shown.startswith("#compdef elmo")
    assert all(f"_{verb}_options=(" in shown for verb in ("embed", "train", "push", "completion"))


@pytest.mark.parametrize(
    ("package", "command", "extra"),
    [("shtab", "completion bash", "completion"), ("lightning_fabric", "train --train a.txt --output run", "train")],
)
def test_without_the_extra_the_error_has_the_pip_line(package, command, extra, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("They play .\n", encoding="utf-8")
    without = f"import sys; sys.modules[{package!r}] = None; from elmo.cli import main; main({command.split()!r})"
    refusal(run_program(without), "pip install", f"[{extra}]")
