"""Files that would hang, fill the memory or take minutes are refused at once; other files say what they are.

Each attack is in one process with a limit of time, so that a hang is a failure.
"""

import gzip
import json
import lzma
import os
import struct
import tarfile
import time
import zipfile
from pathlib import Path

import h5py
import pytest
from command import run
from links import link
from refusals import refusal, refused
from safetensors.torch import save_file
from tiny import tiny_model, write_tiny
from torch import zeros

import elmo
from elmo import formats
from elmo.errors import InputError
from elmo.formats import native
from elmo.terminal import escape_controls


def write_native(folder: Path) -> Path:
    native.save(tiny_model(), folder)
    return folder


def replaced_by_pipe(folder: Path, name: str) -> Path:
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    return folder


def replaced_by_zeros(folder: Path, name: str) -> Path:
    (folder / name).unlink(missing_ok=True)
    link(folder / name, "/dev/zero")
    return folder


def nested_groups(folder: Path) -> Path:
    """A chain of 4,000 groups, made from its end: a path of them would be as long."""
    files = write_tiny(folder)
    with h5py.File(files[1], "a") as file:
        last = file.create_group(None)
        for _ in range(4000):
            group = file.create_group(None)
            group["g"] = last
            last = group
        file["g"] = last
    return folder


def many_datasets(folder: Path) -> Path:
    files = write_tiny(folder)
    with h5py.File(files[1], "a", libver="latest") as file:
        group = file.create_group("many")
        for number in range(10_001):
            group[str(number)] = h5py.SoftLink("/CNN_proj")
    return folder


def many_tensors(folder: Path) -> Path:
    write_native(folder)
    save_file({f"bilm.{number}": zeros(0) for number in range(10_000)}, folder / native.WEIGHTS)
    return folder


def large_header(folder: Path) -> Path:
    write_native(folder)
    header = b'{"__metadata__":{"a":"' + b"x" * 20_000_000 + b'"}}'
    (folder / native.WEIGHTS).write_bytes(struct.pack("<Q", len(header)) + header)
    return folder


def many_filters(folder: Path) -> Path:
    config = write_native(folder) / "config.json"
    values = json.loads(config.read_text())
    values["model"]["char_cnn"]["filters"] = [[1, 1]] * 300_000
    config.write_text(json.dumps(values))
    return folder


def many_members(path: Path) -> Path:
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            for number in range(10_001):
                archive.writestr(f"options{number}.json", b"")
        return path
    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        for number in range(10_001):
            archive.addfile(tarfile.TarInfo(f"options{number}.json"))
    return path


def many_files(path: Path, count: int = 10_001) -> Path:
    path.mkdir()
    for number in range(count):
        (path / f"{number}.json").touch()
    return path


ATTACKS = {
    "files of a folder": lambda at: many_files(at / "m"),
    "config is a pipe": lambda at: replaced_by_pipe(write_native(at / "m"), "config.json"),
    "config never ends": lambda at: replaced_by_zeros(write_native(at / "m"), "config.json"),
    "weights are a pipe": lambda at: replaced_by_pipe(write_native(at / "m"), native.WEIGHTS),
    "weights never end": lambda at: replaced_by_zeros(write_native(at / "m"), native.WEIGHTS),
    "options are a pipe": lambda at: replaced_by_pipe(write_tiny(at / "m")[0].parent, "options.json"),
    "options never end": lambda at: replaced_by_zeros(write_tiny(at / "m")[0].parent, "options.json"),
    "published weights never end": lambda at: replaced_by_zeros(write_tiny(at / "m")[0].parent, "weights.hdf5"),
    "an index is a pipe": lambda at: replaced_by_pipe(many_files(at / "m", 1), "model.ckpt.index"),
    "a pipe itself": lambda at: replaced_by_pipe(at, "pipe") / "pipe",
    "nested groups": lambda at: nested_groups(at / "m"),
    "many datasets": lambda at: many_datasets(at / "m"),
    "many tensors": lambda at: many_tensors(at / "m"),
    "large header": lambda at: large_header(at / "m"),
    "many filters": lambda at: many_filters(at / "m"),
    "members of a zip": lambda at: many_members(at / "m.zip"),
    "members of a tar": lambda at: many_members(at / "m.tar.gz"),
}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with names")
@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_is_refused_at_once(tmp_path, attack):
    path = ATTACKS[attack](tmp_path)
    before = time.process_time()
    refusal(run("info", path))
    for read in (formats.load, formats.describe):
        with pytest.raises((InputError, FileNotFoundError)):
            read(path)
    assert time.process_time() - before < 5  # of the processor, which others may use as well


def test_options_given_as_a_pipe_are_refused(tmp_path):
    _, weights = write_tiny(tmp_path / "m")
    pipe = replaced_by_pipe(tmp_path, "options.json") / "options.json"
    with pytest.raises(InputError, match="regular file"):
        formats.load(pipe, weights)


# What a file is


def lfs(_: Path) -> bytes:
    return b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 374434792\n"


PAGE = b"<!DOCTYPE html>\n<html><body>Sign in</body></html>"
OTHER = {
    "lfs": (lfs, "git lfs pull"),
    "page": (lambda _: PAGE, "web page"),
    "gz": (lambda path: gzip.compress(path.read_bytes()), "gunzip"),
    "xz": (lambda path: lzma.compress(path.read_bytes()), "unxz"),
}


@pytest.mark.parametrize("kind", OTHER)
@pytest.mark.parametrize("name", ["weights.hdf5", "options.json"])
@pytest.mark.parametrize("asked", ["folder", "weights", "options"])
def test_another_file_in_its_place_is_named_with_the_remedy(tmp_path, kind, name, asked):
    options, weights = write_tiny(tmp_path / "model")
    make, remedy = OTHER[kind]
    file = tmp_path / "model" / name
    file.write_bytes(make(file))
    path = {"folder": file.parent, "weights": weights, "options": options}[asked]
    with refused(file, remedy):
        elmo.load(path)


def test_a_page_by_its_name_is_not_taken_for_a_damaged_model(tmp_path):
    (tmp_path / "report.html").write_bytes(PAGE)
    with refused(tmp_path, "not a known model", "report.html"):
        elmo.load(tmp_path)


def test_native_weights_that_are_a_pointer_are_named(tmp_path):
    folder = write_native(tmp_path / "model")
    (folder / native.WEIGHTS).write_bytes(lfs(folder))
    with refused("model.safetensors", "git lfs pull"):
        elmo.load(folder)


@pytest.mark.parametrize("asked", ["", "options.json", "weights.hdf5"])
def test_options_with_a_trailing_comma_are_named(tmp_path, asked):
    options, _ = write_tiny(tmp_path / "model")
    options.write_text(json.dumps(json.loads(options.read_text()))[:-1] + ",}")
    with refused("options.json", "JSON"):
        elmo.load(options.parent / asked)


# Names


@pytest.mark.parametrize(
    ("name", "meant"), [("english-bsae", "english-base"), ("Englsh-base", "english-base"), ("orignal", "original")]
)
def test_a_wrong_name_gets_the_one_that_is_meant(name, meant):
    with pytest.raises(FileNotFoundError, match=f"did you mean {meant}"):
        formats.find(name)


def test_a_name_that_is_like_none_gets_no_question():
    with pytest.raises(FileNotFoundError) as caught:
        formats.find("quite-another")
    assert "did you mean" not in str(caught.value)


def test_a_model_of_the_hub_opens_from_its_cache(tmp_path):
    """As the Hub's library leaves it: a folder of links for each commit."""
    pytest.importorskip("huggingface_hub")
    cache, commit = tmp_path / "hub" / "hub" / "models--user--name", "a" * 40
    (cache / "refs").mkdir(parents=True)
    (cache / "refs" / "main").write_text(commit)
    (cache / "snapshots").mkdir()
    write_native(cache / "snapshots" / commit)
    environment = {"HF_HOME": str(tmp_path / "hub"), "ELMO_OFFLINE": "1"}
    done = run("info", "user/name", variables=environment)
    assert done.returncode == 0, done.stderr
    assert "elmo-torch" in done.stdout
    absent = run("info", "user/other", variables=environment)
    assert absent.returncode == 2
    assert "elmo pull user/other" in absent.stderr
    assert run("pull", "user/other", variables=environment).returncode == 2


# What is printed


def test_control_characters_are_never_printed_raw(tmp_path):
    model = tiny_model()
    model.card["note\x1b[2J"] = "\x1b]0;title\x07 and \x9b31m and \u202ereversed"
    native.save(model, tmp_path / "model")
    for arguments in (["info"], ["info", "--json"]):
        done = run(*arguments, str(tmp_path / "model"))
        assert done.returncode == 0, done.stderr
        assert not set(done.stdout) & set("\x1b\x07\x9b\u202e")
        assert "\\u001b" in done.stdout
    with zipfile.ZipFile(tmp_path / "model.zip", "w") as archive:
        archive.writestr("a\x1b[31m.txt", "x")
    done = run("info", str(tmp_path / "model.zip"))
    assert done.returncode == 2
    assert "\x1b" not in done.stderr


def test_json_that_is_made_printable_means_the_same():
    text = "\x9b \u202e \x7f é 東"
    assert json.loads(escape_controls(json.dumps(text, ensure_ascii=False))) == text
    assert escape_controls("naïve 東京 \u200f") == "naïve 東京 \u200f"
