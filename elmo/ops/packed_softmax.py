"""Computes log-probabilities of the full softmax several times faster than `LmHead.log_probabilities`."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from elmo.ops.packing import pack

ROWS_AT_ONCE = WORDS_AT_ONCE = 512
"""The rows and words whose logits are computed at once: these take 1 MB, which fits in the cache."""


class PackedSoftmax:
    """A softmax over words for inference on a CPU: its weights are packed for the fastest product."""

    def __init__(self, weight: Float[Tensor, "V P"], bias: Float[Tensor, " V"]) -> None:
        self._weight, self._bias = weight.detach(), bias.detach()
        self._highest = self._bias.max()
        chances = (self._bias - self._highest).exp()
        parts = zip(self._weight.split(WORDS_AT_ONCE), chances.split(WORDS_AT_ONCE), strict=True)
        self._parts = [(pack(rows, "float32"), own) for rows, own in parts]

    @torch.no_grad()
    def log_probabilities(self, hidden: Float[Tensor, "M P"], targets: Int[Tensor, " M"]) -> Float[Tensor, " M"]:
        """Returns `log p(target)` of each row, in float32."""
        own = (hidden * self._weight[targets]).sum(1) + self._bias[targets]
        return own - torch.cat([self._log_total(rows) for rows in hidden.split(ROWS_AT_ONCE)])

    def _log_total(self, hidden: Float[Tensor, "M P"]) -> Float[Tensor, " M"]:
        """`log sum exp` of the logits of all words."""
        total = hidden.new_zeros(len(hidden))
        for product, chances in self._parts:
            # exp(x + b) = exp(x) exp(b) saves a pass over the logits to add the bias, and one to find the maximum.
            total += torch.mv(product(hidden).exp_(), chances)
        result = total.log() + self._highest
        inexact = ~((total > 1e-20) & (total < 1e30))  # some terms may be outside the range of float32
        if inexact.any():
            result[inexact] = torch.logsumexp(hidden[inexact] @ self._weight.T + self._bias, 1)
        return result
