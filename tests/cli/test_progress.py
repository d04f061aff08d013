"""Long commands say how far they are, of how much: in a log, a line now and then."""

import re
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from tiny import tiny_model

from elmo import terminal
from elmo.cli import main
from elmo.formats import native
from elmo.search import index
from elmo.text.tokenizer import TextConfig

Run = Callable[..., list[str]]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("progress")
    native.save(replace(tiny_model(), text=TextConfig()), folder / "model")
    for name, times in (("a.txt", 30), ("b.txt", 10)):
        (folder / name).write_text("They play chess. They saw the play.\n" * times, encoding="utf-8")
    return folder


@pytest.fixture
def run(files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command in the folder of the files; returns what a log has of it, with a line for every state."""
    monkeypatch.setattr(terminal, "LOGGED", 0.0)
    monkeypatch.setattr(terminal.Counter, "waiting", _told)
    monkeypatch.chdir(files)

    def run(*arguments: object) -> list[str]:
        with pytest.raises(SystemExit) as ended:
            main([*map(str, arguments)])
        printed = capsys.readouterr()
        assert ended.value.code == 0, printed.err
        return printed.err.splitlines()

    return run


def _told(self: terminal.Counter, step: str) -> AbstractContextManager[None]:
    """Prints the name of a step at once, instead of after half a minute."""
    if not self._quiet:
        terminal.print_line(step)
    return nullcontext()


def counts(lines: list[str], what: str) -> list[tuple[int, int]]:
    """Returns the number done and the total of each line that counts `what`."""
    found = [re.match(rf"(?:\w+: )?([\d,.]+) of ([\d,.]+) {what}", line) for line in lines]
    return [tuple(int(float(each.replace(",", "")) * 1000) for each in found.groups()) for found in found if found]


def test_index_estimates_its_total(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "CHUNK_TOKENS", 50)
    flags = ("--model", "model", "--output", "index")
    shown = counts(lines := run("index", "a.txt", "b.txt", *flags), "tokens")
    assert [done for done, _ in shown] == sorted({done for done, _ in shown})
    assert shown[-1] == (360_000, 360_000)
    assert len(shown) > 5
    assert all(0.8 * 360_000 < total < 1.2 * 360_000 for _, total in shown), "an estimate, by what is read"
    assert "left" in lines[0]
    assert any("merging" in line for line in lines)
    limited = counts(run("index", "a.txt", *flags, "--overwrite", "--max-words", 100), "tokens")
    assert limited[0] == (54_000, 100_000)
    assert limited[-1][0] == limited[-1][1] >= 100_000
    assert run("index", "a.txt", *flags, "--overwrite", "--quiet") == []


def test_neighbors_count_what_they_read_and_search(run: Run) -> None:
    lines = run("neighbors", "play", "--text", "a.txt", "--model", "model")
    assert {line.partition(":")[0] for line in lines} == {"reading", "searching"}
    for job in ("reading", "searching"):
        shown = counts([line for line in lines if line.startswith(job)], "sentences")
        assert shown[-1] == (60_000, 60_000)
    assert run("neighbors", "play", "--text", "a.txt", "--model", "model", "--quiet") == []


@pytest.mark.parametrize("to", ["native", "allennlp"])
def test_convert_counts_bytes(run: Run, tmp_path: Path, to: str) -> None:
    lines = run("convert", "model", tmp_path / "out", "--to", to)
    assert lines[0] == "reading model"
    assert ("writing" in lines[-1]) == (to == "native")
    shown = counts(lines, "MB")
    assert len(shown) > 5
    assert len({total for _, total in shown}) == 1
    assert run("convert", "model", tmp_path / "again", "--to", to, "--quiet") == []


def test_probe_neighbors_estimates_its_total(run: Run) -> None:
    query = "queries=[{sentence='They play .', word='play'}]"
    lines = run("probe", "neighbors", "text=a.txt", query, "--model", "model")
    assert counts(lines, "sentences")[-1] == (60_000, 60_000)
