"""What a path holds is told by its content; what it does not hold is said in one line."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from refusals import refused
from tiny import CONFIG, tiny_model

from elmo import formats
from elmo.embedding.embedder import Embedder
from elmo.formats import native, packages


def test_load_says_what_is_in_an_unknown_folder(tmp_path):
    with refused("known model", "seen: nothing"):
        formats.load(tmp_path)
    (tmp_path / "weights.pkl").write_bytes(b"123")
    (tmp_path / "more").mkdir()
    with refused("known model", "more/", "weights.pkl"):
        formats.load(tmp_path)
    with refused("weights.pkl"):
        formats.describe(tmp_path / "weights.pkl")


def test_load_does_not_import_the_compiler_of_torch(tmp_path):
    native.save(tiny_model(), tmp_path / "model")
    program = (
        "import sys; from elmo import Embedder; Embedder.load(sys.argv[1]).embed([['a']]);"
        " print('torch.nn' in sys.modules, 'torch._dynamo' in sys.modules)"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "model")]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "True False\n"


def test_an_archive_of_the_native_format_is_to_be_unpacked(tmp_path):
    native.save(tiny_model(), tmp_path / "model")
    path = Path(shutil.make_archive(str(tmp_path / "packed"), "zip", tmp_path / "model"))
    with refused("packed.zip", "unpack"):
        formats.load(path)


def test_load_by_name_finds_a_packaged_model(tmp_path, monkeypatch):
    monkeypatch.setattr(packages, "ASSETS", tmp_path)
    native.save(tiny_model(), tmp_path / formats.DEFAULT_MODEL)
    native.save(tiny_model(), tmp_path / "other")
    (tmp_path / "demo.txt").write_text("no model")
    assert packages.packaged_names() == sorted([formats.DEFAULT_MODEL, "other"])
    assert formats.find("other") == tmp_path / "other"
    for usual in (None, "default", formats.DEFAULT_MODEL):
        assert formats.find(usual) == tmp_path / formats.DEFAULT_MODEL
        assert formats.load(usual).config == CONFIG


@pytest.mark.parametrize("usual", [None, "default"])
def test_a_path_comes_before_a_name_but_not_before_the_default(tmp_path, monkeypatch, usual):
    """A run may have been called by the name of its recipe: elmo train english-small --output english-small."""
    monkeypatch.chdir(tmp_path)
    native.save(tiny_model(), tmp_path / formats.DEFAULT_MODEL)
    assert formats.find(formats.DEFAULT_MODEL) == Path(formats.DEFAULT_MODEL)
    assert formats.find(usual) == packages.ASSETS / formats.DEFAULT_MODEL
    assert (formats.recorded_name(usual), formats.recorded_name(tmp_path)) == (formats.DEFAULT_MODEL, str(tmp_path))


def test_a_model_shows_itself_without_its_weights_and_words():
    """As a notebook does with the last line of a cell."""
    found = formats.load()
    embedder = Embedder(found.bilm(), vocabulary=found.inputs, device="cpu")
    assert str(embedder) == "<Embedder: 3 layers of 512 dimensions, float32, state 'reset', on cpu>"
    shown = repr(found)
    assert "vocabulary=<Vocabulary of 50,000 words>" in shown
    assert len(shown) < 5000
