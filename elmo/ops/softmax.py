"""Computes the loss of a softmax over words and its gradient in one pass, block by block.

The logits of a block fit in the cache; those of all rows are never in memory together.
"""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from elmo.ops.packing import pack
from elmo.ops.products import product, product_dtype

LOGITS_AT_ONCE = 2**21
ROWS_AT_ONCE = WORDS_AT_ONCE = 512
"""The rows and words whose logits are computed at once: these take 1 MB, which fits in the cache."""


def softmax_loss(
    hidden: Float[Tensor, "M P"],
    weight: Float[Tensor, "K P"],
    bias: Float[Tensor, " K"],
    target_weight: Float[Tensor, "M P"],
    target_bias: Float[Tensor, " M"],
    column: Int[Tensor, " M"],
    sampled: bool,
) -> Float[Tensor, ""]:
    """Returns the sum over rows of `-log softmax(target)`.

    `target_weight` and `target_bias` are the target's row of the softmax. In a full softmax, `weight` holds all words.
    In a sampled one it holds negatives: the target is added to the sum, and the negative in `column` is excluded, since
    it is the target itself (-1 means that there is none).
    """
    arguments = (hidden, weight, bias, target_weight, target_bias, column, sampled, product_dtype(hidden))
    return _SoftmaxLoss.apply(*arguments)  # type: ignore[no-any-return]


class _SoftmaxLoss(torch.autograd.Function):
    """`softmax_loss` with its arguments, and the data type of the products."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Tensor:
        hidden, weight, bias, target_weight, target_bias, column, sampled, dtype = arguments
        products = weight.to(dtype)
        loss = hidden.new_zeros(())
        to_hidden = torch.empty_like(hidden)
        to_weight, to_bias = torch.zeros_like(weight), torch.zeros_like(bias)
        to_target = torch.empty_like(target_bias)
        target_logits = (hidden * target_weight).sum(1) + target_bias
        size = max(1, LOGITS_AT_ONCE // len(weight))
        for start in range(0, len(hidden), size):
            block = slice(start, start + size)
            rows, own = hidden[block].to(dtype), target_logits[block]
            logits = product(rows, products).to(bias.dtype) + bias
            if sampled:
                hits = (column[block] >= 0).nonzero().squeeze(1)
                logits[hits, column[block][hits]] = -torch.inf
            total = torch.logsumexp(logits, 1)
            total = torch.logaddexp(total, own) if sampled else total
            loss += (total - own).sum()
            to_target[block] = (own - total).exp_() - 1 if sampled else -1.0
            probabilities = logits.sub_(total[:, None]).exp_()
            to_bias += probabilities.sum(0)
            probabilities = probabilities.to(dtype)
            to_hidden[block] = product(probabilities, products.T)
            to_weight += product(rows.T, probabilities.T).T
        to_hidden.addcmul_(target_weight, to_target[:, None])
        ctx.save_for_backward(to_hidden, to_weight, to_bias, to_target[:, None] * hidden, to_target)
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        return (*(gradient * part for part in ctx.saved_tensors), None, None, None)


class PackedSoftmax:
    """A softmax over words for inference on a CPU, several times faster than `LmHead`: its weights are packed."""

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
        for logits_of, chances in self._parts:
            # exp(x + b) = exp(x) exp(b) saves a pass over the logits to add the bias, and one to find the maximum.
            total += torch.mv(logits_of(hidden).exp_(), chances)
        result = total.log() + self._highest
        inexact = ~((total > 1e-20) & (total < 1e30))  # some terms may be outside the range of float32
        if inexact.any():
            result[inexact] = torch.logsumexp(hidden[inexact] @ self._weight.T + self._bias, 1)
        return result
