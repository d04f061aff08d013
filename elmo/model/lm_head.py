"""The softmax over words, which both directions share. Only training, perplexity and scoring need it.

- `loss` is that of the full softmax.
- `sampled_loss` compares the target with words that are drawn log-uniformly by rank (Jean et al. 2015; as in
  TensorFlow).
- `log_probabilities` are for perplexity and scores.
"""

import math
from collections.abc import Callable
from functools import cache

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from elmo import ops


class LmHead(nn.Module):
    """Turns the vectors of one direction into distributions over the words of the vocabulary."""

    def __init__(self, n_words: int, projection_dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(n_words, projection_dim) * projection_dim**-0.5)
        self.bias = nn.Parameter(torch.zeros(n_words))

    def loss(self, hidden: Float[Tensor, "M P"], targets: Int[Tensor, " M"]) -> Float[Tensor, ""]:
        """Returns the sum of `-log p(target)` under the full softmax."""
        own_weight, own_bias = self._rows(targets)
        return ops.softmax_loss(hidden, self.weight, self.bias, own_weight, own_bias, targets, False)

    def sampled_loss(
        self,
        hidden: Float[Tensor, "M P"],
        targets: Int[Tensor, " M"],
        negatives: Int[Tensor, " S"],
        sparse: bool = False,
    ) -> Float[Tensor, ""]:
        """Returns the sum of the sampled softmax's losses, with the log of each word's expected count off its logit.

        `sparse` gives the weight a sparse gradient, only for the rows in use.
        """
        chances = _on_device(log_expected, len(self.bias), len(negatives), self.bias.device)
        if not sparse and len(negatives) <= ops.WIDEST_ROW and ops.has_kernels(self.weight):
            return ops.sampled_loss(hidden, self.weight, self.bias, targets, negatives, chances)
        column = torch.full_like(self.bias, -1, dtype=torch.long)
        column[negatives] = torch.arange(len(negatives), device=negatives.device)
        # Both are looked up at once, so that their gradient is a single table of the softmax's size.
        words = torch.cat([negatives, targets])
        weight, bias = self._rows(words, sparse)
        bias = bias - chances[words]
        parts = len(negatives), len(targets)
        (weight, own_weight), (bias, own_bias) = weight.split(parts), bias.split(parts)
        return ops.softmax_loss(hidden, weight, bias, own_weight, own_bias, column[targets], True)

    def draw(self, count: int, generator: torch.Generator | None = None) -> Int[Tensor, " S"]:
        """Draws `count` distinct words, one after another in proportion to `log_uniform` (words by frequency).

        `generator` is a generator of the CPU; the default is torch's global one.
        """
        # The words with the largest log p + Gumbel noise are such a sample (Vieira 2014).
        if generator is None and ops.has_kernels(self.weight):  # a CUDA graph can take nothing from the CPU
            noise = torch.empty_like(self.bias, requires_grad=False).exponential_().log_().neg_()
            keys = _on_device(_log_chances, len(self.bias), 0, self.bias.device) + noise
            return keys.sort(descending=True).indices[:count]
        noise = torch.empty(len(self.bias), device="cpu").exponential_(generator=generator).log_().neg_()
        keys = log_uniform(len(self.bias)).log() + noise
        return keys.topk(count).indices.to(self.bias.device)

    @torch.no_grad()
    def log_probabilities(self, hidden: Float[Tensor, "M P"], targets: Int[Tensor, " M"]) -> Float[Tensor, " M"]:
        """Returns `log p(target)` of every row under the full softmax, in float32."""
        size = max(1, 2**22 // len(self.weight))
        parts = [
            torch.log_softmax(rows @ self.weight.T + self.bias, dim=1).gather(1, own[:, None]).squeeze(1)
            for rows, own in zip(hidden.split(size), targets.split(size), strict=True)
        ]
        return torch.cat(parts) if parts else hidden.new_zeros(0)

    def _rows(self, words: Int[Tensor, " K"], sparse: bool = False) -> tuple[Float[Tensor, "K P"], Float[Tensor, " K"]]:
        bias = nn.functional.embedding(words, self.bias[:, None]).squeeze(1)
        return nn.functional.embedding(words, self.weight, sparse=sparse), bias


@cache
def _on_device(table: Callable[[int, int], Tensor], n_words: int, count: int, device: torch.device) -> Tensor:
    """The table on the device. It is copied once, since a CUDA graph may not copy from the CPU."""
    return table(n_words, count).to(device)


def _log_chances(n_words: int, _: int) -> Float[Tensor, " V"]:
    return log_uniform(n_words).log().float()


@cache
def log_expected(n_words: int, count: int) -> Float[Tensor, " V"]:
    """Returns the log of how often each word is expected among `count` distinct negatives."""
    chances = log_uniform(n_words)
    tries = expected_tries(chances, count)
    return torch.log(-torch.expm1(tries * torch.log1p(-chances))).float()


@cache
def log_uniform(n_words: int) -> Float[Tensor, " V"]:
    """Returns Zipf-like probabilities by rank, `p(k) = log((k + 2) / (k + 1)) / log(V + 1)`, in float64 on the CPU."""
    ranks = torch.arange(n_words, dtype=torch.float64, device="cpu")
    return torch.log1p(1 / (ranks + 1)) / math.log(n_words + 1)


def expected_tries(chances: Float[Tensor, " V"], distinct: int) -> float:
    """Returns the number of draws with replacement that give `distinct` different words on average."""
    if distinct >= len(chances):
        raise ValueError(f"{distinct} negatives of {len(chances)} words: draw fewer, or use the full softmax (0)")
    low, high = float(distinct), float(distinct)
    log_missed = torch.log1p(-chances)

    def found(tries: float) -> float:
        return float(-torch.expm1(tries * log_missed).sum())

    while found(high) < distinct:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if found(middle) < distinct else (low, middle)
    return high
