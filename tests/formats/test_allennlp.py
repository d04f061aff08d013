"""options.json + HDF5: every shape that the options can say, read back bit by bit; misfits said in one line."""

import json
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from bilm_files import write_zip
from refusals import refused

from elmo import formats
from elmo.formats import Model, allennlp, bilm_layout
from elmo.model.bilm import BiLM, BiLMConfig
from elmo.model.char_cnn import CharCnnConfig
from elmo.model.lstm import LstmConfig

LSTM = LstmConfig(dim=6, projection_dim=4, n_layers=2)
CNN = CharCnnConfig(embedding_dim=3, filters=((1, 2), (3, 5)), n_highway=2)
CONFIGS = {
    "usual": BiLMConfig(LSTM, CNN),
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


def random_model(config: BiLMConfig) -> Model:
    weights = {name: torch.randn_like(weight) for name, weight in BiLM(config).state_dict().items()}
    weights["token_encoder.embedding"][0] = 0
    return Model(config, weights)


def saved(folder: Path, config: BiLMConfig = CONFIGS["usual"]) -> Path:
    allennlp.save(random_model(config), folder / "model")
    return folder / "model"


def edit_options(folder: Path, section: str, **changes: object) -> None:
    file = folder / allennlp.OPTIONS
    options = json.loads(file.read_text())
    options[section].update(changes)
    options[section] = {key: value for key, value in options[section].items() if value != "absent"}
    file.write_text(json.dumps(options))


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())
def test_allennlp_load_gives_what_was_saved(tmp_path, config):
    before = random_model(config)
    allennlp.save(before, tmp_path / "model")
    after = formats.load(tmp_path / "model")
    assert after.config == config
    assert after.weights.keys() == before.weights.keys()
    assert all(torch.equal(after.weights[name], weight) for name, weight in before.weights.items())
    assert formats.describe(tmp_path / "model").config == config


def test_allennlp_layout_is_the_published_one(tmp_path):
    model = random_model(CONFIGS["usual"])
    allennlp.save(model, tmp_path / "model")
    with h5py.File(tmp_path / "model" / allennlp.WEIGHTS) as file:
        assert file["char_embed"].shape == (261, 3)
        assert file["CNN/W_cnn_1"].shape == (1, 3, 3, 5)
        assert file["CNN_high_1/W_carry"].shape == (7, 7)
        cell = file["RNN_1/RNN/MultiRNNCell/Cell1/LSTMCell"]
        assert {name: item.shape for name, item in cell.items()} == {"B": (24,), "W_0": (8, 24), "W_P_0": (6, 4)}
        # Rows of W_0: the input, then the state.
        np.testing.assert_array_equal(cell["W_0"][:4].T, model.weights["layers.1.weight_input"][1].numpy())
        np.testing.assert_array_equal(cell["W_0"][4:].T, model.weights["layers.1.weight_state"][1].numpy())


def test_allennlp_number_of_characters_is_that_of_the_array(tmp_path):
    folder = saved(tmp_path)
    edit_options(folder, "char_cnn", n_characters=261)
    assert formats.load(folder).config == CONFIGS["usual"]


def test_allennlp_missing_options_have_the_defaults_of_the_original(tmp_path):
    folder = saved(tmp_path, BiLMConfig(replace(LSTM, n_layers=1), replace(CNN, n_highway=0)))
    edit_options(folder, "lstm", cell_clip="absent", proj_clip=None, n_layers="absent", use_skip_connections="absent")
    edit_options(folder, "char_cnn", n_highway="absent", n_characters="absent", max_characters_per_token="absent")
    config = formats.load(folder).config
    assert config.lstm == LstmConfig(6, 4, 1, cell_clip=None, proj_clip=None, use_skip_connections=False)
    assert config.char_cnn == replace(CNN, n_highway=0)


def test_allennlp_unknown_options_are_kept(tmp_path):
    folder = saved(tmp_path)
    edit_options(folder, "lstm", n_negative_samples_batch=8192)
    allennlp.save(formats.load(folder), tmp_path / "again")
    texts = [(path / allennlp.OPTIONS).read_text() for path in (folder, tmp_path / "again")]
    assert json.loads(texts[0]) == json.loads(texts[1])


def test_allennlp_single_layer_without_the_group_of_layers_is_read(tmp_path):
    folder = saved(tmp_path, CONFIGS["one layer"])
    before = formats.load(folder)
    with h5py.File(folder / allennlp.WEIGHTS, "a") as file:
        for direction in range(2):
            file.move(f"{bilm_layout.cell_name(direction, 0)}", f"RNN_{direction}/RNN/LSTMCell")
    after = formats.load(folder)
    assert all(torch.equal(after.weights[name], weight) for name, weight in before.weights.items())


def test_allennlp_other_forget_bias_is_written_as_the_original_adds_it(tmp_path):
    config = BiLMConfig(replace(LSTM, forget_bias=0.0), CNN)
    before = random_model(config)
    allennlp.save(before, tmp_path / "model")
    after = formats.load(tmp_path / "model")
    assert after.config.lstm.forget_bias == 1.0
    change = after.weights["layers.0.bias"] - before.weights["layers.0.bias"]
    expected = torch.zeros(2, 24)
    expected[:, 12:18] = -1
    assert torch.allclose(change, expected, atol=1e-6)


@pytest.mark.parametrize("names", [("options_file", "weights_file"), ("x_options.json", "x_weights.hdf5")])
def test_allennlp_is_found_by_content_whatever_the_names(tmp_path, names):
    folder = saved(tmp_path)
    options, weights = folder / names[0], folder / names[1]
    (folder / allennlp.OPTIONS).rename(options)
    (folder / allennlp.WEIGHTS).rename(weights)
    (folder / "meta.json").write_text('{"corpus": "none"}')
    with h5py.File(folder / "vectors.hdf5", "w") as file:
        file["0"] = np.zeros((3, 2, 8))
    for path in (folder, options, weights):
        assert formats.load(path).config == CONFIGS["usual"]


def test_allennlp_two_models_in_a_folder_are_told_apart_by_file(tmp_path):
    folder = tmp_path / "both"
    folder.mkdir()
    for name, config in (("a", CONFIGS["usual"]), ("b", CONFIGS["one layer"])):
        allennlp.save(random_model(config), tmp_path / name)
        (tmp_path / name / allennlp.OPTIONS).rename(folder / f"{name}_options.json")
        (tmp_path / name / allennlp.WEIGHTS).rename(folder / f"{name}_weights.hdf5")
    assert formats.load(folder / "b_weights.hdf5").config == CONFIGS["one layer"]
    with refused("both", "a_w", "b_w", "path"):
        formats.load(folder)


@pytest.mark.parametrize("given", ["german.hdf5", "portuguese.hdf5"])
def test_allennlp_files_of_one_name_belong_together(tmp_path, given):
    folder = tmp_path / "both"
    folder.mkdir()
    configs = {"german.hdf5": CONFIGS["usual"], "portuguese.hdf5": CONFIGS["one layer"]}
    for name, config in configs.items():
        model = tmp_path / name
        allennlp.save(random_model(config), model)
        (model / allennlp.WEIGHTS).rename(folder / name)
        (model / allennlp.OPTIONS).rename(folder / Path(name).with_suffix(".json"))
    assert formats.load(folder / given).config == configs[given]


def test_allennlp_several_options_of_one_weights_file_need_both_paths(tmp_path):
    folder = saved(tmp_path)
    other = folder / "options_inference.json"
    other.write_bytes((folder / allennlp.OPTIONS).read_bytes())
    for path in (folder, folder / allennlp.WEIGHTS):
        with refused("options.json", "options_inference.json", "give both paths"):
            formats.load(path)
    assert formats.load(other, folder / allennlp.WEIGHTS).config == CONFIGS["usual"]
    archive = write_zip(tmp_path / "m.zip", {file.name: file.read_bytes() for file in folder.iterdir()})
    with refused("m.zip", "2 options files", "unpack"):
        formats.load(archive)


def test_allennlp_a_file_that_cannot_be_opened_is_no_hindrance_unless_it_may_be_the_weights(tmp_path, monkeypatch):
    folder, usual = saved(tmp_path), Path.open
    (folder / "secret").write_bytes(b"")

    def refuse(path, *arguments, **more):
        if path.name in closed:
            raise PermissionError(13, "Permission denied", str(path))
        return usual(path, *arguments, **more)

    monkeypatch.setattr(Path, "open", refuse)
    closed = {"secret"}
    assert formats.load(folder).config == formats.load(folder / allennlp.WEIGHTS).config == CONFIGS["usual"]
    closed = {allennlp.WEIGHTS}
    with pytest.raises(PermissionError, match=allennlp.WEIGHTS):
        formats.load(folder)


@pytest.mark.parametrize(
    ("section", "changes", "message"),
    [
        ("lstm", {"dim": 7}, "weights.hdf5; /W_0; shape; (8, 24); (8, 28)"),
        ("lstm", {"n_layers": 3}, "weights.hdf5; RNN_0/RNN/MultiRNNCell/Cell2/LSTMCell/W_0; missing; shape"),
        ("lstm", {"n_layers": 1}, "weights.hdf5; RNN_0/RNN/MultiRNNCell/Cell1/; (24,)"),
        ("char_cnn", {"n_highway": 1}, "weights.hdf5; CNN_high_1/W_carry; (7, 7)"),
        ("lstm", {"dim": "absent"}, "options.json; 'dim'"),
    ],
)
def test_allennlp_misfit_is_named(tmp_path, section, changes, message):
    folder = saved(tmp_path)
    edit_options(folder, section, **changes)
    for read in (formats.describe, formats.load):
        with refused(*message.split("; ")):
            read(folder)


@pytest.mark.parametrize("kept", [0.1, 0.5, 0.99])
def test_allennlp_truncated_weights_are_named(tmp_path, kept):
    file = saved(tmp_path) / allennlp.WEIGHTS
    data = file.read_bytes()
    file.write_bytes(data[: int(len(data) * kept)])
    with refused("weights.hdf5", "damaged", "fetch"):
        formats.load(file.parent)


def test_allennlp_characters_without_options_are_named(tmp_path):
    folder = saved(tmp_path)
    options = json.loads((folder / allennlp.OPTIONS).read_text())
    del options["char_cnn"]
    (folder / allennlp.OPTIONS).write_text(json.dumps(options))
    with refused("options.json", "'char_cnn'", "add it"):
        formats.load(folder)


def test_allennlp_missing_partner_is_named(tmp_path):
    folder = saved(tmp_path)
    (folder / allennlp.OPTIONS).unlink()
    with pytest.raises(FileNotFoundError, match="no options file"):
        formats.load(folder / allennlp.WEIGHTS)


def test_allennlp_foreign_row_0_is_refused(tmp_path):
    model = random_model(CONFIGS["usual"])
    model.weights["token_encoder.embedding"][0] = 1
    with refused("padding"):
        allennlp.save(model, tmp_path / "model")
    assert list(tmp_path.iterdir()) == []
