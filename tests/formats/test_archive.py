"""The biLM out of AllenNLP's `model.tar.gz`: names, gates and signs as its class has them, against the twin.

`state_dict` below is written from the published behaviour. The reader was also held to models that AllenNLP 0.9.0 and
2.10.1 themselves made, trained a little and saved: all layers and both mixes agreed to 1e-6 (docs/log.md).
"""

import json
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest
import torch
import twin
from archives import CONFIG, OPTIONS, PREFIX, STATE, archived, as_torch, state_dict
from bilm_files import as_float64, as_hdf5, as_json, options, random_weights, write_folder, write_tar
from command import printed
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from refusals import refused

import elmo
from elmo import formats
from elmo.formats import allennlp, native
from elmo.text.batching import to_batch

TOLERANCE = 1e-5
TEXT = [["the", "cat", "sat"], [], ["naïve", "the"]]


def assert_twin(embedder: elmo.Embedder, options: dict[str, Any], weights: dict[str, np.ndarray]) -> None:
    for vectors, tokens in zip(embedder.embed(TEXT), TEXT, strict=True):
        expected = twin.layers(tokens, options, as_float64(weights))[:, 1:-1]
        np.testing.assert_allclose(vectors, expected, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("legacy", [False, True], ids=["zip", "legacy"])
def test_an_archive_is_told_and_embedded(tmp_path, legacy):
    weights = random_weights(OPTIONS, 4)
    path = write_tar(tmp_path / "model.tar.gz", archived(state_dict(weights), legacy))
    found = formats.describe(path)
    padding = 3
    assert sum(found.parameters.values()) == sum(weight.size for weight in weights.values()) + padding
    assert (found.format, found.dtype, found.bytes_on_disk) == ("allennlp-archive", "float32", path.stat().st_size)
    assert found.mixes == (PREFIX + "scalar_mix_0",)
    assert found.card["assumed"]["lstm"] == {"cell_clip": 3, "proj_clip": 3}
    assert_twin(elmo.load(path), OPTIONS, weights)
    assert [file.name for file in tmp_path.iterdir()] == ["model.tar.gz"], "nothing is unpacked"
    allennlp.save(formats.load(path), tmp_path / "published")
    assert_twin(elmo.load(tmp_path / "published"), OPTIONS, weights)
    shown = json.loads(printed("info", path, "--json"))
    assert (shown["reads"], shown["learned mixes"]) == ("characters", PREFIX + "scalar_mix_0")


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(options=options(), seed=st.integers(0, 2**32 - 1), how=st.sampled_from(["fta", "given", "folder"]))
def test_the_options_of_an_archive_are_those_it_holds_or_that_are_given(tmp_path, options, seed, how):
    options["lstm"]["use_skip_connections"] = True  # AllenNLP has no others, nor models without projections
    options["char_cnn"]["n_characters"] = 262
    lstm, filters = options["lstm"], options["char_cnn"]["filters"]
    lstm["dim"] += lstm["dim"] == lstm["projection_dim"]
    if sum(count for _, count in filters) == lstm["projection_dim"]:
        filters.append((1, 2))
    weights = random_weights(options, seed)
    state, fta = state_dict(weights), {"options_file": as_json(options), "weight_file": as_hdf5(weights)}
    given = tmp_path / "given.json"
    given.write_bytes(as_json(options))
    if how == "fta":
        embedder = elmo.load(write_tar(tmp_path / "model.tar.gz", archived(state, **fta)))
    elif how == "given":
        embedder = elmo.load(given, weights=write_tar(tmp_path / "model.tar.gz", archived(state)))
    else:
        files = {name: data for name, data in archived(state).items() if "/" not in name}
        embedder = elmo.load(write_folder(tmp_path / "folder", files | {"options.json": as_json(options)}))
    assert_twin(embedder, options, weights)


def test_two_options_files_that_differ_are_refused(tmp_path):
    other = {**OPTIONS, "lstm": {**OPTIONS["lstm"], "cell_clip": 7}}
    state = state_dict(random_weights(OPTIONS, 4))
    same = {"a.options_file": as_json(OPTIONS), "b.options_file": as_json(OPTIONS)}
    elmo.load(write_tar(tmp_path / "same.tar.gz", archived(state, **same)))
    path = write_tar(tmp_path / "other.tar.gz", archived(state, **(same | {"b.options_file": as_json(other)})))
    with refused("options", "2"):
        elmo.load(path)


def mixed_by_hand(layers: np.ndarray, k: int) -> np.ndarray:
    weights = np.exp([0.3 * j - 0.1 * k for j in range(len(layers))])
    return (1.5 - k) * np.einsum("n,ntd->td", weights / weights.sum(), layers)


def test_the_learned_mixes_are_read_and_kept(tmp_path):
    weights = random_weights(OPTIONS, 4)
    path = write_tar(tmp_path / "model.tar.gz", archived(state_dict(weights, n_mixes=2)))
    native.save(formats.load(path), tmp_path / "native")
    expected = [twin.layers(tokens, OPTIONS, as_float64(weights)) for tokens in TEXT]
    for model in (formats.load(path), formats.load(tmp_path / "native")):
        assert [mix.name for mix in model.mixes] == [PREFIX + "scalar_mix_0", PREFIX + "scalar_mix_1"]
        with torch.no_grad():
            mixed, _ = model.elmo().eval()(to_batch(TEXT))
        for k in range(2):
            for row, layers in enumerate(expected):
                own = mixed[k][row, : layers.shape[1]].numpy()
                np.testing.assert_allclose(own, mixed_by_hand(layers, k), rtol=0, atol=TOLERANCE)
        vectors = elmo.load(path).embed(TEXT, layers=model.mixes[1].weights)
        for own, layers in zip(vectors, expected, strict=True):
            np.testing.assert_allclose(own, mixed_by_hand(layers, 1)[1:-1], rtol=0, atol=TOLERANCE)
    assert formats.describe(tmp_path / "native").mixes == formats.describe(path).mixes


def test_the_norm_of_a_mix_is_that_of_its_configuration(tmp_path):
    config = json.loads(json.dumps(CONFIG))
    embedders = config["model"]["text_field_embedder"]["token_embedders"]
    embedders["elmo"]["do_layer_norm"] = True
    embedders["other"] = {"type": "elmo_token_embedder", "options_file": "x", "do_layer_norm": False}
    state = state_dict(random_weights(OPTIONS, 4))
    model = formats.load(write_tar(tmp_path / "model.tar.gz", archived(state, config=config)))
    assert [mix.layer_norm for mix in model.mixes] == [True]
    assert model.elmo().mixes[0].layer_norm is True


def test_a_fine_tuned_padding_row_is_of_no_account(tmp_path):
    weights = random_weights(OPTIONS, 4)
    state = state_dict(weights)
    before = formats.load(write_tar(tmp_path / "before.tar.gz", archived(state)))
    state[PREFIX + "_elmo_lstm._token_embedder._char_embedding_weights"][0] = 5.0
    after = formats.load(write_tar(tmp_path / "after.tar.gz", archived(state)))
    assert all(torch.equal(after.weights[name], weight) for name, weight in before.weights.items())


def without(state: Any, part: str) -> Any:
    return OrderedDict((name, tensor) for name, tensor in state.items() if part not in name)


def renamed(state: Any, old: str, new: str) -> Any:
    return OrderedDict((name.replace(old, new), tensor) for name, tensor in state.items())


NAME = PREFIX + "_elmo_lstm._token_embedder._projection.bias"
SCALAR, GAMMA = PREFIX + "scalar_mix_0.scalar_parameters.1", PREFIX + "scalar_mix_0.gamma"


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (archived({"model": STATE}), "weights.th"),
        (archived([1, 2]), "weights.th; list"),
        (archived(without(STATE, "_char_embedding_weights")), "weights.th; biLM"),
        (archived(STATE | renamed(STATE, "elmo._elmo", "b._elmo")), "weights.th; 2; biLMs; _text_"),
        (archived(without(STATE, "backward_layer_1")), "weights.th; backward_layer_1; missing"),
        (archived(without(STATE, "char_conv_")), "0 convolutions; 2; LSTM"),
        (archived(without(STATE, "_projection.bias")), "weights.th; _token_embedder._projection.bias; missing"),
        (archived(STATE | {NAME: torch.ones(9)}), "_projection.bias; shape; (9,); (4,)"),
        (archived(STATE | {NAME: torch.ones(4).long()}), "_projection.bias; torch.int64"),
        (archived(STATE | {NAME: torch.ones(4) + 0j}), "_projection.bias; torch.complex64"),
        (archived(STATE | {NAME: torch.ones(4).to_sparse()}), "weights.th"),
        (archived(STATE | {SCALAR: torch.ones(0)}), "scalar_parameters.1; 0 numbers"),
        (archived(STATE | {SCALAR: torch.ones(1) + 0j}), "scalar_parameters.1; torch.complex64"),
        (archived(without(STATE, "scalar_parameters.1")), "scalar_mix_0; 2 scalars; 3"),
        (archived(STATE | {SCALAR + "9" * 5000: torch.ones(1)} | {GAMMA: torch.ones(2)}), "gamma has 2 numbers"),
        ({**archived(STATE), "config.json": b"{"}, "config.json; JSON"),
        ({**archived(STATE), "weights.th": as_torch(STATE)[:2000]}, "weights.th; damaged"),
        ({**archived(STATE), "weights.th": as_torch(STATE, True)[:5000]}, "weights.th; damaged"),
        ({**archived(STATE), "weights.th": b""}, "weights.th; damaged"),
        (archived(STATE, options_file=b'{"lstm": {"dim": 7}}'), "options_file"),
        (archived(STATE, options_file=as_json({**OPTIONS, "lstm": {**OPTIONS["lstm"], "dim": 7}})), "shape; (24, 4)"),
    ],
    ids=lambda value: "" if isinstance(value, dict) else value[:30],
)
def test_malformed_archives_are_refused_in_one_line(tmp_path, files, message):
    path = write_tar(tmp_path / "model.tar.gz", files)
    for read in (formats.load, formats.describe):
        with refused(*message.split("; ")):
            read(path)


def test_weights_without_numbers_are_refused(tmp_path):
    state = STATE | {NAME: torch.ones(4, device="meta")}
    with refused("_projection.bias", "no numbers"):
        formats.load(write_tar(tmp_path / "model.tar.gz", archived(state)))
