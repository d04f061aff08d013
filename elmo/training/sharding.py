"""Shards the state of an optimizer: each process keeps only that of its own rows of a table.

Adam keeps two numbers per weight, Adagrad one; for a softmax over many words, that is most of a run's memory. Every
process has all weights: after a step, each sends those of its rows that have changed.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor, distributed, nn


@dataclass(frozen=True)
class Shard:
    """The rows of a table that this process updates."""

    table: nn.Parameter
    own: nn.Parameter
    """The parameter that the optimizer gets instead of the table; it shares the table's memory."""
    first: int

    @classmethod
    def of(cls, table: nn.Parameter, rank: int, world: int) -> Self:
        """Returns the part of process `rank`; the table must not be moved in memory afterwards."""
        rows = own_range(len(table), rank, world)
        return cls(table, nn.Parameter(table.detach()[rows.start : rows.stop]), rows.start)

    def take_gradient(self) -> None:
        """Takes the gradient of the own rows from the table's, which is sparse and the same in all processes."""
        assert self.table.grad is not None
        gradient = self.table.grad.coalesce()
        rows = gradient.indices()[0] - self.first
        mine = (rows >= 0) & (rows < len(self.own))
        self.own.grad = torch.sparse_coo_tensor(
            rows[mine][None], gradient.values()[mine], self.own.shape, is_coalesced=True, check_invariants=False
        )

    def send_rows(self) -> None:
        """Sends the rows that have a gradient to all processes; it is called after the optimizer's step."""
        assert self.table.grad is not None
        rows = self.table.grad.coalesce().indices()[0]
        mine = (rows >= self.first) & (rows < self.first + len(self.own))
        values = self.table.new_zeros(len(rows), *self.table.shape[1:])
        values[mine] = self.table.detach()[rows[mine]]
        distributed.all_reduce(values)  # the others add zeros
        self.table.detach()[rows] = values
        self.table.grad = self.own.grad = None


def own_range(count: int, rank: int, world: int) -> range:
    """Returns the contiguous range of `count` things that belongs to one process."""
    return range(rank * count // world, (rank + 1) * count // world)


def take_part(whole: Tensor, rank: int, world: int) -> Tensor:
    """Returns one process's part of the optimizer state of a whole table; scalars belong to all."""
    if not whole.dim():
        return whole
    rows = own_range(len(whole), rank, world)
    return whole[rows.start : rows.stop].clone()


def join_parts(parts: Iterable[Tensor]) -> Tensor:
    """Joins the parts of all ranks; the inverse of `take_part`."""
    parts = list(parts)
    return torch.cat(parts) if parts[0].dim() else parts[0]
