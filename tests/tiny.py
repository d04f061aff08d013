"""A random model of a few numbers, in memory and in the published layout."""

from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from elmo.embedding import embedder
from elmo.embedding.embedder import Embedder
from elmo.embedding.words import WordVectors
from elmo.formats import Model, allennlp
from elmo.model.bilm import BiLM, BiLMConfig
from elmo.model.char_cnn import CharCnnConfig
from elmo.model.lstm import LstmConfig

CONFIG = BiLMConfig(
    LstmConfig(dim=6, projection_dim=4, n_layers=2),
    CharCnnConfig(embedding_dim=3, filters=((1, 4), (2, 5)), n_highway=2),
)
LAYERS, DIM = 3, 8
"""Of its vectors."""


def tiny_model(config: BiLMConfig = CONFIG, seed: int = 0) -> Model:
    """Weights large enough that every token and its context show in the vectors."""
    draw = torch.Generator().manual_seed(seed)
    shapes = {name: weight.shape for name, weight in BiLM(config).state_dict().items()}
    weights = {name: torch.randn(shape, generator=draw) * 0.5 for name, shape in shapes.items()}
    weights["token_encoder.embedding"][0] = 0
    return Model(config, weights)


def write_tiny(folder: Path, config: BiLMConfig = CONFIG, seed: int = 0) -> tuple[Path, Path]:
    """Options and weights in `folder`, which is made."""
    allennlp.save(tiny_model(config, seed), folder)
    return folder / allennlp.OPTIONS, folder / allennlp.WEIGHTS


def forgetful_embedder(words: int, **options: Any) -> Embedder:
    """An embedder of the random model whose table of known words has room for this many, so it is often emptied."""
    room = partial(WordVectors, cache_bytes=4 * CONFIG.lstm.projection_dim * words)
    with mock.patch.object(embedder, "WordVectors", room):
        return Embedder(tiny_model().bilm(), **options)
