"""A layer of gated recurrent units (Cho et al. 2014), both directions together, with a hand-written gradient.

With x_t the input's contribution to the gates (plus the biases of the input and of r and z) and h' the previous state:

    r, z = sigmoid(x_t[r, z] + U[r, z] h');    n = tanh(x_t[n] + r * (U[n] h' + b))
    h_t = (1 - z) * n + z * h'

as in `torch.nn.GRU`. The overhead of many small operations dominates its steps, so both directions share them here, and
the weight gradients are one product over all steps.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from elmo.ops.lstm import sigmoid_backward, tanh_backward
from elmo.ops.packed_lstm import fast_tanh


def bi_gru(
    gates: Float[Tensor, "T 2 B gates"], weight_state: Float[Tensor, "2 gates H"], bias_new: Float[Tensor, "2 H"]
) -> Float[Tensor, "T 2 B H"]:
    """Returns the hidden states from the zero state, each direction in its reading order; the gates are r, z, n."""
    return _BiGru.apply(gates, weight_state, bias_new)  # type: ignore[no-any-return]


class _BiGru(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gates: Tensor, weight_state: Tensor, bias_new: Tensor) -> Tensor:
        steps, _, rows, size = *gates.shape[:3], weight_state.shape[2]
        gates = gates.contiguous().clone()
        outputs = gates.new_empty(steps, 2, rows, size)
        news = torch.empty_like(outputs)
        """The state's contribution to n."""
        to_gates = weight_state.transpose(1, 2)
        biases = bias_new[:, None]
        hidden = gates.new_zeros(2, rows, size)
        for t in range(steps):
            step = gates[t]
            from_state = torch.bmm(hidden, to_gates)
            both, n = step[..., : 2 * size], step[..., 2 * size :]
            both.add_(from_state[..., : 2 * size]).sigmoid_()
            torch.add(from_state[..., 2 * size :], biases, out=news[t])
            n.copy_(fast_tanh(n.addcmul_(both[..., :size], news[t])))
            hidden = torch.lerp(n, hidden, both[..., size:], out=outputs[t])
        ctx.save_for_backward(gates, weight_state, news, outputs)
        return outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        gates, weight_state, news, outputs = ctx.saved_tensors
        size = outputs.shape[3]
        before = torch.cat([torch.zeros_like(outputs[:1]), outputs[:-1]])
        to_gates, to_state = torch.empty_like(gates), torch.empty_like(gates)
        to_hidden = torch.zeros_like(outputs[0])
        for t in reversed(range(len(gates))):
            both, n = gates[t, ..., : 2 * size], gates[t, ..., 2 * size :]
            r, z = both.split(size, dim=-1)
            d_both, d_n = to_gates[t, ..., : 2 * size], to_gates[t, ..., 2 * size :]
            d_hidden = to_hidden.add_(gradients[0][t])
            to_hidden = d_hidden * z
            d_n.copy_(tanh_backward(d_hidden - to_hidden, n))
            torch.mul(d_n, news[t], out=d_both[..., :size])
            torch.mul(d_hidden, before[t] - n, out=d_both[..., size:])
            sigmoid_backward(d_both, both, grad_input=d_both)
            step = to_state[t]
            step[..., : 2 * size] = d_both
            torch.mul(d_n, r, out=step[..., 2 * size :])
            to_hidden.baddbmm_(step, weight_state)
        # In the products over all steps, steps and rows form one dimension.
        states, hidden = (part.transpose(0, 1).flatten(1, 2) for part in (to_state, before))
        return to_gates, torch.bmm(states.transpose(1, 2), hidden), states[..., 2 * size :].sum(1)
