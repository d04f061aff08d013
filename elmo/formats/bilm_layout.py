"""Converts the two parts of a published model as bilm-tf defines them: the options (JSON) and the datasets by name.

A dataset is (in, out). `W_0` of an LSTM has the rows of the input and then those of the state. The word table
(`embedding`) and the characters (`char_embed`) have no row for padding; in elmo's tables it is the first row.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from elmo.config import ConfigError, from_dict, to_dict
from elmo.errors import InputError
from elmo.formats.stored import check_counts, check_shapes
from elmo.model.config import EMBEDDING, BiLMConfig, Shape, weight_shapes

if TYPE_CHECKING:
    from torch import Tensor

PUBLISHED_CHARACTERS = 261
LSTM_OPTIONS = ("dim", "projection_dim", "n_layers", "cell_clip", "proj_clip", "use_skip_connections")
"""The fields of `LstmConfig` that the options have, under the same names."""
REMEDY = "the weights do not belong to these options, or the options were edited"


# Options


def to_config(options: dict[str, Any], label: str, shapes: Mapping[str, Shape], weights: str) -> BiLMConfig:
    """Converts the options file `label` to a configuration; `shapes` are those of the datasets in the file `weights`.

    The numbers of characters and words come from the weights, not from the options.
    Raises InputError if either file is invalid.
    """
    if not any(name.startswith("RNN_0/") for name in shapes):
        raise InputError(
            f"{weights}: not the weights of a biLM (no group RNN_0; first name: {next(iter(shapes), None)!r}); give the"
            " HDF5 weights file"
        )
    reads_words = "embedding" in shapes and not ("char_embed" in shapes and "char_cnn" in options)
    rows = _rows(shapes, "embedding" if reads_words else "char_embed", weights)
    with errors_of(label, weights):
        if not reads_words:
            return character_config(options, rows + 1, len(shapes))
        config = from_dict(BiLMConfig, {"lstm": _lstm(options), "char_cnn": None, "n_tokens_vocab": rows})
        check_counts(config, len(shapes), REMEDY)
        return config


def character_config(options: dict[str, Any], n_characters: int, arrays: int) -> BiLMConfig:
    """Converts options to a configuration for a table of `n_characters` rows, row 0 included, in a file of `arrays`.

    Raises KeyError, ConfigError or TypeError.
    """
    config = from_dict(BiLMConfig, {"lstm": _lstm(options), "char_cnn": _char_cnn(options, n_characters)})
    check_counts(config, arrays, REMEDY)
    return config


@contextmanager
def errors_of(label: str, weights: str) -> Iterator[None]:
    """Turns errors of `character_config` into an InputError about the options file `label`."""
    try:
        yield
    except KeyError as error:
        raise InputError(f"{label}: no key {error}, which {weights} needs; add it") from error
    except (ConfigError, TypeError) as error:
        raise InputError(f"{label}: {error}") from error


def to_options(config: BiLMConfig) -> dict[str, Any]:
    """Converts a configuration to options. This is the inverse of `to_config`."""
    values = to_dict(config)
    lstm, char_cnn = values["lstm"], values["char_cnn"]
    options: dict[str, Any] = {"lstm": {name: lstm[name] for name in LSTM_OPTIONS}}
    if char_cnn is None:
        return options | {"n_tokens_vocab": config.n_tokens_vocab}
    return options | {"char_cnn": {"embedding": {"dim": char_cnn.pop("embedding_dim")}, **char_cnn}}


def _table(values: dict[str, Any], key: str, where: str = "") -> dict[str, Any]:
    if not isinstance(values[key], dict):
        raise ConfigError(f"{where}{key} is {values[key]!r}; a table is expected")
    return values[key]


def _lstm(options: dict[str, Any]) -> dict[str, Any]:
    """The values of the LSTMs; the defaults are those of bilm-tf."""
    lstm = _table(options, "lstm")
    values = {name: lstm[name] for name in ("dim", "projection_dim")}
    values |= {name: lstm.get(name) for name in ("cell_clip", "proj_clip")}
    skips = lstm.get("use_skip_connections") or False
    return values | {"n_layers": lstm.get("n_layers", 1), "use_skip_connections": skips}


def _char_cnn(options: dict[str, Any], n_characters: int) -> dict[str, Any]:
    char_cnn = _table(options, "char_cnn")
    return {
        "embedding_dim": _table(char_cnn, "embedding", "char_cnn.")["dim"],
        "filters": char_cnn["filters"],
        "n_highway": char_cnn.get("n_highway") or 0,
        "n_characters": n_characters,
        "max_characters_per_token": char_cnn.get("max_characters_per_token", 50),
        "activation": char_cnn["activation"],
    }


def _rows(shapes: Mapping[str, Shape], name: str, weights: str) -> int:
    """The rows of one of the two lookup tables for tokens."""
    if name not in shapes:
        raise InputError(
            f"{weights}: neither char_embed nor embedding found, so neither characters nor words can be read; {REMEDY}"
        )
    shape = shapes[name]
    if len(shape) != 2:
        raise InputError(f"{weights}: {name} has shape {shape}; two dimensions are expected; {REMEDY}")
    if name == "char_embed" and shape[0] < PUBLISHED_CHARACTERS:
        raise InputError(
            f"{weights}: char_embed has {shape[0]} rows; at least {PUBLISHED_CHARACTERS} are expected: 256 bytes and 5"
            " marks; only models with these characters can be read"
        )
    return shape[0]


# Weights


def dataset_names(label: str, config: BiLMConfig, seen: Mapping[str, Shape]) -> dict[str, str]:
    """Returns the name of each dataset in this file. Raises InputError if one has a wrong shape or is unknown."""
    with errors_of(label, label):
        expected = _dataset_shapes(config)
    names = {name: name for name in expected}
    if config.lstm.n_layers == 1:  # bilm-tf writes a single layer without the group of layers
        short = {name: name.replace("MultiRNNCell/Cell0/", "") for name in expected}
        names = {name: name if name in seen else short[name] for name in expected}
    known = {names[name]: shape for name, shape in expected.items()}
    own = {name: shape for name, shape in seen.items() if name in known or name.startswith(("CNN", "RNN"))}
    check_shapes(label, own, known, REMEDY, exact=True)
    return names


def to_weights(config: BiLMConfig, read: Callable[[str], np.ndarray]) -> "dict[str, Tensor]":
    """Converts datasets to weights with the names of `BiLM.state_dict`; `read` reads a dataset."""
    import torch

    size = config.lstm.projection_dim
    table = read(_table_name(config))
    weights = {EMBEDDING: np.concatenate([np.zeros_like(table[:1]), table])}
    for ours, theirs in _encoder_names(config).items():
        array = read(theirs)  # a convolution is (1, width, in, out)
        weights[ours] = (array[0] if array.ndim == 4 else array).T
    for layer in range(config.lstm.n_layers):
        cells = [_cell_name(direction, layer) for direction in range(2)]
        kernels = np.stack([read(f"{cell}/W_0").T for cell in cells])
        weights[f"layers.{layer}.weight_input"] = kernels[:, :, :size]
        weights[f"layers.{layer}.weight_state"] = kernels[:, :, size:]
        weights[f"layers.{layer}.bias"] = np.stack([read(f"{cell}/B") for cell in cells])
        if config.lstm.dim != size:
            weights[f"layers.{layer}.weight_projection"] = np.stack([read(f"{cell}/W_P_0").T for cell in cells])
    return {name: torch.from_numpy(np.ascontiguousarray(weight)) for name, weight in weights.items()}


def to_datasets(config: BiLMConfig, weights: "dict[str, Tensor]") -> dict[str, np.ndarray]:
    """Converts weights to the datasets of a file. This is the inverse of `to_weights`."""
    import torch

    lstm = config.lstm
    ours = {name: weight.detach().to("cpu", torch.float32).numpy() for name, weight in weights.items()}
    datasets = {_table_name(config): ours[EMBEDDING][1:]}
    for name, theirs in _encoder_names(config).items():
        array = ours[name].T
        datasets[theirs] = array[None] if array.ndim == 3 else array
    for layer in range(lstm.n_layers):
        part = f"layers.{layer}"
        kernels = np.concatenate([ours[f"{part}.weight_input"], ours[f"{part}.weight_state"]], axis=2)
        biases = ours[f"{part}.bias"].copy()
        if lstm.forget_bias != 1.0:  # the programs add 1 to the forget gate, which is the third of i, j, f, o
            biases[:, 2 * lstm.dim : 3 * lstm.dim] += lstm.forget_bias - 1.0
        for direction in range(2):
            cell = _cell_name(direction, layer)
            datasets |= {f"{cell}/W_0": kernels[direction].T, f"{cell}/B": biases[direction]}
            if lstm.dim != lstm.projection_dim:
                datasets[f"{cell}/W_P_0"] = ours[f"{part}.weight_projection"][direction].T
    return datasets


def _dataset_shapes(config: BiLMConfig) -> dict[str, Shape]:
    """The shapes of all datasets in a file of this configuration."""
    size, hidden = config.lstm.projection_dim, config.lstm.dim
    shapes: dict[str, Shape] = {"embedding": (config.n_tokens_vocab or 0, size)}
    if config.char_cnn is not None:
        lstm = replace(config.lstm, dim=1)  # only the encoder counts: an impossible dim is compared with the file's
        ours = weight_shapes(replace(config, lstm=lstm))
        rows, width = ours[EMBEDDING]
        shapes = {"char_embed": (rows - 1, width)}
        for name, theirs in _encoder_names(config).items():
            shape = ours[name][::-1]
            shapes[theirs] = (1, *shape) if len(shape) == 3 else shape
    for direction in range(2):
        for layer in range(config.lstm.n_layers):
            cell = _cell_name(direction, layer)
            shapes |= {f"{cell}/W_0": (2 * size, 4 * hidden), f"{cell}/B": (4 * hidden,)}
            if hidden != size:
                shapes |= {f"{cell}/W_P_0": (hidden, size)}
    return shapes


def _cell_name(direction: int, layer: int) -> str:
    """The HDF5 group of one LSTM."""
    return f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"


def _table_name(config: BiLMConfig) -> str:
    return "embedding" if config.char_cnn is None else "char_embed"


def _encoder_names(config: BiLMConfig) -> dict[str, str]:
    """The dataset of each weight of the token encoder but its table."""
    cnn, parts = config.char_cnn, dict[str, tuple[str, str]]()
    if cnn is None:
        return {}
    for i in range(len(cnn.filters)):
        parts[f"convolutions.{i}"] = f"CNN/W_cnn_{i}", f"CNN/b_cnn_{i}"
    for k in range(cnn.n_highway):
        for part in ("transform", "carry"):
            parts[f"highways.{k}.{part}"] = f"CNN_high_{k}/W_{part}", f"CNN_high_{k}/b_{part}"
    if cnn.n_filters != config.lstm.projection_dim:
        parts["projection"] = "CNN_proj/W_proj", "CNN_proj/b_proj"
    names = {}
    for ours, (weight, bias) in parts.items():
        names |= {f"token_encoder.{ours}.weight": weight, f"token_encoder.{ours}.bias": bias}
    return names
