"""Looks up rows of a table, with a gradient that a GPU adds up without reading anything back; finds distinct rows."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from elmo.ops.triton_there import has_kernels

FEW_ROWS = 512
"""Up to this many rows are added by a product where they would be sorted: a GPU adds equal rows of a sorted index one
after another, and a table of characters has a hundred thousand of padding."""

_sorts: ContextVar[bool] = ContextVar("sorted_sums", default=False)


@contextmanager
def sorted_sums(wanted: bool) -> Iterator[None]:
    """Inside the block, a GPU sorts rows before it adds them, so that two runs give the same bits.

    Otherwise it adds them in the order in which its threads arrive (atomics), which is faster.
    """
    before = _sorts.set(wanted)
    try:
        yield
    finally:
        _sorts.reset(before)


def add_rows(table: Tensor, index: Int[Tensor, " M"], rows: Tensor) -> None:
    """Adds `rows` to the rows `index` of `table`, in place; a row may occur several times."""
    if _sorts.get() and table.dim() == 2 and len(table) <= FEW_ROWS:
        table.addmm_((index == torch.arange(len(table), device=index.device)[:, None]).to(rows.dtype), rows)
    elif _sorts.get():
        table.index_put_((index,), rows, accumulate=True)
    else:
        table.index_add_(0, index, rows)


def take_rows(
    table: Float[Tensor, "V P"], index: Int[Tensor, "*B"], padding: int | None = None
) -> Float[Tensor, "*B P"]:
    """Returns `table[index]`; the row `padding` gets no gradient."""
    if not has_kernels(table):
        return torch.nn.functional.embedding(index, table, padding_idx=padding)
    return _TakeRows.apply(table, index, padding, _sorts.get())  # type: ignore[no-any-return]


class _TakeRows(torch.autograd.Function):
    """Replaces `torch.nn.functional.embedding`, whose gradient always sorts the whole index."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, index: Tensor, padding: int | None, sorts: bool) -> Tensor:
        ctx.save_for_backward(index)
        ctx.shape, ctx.padding, ctx.sorts = table.shape, padding, sorts  # the backward pass may run in another thread
        return table.index_select(0, index.flatten()).view(*index.shape, -1)  # contiguous, whatever the index is

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:  # type: ignore[override]
        (index,) = ctx.saved_tensors
        to_table = gradient.new_zeros(ctx.shape)
        with sorted_sums(ctx.sorts):
            add_rows(to_table, index.flatten(), gradient.flatten(0, -2))
        if ctx.padding is not None:
            to_table[ctx.padding].zero_()
        return to_table, None, None, None


def distinct_rows(ids: Int[Tensor, "M C"]) -> tuple[Int[Tensor, "W C"], Int[Tensor, " M"]]:
    """Returns `ids.unique(dim=0, return_inverse=True)` for numbers from 0 to 2**31 - 1; on a CPU several times faster.

    In a program of torch.export every row stands for itself, since the number of distinct rows is not known beforehand.
    """
    if torch.compiler.is_exporting():
        return ids, torch.arange(ids.shape[0], device=ids.device)
    if ids.device.type != "cpu" or not ids.numel():
        return ids.unique(dim=0, return_inverse=True)
    big_endian = ids.numpy().astype(">i4")  # as bytes, such rows sort like their numbers
    rows = big_endian.view(np.dtype((np.void, 4 * ids.shape[1])))[:, 0]
    _, first, place = np.unique(rows, return_index=True, return_inverse=True)
    return ids[torch.from_numpy(first)], torch.from_numpy(place)
