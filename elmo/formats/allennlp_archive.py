"""Reads the biLM inside a task model of AllenNLP: `model.tar.gz`, or its folder, with `config.json` and `weights.th`.

- The weights are a torch state dict, of which only the biLM and the learned layer mixes (`ScalarMix`) are read.
- The order of the gates is i, f, g, o; the 1 of the forget gate is in the bias; the highway gate passes the input.
- Clips, activation and the characters of a token are in the options file, which archives before AllenNLP 1.0 contain
  (`fta/`). If it is missing, it may be given; otherwise the values of all published models are assumed
  (`card["assumed"]`).

Nothing is unpickled. The format is read-only. Its headers are torch's, so a description needs torch, too.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elmo.config import merge_tables
from elmo.errors import InputError
from elmo.formats.allennlp import options_in, read_options
from elmo.formats.allennlp_state import CHARACTERS, state_shapes, to_weights
from elmo.formats.bilm_layout import character_config, errors_of
from elmo.formats.files import SourceFile, file_on_disk, is_archive, list_files
from elmo.formats.stored import Description, Mix, Model, check_shapes
from elmo.model.config import BiLMConfig, Shape, weight_shapes

if TYPE_CHECKING:
    from torch import Tensor

FORMAT = "allennlp-archive"
CONFIG, WEIGHTS = "config.json", ("weights.th", "best.th")
BILM = "_elmo_lstm."
"""The prefix of the biLM's weights in AllenNLP's `Elmo`."""
ASSUMED = {
    "lstm": {"cell_clip": 3, "proj_clip": 3},
    "char_cnn": {"activation": "relu", "max_characters_per_token": 50},
}
"""The values that all published models share and that their arrays do not show."""
REMEDY = "this is not a biLM of AllenNLP's class Elmo, or it was modified"


def recognizes(path: Path) -> bool:
    """Returns whether `path` is such an archive, its folder, or the weights in it."""
    if path.is_file() and path.name in WEIGHTS:
        return (path.parent / CONFIG).is_file()
    if not path.is_dir() and not is_archive(path):
        return False
    names = {file.name for file in list_files(path)}
    return CONFIG in names and not names.isdisjoint(WEIGHTS)


def describe(path: Path, weights: Path | None = None) -> Description:
    """Reads the configuration and the shapes of the weights.

    If `weights` is given, it is the archive, and `path` its options file.
    """
    from elmo.formats.torch_file import read_state_headers

    return _examine(path, weights, read_state_headers)[0]


def load(path: Path, weights: Path | None = None) -> Model:
    """Reads the biLM and its learned mixes. `weights` is that of `describe`. Raises InputError if there is no biLM."""
    from elmo.formats.torch_file import read_state_dict

    found, state, prefix = _examine(path, weights, read_state_dict)
    learned = mixes(state, found.card["config"])
    return Model(found.config, to_weights(found.config, state, prefix), card=found.card, mixes=learned)


def _examine(
    path: Path, weights: Path | None, read: "Callable[[SourceFile], dict[str, Tensor]]"
) -> tuple[Description, "dict[str, Tensor]", str]:
    """The description, what `read` reads of the weights, and the prefix of the biLM's names there."""
    archive = path if weights is None else weights
    archive = archive.parent if archive.is_file() and archive.name in WEIGHTS else archive
    files = list_files(archive)
    source = _weights_in(archive, files)
    state = read(source)
    prefix = _prefix(source.label, state)
    config, card = _config(source.label, state, prefix, files, path if weights else None)
    dtype = str(state[prefix + CHARACTERS].dtype).removeprefix("torch.")
    size = archive.stat().st_size if archive.is_file() else source.size
    names = tuple(name for name, _ in _mix_parts(state))
    found = Description(archive, FORMAT, config, weight_shapes(config), dtype, size, card=card, mixes=names)
    return found, state, prefix


# Weights by AllenNLP's names


def sizes(label: str, state: "Mapping[str, Tensor]", prefix: str) -> dict[str, Any]:
    """Returns the options of the biLM under `prefix`, as far as its arrays show them."""
    own = {name.removeprefix(prefix): tuple(tensor.shape) for name, tensor in state.items() if name.startswith(prefix)}
    filters = [list(shape) for shape in _numbered(own, r"_token_embedder\.char_conv_(\d{1,9})\.weight")]
    layers = _numbered(own, r"_elmo_lstm\.forward_layer_(\d{1,9})\.state_projection\.weight")
    table = own[CHARACTERS]
    if len(table) != 2 or not filters or any(len(shape) != 3 for shape in filters) or not layers or len(layers[0]) != 2:
        raise InputError(
            f"{label}: {prefix!r} has {len(filters)} convolutions and {len(layers)} LSTM layers with a"
            f" projection; both are expected; {REMEDY}"
        )
    size, hidden = layers[0]
    return {
        "lstm": {"projection_dim": size, "dim": hidden, "n_layers": len(layers), "use_skip_connections": True},
        "char_cnn": {
            "embedding": {"dim": table[1]},
            "filters": [[width, count] for count, _, width in filters],
            "n_highway": len(_numbered(own, r"_token_embedder\._highways\._layers\.(\d{1,9})\.weight")),
            "n_characters": table[0],
        },
    }


def mixes(state: "Mapping[str, Tensor]", config: Any) -> tuple[Mix, ...]:
    """Returns the learned layer mixes of a biLM; the task model's `config` says whether they use layer norm."""
    found = []
    for name, parts in _mix_parts(state):
        *scalars, gamma = (float(state[part].reshape(-1)[0]) for part in (*parts, f"{name}.gamma"))
        found.append(Mix(name, tuple(scalars), gamma, _layer_norm(name, config)))
    return tuple(found)


def _numbered(own: Mapping[str, Shape], pattern: str) -> list[Shape]:
    """The shapes of the arrays that match `pattern`, numbered consecutively from 0."""
    found = {int(match[1]): shape for name, shape in own.items() if (match := re.fullmatch(pattern, name))}
    return [found[number] for number in range(len(found)) if number in found]


def _mix_parts(state: "Mapping[str, Tensor]") -> list[tuple[str, list[str]]]:
    """The name of each mix of a biLM, and the names of its scalars."""
    beside = {name.removesuffix(BILM + CHARACTERS) for name in state if name.endswith(BILM + CHARACTERS)}
    found: dict[str, dict[int, str]] = {}
    for name in state:
        match = re.fullmatch(r"(.*?scalar_mix_\d+)\.scalar_parameters\.(\d{1,9})", name)
        if match and match[1].rpartition("scalar_mix_")[0] in beside and f"{match[1]}.gamma" in state:
            found.setdefault(match[1], {})[int(match[2])] = name
    return [(mix, [parts[number] for number in sorted(parts)]) for mix, parts in sorted(found.items())]


def _layer_norm(mix: str, config: Any) -> bool:
    """The value of `do_layer_norm` in the configuration of the biLM that this mix belongs to."""
    said = {key: table.get("do_layer_norm", False) for key, table in _tables("", config) if "options_file" in table}
    own = [value for key, value in said.items() if key and key in mix]
    return bool(own[0] if own else any(said.values()))


def _tables(key: str, value: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every table in a tree of JSON values, with its key."""
    if isinstance(value, dict):
        yield key, value
        for name, part in value.items():
            yield from _tables(name, part)
    elif isinstance(value, list):
        for part in value:
            yield from _tables(key, part)


# Files


def _weights_in(archive: Path, files: list[SourceFile]) -> SourceFile:
    for name in WEIGHTS:
        found = [file for file in files if file.name == name]
        if len(found) == 1:
            return found[0]
        if found:
            raise InputError(f"{archive}: {len(found)} files {name} ({found[0].label}, ...); one is expected")
    raise FileNotFoundError(f"{archive}: no {WEIGHTS[0]}; an archive of AllenNLP holds {CONFIG} and {WEIGHTS[0]}")


def _prefix(label: str, state: "Mapping[str, Tensor]") -> str:
    """The prefix of the biLM's array names."""
    found = [name.removesuffix(CHARACTERS) for name in state if name.endswith(CHARACTERS)]
    if not found:
        seen = f"{len(state)} arrays, the first is {next(iter(state), None)!r}"
        raise InputError(f"{label}: no biLM ({seen}): a name ending in {CHARACTERS} is expected; {REMEDY}")
    if len(found) > 1:
        raise InputError(f"{label}: {len(found)} biLMs ({', '.join(found)}); only models with one can be read")
    return found[0]


def _config(
    label: str, state: "Mapping[str, Tensor]", prefix: str, files: list[SourceFile], given: Path | None
) -> tuple[BiLMConfig, dict[str, Any]]:
    """The configuration, and a card that says where it comes from."""
    config_file = next(file for file in files if file.name == CONFIG)
    card: dict[str, Any] = {"config": config_file.json()}
    own = sizes(label, state, prefix)
    options_files = [file_on_disk(given)] if given is not None else options_in(files)
    if options_files:
        options = card["options"] = read_options(options_files[0])
        if any(file.json() != options for file in options_files):
            names = ", ".join(file.label for file in options_files)
            raise InputError(
                f"{label}: {len(options_files)} different options files ({names}); give the right one with the archive"
            )
    else:
        options = merge_tables(own, ASSUMED)
        card["assumed"] = ASSUMED
    with errors_of(options_files[0].label if options_files else label, label):
        config = character_config(options, own["char_cnn"]["n_characters"], len(state))
        expected = state_shapes(config)
    seen = {name.removeprefix(prefix): tuple(tensor.shape) for name, tensor in state.items() if name.startswith(prefix)}
    check_shapes(label, seen, expected, REMEDY)
    _check_numbers(label, state, prefix, config)
    size = config.lstm.projection_dim
    if config.char_cnn is None or size in (config.lstm.dim, config.char_cnn.n_filters):
        raise InputError(f"{label}: the projection keeps the size; such a biLM cannot be read")
    return replace(config, lstm=replace(config.lstm, forget_bias=0.0)), card


def _check_numbers(label: str, state: "Mapping[str, Tensor]", prefix: str, config: BiLMConfig) -> None:
    """Raises InputError unless weights are floating-point numbers and each mix has one scalar per layer."""
    layers = config.lstm.n_layers + 1
    names = [prefix + name for name in state_shapes(config)]
    for mix, scalars in _mix_parts(state):
        if len(scalars) != layers:
            raise InputError(f"{label}: {mix} has {len(scalars)} scalars; {layers} are expected; {REMEDY}")
        parts = [*scalars, f"{mix}.gamma"]
        for name in parts:
            if state[name].numel() != 1:
                raise InputError(f"{label}: {name} has {state[name].numel():,} numbers; one is expected; {REMEDY}")
        names += parts
    for name in names:
        if not state[name].is_floating_point():
            raise InputError(
                f"{label}: {name} holds {state[name].dtype}; floating-point numbers are expected; {REMEDY}"
            )
