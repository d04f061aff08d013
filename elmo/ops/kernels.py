"""Triton kernels for a GPU: the elementwise part of an LSTM step, forward and backward, and a row of a softmax.

cuBLAS computes the products; a kernel does everything between two of them, with one read and one write.
`elmo.ops.fused` launches the kernels. For tests, `TRITON_INTERPRET=1` runs them slowly on a CPU.

A program handles a block of one row of one direction: axis 0 counts the rows of both directions, axis 1 the blocks.
"""

import triton
import triton.language as tl


@triton.jit
def _tanh(x):
    return 2.0 * tl.sigmoid(2.0 * x) - 1.0


@triton.jit
def _clipped(x, limit):
    """Cuts off what is beyond the limit; NaN stays, as in torch."""
    x = tl.maximum(x, -limit, propagate_nan=tl.PropagateNan.ALL)
    return tl.minimum(x, limit, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def cell_forward(
    gates, bias, keep, live, cell_in, cell_out, memory,
    rows, size, forget_bias, limit, gates_stride, memory_stride, keep_stride,
    HAS_KEEP: tl.constexpr, HAS_LIVE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Computes a step from its products to the input of the projection.

    `gates` (2, rows, 4 size) holds the products without the bias and is activated in place; `cell_out` and `memory`
    (2, rows, size) are filled. `keep` (2, rows) multiplies the cell before the step; where `live` (rows) is 0, the row
    has no token, and its cell stays.
    """
    d, b = tl.program_id(0).to(tl.int64) // rows, tl.program_id(0).to(tl.int64) % rows
    k = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    there = k < size
    at, of, place = gates + d * gates_stride + b * 4 * size + k, bias + d * 4 * size + k, (d * rows + b) * size + k
    i = tl.sigmoid(tl.load(at, there, 0.0).to(tl.float32) + tl.load(of, there, 0.0))
    j = _tanh(tl.load(at + size, there, 0.0).to(tl.float32) + tl.load(of + size, there, 0.0))
    f = tl.load(at + 2 * size, there, 0.0).to(tl.float32) + tl.load(of + 2 * size, there, 0.0)
    f = tl.sigmoid(f + forget_bias)
    o = tl.sigmoid(tl.load(at + 3 * size, there, 0.0).to(tl.float32) + tl.load(of + 3 * size, there, 0.0))
    before = tl.load(cell_in + place, there, 0.0)
    if HAS_KEEP:
        before *= tl.load(keep + d * keep_stride + b)
    c = _clipped(before * f + i * j, limit)
    if HAS_LIVE:
        c = tl.where(tl.load(live + b) > 0, c, before)
    kind = gates.dtype.element_ty
    tl.store(at, i.to(kind), there)
    tl.store(at + size, j.to(kind), there)
    tl.store(at + 2 * size, f.to(kind), there)
    tl.store(at + 3 * size, o.to(kind), there)
    tl.store(cell_out + place, c, there)
    tl.store(memory + d * memory_stride + b * size + k, (o * _tanh(c)).to(kind), there)


@triton.jit
def cell_backward(
    to_memory, gates, keep, cell_in, cell_out, to_cell, to_gates,
    rows, size, limit, memory_stride, gates_stride, keep_stride,
    HAS_KEEP: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Computes the gradient of a step's gates before their activations; `to_cell` becomes that of the step before."""
    d, b = tl.program_id(0).to(tl.int64) // rows, tl.program_id(0).to(tl.int64) % rows
    k = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    there = k < size
    row = d * gates_stride + b * 4 * size + k
    at, to, place = gates + row, to_gates + row, (d * rows + b) * size + k
    i, j = tl.load(at, there, 0.0).to(tl.float32), tl.load(at + size, there, 0.0).to(tl.float32)
    f, o = tl.load(at + 2 * size, there, 0.0).to(tl.float32), tl.load(at + 3 * size, there, 0.0).to(tl.float32)
    c = tl.load(cell_out + place, there, 0.0)
    m = tl.load(to_memory + d * memory_stride + b * size + k, there, 0.0).to(tl.float32)
    kept = 1.0
    if HAS_KEEP:
        kept = tl.load(keep + d * keep_stride + b)
    before = tl.load(cell_in + place, there, 0.0) * kept
    t = _tanh(c)
    x = tl.load(to_cell + place, there, 0.0) + m * o * (1.0 - t * t)
    x = tl.where((c > -limit) & (c < limit), x, 0.0)
    kind = to_gates.dtype.element_ty
    tl.store(to, (x * j * i * (1.0 - i)).to(kind), there)
    tl.store(to + size, (x * i * (1.0 - j * j)).to(kind), there)
    tl.store(to + 2 * size, (x * before * f * (1.0 - f)).to(kind), there)
    tl.store(to + 3 * size, (m * t * o * (1.0 - o)).to(kind), there)
    tl.store(to_cell + place, x * f * kept, there)


@triton.jit
def clip_forward(
    projected, output, hidden, hidden_next, keep_next, live,
    rows, size, limit, projected_stride, output_stride, hidden_stride, keep_stride,
    HAS_KEEP: tl.constexpr, HAS_LIVE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Clips `projected` (2, rows, size) into `output`, and into `hidden_next`, times the next step's `keep`.

    Where `live` (rows) is 0, the output is 0 and the hidden state stays that of `hidden`.
    """
    d, b = tl.program_id(0).to(tl.int64) // rows, tl.program_id(0).to(tl.int64) % rows
    k = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    there = k < size
    x = _clipped(tl.load(projected + d * projected_stride + b * size + k, there, 0.0).to(tl.float32), limit)
    state = x
    if HAS_LIVE:
        alive = tl.load(live + b) > 0
        x = tl.where(alive, x, 0.0)
        state = tl.where(alive, state, tl.load(hidden + d * hidden_stride + b * size + k, there, 0.0).to(tl.float32))
    if HAS_KEEP:
        state *= tl.load(keep_next + d * keep_stride + b)
    tl.store(output + d * output_stride + b * size + k, x, there)
    tl.store(hidden_next + d * hidden_stride + b * size + k, state.to(hidden_next.dtype.element_ty), there)


@triton.jit
def clip_backward(
    to_output, to_hidden, keep_next, output, to_projected,
    rows, size, limit, output_stride, keep_stride,
    HAS_KEEP: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Adds the gradients of the output and of the next hidden state to that of the projection, where nothing is cut."""
    d, b = tl.program_id(0).to(tl.int64) // rows, tl.program_id(0).to(tl.int64) % rows
    k = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    there = k < size
    at = d * output_stride + b * size + k
    y, g = tl.load(output + at, there, 0.0), tl.load(to_output + at, there, 0.0)
    later = tl.load(to_hidden + (d * rows + b) * size + k, there, 0.0).to(tl.float32)
    if HAS_KEEP:
        later *= tl.load(keep_next + d * keep_stride + b)
    g = tl.where((y > -limit) & (y < limit), g + later, 0.0)
    tl.store(to_projected + at, g.to(to_projected.dtype.element_ty), there)


@triton.jit
def softmax_row(logits, bias, column, own, loss, to_own, size, BLOCK: tl.constexpr):
    """Computes a row of a sampled softmax: `logits` (rows, size) become probabilities in place.

    `own` (rows) has each row's target logit, which joins the sum; the negative in `column`, which is the target itself
    (-1: none), does not. `loss` gets the negative log-probability of the target, `to_own` the gradient of its logit.
    """
    row = tl.program_id(0).to(tl.int64)
    k = tl.arange(0, BLOCK)
    there = k < size
    x = tl.load(logits + row * size + k, there, 0.0).to(tl.float32) + tl.load(bias + k, there, 0.0)
    x = tl.where(there & (k != tl.load(column + row)), x, -float("inf"))
    mine = tl.load(own + row)
    top = tl.maximum(tl.max(x, 0), mine)
    total = top + tl.log(tl.sum(tl.exp(x - top), 0) + tl.exp(mine - top))
    tl.store(logits + row * size + k, tl.exp(x - total).to(logits.dtype.element_ty), there)
    tl.store(loss + row, total - mine)
    tl.store(to_own + row, tl.exp(mine - total) - 1.0)
