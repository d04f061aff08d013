"""The published format of bilm-tf, AllenNLP, NLPL and SeqVec: `options.json` and one HDF5 file of weights.

- a folder of the two (by any name: they are told by their content), the HDF5 file with the options beside it, or the
  options file with the weights beside it
- character models; a file without highway layers, projections or clips is what its options say
- the layout has no softmax, no vocabulary and no tokenizer: `save` leaves them out

The HDF5 file has every matrix as (in, out). Of an LSTM, `W_0` is the input's rows, then the state's.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch
from torch import Tensor

from elmo.config import ConfigError, from_dict, merge
from elmo.errors import InputError
from elmo.formats.hdf5 import Hdf5Output, is_hdf5, read_hdf5
from elmo.formats.stored import Description, Model, Shape, check_shapes, weight_shapes
from elmo.formats.whole import whole
from elmo.model.bilm import BiLMConfig

FORMAT = "allennlp"
OPTIONS, WEIGHTS = "options.json", "weights.hdf5"
PUBLISHED_CHARACTERS = 261
ONLY_CHARACTERS = "only models that read characters can be loaded, not those that read word ids"
REMEDY = "the weights do not belong to these options, or the options were edited"


def recognizes(path: Path) -> bool:
    """Whether there are options and weights of this kind at `path`, or one of them with the other missing."""
    if path.is_dir():
        return bool(_options_in(path)) and bool(_hdf5_in(path))
    return path.is_file() and (is_hdf5(path) or _is_options(path))


def describe(path: Path) -> Description:
    """Reads the options and the shapes of the weights."""
    options_path, weights_path = _locate(path)
    options = _read_options(options_path)
    with read_hdf5(weights_path) as file:
        config = _config(options, options_path, file, weights_path)
        _check(weights_path, config, _shapes(file))
        dtype = str(file["char_embed"].dtype)  # type: ignore[union-attr]
    size = options_path.stat().st_size + weights_path.stat().st_size
    shapes = weight_shapes(config)
    return Description(path, FORMAT, config, shapes, None, dtype, size, None, None, {"options": options})


def load(path: Path) -> Model:
    """Reads a model; raises InputError where weights and options do not fit together."""
    options_path, weights_path = _locate(path)
    options = _read_options(options_path)
    with read_hdf5(weights_path) as file:
        config = _config(options, options_path, file, weights_path)
        names = _check(weights_path, config, _shapes(file))
        weights = _to_weights(config, lambda name: np.asarray(file[names[name]], dtype=np.float32))
    return Model(config, weights, card={"options": options})


def save(model: Model, path: Path, overwrite: bool = False) -> None:
    """Writes the folder `path` with the two files, whole or not at all.

    Options that only the published programs know (`card["options"]` of a loaded model) are written again.
    """
    if torch.any(model.weights["token_encoder.embedding"][0] != 0):
        raise ValueError("row 0 of token_encoder.embedding is not zero, and this format has no place for it")
    options = merge(model.card.get("options", {}), _to_options(model.config))
    with whole(path, overwrite) as folder:
        folder.mkdir()
        (folder / OPTIONS).write_text(json.dumps(options, indent=2) + "\n", encoding="utf-8")
        with Hdf5Output(folder / WEIGHTS) as output:
            for name, data in _to_datasets(model.config, model.weights).items():
                output.file.create_dataset(name, data=data)
                output.check()


# Finding the two files


def _locate(path: Path) -> tuple[Path, Path]:
    """The options file and the weights file that `path` means."""
    if path.is_dir():
        return _only(path, _options_in(path), "options"), _weights_in(path)
    if is_hdf5(path):
        return _options_beside(path), path
    return path, _weights_in(path.parent)


def _is_options(path: Path) -> bool:
    if path.suffix != ".json" and "options" not in path.name:
        return False
    try:
        options = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(options, dict) and isinstance(options.get("lstm"), dict)


def _options_in(folder: Path) -> list[Path]:
    return [file for file in sorted(folder.iterdir()) if file.is_file() and _is_options(file)]


def _hdf5_in(folder: Path) -> list[Path]:
    return [file for file in sorted(folder.iterdir()) if file.is_file() and is_hdf5(file)]


def _options_beside(weights: Path) -> Path:
    """Of several options files in the folder that whose name is most like that of the weights."""
    found = _options_in(weights.parent)
    twins = [file for file in found if file.name.split("options")[0] == weights.name.split("weights")[0]]
    return _only(weights.parent, found if len(found) == 1 else twins, "options")


def _weights_in(folder: Path) -> Path:
    """The only HDF5 file of the folder that holds weights; other HDF5 files may hold vectors."""
    found = _hdf5_in(folder)
    if len(found) > 1:
        found = [file for file in found if _holds_weights(file)]
    return _only(folder, found, "weights")


def _holds_weights(path: Path) -> bool:
    with read_hdf5(path) as file:
        return "RNN_0" in file


def _only(folder: Path, found: list[Path], what: str) -> Path:
    if len(found) == 1:
        return found[0]
    if not found:
        raise FileNotFoundError(f"{folder}: no {what} file; a model is an options file (JSON) and an HDF5 file")
    names = ", ".join(file.name for file in found)
    raise InputError(f"{folder}: {len(found)} {what} files ({names}); give the path of one weights file")


# Options


def _read_options(path: Path) -> dict[str, Any]:
    try:
        options = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{path}: not valid JSON ({error})") from error
    if "char_cnn" not in options:
        raise InputError(f"{path}: no key 'char_cnn': {ONLY_CHARACTERS}")
    return options


def _config(options: dict[str, Any], path: Path, file: h5py.File, weights_path: Path) -> BiLMConfig:
    """The options as a configuration. The number of characters is that of the weights."""
    if "RNN_0" not in file:
        raise InputError(
            f"{weights_path}: no weights of a biLM (no group RNN_0); its first is {next(iter(file), None)!r}"
        )
    if "char_embed" not in file:
        raise InputError(f"{weights_path}: no dataset char_embed: {ONLY_CHARACTERS}")
    rows = file["char_embed"].shape[0]  # type: ignore[union-attr]
    if rows < PUBLISHED_CHARACTERS:
        raise InputError(f"{weights_path}: char_embed has {rows} rows; at least {PUBLISHED_CHARACTERS} are expected")
    try:
        return _from_options(options, rows + 1)
    except KeyError as error:
        raise InputError(f"{path}: no key {error}; it is needed to read {weights_path.name}") from error
    except (ConfigError, TypeError) as error:
        raise InputError(f"{path}: {error}") from error


def _from_options(options: dict[str, Any], n_characters: int) -> BiLMConfig:
    """The defaults are those of bilm-tf."""
    lstm, char_cnn = options["lstm"], options["char_cnn"]
    values = {
        "lstm": {
            "dim": lstm["dim"],
            "projection_dim": lstm["projection_dim"],
            "n_layers": lstm.get("n_layers", 1),
            "cell_clip": lstm.get("cell_clip"),
            "proj_clip": lstm.get("proj_clip"),
            "use_skip_connections": lstm.get("use_skip_connections") or False,
        },
        "char_cnn": {
            "embedding_dim": char_cnn["embedding"]["dim"],
            "filters": char_cnn["filters"],
            "n_highway": char_cnn.get("n_highway") or 0,
            "n_characters": n_characters,
            "max_characters_per_token": char_cnn.get("max_characters_per_token", 50),
            "activation": char_cnn["activation"],
        },
    }
    return from_dict(BiLMConfig, values)


def _to_options(config: BiLMConfig) -> dict[str, Any]:
    lstm, char_cnn = config.lstm, config.char_cnn
    return {
        "lstm": {
            "dim": lstm.dim,
            "projection_dim": lstm.projection_dim,
            "n_layers": lstm.n_layers,
            "cell_clip": lstm.cell_clip,
            "proj_clip": lstm.proj_clip,
            "use_skip_connections": lstm.use_skip_connections,
        },
        "char_cnn": {
            "embedding": {"dim": char_cnn.embedding_dim},
            "filters": [list(filter_) for filter_ in char_cnn.filters],
            "n_highway": char_cnn.n_highway,
            "n_characters": char_cnn.n_characters,
            "max_characters_per_token": char_cnn.max_characters_per_token,
            "activation": char_cnn.activation,
        },
    }


# Weights


def _cell(direction: int, layer: int) -> str:
    return f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"


def _dataset_shapes(config: BiLMConfig) -> dict[str, Shape]:
    """Every dataset that a file of this configuration has."""
    cnn, size, hidden = config.char_cnn, config.lstm.projection_dim, config.lstm.dim
    n_filters = cnn.n_filters
    shapes: dict[str, Shape] = {"char_embed": (cnn.n_characters - 1, cnn.embedding_dim)}
    for i, (width, count) in enumerate(cnn.filters):
        shapes |= {f"CNN/W_cnn_{i}": (1, width, cnn.embedding_dim, count), f"CNN/b_cnn_{i}": (count,)}
    for k in range(cnn.n_highway):
        for part in ("transform", "carry"):
            shapes |= {f"CNN_high_{k}/W_{part}": (n_filters, n_filters), f"CNN_high_{k}/b_{part}": (n_filters,)}
    if n_filters != size:
        shapes |= {"CNN_proj/W_proj": (n_filters, size), "CNN_proj/b_proj": (size,)}
    for direction in range(2):
        for layer in range(config.lstm.n_layers):
            cell = _cell(direction, layer)
            shapes |= {f"{cell}/W_0": (2 * size, 4 * hidden), f"{cell}/B": (4 * hidden,)}
            if hidden != size:
                shapes |= {f"{cell}/W_P_0": (hidden, size)}
    return shapes


def _shapes(file: h5py.File) -> dict[str, Shape]:
    shapes: dict[str, Shape] = {}

    def visit(name: str, item: h5py.Group | h5py.Dataset) -> None:
        if isinstance(item, h5py.Dataset):
            shapes[name] = item.shape

    file.visititems(visit)
    return shapes


def _check(path: Path, config: BiLMConfig, seen: dict[str, Shape]) -> dict[str, str]:
    """What every dataset is called in this file. Raises InputError where one does not fit, or has no place."""
    expected = _dataset_shapes(config)
    names = {name: name for name in expected}
    if config.lstm.n_layers == 1:  # bilm-tf dumps a single layer without the group of layers
        short = {name: name.replace("MultiRNNCell/Cell0/", "") for name in expected}
        names = {name: name if name in seen else short[name] for name in expected}
    check_shapes(path, seen, {names[name]: shape for name, shape in expected.items()}, REMEDY)
    known = set(names.values())
    for name in seen:
        if name.startswith(("CNN", "RNN")) and name not in known:
            raise InputError(f"{path}: {name} {seen[name]} has no place in the model of the options; {REMEDY}")
    return names


def _to_weights(config: BiLMConfig, read: Callable[[str], np.ndarray]) -> dict[str, Tensor]:
    """Our weights, from a function that reads a dataset."""
    cnn, size = config.char_cnn, config.lstm.projection_dim
    characters = read("char_embed")
    weights = {"token_encoder.embedding": np.concatenate([np.zeros_like(characters[:1]), characters])}
    for i in range(len(cnn.filters)):
        ours = f"token_encoder.convolutions.{i}"
        weights[f"{ours}.weight"] = read(f"CNN/W_cnn_{i}")[0].transpose(2, 1, 0)
        weights[f"{ours}.bias"] = read(f"CNN/b_cnn_{i}")
    for k in range(cnn.n_highway):
        for part in ("transform", "carry"):
            ours = f"token_encoder.highways.{k}.{part}"
            weights[f"{ours}.weight"] = read(f"CNN_high_{k}/W_{part}").T
            weights[f"{ours}.bias"] = read(f"CNN_high_{k}/b_{part}")
    if cnn.n_filters != size:
        weights["token_encoder.projection.weight"] = read("CNN_proj/W_proj").T
        weights["token_encoder.projection.bias"] = read("CNN_proj/b_proj")
    for layer in range(config.lstm.n_layers):
        kernels = np.stack([read(f"{_cell(d, layer)}/W_0").T for d in range(2)])
        weights[f"layers.{layer}.weight_input"] = kernels[:, :, :size]
        weights[f"layers.{layer}.weight_state"] = kernels[:, :, size:]
        weights[f"layers.{layer}.bias"] = np.stack([read(f"{_cell(d, layer)}/B") for d in range(2)])
        if config.lstm.dim != size:
            projections = [read(f"{_cell(d, layer)}/W_P_0").T for d in range(2)]
            weights[f"layers.{layer}.weight_projection"] = np.stack(projections)
    return {name: torch.from_numpy(np.ascontiguousarray(weight)) for name, weight in weights.items()}


def _to_datasets(config: BiLMConfig, weights: dict[str, Tensor]) -> dict[str, np.ndarray]:
    """The datasets of the file; the inverse of `_to_weights`."""
    cnn = config.char_cnn
    ours = {name: weight.detach().to("cpu", torch.float32).numpy() for name, weight in weights.items()}
    datasets = {"char_embed": ours["token_encoder.embedding"][1:]}
    for i in range(len(cnn.filters)):
        datasets[f"CNN/W_cnn_{i}"] = ours[f"token_encoder.convolutions.{i}.weight"].transpose(2, 1, 0)[None]
        datasets[f"CNN/b_cnn_{i}"] = ours[f"token_encoder.convolutions.{i}.bias"]
    for k in range(cnn.n_highway):
        for part in ("transform", "carry"):
            datasets[f"CNN_high_{k}/W_{part}"] = ours[f"token_encoder.highways.{k}.{part}.weight"].T
            datasets[f"CNN_high_{k}/b_{part}"] = ours[f"token_encoder.highways.{k}.{part}.bias"]
    if "token_encoder.projection.weight" in ours:
        datasets["CNN_proj/W_proj"] = ours["token_encoder.projection.weight"].T
        datasets["CNN_proj/b_proj"] = ours["token_encoder.projection.bias"]
    for layer in range(config.lstm.n_layers):
        part = f"layers.{layer}"
        kernels = np.concatenate([ours[f"{part}.weight_input"], ours[f"{part}.weight_state"]], axis=2)
        for direction in range(2):
            cell = _cell(direction, layer)
            datasets[f"{cell}/W_0"] = kernels[direction].T
            datasets[f"{cell}/B"] = _published_bias(ours[f"{part}.bias"][direction], config)
            if config.lstm.dim != config.lstm.projection_dim:
                datasets[f"{cell}/W_P_0"] = ours[f"{part}.weight_projection"][direction].T
    return datasets


def _published_bias(bias: np.ndarray, config: BiLMConfig) -> np.ndarray:
    """The bias for programs that add 1 to the forget gate (the third of i, j, f, o)."""
    if config.lstm.forget_bias == 1.0:
        return bias
    bias = bias.copy()
    bias[2 * config.lstm.dim : 3 * config.lstm.dim] += config.lstm.forget_bias - 1.0
    return bias
