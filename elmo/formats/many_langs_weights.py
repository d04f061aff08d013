"""The weights of ELMoForManyLangs: the shapes of its tensors, and their values as those of elmo.

The highway gate multiplies the input, ours the transformed input, so its weights change sign. The LSTM's gate order
is i, f, g, o; nothing is added to the forget gate.
"""

from typing import TYPE_CHECKING

from elmo.model.config import BiLMConfig, Shape

if TYPE_CHECKING:
    from torch import Tensor

    Tensors = dict[str, Tensor]

WORD_TABLE, CHAR_TABLE = "word_emb_layer.embedding.weight", "char_emb_layer.embedding.weight"


def embedder_shapes(config: BiLMConfig) -> dict[str, Shape]:
    """All tensors of `token_embedder.pkl`."""
    embedder = config.word_cnn
    assert embedder is not None
    size = config.lstm.projection_dim
    shapes: dict[str, Shape] = {"projection.weight": (size, embedder.n_features), "projection.bias": (size,)}
    if embedder.n_words:
        shapes[WORD_TABLE] = (embedder.n_words - 1, embedder.word_dim)
    cnn = embedder.char_cnn
    if cnn is None:
        return shapes
    shapes[CHAR_TABLE] = (cnn.n_characters - 1, cnn.embedding_dim)
    for i, (width, count) in enumerate(cnn.filters):
        shapes |= {f"convolutions.{i}.weight": (count, cnn.embedding_dim, width), f"convolutions.{i}.bias": (count,)}
    for k in range(cnn.n_highway):
        own = f"highways._layers.{k}"
        shapes |= {f"{own}.weight": (2 * cnn.n_filters, cnn.n_filters), f"{own}.bias": (2 * cnn.n_filters,)}
    return shapes


def encoder_shapes(config: BiLMConfig) -> dict[str, Shape]:
    """All tensors of `encoder.pkl`."""
    size, hidden = config.lstm.projection_dim, config.lstm.dim
    shapes: dict[str, Shape] = {}
    for layer in range(config.lstm.n_layers):
        for direction in ("forward", "backward"):
            shapes |= {
                f"{direction}_layer_{layer}.input_linearity.weight": (4 * hidden, size),
                f"{direction}_layer_{layer}.state_linearity.weight": (4 * hidden, size),
                f"{direction}_layer_{layer}.state_linearity.bias": (4 * hidden,),
                f"{direction}_layer_{layer}.state_projection.weight": (size, hidden),
            }
    return shapes


def to_embedder(config: BiLMConfig, theirs: "Tensors") -> "Tensors":
    """The weights of elmo's token encoder."""
    embedder = config.word_cnn
    assert embedder is not None
    theirs = {name: tensor.float() for name, tensor in theirs.items()}
    weights = {f"projection.{part}": theirs[f"projection.{part}"] for part in ("weight", "bias")}
    if embedder.n_words:
        weights["words"] = _with_padding(theirs[WORD_TABLE])
    if embedder.char_cnn is not None:
        weights["char_cnn.embedding"] = _with_padding(theirs[CHAR_TABLE])
        for i in range(len(embedder.char_cnn.filters)):
            for part in ("weight", "bias"):
                weights[f"char_cnn.convolutions.{i}.{part}"] = theirs[f"convolutions.{i}.{part}"]
        for k in range(embedder.char_cnn.n_highway):
            for part in ("weight", "bias"):
                transform, gate = theirs[f"highways._layers.{k}.{part}"].chunk(2)
                weights[f"char_cnn.highways.{k}.transform.{part}"] = transform.clone()
                weights[f"char_cnn.highways.{k}.carry.{part}"] = -gate
    return {f"token_encoder.{name}": weight for name, weight in weights.items()}


def to_layers(config: BiLMConfig, theirs: "Tensors") -> "Tensors":
    """The weights of elmo's LSTMs."""
    import torch

    weights = {}
    for layer in range(config.lstm.n_layers):
        for ours, name in (
            ("weight_input", "input_linearity.weight"),
            ("weight_state", "state_linearity.weight"),
            ("bias", "state_linearity.bias"),
        ):
            both = torch.stack([theirs[f"{direction}_layer_{layer}.{name}"] for direction in ("forward", "backward")])
            i, f, g, o = both.float().chunk(4, dim=1)
            weights[f"layers.{layer}.{ours}"] = torch.cat([i, g, f, o], dim=1)
        name = "state_projection.weight"
        both = torch.stack([theirs[f"{direction}_layer_{layer}.{name}"] for direction in ("forward", "backward")])
        weights[f"layers.{layer}.weight_projection"] = both.float()
    return weights


def _with_padding(table: "Tensor") -> "Tensor":
    import torch

    return torch.cat([torch.zeros_like(table[:1]), table])
