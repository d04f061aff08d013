"""The weights of ELMoForManyLangs: the shapes of its tensors, and their values as those of elmo.

Its highways and LSTMs are AllenNLP's (`elmo.formats.allennlp_state`); nothing is added to the forget gate.
"""

from typing import TYPE_CHECKING

from elmo.formats.allennlp_state import highway_shapes, lstm_shapes, to_highways, to_lstms
from elmo.model.config import BiLMConfig, Shape

if TYPE_CHECKING:
    from torch import Tensor

    Tensors = dict[str, Tensor]

WORD_TABLE, CHAR_TABLE = "word_emb_layer.embedding.weight", "char_emb_layer.embedding.weight"
HIGHWAYS = "highways._layers"


def embedder_shapes(config: BiLMConfig) -> dict[str, Shape]:
    """Returns the shapes of all tensors of `token_embedder.pkl`."""
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
    return shapes | highway_shapes(cnn, HIGHWAYS)


def encoder_shapes(config: BiLMConfig) -> dict[str, Shape]:
    """Returns the shapes of all tensors of `encoder.pkl`."""
    return lstm_shapes(config.lstm, "")


def to_embedder(config: BiLMConfig, theirs: "Tensors") -> "Tensors":
    """Returns the weights of elmo's token encoder."""
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
        highways = to_highways(embedder.char_cnn, theirs, HIGHWAYS)
        weights |= {f"char_cnn.{name}": weight for name, weight in highways.items()}
    return {f"token_encoder.{name}": weight for name, weight in weights.items()}


def to_layers(config: BiLMConfig, theirs: "Tensors") -> "Tensors":
    """Returns the weights of elmo's LSTMs."""
    return to_lstms(config.lstm, {name: tensor.float() for name, tensor in theirs.items()}, "")


def _with_padding(table: "Tensor") -> "Tensor":
    import torch

    return torch.cat([torch.zeros_like(table[:1]), table])
