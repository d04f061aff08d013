"""macOS and Windows, on any machine: every branch that is theirs is taken here, with what they have injected."""

import ctypes
import errno
import io
import json
import math
import os
import subprocess
import sys
from pathlib import Path, PurePath
from types import SimpleNamespace
from typing import Any

import numpy as np
import peers
import pytest
import windows
from places import TESTS
from small_corpus import write_corpus
from tiny import tiny_model

from elmo import cli, machine
from elmo.cli.arguments import print_json
from elmo.disk.lock import LOCK, locked
from elmo.embedding.embedder import Embedder
from elmo.embedding.job import embed_file
from elmo.embedding.parts import folder_of
from elmo.embedding.store import read_vectors
from elmo.errors import InputError
from elmo.formats import native
from elmo.formats.published import published_models
from elmo.text import corpus
from elmo.training import memory
from elmo_lab.record import without_folders


@pytest.fixture
def on_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    if not Path("/proc/self/maps").exists():
        pytest.skip("asks Linux for the files that are open")
    for thing, name, value in list(windows.changes()):
        monkeypatch.setattr(thing, name, value)
    for name in windows.MISSING:
        monkeypatch.delattr(os, name, raising=False)
    for name, value in windows.modules().items():
        monkeypatch.setitem(sys.modules, name, value)


# Files that are open


@pytest.mark.parametrize("suffix", [".hdf5", ".npz", ".parquet", ".safetensors"])
def test_windows_goes_on_with_a_dump_and_replaces_an_old_one(tmp_path: Path, on_windows: None, suffix: str) -> None:
    """The folder of the parts goes while it is locked, and nothing is moved that is still open."""
    text = write_corpus(tmp_path / "text.txt", documents=4)
    output = tmp_path / f"vectors{suffix}"
    output.write_bytes(b"old")
    embedder = Embedder(tiny_model().bilm(), batch_tokens=16)

    def stop(rows: int, total: int | None) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        embed_file(embedder, text, output, progress=stop, resume=True, overwrite=True)
    with (
        locked(output.with_name(f".{folder_of(output).name}{LOCK}")),
        pytest.raises(InputError, match="another process"),
    ):
        embed_file(embedder, text, output, resume=True, overwrite=True)
    embed_file(embedder, text, output, resume=True, overwrite=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["text.txt", output.name]
    with read_vectors(output) as vectors:
        expected = embedder.embed([vectors.tokens(0)])[0]
        np.testing.assert_allclose(vectors[0], expected, rtol=0, atol=1e-5)


def test_windows_replaces_a_model_that_was_read_and_none_that_is_open(tmp_path: Path, on_windows: None) -> None:
    folder = tmp_path / "model"
    native.save(tiny_model(seed=1), folder)
    model = native.load(folder)
    native.save(model, folder, overwrite=True)
    with (folder / native.WEIGHTS).open("rb"), pytest.raises(PermissionError, match="is open in a program") as caught:
        native.save(model, folder, overwrite=True)
    assert caught.value.filename == str(folder)
    assert [path.name for path in tmp_path.iterdir()] == ["model"], "as it was, with nothing beside it"


# What machines call themselves, and measuring


def test_processors_are_called_what_their_makers_call_them(on_windows: None, monkeypatch) -> None:
    assert machine.processor() == "A Processor 5"
    monkeypatch.setattr(machine, "sys", windows.Sys("darwin"))
    command = [sys.executable, "-c", "print('Apple M9')"]
    run = subprocess.run
    monkeypatch.setattr(subprocess, "run", lambda asked, **options: run(command, **options))
    assert machine.processor() == "Apple M9"
    monkeypatch.setattr(subprocess, "run", lambda asked, **options: run(["no-such-program"], **options))
    monkeypatch.setattr(machine.platform, "processor", lambda: "arm")
    assert machine.processor() == "arm"


@pytest.mark.parametrize(("platform", "expected"), [("win32", 0), ("darwin", 5000), ("freebsd", 5000 * 1024)])
def test_memory_is_in_bytes_where_the_system_tells(platform: str, expected: int, monkeypatch) -> None:
    monkeypatch.setattr(machine, "Path", lambda name: Path("/nowhere"))
    monkeypatch.setattr(machine, "sys", windows.Sys(platform))
    usage = SimpleNamespace(RUSAGE_SELF=0, getrusage=lambda who: SimpleNamespace(ru_maxrss=5000))
    monkeypatch.setitem(sys.modules, "resource", None if platform == "win32" else usage)
    assert machine.peak_memory() == expected


def test_commands_are_timed_on_windows(on_windows: None, monkeypatch) -> None:
    monkeypatch.setattr(peers, "sys", windows.Sys("win32"))
    done = peers.run_measured([sys.executable, "-c", "print('tokens/s 12')"])
    assert (done.output, done.peak_bytes) == ("tokens/s 12\n", 0)
    with pytest.raises(subprocess.CalledProcessError):
        peers.run_measured([sys.executable, "-c", "raise SystemExit(3)"])


@pytest.mark.parametrize("library", [OSError("libc.so.6: cannot open"), object()])
def test_other_c_libraries_are_left_as_they_are(library: object, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(name: str) -> Any:
        asked.append(name)
        if isinstance(library, OSError):
            raise library
        return library

    asked: list[str] = []
    monkeypatch.setattr(ctypes, "CDLL", load)
    memory.keep_freed_memory()
    assert asked == ["libc.so.6"]


# What is printed


def printed(text: str, encoding: str) -> bytes:
    """The bytes of a line that is printed to a file whose encoding was chosen by the system."""
    file = io.BytesIO()
    stream = io.TextIOWrapper(file, encoding=encoding, newline="\r\n")
    cli.make_printable(stream)
    print(text, file=stream, flush=True)
    return file.getvalue()


def test_windows_prints_to_files_what_other_systems_print(on_windows: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONIOENCODING", raising=False)
    assert printed("Gdańsk 東京", "cp1252") == "Gdańsk 東京\n".encode()
    monkeypatch.setenv("PYTHONIOENCODING", "cp1252")
    assert printed("café 東", "cp1252") == b"caf\xe9 \\u6771\r\n"


def test_what_a_terminal_has_no_letters_for_is_escaped() -> None:
    assert printed("café 東", "latin-1") == b"caf\xe9 \\u6771\r\n"
    assert printed("\ud800", "utf-8") == b"\\ud800\r\n"


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "ascii"])
def test_json_is_json_whatever_the_encoding(monkeypatch: pytest.MonkeyPatch, encoding: str) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    cli.make_printable(stream)
    monkeypatch.setattr(sys, "stdout", stream)
    print_json({"word": "café 東 😀 \udce9", "numbers": (1.5, math.nan, -math.inf)})
    stream.flush()
    written = stream.buffer.getvalue()  # type: ignore[attr-defined]
    assert json.loads(written) == {"word": "café 東 😀 \udce9", "numbers": [1.5, None, None]}
    assert ("é".encode() in written) == (encoding == "utf-8")


@pytest.mark.parametrize(
    ("error", "is_one"),
    [
        (OSError(errno.EINVAL, "Invalid argument"), True),
        (OSError(errno.EINVAL, "Invalid argument", "name"), False),
        (OSError(errno.EACCES, "Permission denied"), False),
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), True),
        (InputError("no model"), False),
    ],
)
def test_windows_has_a_name_of_its_own_for_a_broken_pipe(on_windows: None, error: Exception, is_one: bool) -> None:
    assert cli.is_broken_pipe(error) == is_one


# Names


def test_a_corpus_has_one_order_on_every_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows compares paths without regard to case."""
    for name in ("a.txt", "B.txt"):
        (tmp_path / name).write_text("A line.", encoding="utf-8")
    monkeypatch.setattr(PurePath, "__lt__", lambda one, other: str(one).lower() < str(other).lower())
    assert [path.name for path in corpus.expand_patterns([f"{tmp_path}/*.txt"])] == ["B.txt", "a.txt"]


def test_a_report_shows_no_folder_of_the_machine_that_made_a_result() -> None:
    values = {"train": [r"C:\Users\me\train.txt", "/home/me/dev.txt"], "model": r"\\server\models\small", "n": 3}
    assert without_folders(values) == {"train": ["train.txt", "dev.txt"], "model": "small", "n": 3}
    assert without_folders("corpus/*.txt") == "corpus/*.txt"
    overrides = ["inputs.vectors=/home/me/v.txt", r"--model=C:\Users\me\small", "k=x=/home/y", "text=a/b=c", "lr=1e-3"]
    assert without_folders(overrides) == ["inputs.vectors=v.txt", "--model=small", "k=x=y", "text=a/b=c", "lr=1e-3"]
    addresses = [
        "file:///home/me/my%20text.txt",
        "--data=FILE:///C:/Users/me/data/",
        "file://host/me/v.txt",
        "s3://b/v.txt",
    ]
    assert without_folders(addresses) == ["my text.txt", "--data=data", "v.txt", "s3://b/v.txt"]


def test_what_is_shipped_has_names_for_every_system() -> None:
    """Of files, and of the folders that published models come to lie in."""
    package = TESTS.parent / "elmo"
    paths = [path.relative_to(package).as_posix() for path in package.rglob("*") if "__pycache__" not in path.parts]
    paths += [f"cache/{model.name}/{file.name}" for model in published_models() for file in model.files]
    assert len({path.casefold() for path in paths}) == len(set(paths))
    for path in paths:
        for name in path.split("/"):
            assert not set(name) & set('<>:"|?*\\'), path
            assert not name.endswith((" ", ".")), path
            assert name.partition(".")[0].lower() not in {"con", "prn", "aux", "nul"}, path
