"""The recurrence of `elmo.model.lstm` with packed weights, without gradients.

- The input product is computed for many steps at once, outside the loop.
- The directions run in parallel on a CPU.
- The gates are not stored, so the memory does not grow with them.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from elmo.ops.elementwise import sigmoid_
from elmo.ops.int8_reading import CompiledProduct, read_compiled
from elmo.ops.int8_weights import FewRowsOfBoth, Int8WeightsProduct
from elmo.ops.packing import Precision, pack
from elmo.ops.parallel import run_both
from elmo.ops.products import Library, Product

READ_AT_ONCE = 128
"""The rows of the input product that are computed at once; they stay in the cache until they are used."""
REPEATED_AT_ONCE = 512
"""The number of rows among which equal ones are computed once; about half of a text's tokens repeat."""


class Clips(NamedTuple):
    """The constants of an LSTM step."""

    cell: float | None
    projection: float | None
    forget_bias: float

    @property
    def limits(self) -> tuple[float, float]:
        """The clips of the cell and of the projection, infinite where there is none."""
        cell, projection = (float("inf") if clip is None else clip for clip in self[:2])
        return cell, projection


class PackedLstm(NamedTuple):
    """The products of one direction, ready to run; `bias` includes the forget bias."""

    input: Product
    state: Product
    bias: Float[Tensor, " gates"]
    projection: Product | None


def packed_bi_lstm(
    inputs: Float[Tensor, "2 T B I"],
    directions: Sequence[PackedLstm],
    hidden: Float[Tensor, "2 B P"],
    cell: Float[Tensor, "2 B H"],
    clips: Clips,
    active: list[int] | None = None,
    keep: Bool[Tensor, "2 T B"] | None = None,
    same: Int[Tensor, "2 T B"] | None = None,
) -> tuple[Float[Tensor, "2 T B P"], Float[Tensor, "2 B P"], Float[Tensor, "2 B H"]]:
    """Does what `bi_lstm` does, with packed weights and without gradients.

    Equal numbers in `same` mark equal inputs, whose product is computed once.
    """
    outputs = inputs.new_empty(*inputs.shape[:3], hidden.shape[-1])
    hidden, cell = (part.clone(memory_format=torch.contiguous_format) for part in (hidden, cell))

    if 0 < inputs.shape[2] <= _few_rows(directions) and (keep is None or bool(keep.all())):
        _read_few(inputs, directions, hidden, cell, clips, active, outputs)
        return outputs, hidden, cell

    def direction(d: int) -> None:
        _read(inputs[d], directions[d], hidden[d], cell[d], clips, active, _at(keep, d), _at(same, d), outputs[d])

    run_both(direction, inputs.device)
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
    """Packs the weights of one direction; see `elmo.ops.packing.pack`."""
    return PackedLstm(
        pack(prepare_gates(to_input), precision, library),
        pack(prepare_gates(to_state), precision, library),
        prepare_gates(bias[:, None].float(), clips.forget_bias).squeeze(1),
        None if projection is None else pack(projection, precision, library),
    )


def prepare_gates(weight: Float[Tensor, "... gates I"], forget_bias: float = 0.0) -> Float[Tensor, "... gates I"]:
    """Returns weights or bias as `activate_gates` needs them, with the candidate's rows doubled and the forget bias."""
    weight = weight.detach().clone()
    _, j, f, _ = weight.chunk(4, dim=-2)
    j *= 2
    f += forget_bias
    return weight


def _at(tensor: Tensor | None, direction: int) -> Tensor | None:
    return None if tensor is None else tensor[direction]


def _read(
    inputs: Float[Tensor, "T B I"],
    packed: PackedLstm,
    hidden: Float[Tensor, "B P"],
    cell: Float[Tensor, "B H"],
    clips: Clips,
    active: list[int] | None,
    keep: Bool[Tensor, "T B"] | None,
    same: Int[Tensor, "T B"] | None,
    outputs: Float[Tensor, "T B P"],
) -> None:
    """Runs one direction without gradients: fills `outputs` and advances `hidden` and `cell` in place."""
    steps, rows = inputs.shape[:2]
    active = [rows] * steps if active is None else active
    chunk = max(1, (READ_AT_ONCE if same is None else REPEATED_AT_ONCE) // max(1, rows))
    is_compiled = isinstance(packed.state, CompiledProduct)  # the C code reads `keep` itself
    forget = (
        None if keep is None or is_compiled else [(~kept).nonzero().squeeze(1).to(hidden.device) for kept in keep.cpu()]
    )
    for start in range(0, steps, chunk):
        now, width = slice(start, start + chunk), active[start]
        part = inputs[now, :width]
        first, place = (slice(None), None) if same is None else _distinct(same[now, :width])
        product = packed.input(part.flatten(0, 1)[first]).to(inputs.dtype).add_(packed.bias)
        if isinstance(packed.state, CompiledProduct):
            assert packed.projection is None or isinstance(packed.projection, CompiledProduct)
            place = torch.arange(len(product), device=product.device).view(part.shape[:2]) if place is None else place
            kept = None if keep is None else keep[now]
            products = packed.state, packed.projection, product
            read_compiled(*products, place, active[now], kept, hidden, cell, clips.limits, outputs[now])
            continue
        gates = product if place is not None else product.view(*part.shape[:2], packed.input.size)
        for t in range(start, min(start + chunk, steps)):
            n = active[t]
            if forget is not None and len(forget[t]):
                hidden.index_fill_(0, forget[t], 0)
                cell.index_fill_(0, forget[t], 0)
            c = cell[:n]
            step_gates = gates[t - start, :n] if place is None else gates[place[t - start, :n]]
            step_gates += packed.state(hidden[:n])
            i, j, f, o = activate_gates(step_gates)
            c *= f
            c += i.mul_(j)
            if clips.cell is not None:
                c.clamp_(-clips.cell, clips.cell)
            memory = o.mul_(fast_tanh(c))
            if packed.projection is None:
                hidden[:n] = memory
            else:
                hidden[:n] = packed.projection(memory)
                if clips.projection is not None:
                    hidden[:n].clamp_(-clips.projection, clips.projection)
            outputs[t, :n] = hidden[:n]
            outputs[t, n:] = 0


def _few_rows(directions: Sequence[PackedLstm]) -> int:
    """The most rows for `_read_few`; 0 if it cannot use these products."""
    products = [product for each in directions for product in (each.state, each.projection) if product is not None]
    return min(product.few_rows if isinstance(product, Int8WeightsProduct) else 0 for product in products)


def _read_few(
    inputs: Float[Tensor, "2 T B I"],
    directions: Sequence[PackedLstm],
    hidden: Float[Tensor, "2 B P"],
    cell: Float[Tensor, "2 B H"],
    clips: Clips,
    active: list[int] | None,
    outputs: Float[Tensor, "2 T B P"],
) -> None:
    """Does what `_read` does for both directions of few rows, with products that are fast for them.

    The products of a step take so little time that Python's time counts. So both directions share its calls, and the
    threads of a product share its outputs.
    """
    steps, rows = inputs.shape[1:3]
    of_hidden = FewRowsOfBoth([each.state for each in directions])  # type: ignore[misc]
    of_memory = None if directions[0].projection is None else FewRowsOfBoth([d.projection for d in directions])  # type: ignore[misc]
    minus_one = cell.new_tensor(-1.0)
    n = rows
    h, c = hidden, cell
    for start in range(0, steps, chunk := max(1, READ_AT_ONCE // rows)):
        gates = _of_inputs(inputs[:, start : start + chunk], directions)
        parts = (part.unbind(1) for part in (gates, *gates.chunk(4, dim=-1), outputs[:, start : start + chunk]))
        for t, (step, i, j, f, o, out) in enumerate(zip(*parts, strict=True), start):
            if active is not None and active[t] != n:
                n = active[t]
                h, c = hidden[:, :n], cell[:, :n]
            if n < rows:
                out[:, n:] = 0
                step, i, j, f, o, out = (part[:, :n] for part in (step, i, j, f, o, out))
            step.addcmul_(of_hidden(h), of_hidden.scales).sigmoid_()
            torch.add(minus_one, j, alpha=2, out=j)  # the candidate: see `activate_gates`
            c.mul_(f).addcmul_(i, j)
            if clips.cell is not None:
                c.clamp_(-clips.cell, clips.cell)
            memory = torch.tanh(c).mul_(o)
            if of_memory is None:
                out.copy_(memory)
            else:
                torch.mul(of_memory(memory), of_memory.scales, out=out)
                if clips.projection is not None:
                    out.clamp_(-clips.projection, clips.projection)
            h.copy_(out)


def _of_inputs(inputs: Float[Tensor, "2 t B I"], directions: Sequence[PackedLstm]) -> Float[Tensor, "2 t B gates"]:
    """The products of the inputs, with the bias."""
    both = zip(inputs, directions, strict=True)
    return torch.stack([each.input(x.flatten(0, 1)).add_(each.bias).unflatten(0, x.shape[:2]) for x, each in both])


def _distinct(same: Int[Tensor, "t B"]) -> tuple[Int[Tensor, " D"], Int[Tensor, "t B"]]:
    """One row (of t times B) for each number, and the index of its number for each row."""
    numbers, place = same.unique(return_inverse=True)
    first = numbers.new_empty(len(numbers))
    first[place.flatten()] = torch.arange(place.numel(), device=same.device)
    return first, place


def activate_gates(gates: Float[Tensor, "... gates"]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Activates i, j, f, o in place; the candidate is doubled, so that one sigmoid serves all four."""
    i, j, f, o = sigmoid_(gates).chunk(4, dim=-1)
    j.mul_(2).sub_(1)
    return i, j, f, o


def fast_tanh(x: Tensor) -> Tensor:
    """Returns tanh, to 1e-7, by torch's sigmoid, which takes a tenth of the time of its tanh on a CPU."""
    return sigmoid_(2 * x).mul_(2).sub_(1)
