"""What a task's network reads, without a file: random vectors of words, and the layers of a random biLM."""

from collections.abc import Sequence

import numpy as np
import torch
from tiny import CONFIG, DIM, LAYERS
from torch import Tensor

from elmo.text.batching import to_batch
from elmo_lab.tasks.inputs import Collator, InputConfig, Inputs
from elmo_lab.tasks.layers import BiRnn


def random_layers(sentences: Sequence[Sequence[str]]) -> list[np.ndarray]:
    """Layers that depend on the words alone."""
    draw = {word: np.random.default_rng(list(word.encode())) for sentence in sentences for word in sentence}
    vectors = {word: rng.standard_normal((LAYERS, 1, DIM)).astype(np.float32) for word, rng in draw.items()}
    empty = np.zeros((LAYERS, 0, DIM), np.float32)
    return [np.concatenate([empty, *(vectors[word] for word in sentence)], axis=1) for sentence in sentences]


def toy_inputs(words: Sequence[str], elmo: str = "none", tuned: bool = False) -> tuple[Collator, Inputs]:
    """The collator and the module; ELMo's place is one of InputConfig's."""
    config = InputConfig(vectors_dim=10, dropout=0.0, elmo_dropout=0.0, elmo=elmo, tuned=tuned)  # type: ignore[arg-type]
    known = tuple(sorted({word.lower() for word in words}))
    vectors = torch.randn(len(known) + 2, 10)
    return Collator(config, known, random_layers, to_batch), Inputs(config, vectors, CONFIG)


def read_both_ways(network: BiRnn, sequence: Tensor) -> Tensor:
    """What a network of one layer gives for a sentence (T, I) without padding: each direction by itself."""
    ahead, _ = network.forwards[0](sequence[None])
    back, _ = network.backwards[0](sequence[None].flip(1))
    return torch.cat([ahead, back.flip(1)], dim=2)[0]
