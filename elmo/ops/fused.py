"""The LSTM and the sampled softmax of a GPU: cuBLAS products with one Triton kernel between two of them.

The numbers are those of `elmo.ops.lstm` and `elmo.ops.softmax`, up to rounding. Nothing here reads a value back from
the GPU or depends on one, so a CUDA graph can replay it. `elmo.ops.triton_there` says where it is used.
"""

from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from elmo.ops.packed_lstm import Clips
from elmo.ops.products import product_dtype
from elmo.ops.rows import add_rows
from elmo.ops.triton_there import FUSED, kernels_for

LARGEST_BLOCK = 1024
ROWS_AT_ONCE = 8192
"""The most rows of the softmax whose logits are in memory together."""
WIDEST_ROW = 2**15
"""The most negatives of a row that one program can hold."""
INFINITE = float("inf")


def _grid(rows: int, size: int) -> tuple[tuple[int, int], int]:
    """The programs of a kernel, and the numbers that each handles."""
    block = min(LARGEST_BLOCK, 1 << max(4, (size - 1).bit_length()))
    return (2 * rows, -(-size // block)), block


def _by_step(keep: Float[Tensor, "2 T B"] | None, steps: int) -> list[Tensor | None]:
    """Returns the factors of the states before each step, and of those after the last; None stands for 1."""
    return [None] * (steps + 1) if keep is None else [*keep.unbind(1), None]


def _cell_forward(
    gates: Tensor,
    bias: Tensor,
    keep: Tensor | None,
    live: Tensor | None,
    cell_in: Tensor,
    cell_out: Tensor,
    memory: Tensor,
    forget_bias: float,
    limit: float,
) -> None:
    rows, size = cell_in.shape[1:]
    grid, block = _grid(rows, size)
    kernels_for(gates).cell_forward[grid](
        gates, bias, gates if keep is None else keep, gates if live is None else live, cell_in, cell_out, memory,
        rows, size, forget_bias, limit, gates.stride(0), memory.stride(0), 0 if keep is None else keep.stride(0),
        HAS_KEEP=keep is not None, HAS_LIVE=live is not None, BLOCK=block, **FUSED,
    )  # fmt: skip


def _clip_forward(
    projected: Tensor,
    output: Tensor,
    hidden: Tensor,
    hidden_next: Tensor,
    keep_next: Tensor | None,
    live: Tensor | None,
    limit: float,
) -> None:
    rows, size = output.shape[1:]
    grid, block = _grid(rows, size)
    kernels_for(projected).clip_forward[grid](
        projected, output, hidden, hidden_next, output if keep_next is None else keep_next,
        output if live is None else live, rows, size, limit, projected.stride(0), output.stride(0), hidden.stride(0),
        0 if keep_next is None else keep_next.stride(0),
        HAS_KEEP=keep_next is not None, HAS_LIVE=live is not None, BLOCK=block, **FUSED,
    )  # fmt: skip


def read_lstm(
    inputs: Float[Tensor, "2 T B I"],
    weight_input: Float[Tensor, "2 gates I"],
    weight_state: Float[Tensor, "2 gates P"],
    bias: Float[Tensor, "2 gates"],
    weight_projection: Float[Tensor, "2 P H"] | None,
    hidden: Float[Tensor, "2 B P"],
    cell: Float[Tensor, "2 B H"],
    clips: Clips,
    live: Float[Tensor, "T B"] | None = None,
    keep: Bool[Tensor, "2 T B"] | None = None,
) -> tuple[Float[Tensor, "2 T B P"], Float[Tensor, "2 B P"], Float[Tensor, "2 B H"]]:
    """Does what `elmo.ops.lstm.bi_lstm` does, without gradients. The products are in the weights' data type.

    `live` is 0 where a row has no token.
    """
    dtype = weight_input.dtype
    _, steps, rows, _ = inputs.shape
    limit, projection_limit = clips.limits if weight_projection is not None else (clips.limits[0], INFINITE)
    kept = _by_step(None if keep is None else keep.float().contiguous(), steps)
    outputs = inputs.new_empty(2, steps, rows, hidden.shape[-1])
    memory = inputs.new_empty(2, rows, cell.shape[-1], dtype=dtype)
    products = torch.bmm(inputs.to(dtype).flatten(1, 2), weight_input.mT).view(2, steps, rows, -1)
    hidden = hidden.contiguous().clone() if kept[0] is None else (hidden * kept[0][:, :, None]).contiguous()
    cell = cell.contiguous().clone()
    with torch.cuda.device_of(inputs):  # Triton launches on the current device
        for t in range(steps):
            products[:, t].baddbmm_(hidden.to(dtype), weight_state.mT)
            there = None if live is None else live[t]
            _cell_forward(products[:, t], bias, kept[t], there, cell, cell, memory, clips.forget_bias, limit)
            projected = memory if weight_projection is None else torch.bmm(memory, weight_projection.mT)
            _clip_forward(projected, outputs[:, t], hidden, hidden, kept[t + 1], there, projection_limit)
    return outputs, hidden, cell


def train_lstm(
    inputs: Float[Tensor, "2 T B I"],
    weight_input: Float[Tensor, "2 gates I"],
    weight_state: Float[Tensor, "2 gates P"],
    bias: Float[Tensor, "2 gates"],
    weight_projection: Float[Tensor, "2 P H"] | None,
    hidden: Float[Tensor, "2 B P"],
    cell: Float[Tensor, "2 B H"],
    clips: Clips,
    keep: Bool[Tensor, "2 T B"] | None,
    dtype: torch.dtype,
) -> tuple[Float[Tensor, "2 T B P"], Float[Tensor, "2 B P"], Float[Tensor, "2 B H"]]:
    """Does what `read_lstm` does for rows of one length, with gradients. The products are in `dtype`."""
    arguments = (inputs, weight_input, weight_state, bias, weight_projection, hidden, cell, clips, keep, dtype)
    with torch.cuda.device_of(inputs):  # autograd does the same for the backward pass
        return _Lstm.apply(*arguments)  # type: ignore[no-any-return]


class _Lstm(torch.autograd.Function):
    """`train_lstm` with its arguments. The gates, cells and outputs of each step are kept for the backward pass."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
        inputs, weight_input, weight_state, bias, weight_projection, hidden, cell, clips, keep, dtype = arguments
        _, steps, rows, _ = inputs.shape
        size, width = cell.shape[-1], hidden.shape[-1]
        limit, projection_limit = clips.limits if weight_projection is not None else (clips.limits[0], INFINITE)
        to_input, to_state = weight_input.to(dtype), weight_state.to(dtype)
        projection = None if weight_projection is None else weight_projection.to(dtype)
        keeping = None if keep is None else keep.float().contiguous()
        kept = _by_step(keeping, steps)
        words = inputs.to(dtype).reshape(2, steps * rows, -1)
        gates = torch.bmm(words, to_input.mT).view(2, steps, rows, 4 * size)
        cells = inputs.new_empty(steps + 1, 2, rows, size)
        memory = inputs.new_empty(2, steps, rows, size, dtype=dtype)
        outputs = inputs.new_empty(2, steps, rows, width)
        states = inputs.new_empty(2, steps + 1, rows, width, dtype=dtype)
        cells[0].copy_(cell)
        states[:, 0].copy_(hidden if kept[0] is None else hidden * kept[0][:, :, None])
        projected = inputs.new_empty(2, rows, width, dtype=dtype)
        for t in range(steps):
            gates[:, t].baddbmm_(states[:, t], to_state.mT)
            of_cell = cells[t], cells[t + 1], memory[:, t]
            _cell_forward(gates[:, t], bias, kept[t], None, *of_cell, clips.forget_bias, limit)
            if projection is None:
                projected = memory[:, t]
            else:
                torch.bmm(memory[:, t], projection.mT, out=projected)
            of_hidden = outputs[:, t], states[:, t], states[:, t + 1]
            _clip_forward(projected, *of_hidden, kept[t + 1], None, projection_limit)
        ctx.save_for_backward(words, to_input, to_state, projection, gates, cells, memory, outputs, states, keeping)
        ctx.limits, ctx.dtype = (limit, projection_limit), inputs.dtype
        ctx.set_materialize_grads(False)
        return outputs, outputs[:, -1].clone(), cells[steps].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        words, to_input, to_state, projection, gates, cells, memory, outputs, states, keeping = ctx.saved_tensors
        kernels = kernels_for(words)
        limit, projection_limit = ctx.limits
        _, steps, rows, size = memory.shape
        width, dtype = outputs.shape[-1], words.dtype
        to_outputs, to_hidden, to_cell = gradients
        to_outputs = torch.zeros_like(outputs) if to_outputs is None else to_outputs.contiguous()
        to_cell = cells.new_zeros(2, rows, size) if to_cell is None else to_cell.contiguous().clone()
        to_state_after = words.new_zeros(2, rows, width) if to_hidden is None else to_hidden.to(dtype).contiguous()
        to_gates = torch.empty_like(gates)
        to_projected = words.new_empty(2, steps, rows, width)
        to_memory = words.new_empty(2, rows, size)
        widths, cell_grid, kept = _grid(rows, width), _grid(rows, size), _by_step(keeping, steps)
        for t in reversed(range(steps)):
            now, after = kept[t], kept[t + 1]
            kernels.clip_backward[widths[0]](
                to_outputs[:, t], to_state_after, to_outputs if after is None else after, outputs[:, t],
                to_projected[:, t], rows, width, projection_limit, outputs.stride(0),
                0 if after is None else after.stride(0), HAS_KEEP=after is not None, BLOCK=widths[1], **FUSED,
            )  # fmt: skip
            if projection is None:
                to_memory = to_projected[:, t]
            else:
                torch.bmm(to_projected[:, t], projection, out=to_memory)
            kernels.cell_backward[cell_grid[0]](
                to_memory, gates[:, t], to_cell if now is None else now, cells[t], cells[t + 1], to_cell,
                to_gates[:, t], rows, size, limit, to_memory.stride(0), gates.stride(0),
                0 if now is None else now.stride(0), HAS_KEEP=now is not None, BLOCK=cell_grid[1], **FUSED,
            )  # fmt: skip
            to_state_after = torch.bmm(to_gates[:, t], to_state)
        flat = to_gates.view(2, steps * rows, 4 * size)
        before = states[:, :steps].reshape(2, steps * rows, width)
        to_projection = None
        if projection is not None:
            to_projection = torch.bmm(to_projected.flatten(1, 2).mT, memory.flatten(1, 2)).to(ctx.dtype)
        to_hidden = to_state_after.to(ctx.dtype)
        return (
            torch.bmm(flat, to_input).view(2, steps, rows, -1).to(ctx.dtype) if ctx.needs_input_grad[0] else None,
            torch.bmm(flat.mT, words).to(ctx.dtype),
            torch.bmm(flat.mT, before).to(ctx.dtype),
            flat.sum(1, dtype=ctx.dtype),
            to_projection,
            to_hidden if kept[0] is None else to_hidden * kept[0][:, :, None],
            to_cell,
            *[None] * 3,
        )


def sampled_loss(
    hidden: Float[Tensor, "M P"],
    weight: Float[Tensor, "V P"],
    bias: Float[Tensor, " V"],
    targets: Int[Tensor, " M"],
    negatives: Int[Tensor, " S"],
    log_expected: Float[Tensor, " V"],
) -> Float[Tensor, ""]:
    """Computes `elmo.model.lm_head.LmHead.sampled_loss`, with dense gradients of the whole table."""
    arguments = (hidden, weight, bias, targets, negatives, log_expected, product_dtype(hidden))
    with torch.cuda.device_of(hidden):
        return _SampledLoss.apply(*arguments)  # type: ignore[no-any-return]


class _SampledLoss(torch.autograd.Function):
    """`sampled_loss`, whose gradients are computed with the loss, so that no logits are kept."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Tensor:
        hidden, weight, bias, targets, negatives, log_expected, dtype = arguments
        kernels = kernels_for(hidden)
        count, size = len(hidden), len(negatives)
        column = torch.full_like(bias, -1, dtype=torch.int32)
        column[negatives] = torch.arange(size, dtype=torch.int32, device=hidden.device)
        adjusted = bias - log_expected
        rows, products, own_weight = hidden.to(dtype), weight[negatives].to(dtype), weight[targets]
        own = (hidden * own_weight).sum(1) + adjusted[targets]
        chances, hits = adjusted[negatives], column[targets]
        loss, to_own = torch.empty_like(own), torch.empty_like(own)
        to_hidden = torch.empty_like(rows)
        to_negatives, to_chances = weight.new_zeros(size, weight.shape[1]), bias.new_zeros(size)
        for start in range(0, count, ROWS_AT_ONCE):
            block = slice(start, start + ROWS_AT_ONCE)
            logits = rows[block] @ products.T
            kernels.softmax_row[(len(logits),)](
                logits, chances, hits[block], own[block], loss[block], to_own[block], size,
                BLOCK=1 << (size - 1).bit_length(), num_warps=16, **FUSED,
            )  # fmt: skip
            to_hidden[block] = logits @ products
            to_negatives += logits.T @ rows[block]
            to_chances += logits.sum(0, dtype=bias.dtype)
        to_weight, to_bias = torch.zeros_like(weight), torch.zeros_like(bias)
        add_rows(to_weight, negatives, to_negatives)
        add_rows(to_weight, targets, to_own[:, None] * hidden)
        add_rows(to_bias, negatives, to_chances)
        add_rows(to_bias, targets, to_own)
        ctx.save_for_backward(to_hidden.to(hidden.dtype).addcmul_(own_weight, to_own[:, None]), to_weight, to_bias)
        return loss.sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        return (*(part * gradient for part in ctx.saved_tensors), None, None, None, None)
