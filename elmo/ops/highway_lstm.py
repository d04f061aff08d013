"""One layer and direction of the highway LSTM of He et al. 2017 (sec. 2.1 and 2.2), with a hand-written gradient.

With x_t the layer's input, and h' and c' the states of the token read before (zero at the first):

    i, f, o, r = sigmoid(W_{i,f,o,r} x_t + U_{i,f,o,r} h' + b);    j = tanh(W_j x_t + U_j h' + b_j)
    c_t = f * c' + i * j
    h_t = z * (r * o * tanh(c_t) + (1 - r) * W_carry x_t)

z is the variational dropout: one mask per sentence, the same for all its tokens, for the next token and the next layer.

- Tokens are packed, so padding costs nothing, and the layout serves both directions without reversing.
- One product covers the inputs of all tokens, and one covers each weight gradient.
- The derivatives of the gates are computed while the numbers of a step are in the cache.
"""

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from elmo.ops.lstm import sigmoid_backward, tanh_backward
from elmo.ops.packed_lstm import fast_tanh
from elmo.ops.products import product


def highway_lstm(
    inputs: Float[Tensor, "M I"],
    weight_input: Float[Tensor, "gates I"],
    weight_state: Float[Tensor, "gates H"],
    bias: Float[Tensor, " gates"],
    weight_carry: Float[Tensor, "H I"],
    rows: Sequence[int],
    backwards: bool = False,
    keep: Float[Tensor, "B H"] | None = None,
) -> Float[Tensor, "M H"]:
    """Returns the hidden states of all tokens of a batch, packed like torch's PackedSequence.

    Sentences are sorted by length, longest first; the `rows[0]` first tokens come first, then the `rows[1]` second
    tokens, and so on. The gates are in the order i, j, f, o, r. `keep` is z, already scaled; its row b belongs to
    sentence b in that order.
    """
    if not len(inputs):
        return inputs @ weight_carry.T  # it has no rows, but belongs to the graph
    arguments = inputs, weight_input, weight_state, bias, weight_carry
    return _HighwayLstm.apply(*arguments, list(rows), backwards, keep)  # type: ignore[no-any-return]


class _HighwayLstm(torch.autograd.Function):
    """`highway_lstm` of at least one token, with its arguments."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Tensor:
        inputs, weight_input, weight_state, bias, weight_carry, rows, backwards, keep = arguments
        gates = product(inputs, _doubled(weight_input)).add_(_doubled(bias))
        carried = product(inputs, weight_carry)
        cells, outputs, to_state = torch.empty_like(carried), torch.empty_like(carried), _doubled(weight_state)
        hidden, cell = carried.new_zeros(2, rows[0], carried.shape[1])
        for n, here in _steps(rows, backwards):
            step, h, c = gates[here], hidden[:n], cell[:n]
            i, j, f, o, r = step.add_(product(h, to_state)).sigmoid_().chunk(5, dim=1)
            j.mul_(2).sub_(1)
            c.mul_(f).addcmul_(i, j)
            cells[here] = c
            torch.lerp(carried[here], fast_tanh(c).mul_(o), r, out=h)
            if keep is not None:
                h *= keep[:n]
            outputs[here] = h
        ctx.save_for_backward(inputs, weight_input, weight_state, weight_carry, keep, gates, carried, cells, outputs)
        ctx.rows, ctx.backwards = rows, backwards
        return outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        inputs, weight_input, weight_state, weight_carry, keep, gates, carried, cells, outputs = ctx.saved_tensors
        before, cells_before = (_before(values, ctx.rows, ctx.backwards) for values in (outputs, cells))
        to_gates, to_carried = torch.empty_like(gates), torch.empty_like(carried)  # gates before their activations
        to_hidden, to_cell = carried.new_zeros(2, ctx.rows[0], carried.shape[1])
        to_before = weight_state.T.contiguous()
        for n, here in _steps(ctx.rows, not ctx.backwards):
            i, j, f, o, r = gates[here].chunk(5, dim=1)
            d_i, d_j, d_f, d_o, d_r = to_gates[here].chunk(5, dim=1)
            d_h, d_c = to_hidden[:n], to_cell[:n]
            d_h += gradients[0][here]
            if keep is not None:
                d_h *= keep[:n]
            d_memory = d_h * r
            torch.sub(d_h, d_memory, out=to_carried[here])
            tanh_cell = fast_tanh(cells[here])
            torch.addcmul(-carried[here], tanh_cell, o, out=d_r)
            _through_sigmoid(d_r.mul_(d_h), r)
            d_c += tanh_backward(d_memory * o, tanh_cell)
            _through_sigmoid(torch.mul(d_memory, tanh_cell, out=d_o), o)
            _through_sigmoid(torch.mul(d_c, j, out=d_i), i)
            _through_sigmoid(torch.mul(d_c, cells_before[here], out=d_f), f)
            tanh_backward.grad_input(d_c * i, j, grad_input=d_j)
            d_c *= f
            d_h.copy_(product(to_gates[here], to_before))
        to_inputs = None
        if ctx.needs_input_grad[0]:
            to_inputs = product(to_gates, weight_input.T).add_(product(to_carried, weight_carry.T))
        return (
            to_inputs,
            product(inputs.T, to_gates.T).T,  # transposing twice makes oneDNN twice as fast
            product(before.T, to_gates.T).T,
            to_gates.sum(0),
            product(inputs.T, to_carried.T).T,
            *[None] * 3,
        )


def _doubled(weight: Tensor) -> Tensor:
    """A copy with the candidate's rows doubled: tanh(x) = 2 sigmoid(2 x) - 1, and one sigmoid serves all gates."""
    weight = weight.detach().clone()
    size = len(weight) // 5
    weight[size : 2 * size] *= 2
    return weight


def _steps(rows: list[int], backwards: bool) -> Iterator[tuple[int, slice]]:
    """The number of sentences and their packed tokens at every step, in reading order."""
    parts = [(n, slice(end - n, end)) for n, end in zip(rows, accumulate(rows), strict=True)]
    return reversed(parts) if backwards else iter(parts)


def _before(values: Float[Tensor, "M H"], rows: list[int], backwards: bool) -> Float[Tensor, "M H"]:
    """The values of the previously read token of the same sentence; zero at its first."""
    before = torch.zeros_like(values)
    steps = list(_steps(rows, backwards))
    for (n_last, last), (n, here) in pairwise(steps):
        both = min(n_last, n)
        before[here.start : here.start + both] = values[last.start : last.start + both]
    return before


def _through_sigmoid(gradient: Tensor, value: Tensor) -> None:
    """Propagates a gradient in place through a sigmoid with output `value`."""
    sigmoid_backward(gradient, value, grad_input=gradient)
