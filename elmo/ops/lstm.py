"""The recurrence of `elmo.model.lstm`, both directions, with a hand-written gradient.

- the input's product is taken for many steps at once, outside the loop
- the gradients of all weights are one product over all steps
- the directions run in parallel on a CPU
- without gradients nothing is stored, and memory does not grow with the gates of the whole sequence
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from elmo.ops.parallel import both
from elmo.ops.precision import product_dtype
from elmo.ops.products import Library, Precision, Product, TorchProduct, pack

ROWS_AT_ONCE = 256
"""Rows of the input product taken at once when no gradient is wanted: they stay in the cache until they are used."""


class Clips(NamedTuple):
    """The constants of an LSTM step."""

    cell: float | None
    projection: float | None
    forget_bias: float


class PackedLstm(NamedTuple):
    """One direction's products, ready to run; the forget bias is in the bias."""

    input: Product
    state: Product
    bias: Float[Tensor, " gates"]
    projection: Product | None


class _Weights(NamedTuple):
    """One direction's weights in the data type of the products; the forget bias is in the bias."""

    input: Float[Tensor, "gates I"]
    state: Float[Tensor, "gates P"]
    bias: Float[Tensor, " gates"]
    projection: Float[Tensor, "P H"] | None


def bi_lstm(
    inputs: Float[Tensor, "2 T B I"],
    weight_input: Float[Tensor, "2 gates I"],
    weight_state: Float[Tensor, "2 gates P"],
    bias: Float[Tensor, "2 gates"],
    weight_projection: Float[Tensor, "2 P H"] | None,
    hidden: Float[Tensor, "2 B P"],
    cell: Float[Tensor, "2 B H"],
    clips: Clips,
    active: list[int] | None = None,
    keep: Bool[Tensor, "2 T B"] | None = None,
) -> tuple[Float[Tensor, "2 T B P"], Float[Tensor, "2 B P"], Float[Tensor, "2 B H"]]:
    """One layer of both directions; the arguments are those of `elmo.model.lstm.BiLstmLayer.forward`.

    Returns outputs, hidden state and memory cells after each row's last token.
    """
    dtype = product_dtype(inputs)
    arguments = (inputs, weight_input, weight_state, bias, weight_projection, hidden, cell)
    if torch.is_grad_enabled() and any(a is not None and a.requires_grad for a in arguments):
        return _BiLstm.apply(*arguments, clips, active, keep, dtype)  # type: ignore[no-any-return]
    directions = []
    for d in range(2):
        weights = _weights(weight_input[d], weight_state[d], bias[d], _at(weight_projection, d), clips, dtype)
        projection = None if weights.projection is None else TorchProduct(weights.projection)
        directions.append(
            PackedLstm(TorchProduct(weights.input), TorchProduct(weights.state), weights.bias, projection)
        )
    return packed_bi_lstm(inputs, directions, hidden, cell, clips, active, keep)


def packed_bi_lstm(
    inputs: Float[Tensor, "2 T B I"],
    directions: Sequence[PackedLstm],
    hidden: Float[Tensor, "2 B P"],
    cell: Float[Tensor, "2 B H"],
    clips: Clips,
    active: list[int] | None = None,
    keep: Bool[Tensor, "2 T B"] | None = None,
) -> tuple[Float[Tensor, "2 T B P"], Float[Tensor, "2 B P"], Float[Tensor, "2 B H"]]:
    """As `bi_lstm`, with weights that were packed before, and without gradients."""
    outputs = inputs.new_empty(*inputs.shape[:3], hidden.shape[-1])
    hidden, cell = hidden.clone(), cell.clone()

    def direction(d: int) -> None:
        _read(inputs[d], directions[d], hidden[d], cell[d], clips, active, _at(keep, d), outputs[d])

    both(direction, inputs.device)
    return outputs, hidden, cell


def pack_lstm(
    to_input: Float[Tensor, "gates I"],
    to_state: Float[Tensor, "gates P"],
    bias: Float[Tensor, " gates"],
    projection: Float[Tensor, "P H"] | None,
    clips: Clips,
    precision: Precision,
    library: Library | None = None,
) -> PackedLstm:
    """One direction's weights, packed: see `elmo.ops.products.pack`."""
    return PackedLstm(
        pack(to_input, precision, library),
        pack(to_state, precision, library),
        _with_forget_bias(bias, clips),
        None if projection is None else pack(projection, precision, library),
    )


def _with_forget_bias(bias: Float[Tensor, " gates"], clips: Clips) -> Float[Tensor, " gates"]:
    bias = bias.detach().clone()
    bias[len(bias) // 2 : 3 * len(bias) // 4] += clips.forget_bias
    return bias


def _at(tensor: Tensor | None, direction: int) -> Tensor | None:
    return None if tensor is None else tensor[direction]


def _weights(
    to_input: Tensor, to_state: Tensor, bias: Tensor, projection: Tensor | None, clips: Clips, dtype: torch.dtype
) -> _Weights:
    projection = None if projection is None else projection.to(dtype)
    return _Weights(to_input.to(dtype), to_state.to(dtype), _with_forget_bias(bias, clips), projection)


def _read(
    inputs: Float[Tensor, "T B I"],
    packed: PackedLstm,
    hidden: Float[Tensor, "B P"],
    cell: Float[Tensor, "B H"],
    clips: Clips,
    active: list[int] | None,
    keep: Bool[Tensor, "T B"] | None,
    outputs: Float[Tensor, "T B P"],
) -> None:
    """One direction without gradients: fills `outputs` and advances `hidden` and `cell` in place."""
    steps, rows = inputs.shape[:2]
    chunk = max(1, ROWS_AT_ONCE // max(1, rows))
    for start in range(0, steps, chunk):
        part = inputs[start : start + chunk, : rows if active is None else active[start]]
        product = packed.input(part.flatten(0, 1)).to(inputs.dtype)
        gates = product.add_(packed.bias).view(*part.shape[:2], packed.input.size)
        for t in range(start, min(start + chunk, steps)):
            n = rows if active is None else active[t]
            if keep is not None:
                hidden *= keep[t, :, None]
                cell *= keep[t, :, None]
            step_gates, c = gates[t - start, :n], cell[:n]
            step_gates += packed.state(hidden[:n])
            i, j, f, o = _activate(step_gates)
            c *= f
            c += i.mul_(j)
            if clips.cell is not None:
                c.clamp_(-clips.cell, clips.cell)
            memory = o.mul_(torch.tanh(c))
            if packed.projection is None:
                hidden[:n] = memory
            else:
                hidden[:n] = packed.projection(memory)
                if clips.projection is not None:
                    hidden[:n].clamp_(-clips.projection, clips.projection)
            outputs[t, :n] = hidden[:n]
            outputs[t, n:] = 0


def _activate(gates: Float[Tensor, "B gates"]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """i, j, f, o, in place."""
    size = gates.shape[1] // 4
    gates[:, :size].sigmoid_()
    gates[:, size : 2 * size].tanh_()
    gates[:, 2 * size :].sigmoid_()
    i, j, f, o = gates.split(size, dim=1)
    return i, j, f, o


class _Trace(NamedTuple):
    """What one direction's backward pass needs, step by step."""

    gates: Float[Tensor, "T B gates"]
    """i, j, f, o after their activations."""
    tanh_cell: Float[Tensor, "T B H"]
    hidden_in: Float[Tensor, "T B P"]
    """The hidden state as the step saw it."""
    cell_in: Float[Tensor, "T B H"]


class _BiLstm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        inputs: Tensor,
        weight_input: Tensor,
        weight_state: Tensor,
        bias: Tensor,
        weight_projection: Tensor | None,
        hidden: Tensor,
        cell: Tensor,
        clips: Clips,
        active: list[int] | None,
        keep: Tensor | None,
        dtype: torch.dtype,
    ) -> tuple[Tensor, Tensor, Tensor]:
        _, steps, rows, _ = inputs.shape
        outputs = inputs.new_empty(2, steps, rows, hidden.shape[-1])
        trace = _Trace(
            inputs.new_empty(2, steps, rows, bias.shape[1]),
            inputs.new_empty(2, steps, rows, cell.shape[-1]),
            torch.empty_like(outputs),
            inputs.new_empty(2, steps, rows, cell.shape[-1]),
        )
        hidden, cell = hidden.clone(), cell.clone()

        def direction(d: int) -> None:
            weights = _weights(weight_input[d], weight_state[d], bias[d], _at(weight_projection, d), clips, dtype)
            part = _Trace(*(tensor[d] for tensor in trace))
            _read_and_trace(inputs[d], weights, hidden[d], cell[d], clips, active, _at(keep, d), outputs[d], part)

        both(direction, inputs.device)
        ctx.save_for_backward(inputs, weight_input, weight_state, bias, weight_projection, keep, outputs, *trace)
        ctx.clips, ctx.active, ctx.dtype = clips, active, dtype
        return outputs, hidden, cell

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        inputs, weight_input, weight_state, bias, weight_projection, keep, outputs, *trace = ctx.saved_tensors
        to_outputs, to_hidden, to_cell = gradients
        result = [
            None if tensor is None else torch.empty_like(tensor)
            for tensor in (inputs, weight_input, weight_state, bias, weight_projection)
        ]
        to_hidden, to_cell = to_hidden.clone(), to_cell.clone()

        def direction(d: int) -> None:
            projection = _at(weight_projection, d)
            weights = _weights(weight_input[d], weight_state[d], bias[d], projection, ctx.clips, ctx.dtype)
            part = _Trace(*(tensor[d] for tensor in trace))
            to_gates, to_projected = _backward_steps(
                to_outputs[d], to_hidden[d], to_cell[d], weights, ctx.clips, ctx.active, _at(keep, d), outputs[d], part
            )
            _weight_gradients(inputs[d], weights, part, to_gates, to_projected, [_at(r, d) for r in result])

        both(direction, inputs.device)
        return (*result, to_hidden, to_cell, None, None, None, None)


def _read_and_trace(
    inputs: Float[Tensor, "T B I"],
    weights: _Weights,
    hidden: Float[Tensor, "B P"],
    cell: Float[Tensor, "B H"],
    clips: Clips,
    active: list[int] | None,
    keep: Bool[Tensor, "T B"] | None,
    outputs: Float[Tensor, "T B P"],
    trace: _Trace,
) -> None:
    """As `_read`, keeping in `trace` what the gradient needs."""
    steps, rows = inputs.shape[:2]
    product = inputs.flatten(0, 1).to(weights.input.dtype) @ weights.input.T
    trace.gates.copy_(product.view(trace.gates.shape)).add_(weights.bias)
    for t in range(steps):
        n = rows if active is None else active[t]
        if keep is not None:
            hidden *= keep[t, :, None]
            cell *= keep[t, :, None]
        trace.hidden_in[t], trace.cell_in[t] = hidden, cell
        gates, c = trace.gates[t, :n], cell[:n]
        gates += hidden[:n].to(weights.state.dtype) @ weights.state.T
        i, j, f, o = _activate(gates)
        c *= f
        c.addcmul_(i, j)
        if clips.cell is not None:
            c.clamp_(-clips.cell, clips.cell)
        tanh_cell = torch.tanh(c, out=trace.tanh_cell[t, :n])
        memory = o * tanh_cell
        if weights.projection is None:
            hidden[:n] = memory
        else:
            hidden[:n] = memory.to(weights.projection.dtype) @ weights.projection.T
            if clips.projection is not None:
                hidden[:n].clamp_(-clips.projection, clips.projection)
        outputs[t, :n] = hidden[:n]
        outputs[t, n:] = 0
        trace.gates[t, n:] = 0
        trace.tanh_cell[t, n:] = 0


def _backward_steps(
    to_outputs: Float[Tensor, "T B P"],
    to_hidden: Float[Tensor, "B P"],
    to_cell: Float[Tensor, "B H"],
    weights: _Weights,
    clips: Clips,
    active: list[int] | None,
    keep: Bool[Tensor, "T B"] | None,
    outputs: Float[Tensor, "T B P"],
    trace: _Trace,
) -> tuple[Float[Tensor, "T B gates"], Float[Tensor, "T B P"]]:
    """Back through the steps of one direction.

    Returns the gradients at the gates before their activations and at the projection before its clip, zero where a row
    has no token; leaves in `to_hidden` and `to_cell` those of the state before the first step.
    """
    steps, rows, size = trace.tanh_cell.shape
    to_gates = torch.zeros_like(trace.gates) if active is not None else torch.empty_like(trace.gates)
    to_projected = torch.zeros_like(outputs) if active is not None else torch.empty_like(outputs)
    for t in reversed(range(steps)):
        n = rows if active is None else active[t]
        i, j, f, o = trace.gates[t, :n].split(size, dim=1)
        tanh_cell, d_cell = trace.tanh_cell[t, :n], to_cell[:n]
        d_hidden = torch.add(to_hidden[:n], to_outputs[t, :n], out=to_projected[t, :n])
        if weights.projection is not None:
            if clips.projection is not None:
                d_hidden *= outputs[t, :n].abs() < clips.projection
            d_memory = (d_hidden.to(weights.projection.dtype) @ weights.projection).to(d_hidden.dtype)
        else:
            d_memory = d_hidden
        d_i, d_j, d_f, d_o = to_gates[t, :n].split(size, dim=1)
        # d_cell += d_memory o (1 - tanh_cell^2)
        through_output = d_memory * o
        d_cell += through_output
        d_cell.addcmul_(through_output, tanh_cell.square(), value=-1)
        if clips.cell is not None:
            # What the clip saw, computed again: it is not stored.
            d_cell *= torch.addcmul(i * j, f, trace.cell_in[t, :n]).abs_() <= clips.cell
        # The slopes of the activations: s (1 - s) and 1 - tanh^2.
        torch.mul(d_memory * tanh_cell, torch.addcmul(o, o, o, value=-1), out=d_o)
        torch.mul(d_cell * j, torch.addcmul(i, i, i, value=-1), out=d_i)
        d_new = d_cell * i
        torch.addcmul(d_new, d_new, j.square(), value=-1, out=d_j)
        torch.mul(d_cell * trace.cell_in[t, :n], torch.addcmul(f, f, f, value=-1), out=d_f)
        d_cell *= f
        to_hidden[:n] = to_gates[t, :n].to(weights.state.dtype) @ weights.state
        if keep is not None:
            to_hidden *= keep[t, :, None]
            to_cell *= keep[t, :, None]
    return to_gates, to_projected


def _weight_gradients(
    inputs: Float[Tensor, "T B I"],
    weights: _Weights,
    trace: _Trace,
    to_gates: Float[Tensor, "T B gates"],
    to_projected: Float[Tensor, "T B P"],
    result: list[Tensor | None],
) -> None:
    """The gradients of input and weights, one product each over all steps, into `result`."""
    to_inputs, to_weight_input, to_weight_state, to_bias, to_weight_projection = result
    dtype = weights.input.dtype
    gates = to_gates.flatten(0, 1)
    products = gates.to(dtype)
    to_inputs.copy_((products @ weights.input).view(inputs.shape))  # type: ignore[union-attr]
    to_weight_input.copy_(products.T @ inputs.flatten(0, 1).to(dtype))  # type: ignore[union-attr]
    to_weight_state.copy_(products.T @ trace.hidden_in.flatten(0, 1).to(dtype))  # type: ignore[union-attr]
    torch.sum(gates, dim=0, out=to_bias)
    if to_weight_projection is not None:
        o = trace.gates[..., -trace.tanh_cell.shape[-1] :]
        memory = (o * trace.tanh_cell).flatten(0, 1).to(dtype)
        to_weight_projection.copy_(to_projected.flatten(0, 1).to(dtype).T @ memory)
