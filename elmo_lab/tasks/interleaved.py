"""The encoder of He et al. 2017: LSTMs stacked in alternating directions, joined by highways (sec. 2.1-2.2, 3.3).

- Layer 0 reads forwards, layer 1 reads its output backwards, and so on.
- Dropout is variational: in each layer, one mask holds for all tokens of a sentence.
- Every block of every weight is initialised orthonormal.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from elmo import ops

GATES = 5
"""The gates are i, j, f, o and r."""


class HighwayLstm(nn.Module):
    """One layer in one direction; the equations are those of `elmo.ops.highway_lstm`."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.hidden_size = hidden_size
        self.to_gates = nn.Parameter(orthonormal_blocks(GATES, hidden_size, input_size))
        self.state_to_gates = nn.Parameter(orthonormal_blocks(GATES, hidden_size, hidden_size))
        self.bias = nn.Parameter(torch.zeros(GATES * hidden_size))
        self.carry = nn.Parameter(orthonormal_blocks(1, hidden_size, input_size))
        with torch.no_grad():
            self.bias.view(GATES, hidden_size)[2] = 1.0  # so that the cell keeps its content at first

    def forward(
        self,
        inputs: Float[Tensor, "M I"],
        rows: list[int],
        backwards: bool = False,
        keep: Float[Tensor, "B H"] | None = None,
    ) -> Float[Tensor, "M H"]:
        """Returns the packed hidden states of packed tokens; see `elmo.ops.highway_lstm`."""
        weights = self.to_gates, self.state_to_gates, self.bias, self.carry
        return ops.highway_lstm(inputs, *weights, rows, backwards, keep)


class InterleavedLstm(nn.Module):
    """`n_layers` layers of alternating direction; the first reads forwards."""

    def __init__(self, input_size: int, hidden_size: int, n_layers: int, dropout: float = 0.1) -> None:
        super().__init__()
        sizes = [input_size] + [hidden_size] * (n_layers - 1)
        self.layers = nn.ModuleList(HighwayLstm(size, hidden_size) for size in sizes)
        self.dropout = nn.Dropout(dropout)
        self.size = hidden_size

    def forward(self, inputs: Float[Tensor, "B T I"], lengths: Int[Tensor, " B"]) -> Float[Tensor, "B T H"]:
        """Returns the last layer's states, zero at padding."""
        batch, steps, _ = inputs.shape
        order = lengths.argsort(descending=True, stable=True)
        real = torch.arange(steps, device=lengths.device)[:, None] < lengths[order]
        rows = [count for count in real.sum(dim=1).tolist() if count]
        step, sentence = real.nonzero(as_tuple=True)
        places = order[sentence] * steps + step
        packed = inputs.flatten(0, 1)[places]
        for number, layer in enumerate(self.layers):
            keep = self.dropout(packed.new_ones(batch, self.size)) if self.training else None
            packed = layer(packed, rows, backwards=number % 2 == 1, keep=keep)
        states = packed.new_zeros(batch * steps, self.size).index_copy(0, places, packed)
        return states.view(batch, steps, self.size)


def orthonormal_blocks(blocks: int, rows: int, columns: int) -> Float[Tensor, "gates columns"]:
    """Stacks `blocks` random matrices, each with orthonormal rows or columns, whichever are fewer."""
    return torch.cat([nn.init.orthogonal_(torch.empty(rows, columns)) for _ in range(blocks)])
