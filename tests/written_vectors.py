"""An embedder whose vectors a test writes."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from elmo.embedding.embedder import Embedder


class Written(Embedder):
    """Vectors from a function of (token, sentence): layer 0 sees the token alone, layer 1 what the function says."""

    def __init__(self, context: Callable[[str, Sequence[str]], Sequence[float]]) -> None:
        self.context = context
        self.sentences = 0

    @property
    def n_layers(self) -> int:
        return 2

    def written(self, sentences: Sequence[Sequence[str]], layers: Any = "all") -> list[np.ndarray]:
        assert layers == "all"
        self.sentences += len(sentences)
        return [
            np.array(
                [[[1.0, len(token)] for token in sentence], [self.context(token, sentence) for token in sentence]],
                dtype=np.float32,
            )
            for sentence in sentences
        ]

    def embed_stream(self, sentences: Any, layers: Any = "all", pool: Any = None) -> Iterator[np.ndarray]:
        return iter(self.written(sentences, layers))
