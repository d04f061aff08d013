"""Computes the loss of a softmax over words and its gradient in one pass, block by block.

The logits of a block fit in the cache; those of all rows are never in memory together.
"""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from elmo.ops.products import product, product_dtype

LOGITS_AT_ONCE = 2**21


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
