"""The biLM out of AllenNLP's `model.tar.gz`: names, gates and signs as its class has them, against the twin.

`state_dict` below is written from the published behaviour. The reader was also held to models that AllenNLP 0.9.0 and
2.10.1 themselves made, trained a little and saved: all layers and both mixes agreed to 1e-6 (docs/log.md).
"""

import io
import json
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest
import torch
import twin
from bilm_files import as_float64, as_hdf5, as_json, options, random_weights, write_folder, write_tar
from command import run
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import elmo
from elmo import formats
from elmo.errors import InputError
from elmo.formats import allennlp, native
from elmo.text.batching import to_batch

TOLERANCE = 1e-5
PREFIX = "_text_field_embedder.token_embedder_elmo._elmo."
TEXT = [["the", "cat", "sat"], [], ["naïve", "the"]]
OPTIONS: dict[str, Any] = {
    "lstm": {
        "dim": 6,
        "projection_dim": 4,
        "n_layers": 2,
        "cell_clip": 3,
        "proj_clip": 3,
        "use_skip_connections": True,
    },
    "char_cnn": {
        "embedding": {"dim": 3},
        "filters": [[1, 3], [3, 4]],
        "n_highway": 2,
        "n_characters": 262,
        "max_characters_per_token": 50,
        "activation": "relu",
    },
}
CONFIG = {
    "model": {
        "type": "simple_tagger",
        "text_field_embedder": {
            "token_embedders": {
                "elmo": {"type": "elmo_token_embedder", "options_file": "/home/x/o.json", "do_layer_norm": False}
            }
        },
    }
}


def state_dict(weights: dict[str, np.ndarray], n_mixes: int = 1) -> "OrderedDict[str, torch.Tensor]":
    """The published arrays as AllenNLP's `Elmo` keeps them, with mixes that are not those of the beginning."""
    state: dict[str, np.ndarray] = {}
    characters = weights["char_embed"]
    encoder = "_elmo_lstm._token_embedder"
    state[f"{encoder}._char_embedding_weights"] = np.concatenate([np.zeros_like(characters[:1]), characters])
    for name, weight in weights.items():
        if name.startswith("CNN/W_cnn_"):
            state[f"{encoder}.char_conv_{name.removeprefix('CNN/W_cnn_')}.weight"] = weight[0].transpose(2, 1, 0)
        elif name.startswith("CNN/b_cnn_"):
            state[f"{encoder}.char_conv_{name.removeprefix('CNN/b_cnn_')}.bias"] = weight
        elif name.endswith("/W_transform"):
            group = name.removesuffix("/W_transform")
            layer = f"{encoder}._highways._layers.{group.removeprefix('CNN_high_')}"
            state[f"{layer}.weight"] = np.concatenate([weight.T, -weights[f"{group}/W_carry"].T])
            state[f"{layer}.bias"] = np.concatenate([weights[f"{group}/b_transform"], -weights[f"{group}/b_carry"]])
        elif name.endswith("/W_0"):
            cell = name.removesuffix("/W_0")
            direction = "forward" if cell.startswith("RNN_0") else "backward"
            layer = f"_elmo_lstm._elmo_lstm.{direction}_layer_{cell.split('Cell')[2].split('/')[0]}"
            size = weights[f"{cell}/W_P_0"].shape[1]
            i, j, f, o = np.split(weight.T, 4)
            kernel = np.concatenate([i, f, j, o])
            i, j, f, o = np.split(weights[f"{cell}/B"], 4)
            state[f"{layer}.input_linearity.weight"] = kernel[:, :size]
            state[f"{layer}.state_linearity.weight"] = kernel[:, size:]
            state[f"{layer}.state_linearity.bias"] = np.concatenate([i, f + 1, j, o])
            state[f"{layer}.state_projection.weight"] = weights[f"{cell}/W_P_0"].T
    state[f"{encoder}._projection.weight"] = weights["CNN_proj/W_proj"].T
    state[f"{encoder}._projection.bias"] = weights["CNN_proj/b_proj"]
    n_layers = 1 + sum("forward_layer" in name and name.endswith("bias") for name in state)
    for k in range(n_mixes):
        for j in range(n_layers):
            state[f"scalar_mix_{k}.scalar_parameters.{j}"] = np.array([0.3 * j - 0.1 * k], np.float32)
        state[f"scalar_mix_{k}.gamma"] = np.array([1.5 - k], np.float32)
    named = OrderedDict((PREFIX + name, torch.tensor(np.ascontiguousarray(array))) for name, array in state.items())
    named["tag_projection_layer.weight"] = torch.ones(2, 3)
    named._metadata = OrderedDict({"": {"version": 1}})  # type: ignore[attr-defined]
    return named


def as_torch(state: Any, legacy: bool = False) -> bytes:
    buffer = io.BytesIO()
    torch.save(state, buffer, _use_new_zipfile_serialization=not legacy)
    return buffer.getvalue()


def archived(state: Any, legacy: bool = False, config: Any = CONFIG, **more: bytes) -> dict[str, bytes]:
    files = {"config.json": json.dumps(config).encode(), "weights.th": as_torch(state, legacy)}
    return files | {"vocabulary/tokens.txt": b"the\n"} | {f"fta/model.elmo.{name}": data for name, data in more.items()}


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
    for vectors, tokens in zip(elmo.load(path).embed(TEXT), TEXT, strict=True):
        expected = twin.layers(tokens, OPTIONS, as_float64(weights))[:, 1:-1]
        np.testing.assert_allclose(vectors, expected, rtol=0, atol=TOLERANCE)
    assert [file.name for file in tmp_path.iterdir()] == ["model.tar.gz"], "nothing is unpacked"


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
    for vectors, tokens in zip(embedder.embed(TEXT), TEXT, strict=True):
        expected = twin.layers(tokens, options, as_float64(weights))[:, 1:-1]
        np.testing.assert_allclose(vectors, expected, rtol=0, atol=TOLERANCE)


def test_two_options_files_that_differ_are_refused(tmp_path):
    other = {**OPTIONS, "lstm": {**OPTIONS["lstm"], "cell_clip": 7}}
    state = state_dict(random_weights(OPTIONS, 4))
    same = {"a.options_file": as_json(OPTIONS), "b.options_file": as_json(OPTIONS)}
    elmo.load(write_tar(tmp_path / "same.tar.gz", archived(state, **same)))
    path = write_tar(tmp_path / "other.tar.gz", archived(state, **(same | {"b.options_file": as_json(other)})))
    with pytest.raises(InputError, match="2 different options files"):
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


def test_an_archive_becomes_a_published_model(tmp_path):
    weights = random_weights(OPTIONS, 4)
    path = write_tar(tmp_path / "model.tar.gz", archived(state_dict(weights)))
    allennlp.save(formats.load(path), tmp_path / "published")
    for one, other in zip(elmo.load(path).embed(TEXT), elmo.load(tmp_path / "published").embed(TEXT), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=TOLERANCE)


def without(state: Any, part: str) -> Any:
    return OrderedDict((name, tensor) for name, tensor in state.items() if part not in name)


def renamed(state: Any, old: str, new: str) -> Any:
    return OrderedDict((name.replace(old, new), tensor) for name, tensor in state.items())


STATE = state_dict(random_weights(OPTIONS, 4))
NAME = PREFIX + "_elmo_lstm._token_embedder._projection.bias"
SCALAR, GAMMA = PREFIX + "scalar_mix_0.scalar_parameters.1", PREFIX + "scalar_mix_0.gamma"


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (archived({"model": STATE}), r"weights\.th: holds dict, not tensors by name"),
        (archived([1, 2]), r"weights\.th: holds list, not tensors by name"),
        (archived(without(STATE, "_char_embedding_weights")), r"weights\.th: no biLM \(\d+ arrays, the first is"),
        (archived(STATE | renamed(STATE, "elmo._elmo", "b._elmo")), r"weights\.th: 2 biLMs \(_text_\S+, _text_\S+\)"),
        (archived(without(STATE, "backward_layer_1")), r"weights\.th: \S+backward_layer_1\S+ is missing"),
        (archived(without(STATE, "char_conv_")), r"has 0 convolutions and 2 LSTM layers with a projection"),
        (archived(without(STATE, "_projection.bias")), r"weights\.th: _token_embedder\._projection\.bias is missing"),
        (archived(STATE | {NAME: torch.ones(9)}), r"_projection\.bias has shape \(9,\); \(4,\) is expected"),
        (archived(STATE | {NAME: torch.ones(4).long()}), r"_projection\.bias holds torch\.int64; floating-point"),
        (archived(STATE | {NAME: torch.ones(4) + 0j}), r"_projection\.bias holds torch\.complex64; floating-point"),
        (archived(STATE | {NAME: torch.ones(4).to_sparse()}), r"weights\.th: "),
        (archived(STATE | {SCALAR: torch.ones(0)}), r"scalar_parameters\.1 has 0 numbers; one is expected"),
        (archived(STATE | {SCALAR: torch.ones(1) + 0j}), r"scalar_parameters\.1 holds torch\.complex64"),
        (archived(without(STATE, "scalar_parameters.1")), r"scalar_mix_0 has 2 scalars; 3 are expected"),
        (
            archived(STATE | {SCALAR + "9" * 5000: torch.ones(1)} | {GAMMA: torch.ones(2)}),
            r"gamma has 2 numbers; one is",
        ),
        ({**archived(STATE), "config.json": b"{"}, r"config\.json: not valid JSON"),
        (
            {**archived(STATE), "weights.th": as_torch(STATE)[:2000]},
            r"weights\.th: damaged or incomplete state dict of torch \(",
        ),
        (
            {**archived(STATE), "weights.th": as_torch(STATE, True)[:5000]},
            r"weights\.th: damaged or incomplete state dict of torch",
        ),
        ({**archived(STATE), "weights.th": b""}, r"weights\.th: damaged or incomplete state dict of torch \("),
        (archived(STATE, options_file=b'{"lstm": {"dim": 7}}'), r"options_file: no key '\w+', which \S+ needs"),
        (
            archived(STATE, options_file=as_json({**OPTIONS, "lstm": {**OPTIONS["lstm"], "dim": 7}})),
            r"has shape \(24, 4\)",
        ),
    ],
    ids=lambda value: "" if isinstance(value, dict) else value[:30],
)
def test_malformed_archives_are_refused_in_one_line(tmp_path, files, message):
    path = write_tar(tmp_path / "model.tar.gz", files)
    with pytest.raises(InputError, match=message) as caught:
        formats.load(path)
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match=message):
        formats.describe(path)


def test_weights_without_numbers_are_refused(tmp_path):
    state = STATE | {NAME: torch.ones(4, device="meta")}
    with pytest.raises(InputError, match=r"_projection\.bias has a shape but no numbers; save it with them"):
        formats.load(write_tar(tmp_path / "model.tar.gz", archived(state)))


def test_the_command_line_reads_an_archive(tmp_path):
    path = write_tar(tmp_path / "model.tar.gz", archived(state_dict(random_weights(OPTIONS, 4))))
    shown = json.loads(run("info", str(path), "--json").stdout)
    assert (shown["format"], shown["reads"]) == ("allennlp-archive", "characters")
    assert shown["learned mixes"] == PREFIX + "scalar_mix_0"
