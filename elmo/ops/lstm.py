"""The recurrence of `elmo.model.lstm` for both directions, with a hand-written gradient.

- The input product is computed for many steps at once, outside the loop.
- The gradient of each weight is one product over all steps.
- Without gradients, it is the recurrence of `elmo.ops.packed_lstm` with products that are not packed.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from elmo.ops import fused
from elmo.ops.compiled import step_kernel
from elmo.ops.packed_lstm import Clips, PackedLstm, activate_gates, fast_tanh, packed_bi_lstm, prepare_gates
from elmo.ops.products import OneDnnProduct, TorchProduct, default_library, has_onednn, product, product_dtype
from elmo.ops.triton_there import has_kernels

TRAINED_AT_ONCE = 256
"""The rows of the input product that are computed at once; they stay in the cache until they are used."""

sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input
tanh_backward = torch.ops.aten.tanh_backward


class _Weights(NamedTuple):
    """The weights in the data type of the products."""

    input: Float[Tensor, "2 gates I"]
    state: Float[Tensor, "2 gates P"]
    projection: Float[Tensor, "2 P H"] | None

    @classmethod
    def of(cls, to_input: Tensor, to_state: Tensor, projection: Tensor | None, dtype: torch.dtype) -> "_Weights":
        return cls(to_input.to(dtype), to_state.to(dtype), None if projection is None else projection.to(dtype))


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
    """Runs one layer of both directions; the arguments are those of `elmo.model.lstm.BiLstmLayer.forward`.

    Returns the outputs, and the hidden state and memory cells after each row's last token.
    """
    dtype = product_dtype(inputs)
    arguments = (inputs, weight_input, weight_state, bias, weight_projection, hidden, cell)
    learns = torch.is_grad_enabled() and any(a is not None and a.requires_grad for a in arguments)
    by_kernels = has_kernels(inputs) and inputs.shape[1] > 0
    if learns and by_kernels and active is None:
        return fused.train_lstm(*arguments, clips, keep, dtype)
    if learns:
        return _BiLstm.apply(*arguments, clips, active, keep, dtype)  # type: ignore[no-any-return]
    weights = _Weights.of(weight_input, weight_state, weight_projection, dtype)
    if by_kernels:
        live = None if active is None else _live(active, inputs)
        return fused.read_lstm(inputs, *weights[:2], bias, weights.projection, hidden, cell, clips, live, keep)
    to_input, to_state, to_bias = (
        prepare_gates(weights.input),
        prepare_gates(weights.state),
        prepare_gates(bias[:, :, None], clips.forget_bias).squeeze(2),
    )
    directions = []
    for d in range(2):
        projection = None if weights.projection is None else TorchProduct(weights.projection[d])
        products = TorchProduct(to_input[d]), TorchProduct(to_state[d])
        directions.append(PackedLstm(*products, to_bias[d], projection))
    return packed_bi_lstm(inputs, directions, hidden, cell, clips, active, keep)


def _live(active: list[int], inputs: Float[Tensor, "2 T B I"]) -> Float[Tensor, "T B"]:
    """A mask that is 1 where a row has a token, else 0."""
    rows = torch.tensor(active, device="cpu").to(inputs.device)
    return (torch.arange(inputs.shape[2], device=inputs.device) < rows[:, None]).to(inputs.dtype)


class _BiLstm(torch.autograd.Function):
    """`bi_lstm` with gradients; it has its arguments, and the data type of the products.

    Every operation takes both directions as a batch: threads of a CPU share it, and on a GPU it is one launch. The
    activated gates (2, T, B, 4 H), the clipped cells (2, T, B, H) and the inputs of the projection (2, T, B, H) are
    kept for the backward pass. Beyond a row's end they mean nothing.
    """

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
        inputs, weight_input, weight_state, bias, projection, hidden, cell, clips, active, keep, dtype = arguments
        shape = _, steps, rows = inputs.shape[:3]
        outputs = inputs.new_empty(*shape, hidden.shape[-1])
        gates, cells = inputs.new_empty(*shape, bias.shape[1]), inputs.new_empty(*shape, cell.shape[-1])
        memory = torch.empty_like(cells, dtype=dtype)
        keeping = None if keep is None else keep.to(inputs.dtype)[..., None]
        weights = _Weights.of(weight_input, weight_state, projection, dtype)
        kernel = None if projection is None else step_kernel(dtype, inputs, bias, hidden, cell)
        first = hidden, cell
        hidden, cell = hidden.clone(), cell.clone()
        to_input, to_state = weights.input, weights.state
        if kernel is None:
            to_input, to_state = prepare_gates(to_input), prepare_gates(to_state)
            bias = prepare_gates(bias[:, :, None], clips.forget_bias).mT.to(dtype)
        of_inputs, of_states = _Both(to_input), _Both(to_state)
        of_memory = None if weights.projection is None else _Both(weights.projection)
        chunk = max(1, TRAINED_AT_ONCE // max(1, rows))
        products: list[Tensor] = []
        for t in range(steps):
            if t % chunk == 0:
                part = inputs[:, t : t + chunk]
                products = [p.unflatten(0, part.shape[1:3]) for p in of_inputs(part.flatten(1, 2).to(dtype))]
                if kernel is None:
                    for d in range(2):
                        products[d].add_(bias[d])
            n = rows if active is None else active[t]
            if keeping is not None:
                hidden *= keeping[:, t]
                cell *= keeping[:, t]
            now, states = [p[t % chunk, :n] for p in products], of_states(hidden[:, :n].to(dtype))
            of_step = cell[:, :n], gates[:, t, :n], cells[:, t, :n], memory[:, t, :n]
            if kernel is None:
                _step(now, states, clips.cell, *of_step)
            else:
                kernel.forward(now, states, bias, clips.forget_bias, clips.limits[0], *of_step)
            if of_memory is None:
                hidden[:, :n] = memory[:, t, :n]
            else:
                for part, projected in zip(hidden[:, :n], of_memory(memory[:, t, :n]), strict=True):
                    part.copy_(projected)
                if clips.projection is not None:
                    hidden[:, :n].clamp_(-clips.projection, clips.projection)
            outputs[:, t, :n] = hidden[:, :n]
            outputs[:, t, n:] = 0
            memory[:, t, n:] = 0
        ctx.save_for_backward(inputs, *weights, *first, keeping, outputs, gates, cells, memory)
        ctx.clips, ctx.active, ctx.dtype, ctx.kernel = clips, active, dtype, kernel
        return outputs, hidden, cell

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        inputs, *weights, hidden, first_cell, keeping, outputs, gates, cells, memory = ctx.saved_tensors
        weights, clips, kernel = _Weights(*weights), ctx.clips, ctx.kernel
        to_outputs, to_hidden, to_cell = gradients[0], gradients[1].clone(), gradients[2].clone()
        _, steps, rows, size = cells.shape
        new = torch.empty if ctx.active is None else torch.zeros  # without a token both are zero
        to_gates = new(gates.shape, dtype=ctx.dtype, device=outputs.device)
        to_projected = new(outputs.shape, dtype=outputs.dtype, device=outputs.device)
        to_bias = to_cell.new_zeros(2, 4 * size)
        of_gates = _Both(weights.state.mT)
        of_hidden = None if weights.projection is None else _Both(weights.projection.mT)
        for t in reversed(range(steps)):
            n = rows if ctx.active is None else ctx.active[t]
            cell_in = (cells[:, t - 1] if t else first_cell)[:, :n]
            if keeping is not None:
                cell_in = cell_in * keeping[:, t, :n]
            d_hidden = to_projected[:, t, :n].copy_(to_hidden[:, :n]).add_(to_outputs[:, t, :n])
            d_memory = list(d_hidden)
            if of_hidden is not None:
                if clips.projection is not None:
                    _through_clip_(d_hidden, outputs[:, t, :n], clips.projection)
                d_memory = of_hidden(d_hidden.to(ctx.dtype))
            of_step = gates[:, t, :n], cells[:, t, :n], cell_in
            if kernel is None:
                step = _step_back(torch.stack(d_memory).to(d_hidden.dtype), *of_step, clips.cell, to_cell[:, :n])
                to_bias += step.sum(1)
                to_gates[:, t, :n] = step
            else:
                kernel.backward(d_memory, *of_step, clips.limits[0], to_cell[:, :n], to_gates[:, t, :n], to_bias)
            for part, of_state in zip(to_hidden[:, :n], of_gates(to_gates[:, t, :n]), strict=True):
                part.copy_(of_state)
            if keeping is not None:
                to_hidden *= keeping[:, t]
                to_cell *= keeping[:, t]
        before = torch.cat([hidden[:, None], outputs], dim=1)[:, :-1]
        before = before if keeping is None else before * keeping
        flat, to_projection = to_gates.flatten(1, 2), None
        if weights.projection is not None:
            to_projection = product(to_projected.flatten(1, 2).to(ctx.dtype).mT, memory.flatten(1, 2).mT)
            to_projection = to_projection.to(inputs.dtype)
        return (
            product(flat, weights.input.mT).to(inputs.dtype).view(inputs.shape),
            _to_weight(flat, inputs.flatten(1, 2).to(ctx.dtype)).to(inputs.dtype),
            _to_weight(flat, before.flatten(1, 2).to(ctx.dtype)).to(inputs.dtype),
            to_bias,
            to_projection,
            to_hidden,
            to_cell,
            *[None] * 4,
        )


def _step(
    products: Sequence[Float[Tensor, "n gates"]],
    states: Sequence[Float[Tensor, "n gates"]],
    limit: float | None,
    cell: Float[Tensor, "2 n H"],
    gates: Float[Tensor, "2 n gates"],
    cells: Float[Tensor, "2 n H"],
    memory: Float[Tensor, "2 n H"],
) -> None:
    """Does what `StepKernel.forward` does; the bias is in `products`."""
    for d in range(2):
        torch.add(products[d], states[d], out=gates[d])
    i, j, f, o = activate_gates(gates)
    cell *= f
    cell.addcmul_(i, j)
    if limit is not None:
        cell.clamp_(-limit, limit)
    cells.copy_(cell)
    memory.copy_(fast_tanh(cell).mul_(o))


class _Both:
    """Multiplies by the weights of both directions, which are packed where that is faster: for few rows."""

    def __init__(self, weight: Float[Tensor, "2 N K"]) -> None:
        packs = weight.device.type == "cpu" and default_library() == "onednn"
        packs = packs and weight.dtype in (torch.float32, torch.bfloat16) and has_onednn(weight.dtype)
        self._weight = weight
        self._packed = [OneDnnProduct(one) for one in weight] if packs else None

    def __call__(self, x: Float[Tensor, "2 M K"]) -> list[Float[Tensor, "M N"]]:
        if self._packed is None or not x.numel():
            return list(product(x, self._weight))
        return [packed(rows) for packed, rows in zip(self._packed, x, strict=True)]


def _step_back(
    d_memory: Float[Tensor, "2 n H"],
    gates: Float[Tensor, "2 n gates"],
    cell: Float[Tensor, "2 n H"],
    cell_in: Float[Tensor, "2 n H"],
    limit: float | None,
    d_cell: Float[Tensor, "2 n H"],
) -> Float[Tensor, "2 n gates"]:
    """The gradient of the gates before their activations; propagates `d_cell` back through the step, in place."""
    size = cell.shape[-1]
    i, j, f, o = gates.split(size, dim=-1)
    tanh_cell = fast_tanh(cell)
    step = torch.empty_like(gates, memory_format=torch.contiguous_format)
    d_i, d_j, d_f, d_o = step.split(size, dim=-1)
    sigmoid_backward(d_memory * tanh_cell, o, grad_input=d_o)
    d_cell += tanh_backward(d_memory * o, tanh_cell)
    if limit is not None:
        _through_clip_(d_cell, cell, limit)
    sigmoid_backward(d_cell * j, i, grad_input=d_i)
    tanh_backward(d_cell * i, j, grad_input=d_j)
    sigmoid_backward(d_cell * cell_in, f, grad_input=d_f)
    d_cell *= f
    return step


def _through_clip_(gradient: Tensor, clipped: Tensor, limit: float) -> None:
    """Sets a gradient to zero, in place, where the clip is at its limit."""
    torch.ops.aten.hardtanh_backward.grad_input(gradient, clipped, -limit, limit, grad_input=gradient)


def _to_weight(gates: Float[Tensor, "2 M gates"], inputs: Float[Tensor, "2 M I"]) -> Float[Tensor, "2 gates I"]:
    """The gradient of a weight. In float32 the product is transposed twice, which halves the time of oneDNN."""
    if gates.dtype == torch.bfloat16:
        return gates.mT @ inputs
    return product(inputs.mT, gates.mT).mT
