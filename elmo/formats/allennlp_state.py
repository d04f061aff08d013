"""Converts between elmo's weights and the state dict of AllenNLP's biLM, which has other names and another order.

AllenNLP's layout differs from the published HDF5 files:

- A highway layer is one matrix, the transform above the carry, and the carry is negated.
- Gates are in the order i, f, g, o (elmo's is i, g, f, o), and the 1 of the forget gate is in the bias.
- The two directions are separate modules.
- Both projections always exist.

ELMoForManyLangs has AllenNLP's highways and LSTMs, with other prefixes and without the 1 of the forget gate.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from elmo.errors import InputError
from elmo.model.config import BiLMConfig, CharCnnConfig, LstmConfig, Shape

if TYPE_CHECKING:
    from torch import Tensor

CHARACTERS = "_token_embedder._char_embedding_weights"
HIGHWAYS, LSTM = "_token_embedder._highways._layers", "_elmo_lstm."
BEGINNINGS = ("_token_embedder.", "_elmo_lstm.forward_layer_", "_elmo_lstm.backward_layer_")
"""Prefixes of the names in AllenNLP's `_ElmoBiLm`."""


def is_foreign(name: str) -> bool:
    """Returns whether `name` is AllenNLP's name of a biLM weight."""
    return name.startswith(BEGINNINGS)


def state_shapes(config: BiLMConfig) -> dict[str, Shape]:
    """Returns the shapes of all of AllenNLP's arrays for a biLM of this configuration."""
    cnn, size = config.char_cnn, config.lstm.projection_dim
    assert cnn is not None
    shapes: dict[str, Shape] = {CHARACTERS: (cnn.n_characters, cnn.embedding_dim)}
    for i, (width, count) in enumerate(cnn.filters):
        name = f"_token_embedder.char_conv_{i}"
        shapes |= {f"{name}.weight": (count, cnn.embedding_dim, width), f"{name}.bias": (count,)}
    shapes |= highway_shapes(cnn, HIGHWAYS)
    name = "_token_embedder._projection"
    shapes |= {f"{name}.weight": (size, cnn.n_filters), f"{name}.bias": (size,)}
    return shapes | lstm_shapes(config.lstm, LSTM)


def highway_shapes(cnn: CharCnnConfig, prefix: str) -> dict[str, Shape]:
    """Returns the shapes of highway layers whose names are `prefix`, a dot and their number."""
    size = cnn.n_filters
    shapes: dict[str, Shape] = {}
    for k in range(cnn.n_highway):
        shapes |= {f"{prefix}.{k}.weight": (2 * size, size), f"{prefix}.{k}.bias": (2 * size,)}
    return shapes


def lstm_shapes(lstm: LstmConfig, prefix: str) -> dict[str, Shape]:
    """Returns the shapes of the LSTMs of both directions, whose names begin with `prefix`."""
    size, hidden = lstm.projection_dim, lstm.dim
    shapes: dict[str, Shape] = {}
    for layer in range(lstm.n_layers):
        for name in _cells(layer, prefix):
            shapes |= {
                f"{name}.input_linearity.weight": (4 * hidden, size),
                f"{name}.state_linearity.weight": (4 * hidden, size),
                f"{name}.state_linearity.bias": (4 * hidden,),
                f"{name}.state_projection.weight": (size, hidden),
            }
    return shapes


def to_weights(config: BiLMConfig, state: "Mapping[str, Tensor]", prefix: str = "") -> "dict[str, Tensor]":
    """Returns the weights, with the names of `BiLM.state_dict`, of the biLM under `prefix` in `state`."""
    cnn = config.char_cnn
    assert cnn is not None
    own = {name: state[prefix + name].float() for name in state_shapes(config)}
    weights = {"token_encoder.embedding": own[CHARACTERS].clone()}
    weights["token_encoder.embedding"][0] = 0.0  # the row for "no token": training may change it, but nothing reads it
    for i in range(len(cnn.filters)):
        for part in ("weight", "bias"):
            weights[f"token_encoder.convolutions.{i}.{part}"] = own[f"_token_embedder.char_conv_{i}.{part}"]
    for part in ("weight", "bias"):
        weights[f"token_encoder.projection.{part}"] = own[f"_token_embedder._projection.{part}"]
    weights |= {f"token_encoder.{name}": weight for name, weight in to_highways(cnn, own, HIGHWAYS).items()}
    weights |= to_lstms(config.lstm, own, LSTM)
    for layer in range(config.lstm.n_layers):
        weights[f"layers.{layer}.bias"][:, 2 * config.lstm.dim : 3 * config.lstm.dim] -= config.lstm.forget_bias
    return {name: weight.detach().contiguous() for name, weight in weights.items()}


def to_highways(cnn: CharCnnConfig, theirs: "Mapping[str, Tensor]", prefix: str) -> "dict[str, Tensor]":
    """Returns the weights of elmo's highway layers, named from `highways` on."""
    weights = {}
    for k in range(cnn.n_highway):
        for part in ("weight", "bias"):
            transform, gate = theirs[f"{prefix}.{k}.{part}"].chunk(2)
            weights[f"highways.{k}.transform.{part}"] = transform.clone()
            weights[f"highways.{k}.carry.{part}"] = -gate
    return weights


def to_lstms(lstm: LstmConfig, theirs: "Mapping[str, Tensor]", prefix: str) -> "dict[str, Tensor]":
    """Returns the weights of elmo's LSTMs, with the bias of the forget gate as it is in `theirs`."""
    import torch

    weights = {}
    for layer in range(lstm.n_layers):
        cells = _cells(layer, prefix)
        for ours, name in (
            ("weight_input", "input_linearity.weight"),
            ("weight_state", "state_linearity.weight"),
            ("bias", "state_linearity.bias"),
        ):
            weights[f"layers.{layer}.{ours}"] = torch.stack([_swap_gates(theirs[f"{cell}.{name}"]) for cell in cells])
        projections = [theirs[f"{cell}.state_projection.weight"] for cell in cells]
        weights[f"layers.{layer}.weight_projection"] = torch.stack(projections)
    return weights


def from_weights(config: BiLMConfig, weights: "Mapping[str, Tensor]") -> "dict[str, Tensor]":
    """Returns AllenNLP's arrays of a biLM with these weights. This is the inverse of `to_weights`.

    Raises InputError for a biLM without projections, which AllenNLP's classes always have.
    """
    import torch

    cnn, encoder = config.char_cnn, "token_encoder"
    assert cnn is not None
    if not config.lstm.has_projection or f"{encoder}.projection.weight" not in weights:
        raise InputError("the biLM has no projection, which AllenNLP's classes always have; save it as it is")
    state = {CHARACTERS: weights[f"{encoder}.embedding"].clone()}
    for part in ("weight", "bias"):
        for i in range(len(cnn.filters)):
            state[f"_token_embedder.char_conv_{i}.{part}"] = weights[f"{encoder}.convolutions.{i}.{part}"].clone()
        for k in range(cnn.n_highway):
            highway = f"{encoder}.highways.{k}"
            both = [weights[f"{highway}.transform.{part}"], -weights[f"{highway}.carry.{part}"]]
            state[f"{HIGHWAYS}.{k}.{part}"] = torch.cat(both)
        state[f"_token_embedder._projection.{part}"] = weights[f"{encoder}.projection.{part}"].clone()
    for layer in range(config.lstm.n_layers):
        own = {name: weights[f"layers.{layer}.{name}"] for name in ("weight_input", "weight_state", "bias")}
        for direction, cell in enumerate(_cells(layer, LSTM)):
            state[f"{cell}.input_linearity.weight"] = _swap_gates(own["weight_input"][direction])
            state[f"{cell}.state_linearity.weight"] = _swap_gates(own["weight_state"][direction])
            bias = own["bias"][direction].clone()
            bias[2 * config.lstm.dim : 3 * config.lstm.dim] += config.lstm.forget_bias
            state[f"{cell}.state_linearity.bias"] = _swap_gates(bias)
            state[f"{cell}.state_projection.weight"] = weights[f"layers.{layer}.weight_projection"][direction].clone()
    return {name: weight.detach() for name, weight in state.items()}


def _cells(layer: int, prefix: str) -> tuple[str, str]:
    return f"{prefix}forward_layer_{layer}", f"{prefix}backward_layer_{layer}"


def _swap_gates(rows: "Tensor") -> "Tensor":
    """Converts rows between elmo's order of gates, i, g, f, o, and AllenNLP's, i, f, g, o."""
    import torch

    first, second, third, last = rows.chunk(4)
    return torch.cat([first, third, second, last])
