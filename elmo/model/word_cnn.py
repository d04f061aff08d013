"""The encoder of a word by itself and its characters together (ELMoForManyLangs; Che et al. 2018).

`token = W [embedding of the word; character CNN with its highways] + b`, where either part may be absent.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from elmo import ops
from elmo.model.char_cnn import CharCnn, PackedCharCnn
from elmo.model.config import WordCnnConfig


class WordCnn(nn.Module):
    """Encodes distinct words, each of `WordCnnConfig.ids_per_token` ids, as vectors of size `projection_dim`."""

    def __init__(self, config: WordCnnConfig, projection_dim: int) -> None:
        super().__init__()
        self.config = config
        self.words = nn.Parameter(torch.randn(config.n_words, config.word_dim)) if config.n_words else None
        self.char_cnn = None if config.char_cnn is None else CharCnn(config.char_cnn, config.char_cnn.n_filters)
        self.projection = nn.Linear(config.n_features, projection_dim)
        if self.words is not None:
            with torch.no_grad():
                self.words[0] = 0.0

    @property
    def embedding(self) -> Float[Tensor, "V E"]:
        """One of the tables, which shows the device and type that all weights share."""
        return _any_table(self.words, self.char_cnn)

    def forward(self, ids: Int[Tensor, "W C"]) -> Float[Tensor, "W P"]:
        """Returns the context-free vectors of the words."""
        return self.projection(_features(self.words, self.char_cnn, ids)).to(self.projection.weight.dtype)


class PackedWordCnn(ops.PackedModule):
    """A `WordCnn` for inference: its weights are packed for the fastest product; see `PackedCharCnn`."""

    def __init__(self, encoder: WordCnn, precision: ops.Precision, library: ops.Library | None, release: bool) -> None:
        super().__init__()
        self.config = encoder.config
        # The table is large, so it is not copied if the encoder will not be used again.
        self.words = None if encoder.words is None else encoder.words.detach().to(torch.float32, copy=not release)
        char_cnn = encoder.char_cnn
        self.char_cnn = None if char_cnn is None else PackedCharCnn(char_cnn, precision, library)
        self.projection = ops.pack_words(encoder.projection.weight.detach(), precision, library)
        self.bias = encoder.projection.bias.detach().to(torch.float32, copy=True)

    @property
    def embedding(self) -> Float[Tensor, "V E"]:
        """Returns what `WordCnn.embedding` returns."""
        return _any_table(self.words, self.char_cnn)

    def forward(self, ids: Int[Tensor, "W C"]) -> Float[Tensor, "W P"]:
        """Returns what `WordCnn.forward` returns."""
        features = _features(self.words, self.char_cnn, ids)
        return self.projection(features).to(features.dtype).add_(self.bias)


def _any_table(words: Tensor | None, char_cnn: CharCnn | PackedCharCnn | None) -> Tensor:
    if words is not None:
        return words
    assert char_cnn is not None
    return char_cnn.embedding


def _features(
    words: Float[Tensor, "V E"] | None, char_cnn: CharCnn | PackedCharCnn | None, ids: Int[Tensor, "W C"]
) -> Float[Tensor, "W F"]:
    """The word's own vector and that of its characters, concatenated."""
    parts = [] if words is None else [nn.functional.embedding(ids[:, 0], words)]
    if char_cnn is not None:
        parts.append(char_cnn(ids if words is None else ids[:, 1:]))
    return torch.cat(parts, dim=1)
