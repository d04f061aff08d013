"""The attention of SQuAD's network: between passage and question, and of the passage to itself."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from elmo_lab.tasks.layers import attend, masked_softmax, matrix_attention


class Trilinear(nn.Module):
    """The score `u . left + v . right + w . (left * right)` of two vectors (Seo et al. 2017, eq. 1)."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.left = nn.Linear(dim, 1, bias=False)  # a bias would be the same for all choices
        self.right = nn.Linear(dim, 1, bias=False)
        self.product = nn.Linear(dim, 1, bias=False)
        for part in (self.left, self.right, self.product):
            nn.init.xavier_uniform_(part.weight)

    def forward(self, left: Float[Tensor, "B S I"], right: Float[Tensor, "B T I"]) -> Float[Tensor, "B S T"]:
        products = matrix_attention(left * self.product.weight, right)
        return products + self.left(left) + self.right(right).transpose(1, 2)


class BiAttention(nn.Module):
    """Attention of a passage to a question and back (Seo et al. 2017).

    It gives `[p; q~; p * q~; p * p~]` for every token p of the passage. q~ is the mean of the question's tokens,
    weighted by the attention of p; p~ is the mean of all the passage's tokens, each weighted by its best score with a
    token of the question.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.score = Trilinear(dim)

    def forward(
        self,
        passage: Float[Tensor, "B S I"],
        question: Float[Tensor, "B T I"],
        passage_mask: Bool[Tensor, "B S"],
        question_mask: Bool[Tensor, "B T"],
    ) -> Float[Tensor, "B S 4*I"]:
        scores = self.score(passage, question)
        seen = attend(scores, question, question_mask)
        lowest = torch.finfo(scores.dtype).min
        best = scores.masked_fill(~question_mask[:, None, :], lowest).amax(dim=2)
        # If the question is empty, all tokens of the passage weigh the same.
        best = best.masked_fill(~question_mask.any(dim=1, keepdim=True), 0.0)
        whole = masked_softmax(best, passage_mask)[:, None, :] @ passage
        return torch.cat([passage, seen, passage * seen, passage * whole], dim=-1)


class SelfAttention(nn.Module):
    """Attention of a passage's tokens to the others, and to a zero vector that has a learned score.

    It gives `[p; p~; p * p~]` for every token p; p~ is the mean of the other tokens and the zero vector, weighted
    by the attention of p.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.score = Trilinear(dim)
        self.nothing = nn.Parameter(torch.tensor(-1.0))

    def forward(self, vectors: Float[Tensor, "B T I"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, "B T 3*I"]:
        scores = self.score(vectors, vectors)
        itself = torch.eye(scores.shape[1], dtype=torch.bool, device=scores.device)
        allowed = functional.pad(mask[:, None, :] & ~itself, (0, 1), value=True)
        scores = torch.cat([scores, self.nothing.expand(*scores.shape[:2], 1)], dim=2)
        seen = masked_softmax(scores, allowed)[:, :, :-1] @ vectors
        return torch.cat([vectors, seen, vectors * seen], dim=-1)
