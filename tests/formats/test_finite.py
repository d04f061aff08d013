"""Weights that are NaN or infinite are refused, in every format and after any damage."""

import shutil
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from archives import STATE, archived, as_torch
from bilm_files import write_tar, write_zip
from command import run
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from refusals import refusal, refused
from safetensors.torch import load_file, save_file
from tiny import tiny_model, write_tiny

import elmo
from elmo import formats
from elmo.errors import InputError
from elmo.formats import Mix, Model, native
from elmo.text.vocabulary import SPECIAL, Vocabulary


def model_with_softmax() -> Model:
    words = Vocabulary((*SPECIAL, "a", "b"))
    head = {"weight": torch.randn(len(words), 4), "bias": torch.randn(len(words))}
    return replace(tiny_model(), lm_head=head, vocabulary=words)


def native_folder(folder: Path) -> Path:
    native.save(model_with_softmax(), folder)
    return folder


def hdf5_folder(folder: Path) -> Path:
    return write_tiny(folder)[0].parent


def torch_archive(folder: Path, state: dict[str, torch.Tensor] = STATE) -> Path:
    return write_tar(folder.with_suffix(".tar.gz"), {**archived(state), "weights.th": as_torch(state)})


def hdf5_archive(folder: Path) -> Path:
    files = {file.name: file.read_bytes() for file in hdf5_folder(folder.with_name("packed")).iterdir()}
    return write_zip(folder.with_suffix(".zip"), files)


def cannot_load(path: Path, *words: str) -> None:
    for load in (formats.load, elmo.load):
        with refused(*words):
            load(path)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", ["bilm.layers.1.weight_state", "lm_head.bias"])
def test_native_weights(tmp_path, value, name):
    folder = native_folder(tmp_path / "model")
    weights = load_file(folder / native.WEIGHTS)
    weights[name].view(-1)[-1] = value
    save_file(weights, folder / native.WEIGHTS)
    said = name.removeprefix("bilm.").replace("lm_head.", "softmax ")
    cannot_load(folder, "model", said, "NaN", "copy it again")
    native.save(replace(tiny_model(), mixes=(Mix("ner", (0.1, value, 0.3), 1.0),)), folder, overwrite=True)
    cannot_load(folder, "config.json", "mixes[0].scalars[1]", value)


def test_hdf5_weights_and_the_command_line(tmp_path):
    folder = hdf5_folder(tmp_path / "model")
    with h5py.File(next(folder.glob("*.hdf5")), "a") as file:
        file["CNN_proj/W_proj"][0, 0] = np.nan
    cannot_load(folder, "token_encoder.projection.weight")
    assert run("info", folder).returncode == 0, "from its headers alone"
    for arguments in (["info", folder, "--check"], ["embed", "-", tmp_path / "out.npz", "--model", folder]):
        refusal(run(*arguments), "damaged")
    assert "all finite" in run("info", hdf5_folder(tmp_path / "sound"), "--check").stdout


def test_torch_weights(tmp_path):
    name, weight = next((name, weight.clone()) for name, weight in STATE.items() if "forward_layer_1.state" in name)
    weight.view(-1)[0] = np.inf
    cannot_load(torch_archive(tmp_path / "model", {**STATE, name: weight}), "infinite")


def test_numbers_that_no_training_gives(tmp_path):
    model = model_with_softmax()
    assert model.lm_head is not None
    model.lm_head["bias"][:] = 1e30
    model.weights["layers.0.bias"][0, 0] = -9e5
    native.save(model, tmp_path / "model")
    assert formats.load(tmp_path / "model").weights["layers.0.bias"][0, 0] == -9e5
    model.weights["layers.0.bias"][0, 1] = -2e6
    native.save(model, tmp_path / "larger")
    cannot_load(tmp_path / "larger", "layers.0.bias", "1,000,000")


def test_what_float16_cannot_hold_is_not_saved_in_it(tmp_path):
    model = model_with_softmax()
    model.weights["layers.0.bias"][0, 0] = 1e5
    with refused("layers.0.bias", "65,504", "float16"):
        native.save(model, tmp_path / "half", store="float16")
    assert not (tmp_path / "half").exists()


@pytest.mark.parametrize("make", [native_folder, hdf5_folder, torch_archive, hdf5_archive])
@settings(max_examples=40, suppress_health_check=list(HealthCheck), deadline=None)
@given(data=st.data())
def test_after_any_damage_vectors_are_finite_or_there_are_none(tmp_path, make, data):
    sound = tmp_path / "sound"
    if not any(tmp_path.glob("sound*")):
        make(sound)
    source = next(tmp_path.glob("sound*"))
    damaged = tmp_path / ("damaged" + "".join(source.suffixes))
    shutil.rmtree(damaged, ignore_errors=True)
    (shutil.copytree if source.is_dir() else shutil.copy)(source, damaged)
    file = max(damaged.iterdir(), key=lambda path: path.stat().st_size) if damaged.is_dir() else damaged
    raw = bytearray(file.read_bytes())
    if data.draw(st.booleans()):
        raw = raw[: data.draw(st.integers(1, len(raw)))]
    for place in data.draw(st.lists(st.integers(0, len(raw) - 1), min_size=1, max_size=40)):
        raw[place] = data.draw(st.sampled_from([0x00, 0x7F, 0x80, 0xFF, raw[place] ^ 1]))
    file.write_bytes(raw)
    for read in (formats.describe, lambda path: elmo.load(path).embed([["a", "b"]])[0]):
        vectors, said = None, ""
        try:
            vectors = read(damaged)
        except (InputError, OSError) as error:
            said = str(error)
        assert not isinstance(vectors, np.ndarray) or np.isfinite(vectors).all()
        assert "\n" not in said
