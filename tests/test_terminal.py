"""What a person sees: settings as a table, and models within 80 columns."""

import io
import json
import os
import re
import subprocess
import sys
import time

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
    assert "'norwegian klingon'" in refused.stderr


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


class Clock:
    """A clock that only the test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(terminal.time, "monotonic", lambda: self.now)


@pytest.mark.parametrize("quiet", [False, True])
def test_progress_in_a_log_is_a_line_now_and_then(quiet, capsys, monkeypatch):
    clock = Clock(monkeypatch)
    with Counter("words", quiet) as counter:
        counter.begin(1000)
        for clock.now, done in ((1, 1100), (29, 2900), (31, 4100), (32, 4200), (62, 7200)):
            counter.update(done, 10_000, ["loss 3.2"] if done == 2900 else ())
    lines = [
        "4,100 of 10,000 words  100/s  0:00:59 left  loss 3.2",
        "7,200 of 10,000 words  100/s  0:00:28 left  loss 3.2",
    ]
    assert capsys.readouterr().err.splitlines() == ([] if quiet else lines)


def test_progress_without_a_total_has_a_speed(capsys, monkeypatch):
    clock = Clock(monkeypatch)
    with Counter("MB", label="small", scale=1e6) as counter:
        clock.now = 40
        counter.update(80_000_000)
    assert capsys.readouterr().err == "small: 80.0 MB  2.00/s\n"


@pytest.mark.parametrize("quiet", [False, True])
def test_a_step_without_a_measure_shows_its_time(quiet, capsys, monkeypatch):
    monkeypatch.setattr(terminal, "LOGGED", 0.01)
    with pytest.raises(KeyboardInterrupt), Counter("MB", quiet, "a").waiting("reading b"):  # noqa: PT012
        time.sleep(0.2)
        raise KeyboardInterrupt
    lines = capsys.readouterr().err.splitlines()
    assert set(lines) == (set() if quiet else {"a: reading b  0:00:00 so far"})
    time.sleep(0.05)
    assert capsys.readouterr().err == "", "it ends with the block"


class Screen(io.StringIO):
    """A terminal, or a notebook's stderr."""

    def __init__(self, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


@pytest.mark.parametrize("kind", ["terminal", "notebook"])
@pytest.mark.parametrize("columns", [20, 80])
def test_progress_that_is_rewritten_fits_and_goes(kind, columns, monkeypatch):
    screen = Screen(kind == "terminal")
    monkeypatch.setattr(Screen, "__module__", "ipykernel.iostream" if kind == "notebook" else "tests")
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("COLUMNS", str(columns))
    clock = Clock(monkeypatch)
    notes = ["loss 6.319", "lr 2e-05", "norm 12.3", "tokens 15,360", "carry_mean 48,912"]
    with Counter("steps", label="a") as counter:
        for clock.now in (1, 2, 2.01, 3):  # the third too early
            counter.update(int(clock.now) * 1000, 5000, notes)
        terminal.print_line("a warning")
        clock.now = 4
        counter.update(4000)
    shown = screen.getvalue().replace("\n", "\r").split("\r")
    assert max(map(len, shown)) < columns
    states = [line.strip() for line in shown if line.startswith("a: ")]
    assert [line[:11] for line in states] == [f"a: {number},000 of" for number in (1, 2, 3, 4)]
    assert "a warning" in shown  # a line of its own
    assert shown[-2:] == [" " * len(states[-1]), ""]
    monkeypatch.setattr(terminal, "TICK", 0.01)
    with counter.waiting("a long step"):
        while "a long step" not in screen.getvalue():
            pass
    assert screen.getvalue().rpartition("a: a long step")[2].endswith(" \r"), "the line is gone"
    if columns == 80:
        assert states[-1] == "a: 4,000 of 5,000 steps  #############...  1,000/s  0:00:01 left  loss 6.319"
