"""Files that would hang, fill the memory or take minutes are refused at once; other files say what they are.

Each attack is in one process with a limit of time, so that a hang is a failure.
"""

import gzip
import json
import lzma
import os
import struct
import time
from pathlib import Path

import h5py
import pytest
from bilm_files import write_folder, write_tar, write_zip
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


def write_published(folder: Path) -> Path:
    return write_tiny(folder)[0].parent


def pipe(path: Path) -> Path:
    """Puts a pipe in the place of a file; returns the folder."""
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    return path.parent


def endless(path: Path) -> Path:
    """Puts zeros without an end in the place of a file; returns the folder."""
    path.unlink(missing_ok=True)
    return link(path, "/dev/zero").parent


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


MANY = {f"options{number}.json": b"" for number in range(10_001)}


ATTACKS = {
    "files of a folder": lambda at: write_folder(at / "m", MANY),
    "members of a zip": lambda at: write_zip(at / "m.zip", MANY),
    "members of a tar": lambda at: write_tar(at / "m.tar.gz", MANY),
    "config is a pipe": lambda at: pipe(write_native(at / "m") / "config.json"),
    "config never ends": lambda at: endless(write_native(at / "m") / "config.json"),
    "weights are a pipe": lambda at: pipe(write_native(at / "m") / native.WEIGHTS),
    "weights never end": lambda at: endless(write_native(at / "m") / native.WEIGHTS),
    "options are a pipe": lambda at: pipe(write_published(at / "m") / "options.json"),
    "options never end": lambda at: endless(write_published(at / "m") / "options.json"),
    "published weights never end": lambda at: endless(write_published(at / "m") / "weights.hdf5"),
    "an index is a pipe": lambda at: pipe(write_folder(at / "m", {"0.json": b""}) / "model.ckpt.index"),
    "a pipe itself": lambda at: pipe(at / "pipe") / "pipe",
    "nested groups": lambda at: nested_groups(at / "m"),
    "many datasets": lambda at: many_datasets(at / "m"),
    "many tensors": lambda at: many_tensors(at / "m"),
    "large header": lambda at: large_header(at / "m"),
    "many filters": lambda at: many_filters(at / "m"),
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
    options, weights = write_tiny(tmp_path / "m")
    pipe(options)
    with refused("regular file"):
        formats.load(options, weights)


# What a file is


LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 374434792\n"
PAGE = b"<!DOCTYPE html>\n<html><body>Sign in</body></html>"
OTHER = {
    "lfs": (lambda _: LFS, "git lfs pull"),
    "page": (lambda _: PAGE, "web page"),
    "gz": (gzip.compress, "gunzip"),
    "xz": (lzma.compress, "unxz"),
}


@pytest.mark.parametrize("kind", OTHER)
@pytest.mark.parametrize("name", ["weights.hdf5", "options.json"])
@pytest.mark.parametrize("asked", ["folder", "weights", "options"])
def test_another_file_in_its_place_is_named_with_the_remedy(tmp_path, kind, name, asked):
    options, weights = write_tiny(tmp_path / "model")
    make, remedy = OTHER[kind]
    file = tmp_path / "model" / name
    file.write_bytes(make(file.read_bytes()))
    path = {"folder": file.parent, "weights": weights, "options": options}[asked]
    with refused(file, remedy):
        elmo.load(path)


def test_a_page_by_its_name_is_not_taken_for_a_damaged_model(tmp_path):
    (tmp_path / "report.html").write_bytes(PAGE)
    with refused(tmp_path, "not a known model", "report.html"):
        elmo.load(tmp_path)


@pytest.mark.parametrize("asked", ["", "options.json", "weights.hdf5"])
def test_options_with_a_trailing_comma_are_named(tmp_path, asked):
    options, _ = write_tiny(tmp_path / "model")
    options.write_text(json.dumps(json.loads(options.read_text()))[:-1] + ",}")
    with refused("options.json", "JSON"):
        elmo.load(options.parent / asked)


# Names


def test_a_wrong_name_gets_the_one_that_is_meant_if_it_is_like_one():
    for name, meant in (("english-bsae", "english-base"), ("Englsh-base", "english-base"), ("orignal", "original")):
        with refused(f"did you mean {meant}", error=FileNotFoundError):
            formats.find(name)
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
    refusal(run("info", "user/other", variables=environment), "elmo pull user/other")
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
    done = run("info", write_zip(tmp_path / "model.zip", {"a\x1b[31m.txt": b"x"}))
    assert done.returncode == 2
    assert "\x1b" not in done.stderr


def test_json_that_is_made_printable_means_the_same():
    text = "\x9b \u202e \x7f é 東"
    assert json.loads(escape_controls(json.dumps(text, ensure_ascii=False))) == text
    assert escape_controls("naïve 東京 \u200f") == "naïve 東京 \u200f"
