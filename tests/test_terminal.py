"""What a person sees: settings as a table, and models within 80 columns."""

import json
import os
import re
import subprocess
import sys

import pytest
from command import run

from elmo import terminal
from elmo.terminal import Counter, print_settings


def test_settings_are_a_table_that_a_person_reads(capsys):
    print_settings(
        {
            "model": {"lstm": {"dim": 4096, "clip": None, "skip": True}, "filters": ((1, 32), (2, 64)), "none": {}},
            "card": {"perplexity": 63.41232498479129, "words": 125_002_240.0, "train": ["a.*", "b"], "rate": 2e-05},
            "runs": [{"seed": 1}, {"seed": 2}],
            "note": "[bold] two\nlines",
            "empty": [],
        }
    )
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == [
        "model",
        "  lstm",
        "    dim       4,096",
        "    clip      none",
        "    skip      yes",
        "  filters     (1, 32), (2, 64)",
        "  none        none",
        "card",
        "  perplexity  63.41",
        "  words       125,002,240",
        "  train       a.*, b",
        "  rate        2e-05",
        "runs",
        "  1",
        "    seed      1",
        "  2",
        "    seed      2",
        "note          [bold] two lines",
        "empty         none",
    ]


def test_info_shows_no_python(tmp_path):
    shown = run("info", "english-base").stdout
    assert re.search(r"^ {2}lstm *$\n^ {4}dim +1,024 *$", shown, re.MULTILINE)
    assert re.search(r"^ {6}mean +58\.51 *$", shown, re.MULTILINE)
    assert not set("{}[]'") & set(shown)
    assert json.loads(run("info", "--json").stdout)["model"]["lstm"]["dim"] == 1024


def test_models_are_found_by_words():
    names = [row["name"] for row in json.loads(run("models", "norwegian", "LEMMATIZED", "--json").stdout)]
    assert names == ["nlpl-210"]
    refused = run("models", "norwegian", "klingon")
    assert refused.returncode == 2
    assert refused.stderr == "elmo: error: no model matches 'norwegian klingon'; elmo models lists all\n"


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_models_fit_a_terminal_of_80_columns():
    reader, terminal = os.openpty()
    variables = {**os.environ, "COLUMNS": "80", "TERM": "dumb", "NO_COLOR": "1"}
    command = [sys.executable, "-m", "elmo", "models", "english"]
    process = subprocess.Popen(command, stdout=terminal, env=variables)
    os.close(terminal)
    shown = b""
    while part := _read(reader):
        shown += part
    assert process.wait() == 0
    lines = shown.decode().splitlines()
    assert max(len(line) for line in lines[:-1]) <= 80  # the last one is a path
    assert any(line.startswith("original ") for line in lines)


def _read(terminal: int) -> bytes:
    """What is there; nothing at the end, which Linux calls an error."""
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""


@pytest.mark.parametrize("quiet", [False, True])
def test_progress_in_a_log_is_a_line_now_and_then(quiet, capsys, monkeypatch):
    now = iter([0.0, 1.0, 59.0, 61.0, 61.0, 62.0, 130.0, 130.0])
    monkeypatch.setattr(terminal, "time", type("Clock", (), {"monotonic": lambda: next(now)}))
    with Counter("words", quiet) as counter:
        for done in (100, 5900, 6100, 6200, 13000):
            counter.update(done)
    assert capsys.readouterr().err.splitlines() == ([] if quiet else ["words: 6,100", "words: 13,000"])
