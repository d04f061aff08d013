"""Converts between elmo's weights and the state dict of AllenNLP's biLM, which has other names and another order.

AllenNLP's layout differs from the published HDF5 files:

- A highway layer is one matrix, the transform above the carry, and the carry is negated.
- Gates are in the order i, f, g, o (elmo's is i, g, f, o), and the 1 of the forget gate is in the bias.
- The two directions are separate modules.
- Both projections always exist.

ELMoForManyLangs has AllenNLP's highways and LSTMs, with other prefixes and without the 1 of the forget gate.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, NamedTuple

from elmo.errors import InputError
from elmo.model.config import EMBEDDING, BiLMConfig, CharCnnConfig, LstmConfig, Shape, weight_shapes

if TYPE_CHECKING:
    from torch import Tensor

CHARACTERS = "_token_embedder._char_embedding_weights"
BEGINNINGS = ("_token_embedder.", "_elmo_lstm.forward_layer_", "_elmo_lstm.backward_layer_")
"""Prefixes of the names in AllenNLP's `_ElmoBiLm`."""
CELL = {
    "input_linearity.weight": "weight_input",
    "state_linearity.weight": "weight_state",
    "state_linearity.bias": "bias",
    "state_projection.weight": "weight_projection",
}
"""The arrays of an LSTM cell of theirs, and our names; each of ours holds both directions."""


Kind = Literal["same", "unpadded", "highway", "cell"]


class Part(NamedTuple):
    """The content of an array of theirs, in terms of our weights."""

    ours: str
    """Our weight; of a highway layer, the transform."""
    kind: Kind = "same"
    """"same" is our weight, "unpadded" lacks its row for padding, "highway" has two of ours, "cell" one direction."""
    direction: int = 0


def is_foreign(name: str) -> bool:
    """Returns whether `name` is AllenNLP's name of a biLM weight."""
    return name.startswith(BEGINNINGS)


def state_shapes(config: BiLMConfig) -> dict[str, Shape]:
    """Returns the shapes of all of AllenNLP's arrays for a biLM of this configuration."""
    assert config.char_cnn is not None
    ours = weight_shapes(replace(config, lstm=replace(config.lstm, always_project=True)))
    size, filters = config.lstm.projection_dim, config.char_cnn.n_filters
    ours |= {"token_encoder.projection.weight": (size, filters), "token_encoder.projection.bias": (size,)}
    return shapes_of(_parts(config), ours)


def to_weights(config: BiLMConfig, state: "Mapping[str, Tensor]", prefix: str = "") -> "dict[str, Tensor]":
    """Returns the weights, with the names of `BiLM.state_dict`, of the biLM under `prefix` in `state`."""
    weights = to_ours(_parts(config), state, prefix)
    weights[EMBEDDING] = weights[EMBEDDING].clone()
    weights[EMBEDDING][0] = 0.0  # the row for "no token": training may change it, but nothing reads it
    for layer in range(config.lstm.n_layers):
        weights[f"layers.{layer}.bias"][:, 2 * config.lstm.dim : 3 * config.lstm.dim] -= config.lstm.forget_bias
    return {name: weight.detach().contiguous() for name, weight in weights.items()}


def from_weights(config: BiLMConfig, weights: "Mapping[str, Tensor]") -> "dict[str, Tensor]":
    """Returns AllenNLP's arrays of a biLM with these weights. This is the inverse of `to_weights`.

    Raises InputError for a biLM without projections, which AllenNLP's classes always have.
    """
    import torch

    if not config.lstm.has_projection or "token_encoder.projection.weight" not in weights:
        raise InputError("the biLM has no projection, which AllenNLP's classes always have; save it as it is")
    ours = {name: weight.detach() for name, weight in weights.items()}
    for layer in range(config.lstm.n_layers):
        bias = ours[f"layers.{layer}.bias"] = ours[f"layers.{layer}.bias"].clone()
        bias[:, 2 * config.lstm.dim : 3 * config.lstm.dim] += config.lstm.forget_bias
    state = {}
    for name, part in _parts(config).items():
        array = ours[part.ours]
        if part.kind == "highway":
            state[name] = torch.cat([array, -ours[_carry(part)]])
        elif part.kind == "cell":
            state[name] = _in_other_order(name, array[part.direction].clone())
        else:
            state[name] = array.clone()
    return state


def _parts(config: BiLMConfig) -> dict[str, Part]:
    """Returns the content of all arrays of AllenNLP."""
    cnn, theirs = config.char_cnn, "_token_embedder"
    assert cnn is not None
    parts = {CHARACTERS: Part(EMBEDDING)}
    for i in range(len(cnn.filters)):
        parts |= layer_parts(f"{theirs}.char_conv_{i}", f"token_encoder.convolutions.{i}")
    parts |= highway_parts(cnn, f"{theirs}._highways._layers", "token_encoder")
    parts |= layer_parts(f"{theirs}._projection", "token_encoder.projection")
    return parts | lstm_parts(config.lstm, "_elmo_lstm.")


def layer_parts(theirs: str, ours: str, kind: Kind = "same") -> dict[str, Part]:
    """Returns the content of the weight and the bias of a layer."""
    return {f"{theirs}.{part}": Part(f"{ours}.{part}", kind) for part in ("weight", "bias")}


def highway_parts(cnn: CharCnnConfig, theirs: str, ours: str) -> dict[str, Part]:
    """Returns what highway layers hold whose names are `theirs`, a dot and their number; `ours` is our prefix."""
    parts = {}
    for k in range(cnn.n_highway):
        parts |= layer_parts(f"{theirs}.{k}", f"{ours}.highways.{k}.transform", "highway")
    return parts


def lstm_parts(lstm: LstmConfig, prefix: str) -> dict[str, Part]:
    """Returns what the LSTMs of both directions hold, whose names begin with `prefix`."""
    return {
        f"{prefix}{way}_layer_{layer}.{theirs}": Part(f"layers.{layer}.{ours}", "cell", direction)
        for layer in range(lstm.n_layers)
        for direction, way in enumerate(("forward", "backward"))
        for theirs, ours in CELL.items()
    }


def shapes_of(parts: Mapping[str, Part], ours: Mapping[str, Shape]) -> dict[str, Shape]:
    """Returns the shapes of their arrays, from those of our weights."""
    shapes = {}
    for name, part in parts.items():
        rows, *rest = ours[part.ours]
        as_theirs = {"same": (rows,), "unpadded": (rows - 1,), "highway": (2 * rows,), "cell": ()}
        shapes[name] = (*as_theirs[part.kind], *rest)
    return shapes


def to_ours(parts: Mapping[str, Part], theirs: "Mapping[str, Tensor]", prefix: str = "") -> "dict[str, Tensor]":
    """Returns our weights in float32, with the bias of the forget gate as it is in `theirs`."""
    import torch

    weights: dict[str, Tensor] = {}
    cells: dict[str, list[Tensor]] = {}
    for name, part in parts.items():
        array = theirs[prefix + name].float()
        if part.kind == "highway":
            transform, gate = array.chunk(2)
            weights |= {part.ours: transform.clone(), _carry(part): -gate}
        elif part.kind == "cell":
            cells.setdefault(part.ours, []).append(_in_other_order(name, array))
        else:
            weights[part.ours] = array if part.kind == "same" else torch.cat([torch.zeros_like(array[:1]), array])
    return weights | {name: torch.stack(both) for name, both in cells.items()}


def _carry(part: Part) -> str:
    return part.ours.replace("transform", "carry")


def _in_other_order(name: str, rows: "Tensor") -> "Tensor":
    """Converts rows between elmo's order of gates, i, g, f, o, and AllenNLP's, i, f, g, o; a projection has none."""
    import torch

    if name.endswith("state_projection.weight"):
        return rows
    first, second, third, last = rows.chunk(4)
    return torch.cat([first, third, second, last])
