"""Scores one span as the antecedent of another, in the network of coreference."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from elmo import ops
from elmo_lab.tasks import coref_spans as spans
from elmo_lab.tasks.layers import FeedForward


class PairScorer(nn.Module):
    """Scores a span as another's antecedent (eq. 9) by a feed-forward network of both, their product, and features.

    `sizes` are those of its hidden layers. The first layer is linear in the concatenated parts, so each span's own part
    is computed once, not once per pair.
    """

    def __init__(self, sizes: Sequence[int], feature_dim: int, dropout: float, span_dim: int, n_genres: int) -> None:
        super().__init__()
        first, *others = sizes
        tables = (
            nn.Embedding(len(spans.DISTANCES), feature_dim),
            nn.Embedding(3, feature_dim),
            nn.Embedding(n_genres + 1, feature_dim, padding_idx=0),  # zeros for an unknown genre
        )
        self.features = nn.ModuleList(tables)
        self.sizes = [span_dim, span_dim, span_dim, len(tables) * feature_dim]
        self.first = nn.Linear(sum(self.sizes), first)
        self.others = nn.Sequential(FeedForward(first, others, dropout), nn.Linear([first, *others][-1], 1))
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        vectors: Float[Tensor, "K G"],
        span: Int[Tensor, " pairs"],
        before: Int[Tensor, " pairs"],
        features: Sequence[Int[Tensor, " pairs"]],
    ) -> Float[Tensor, " pairs"]:
        """Returns the scores of pairs of rows of `vectors`; `features` are distance, speaker and genre."""
        of_span, of_before, of_product, of_features = self.first.weight.split(self.sizes, dim=1)
        alone, earlier = nn.functional.linear(vectors, of_span, self.first.bias), vectors @ of_before.T
        products = ops.multiplied_pairs(vectors, of_product, span, before)
        looked_up = [self.dropout(table(rows)) for table, rows in zip(self.features, features, strict=True)]
        hidden = products + alone.index_select(0, span) + earlier.index_select(0, before)
        hidden = hidden + torch.cat(looked_up, dim=1) @ of_features.T
        return self.others(self.dropout(hidden.relu())).squeeze(1)
