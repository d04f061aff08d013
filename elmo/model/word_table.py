"""The table of word vectors: the token encoder of models that read words and not characters.

Row 0 is zero and stands for padding; the words follow in the order of the vocabulary.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn


class WordTable(nn.Module):
    """One vector for each of `n_words` words."""

    def __init__(self, n_words: int, projection_dim: int) -> None:
        super().__init__()
        self.embedding = nn.Parameter(torch.randn(n_words + 1, projection_dim) * projection_dim**-0.5)
        with torch.no_grad():
            self.embedding[0] = 0.0

    def forward(self, word_ids: Int[Tensor, "W 1"]) -> Float[Tensor, "W P"]:
        """Returns the context-free vectors of the words; zeros for padding."""
        return nn.functional.embedding(word_ids.squeeze(1), self.embedding, padding_idx=0)
