"""The LSTM with projection, cell clip and projection clip, with both reading directions side by side.

Equations of one step, for the input `x`, the state `(h, c)` and the gates in the order i, j, f, o:

    [i j f o] = W_x x + W_h h + b
    c = clip(sigmoid(f + forget_bias) * c + sigmoid(i) * tanh(j), cell_clip)
    h = clip(W_p (sigmoid(o) * tanh(c)), proj_clip)

without `W_p` and the second clip if the projection is as wide as the cell state (Sak et al. 2014; Peters et al. 2018).
`step` and `recurrence` are the readable reference; `elmo.ops` has fast versions of the same recurrence.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from elmo import ops
from elmo.model.config import LstmConfig


class BiLstmLayer(nn.Module):
    """One layer: an LSTM per direction, with their weights stacked (0 forward, 1 backward)."""

    def __init__(self, config: LstmConfig) -> None:
        super().__init__()
        self.config = config
        hidden, size = config.dim, config.projection_dim
        self.weight_input = nn.Parameter(torch.empty(2, 4 * hidden, size))
        self.weight_state = nn.Parameter(torch.empty(2, 4 * hidden, size))
        self.bias = nn.Parameter(torch.zeros(2, 4 * hidden))
        self.weight_projection = nn.Parameter(torch.empty(2, size, hidden)) if config.has_projection else None
        # The bounds are those of Glorot and Bengio (2010) for input and state as one matrix.
        bound = (6 / (4 * hidden + 2 * size)) ** 0.5
        nn.init.uniform_(self.weight_input, -bound, bound)
        nn.init.uniform_(self.weight_state, -bound, bound)
        if self.weight_projection is not None:
            bound = (6 / (hidden + size)) ** 0.5
            nn.init.uniform_(self.weight_projection, -bound, bound)

    def forward(
        self,
        inputs: Float[Tensor, "2 T B P"],
        hidden: Float[Tensor, "2 B P"],
        cell: Float[Tensor, "2 B H"],
        active: list[int] | Int[Tensor, " T"] | None = None,
        keep: Bool[Tensor, "2 T B"] | None = None,
        same: Int[Tensor, "2 T B"] | None = None,
    ) -> tuple[Float[Tensor, "2 T B P"], Float[Tensor, "2 B P"], Float[Tensor, "2 B H"]]:
        """Reads `inputs` in the order of T; each direction's input is in its own reading order.

        At step t, the first `active[t]` rows have a token; the others keep their state and output 0. `active` is a
        tensor only in a program of torch.export. Where `keep` is False, the state is reset to zero before the token.
        `same` is for a `PackedBiLstmLayer`. Returns the outputs, and the state after each row's last token.
        """
        if isinstance(active, Tensor):
            return scan_recurrence(self, inputs, hidden, cell, active)
        weights = self.weight_input, self.weight_state, self.bias, self.weight_projection
        clips = ops.Clips(self.config.cell_clip, self.config.proj_clip, self.config.forget_bias)
        return ops.bi_lstm(inputs, *weights, hidden, cell, clips, active, keep)


class PackedBiLstmLayer(ops.PackedModule):
    """A `BiLstmLayer` for inference: its weights are packed for the fastest product, without gradients."""

    def __init__(self, layer: BiLstmLayer, precision: ops.Precision, library: ops.Library | None) -> None:
        super().__init__()
        config = layer.config
        self.clips = ops.Clips(config.cell_clip, config.proj_clip, config.forget_bias)
        self.directions = [
            ops.pack_lstm(
                layer.weight_input[d].detach(),
                layer.weight_state[d].detach(),
                layer.bias[d],
                None if layer.weight_projection is None else layer.weight_projection[d].detach(),
                self.clips,
                precision,
                library,
            )
            for d in range(2)
        ]

    def forward(
        self,
        inputs: Float[Tensor, "2 T B P"],
        hidden: Float[Tensor, "2 B P"],
        cell: Float[Tensor, "2 B H"],
        active: list[int] | None = None,
        keep: Bool[Tensor, "2 T B"] | None = None,
        same: Int[Tensor, "2 T B"] | None = None,
    ) -> tuple[Float[Tensor, "2 T B P"], Float[Tensor, "2 B P"], Float[Tensor, "2 B H"]]:
        """Returns what `BiLstmLayer.forward` returns; `same` is that of `ops.packed_bi_lstm`."""
        return ops.packed_bi_lstm(inputs, self.directions, hidden, cell, self.clips, active, keep, same)


def step(
    layer: BiLstmLayer,
    direction: int,
    x: Float[Tensor, "B P"],
    hidden: Float[Tensor, "B P"],
    cell: Float[Tensor, "B H"],
) -> tuple[Float[Tensor, "B P"], Float[Tensor, "B H"]]:
    """Computes one step of one direction, written like the equations."""
    config = layer.config
    gates = x @ layer.weight_input[direction].T + hidden @ layer.weight_state[direction].T + layer.bias[direction]
    i, j, f, o = gates.chunk(4, dim=-1)
    cell = torch.sigmoid(f + config.forget_bias) * cell + torch.sigmoid(i) * torch.tanh(j)
    if config.cell_clip is not None:
        cell = cell.clamp(-config.cell_clip, config.cell_clip)
    output = torch.sigmoid(o) * torch.tanh(cell)
    if layer.weight_projection is not None:
        output = output @ layer.weight_projection[direction].T
        if config.proj_clip is not None:
            output = output.clamp(-config.proj_clip, config.proj_clip)
    return output, cell


def recurrence(
    layer: BiLstmLayer,
    inputs: Float[Tensor, "2 T B P"],
    hidden: Float[Tensor, "2 B P"],
    cell: Float[Tensor, "2 B H"],
    active: list[int] | Int[Tensor, " T"] | None = None,
    keep: Bool[Tensor, "2 T B"] | None = None,
) -> tuple[Float[Tensor, "2 T B P"], Float[Tensor, "2 B P"], Float[Tensor, "2 B H"]]:
    """Runs the LSTM token by token, for autograd to differentiate. This is the reference for all versions in `ops`."""
    steps, rows = inputs.shape[1:3]
    directions = []
    for d in range(2):
        h, c, outputs = hidden[d], cell[d], []
        for t in range(steps):
            if keep is not None:
                h, c = h * keep[d, t, :, None], c * keep[d, t, :, None]
            new_h, new_c = step(layer, d, inputs[d, t], h, c)
            there = (torch.arange(rows, device=inputs.device) < (rows if active is None else active[t]))[:, None]
            h, c = torch.where(there, new_h, h), torch.where(there, new_c, c)
            outputs.append(new_h * there)
        directions.append((torch.stack(outputs), h, c))
    outputs, hiddens, cells = (torch.stack(part) for part in zip(*directions, strict=True))
    return outputs, hiddens, cells


def scan_recurrence(
    layer: BiLstmLayer,
    inputs: Float[Tensor, "2 T B P"],
    hidden: Float[Tensor, "2 B P"],
    cell: Float[Tensor, "2 B H"],
    active: Int[Tensor, " T"],
) -> tuple[Float[Tensor, "2 T B P"], Float[Tensor, "2 B P"], Float[Tensor, "2 B H"]]:
    """Does what `recurrence` does with torch's own loop, which a program of torch.export can run for any T."""
    from torch._higher_order_ops.scan import scan  # a prototype that has no public address yet

    def read(state: tuple[Tensor, Tensor], token: tuple[Tensor, Tensor]) -> tuple[tuple[Tensor, Tensor], Tensor]:
        (h, c), (x, rows) = state, token
        after = [step(layer, d, x[d], h[d], c[d]) for d in range(2)]
        new_h, new_c = (torch.stack(part) for part in zip(*after, strict=True))
        there = (torch.arange(x.shape[1], device=x.device) < rows)[:, None]
        return (torch.where(there, new_h, h), torch.where(there, new_c, c)), new_h * there

    (hidden, cell), outputs = scan(read, (hidden, cell), (inputs.transpose(0, 1), active))
    return outputs.transpose(0, 1), hidden, cell
