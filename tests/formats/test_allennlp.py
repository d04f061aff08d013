"""options.json + HDF5: every shape that the options can say, read back bit by bit; misfits said in one line."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from bilm_files import write_zip
from refusals import refused
from tiny import CONFIG, tiny_model, write_tiny

from elmo import formats
from elmo.formats import allennlp
from elmo.model.bilm import BiLMConfig
from elmo.model.lstm import LstmConfig

LSTM, CNN = CONFIG.lstm, CONFIG.char_cnn
CONFIGS = {
    "usual": CONFIG,
    "no highway": BiLMConfig(LSTM, replace(CNN, n_highway=0)),
    "no token projection": BiLMConfig(LSTM, replace(CNN, filters=((1, 1), (2, 3)))),
    "no LSTM projection": BiLMConfig(replace(LSTM, dim=4), CNN),
    "one layer": BiLMConfig(replace(LSTM, n_layers=1), CNN),
    "four layers": BiLMConfig(replace(LSTM, n_layers=4), CNN),
    "no clips": BiLMConfig(replace(LSTM, cell_clip=None, proj_clip=None), CNN),
    "no skip": BiLMConfig(replace(LSTM, use_skip_connections=False), CNN),
    "tanh": BiLMConfig(LSTM, replace(CNN, activation="tanh", max_characters_per_token=20)),
    "more characters": BiLMConfig(LSTM, replace(CNN, n_characters=300)),
}


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())
def test_allennlp_load_gives_what_was_saved(tmp_path, config):
    before = tiny_model(config)
    allennlp.save(before, tmp_path / "model")
    after = formats.load(tmp_path / "model")
    assert after.config == config
    assert after.weights.keys() == before.weights.keys()
    assert all(torch.equal(after.weights[name], weight) for name, weight in before.weights.items())
    assert formats.describe(tmp_path / "model").config == config


def test_allennlp_missing_options_have_the_defaults_of_the_original(tmp_path):
    options, _ = write_tiny(tmp_path / "model", BiLMConfig(replace(LSTM, n_layers=1), replace(CNN, n_highway=0)))
    cnn = {"embedding": {"dim": 3}, "filters": [[1, 4], [2, 5]], "activation": "relu"}
    options.write_text(json.dumps({"lstm": {"dim": 6, "projection_dim": 4, "proj_clip": None}, "char_cnn": cnn}))
    config = formats.load(options.parent).config
    assert config.lstm == LstmConfig(6, 4, 1, cell_clip=None, proj_clip=None, use_skip_connections=False)
    assert config.char_cnn == replace(CNN, n_highway=0)


@pytest.mark.parametrize(
    ("options", "weights"), [("{}_options.json", "{}_weights.hdf5"), ("{}.json", "{}.hdf5")], ids=["begin", "stem"]
)
def test_allennlp_two_models_in_a_folder_are_told_apart_by_file(tmp_path, options, weights):
    folder, configs = tmp_path / "both", {"german": CONFIGS["usual"], "portuguese": CONFIGS["one layer"]}
    folder.mkdir()
    for name, config in configs.items():
        for file, new in zip(write_tiny(tmp_path / name, config), (options, weights), strict=True):
            file.rename(folder / new.format(name))
    for name, config in configs.items():
        assert formats.load(folder / weights.format(name)).config == config
    with refused("both", *(weights.format(name) for name in configs), "path"):
        formats.load(folder)


def test_allennlp_several_options_of_one_weights_file_need_both_paths(tmp_path):
    options, weights = write_tiny(tmp_path / "model")
    folder, other = options.parent, options.with_name("options_inference.json")
    other.write_bytes(options.read_bytes())
    for path in (folder, weights):
        with refused("options.json", "options_inference.json", "give both paths"):
            formats.load(path)
    assert formats.load(other, weights).config == CONFIG
    archive = write_zip(tmp_path / "m.zip", {file.name: file.read_bytes() for file in folder.iterdir()})
    with refused("m.zip", "2 options files", "unpack"):
        formats.load(archive)


def test_allennlp_a_file_that_cannot_be_opened_is_no_hindrance_unless_it_may_be_the_weights(tmp_path, monkeypatch):
    (_, weights), usual = write_tiny(tmp_path / "model"), Path.open
    weights.with_name("secret").write_bytes(b"")

    def refuse(path, *arguments, **more):
        if path.name in closed:
            raise PermissionError(13, "Permission denied", str(path))
        return usual(path, *arguments, **more)

    monkeypatch.setattr(Path, "open", refuse)
    closed = {"secret"}
    assert formats.load(weights.parent).config == formats.load(weights).config == CONFIG
    closed = {weights.name}
    with pytest.raises(PermissionError, match=weights.name):
        formats.load(weights.parent)


def test_allennlp_missing_partner_is_named(tmp_path, monkeypatch):
    options, weights = write_tiny(tmp_path / "model")
    options.unlink()
    monkeypatch.chdir(weights.parent)
    for path in (weights, weights.name):
        with refused(weights.name, "no options file", error=FileNotFoundError):
            formats.load(path)


def test_allennlp_foreign_row_0_is_refused(tmp_path):
    model = tiny_model()
    model.weights["token_encoder.embedding"][0] = 1
    with refused("padding"):
        allennlp.save(model, tmp_path / "model")
    assert list(tmp_path.iterdir()) == []
