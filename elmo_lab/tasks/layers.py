"""Layers that the networks of several tasks share.

The result for a sentence does not depend on its padding or on the rest of the batch; sentences may be empty (no
tokens, length 0). Shapes use the letters of `elmo.types` and I (input size), O (output size) and S (tokens of the other
sentence of a pair). T counts no boundaries and is at least 1.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from elmo import ops
from elmo.model.affine import Affine
from elmo.model.bilm import reading_backwards, reorder, tokens_mask


class BiRnn(nn.Module):
    """A bidirectional recurrent layer; the two kinds are `BiLstm` and `BiGru`.

    `dropout` is the variational dropout of the input (Gal and Ghahramani 2016): one mask per sentence holds for all its
    tokens. `recurrent_dropout` is that of the state that an LSTM passes from token to token. Weights from the input are
    initialised Glorot uniform, and those from the state orthogonal; biases are zero, except 1 for an LSTM's forget
    gate.
    """

    def __init__(
        self,
        cell: Callable[..., nn.RNNBase],
        input_dim: int,
        hidden_dim: int,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        assert cell is nn.LSTM or not recurrent_dropout, "only LSTMs have it"
        self.output_dim = 2 * hidden_dim
        """The size of an output vector, which is the forward and the backward state concatenated."""
        # These are two unidirectional networks, since a bidirectional one on packed sentences trains a third slower on
        # a CPU. Each is in a list of its own, since the files of trained networks have its weights under that name.
        self.forwards = nn.ModuleList([_recurrent(cell, input_dim, hidden_dim)])
        self.backwards = nn.ModuleList([_recurrent(cell, input_dim, hidden_dim)])
        self.dropout = VariationalDropout(dropout)
        self.recurrent_dropout = recurrent_dropout

    def forward(self, vectors: Float[Tensor, "B T I"], lengths: Int[Tensor, " B"]) -> Float[Tensor, "B T O"]:
        """Returns the states of both directions, zero at padding."""
        order = reading_backwards(lengths, vectors.shape[1])
        rate = self.recurrent_dropout if self.training else 0.0
        ahead, back = _read(self.forwards[0], self.backwards[0], self.dropout(vectors), order, rate)
        states = torch.cat([ahead, reorder(back, order)], dim=2)
        return states * tokens_mask(lengths, vectors.shape[1])[:, :, None]


BiLstm = partial(BiRnn, nn.LSTM)
"""`BiLstm(input_dim, hidden_dim, dropout=0.0, recurrent_dropout=0.0)`: a `BiRnn` of LSTMs."""
BiGru = partial(BiRnn, nn.GRU)
"""`BiGru(input_dim, hidden_dim, dropout=0.0)`: a `BiRnn` of gated recurrent units."""


def _read(
    forwards: Any, backwards: Any, vectors: Float[Tensor, "B T I"], order: Int[Tensor, "B T"], rate: float
) -> tuple[Float[Tensor, "B T H"], Float[Tensor, "B T H"]]:
    """The hidden states of both directions, each in its own reading order; `rate` is that of recurrent dropout."""
    if rate:  # a mask per sentence and direction
        ones = vectors.new_ones(len(vectors), forwards.hidden_size)
        ahead, back = functional.dropout(ones, rate), functional.dropout(ones, rate)
        return lstm_keeping(forwards, vectors, ahead), lstm_keeping(backwards, reorder(vectors, order), back)
    if isinstance(forwards, nn.LSTM) or not vectors.numel():
        return forwards(vectors)[0], backwards(reorder(vectors, order))[0]
    both = [dict(network.named_parameters()) for network in (forwards, backwards)]
    to_gates, from_state, bias, state_bias = (
        torch.stack([weights[f"{name}_l0"] for weights in both])
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    )
    size = from_state.shape[2]
    # The state bias of n is left out here, since it is multiplied by r, as the state's part of n is.
    early = bias + functional.pad(state_bias[:, : 2 * size], (0, size))
    # Both directions read the input in one product; reversing the output is cheaper, since it is smaller.
    read = ops.linear(vectors.flatten(0, 1), to_gates.flatten(0, 1), early.flatten())
    ahead, back = read.view(*vectors.shape[:2], -1).split(3 * size, dim=2)
    gates = torch.stack([ahead, reorder(back, order)]).permute(2, 0, 1, 3)
    states = ops.bi_gru(gates, from_state, state_bias[:, 2 * size :])
    ahead, back = states.permute(1, 2, 0, 3)
    return ahead, back


def lstm_keeping(
    network: nn.LSTM, vectors: Float[Tensor, "B T I"], keep: Float[Tensor, "B H"]
) -> Float[Tensor, "B T H"]:
    """Returns an LSTM's hidden states; on its way to the next token, not upwards, each is multiplied by `keep`."""
    weights = dict(network.named_parameters())
    bias = weights["bias_ih_l0"] + weights["bias_hh_l0"]
    read = ops.linear(vectors.flatten(0, 1), weights["weight_ih_l0"], bias).view(*vectors.shape[:2], -1)
    hidden = cell = vectors.new_zeros(keep.shape)
    states = []
    for gates in read.unbind(1):
        enter, stay, new, leave = torch.addmm(gates, hidden * keep, weights["weight_hh_l0"].T).chunk(4, dim=1)
        cell = stay.sigmoid() * cell + enter.sigmoid() * new.tanh()
        hidden = leave.sigmoid() * cell.tanh()
        states.append(hidden)
    return torch.stack(states, dim=1)


def _recurrent(cell: Callable[..., nn.RNNBase], input_dim: int, hidden_dim: int) -> nn.RNNBase:
    network = cell(input_dim, hidden_dim, batch_first=True)
    for name, weights in network.named_parameters():
        blocks = weights.data.split(hidden_dim)  # one per gate; an LSTM's are input, forget, candidate, output
        for block in blocks:
            if name.startswith("weight_ih"):
                nn.init.xavier_uniform_(block)
            elif name.startswith("weight_hh"):
                nn.init.orthogonal_(block)
            else:
                nn.init.zeros_(block)
        if name.startswith("bias_ih") and isinstance(network, nn.LSTM):
            nn.init.ones_(blocks[1])
    return network


class VariationalDropout(nn.Module):
    """Dropout with one mask per sentence, the same for all its tokens (Gal and Ghahramani 2016)."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, vectors: Float[Tensor, "B T I"]) -> Float[Tensor, "B T I"]:
        if not self.training or self.rate == 0:
            return vectors
        return vectors * functional.dropout(vectors.new_ones(vectors.shape[0], 1, vectors.shape[2]), self.rate)


def masked_softmax(scores: Float[Tensor, "*B T"], mask: Bool[Tensor, "*#B T"]) -> Float[Tensor, "*B T"]:
    """Computes the softmax over the last axis where `mask` is True; the result is 0 elsewhere."""
    lowest = torch.finfo(scores.dtype).min  # minus infinity would give NaN if all are masked
    return torch.softmax(scores.masked_fill(~mask, lowest), dim=-1) * mask


def masked_max(vectors: Float[Tensor, "B T I"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, "B I"]:
    """Returns the maximum over the tokens in each dimension, or 0 if there are no tokens."""
    lowest = torch.finfo(vectors.dtype).min
    largest = vectors.masked_fill(~mask[:, :, None], lowest).max(dim=1).values
    return torch.where(mask.any(dim=1, keepdim=True), largest, 0.0)


def masked_min(vectors: Float[Tensor, "B T I"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, "B I"]:
    """Returns the minimum over the tokens in each dimension, or 0 if there are no tokens."""
    return -masked_max(-vectors, mask)


def masked_mean(vectors: Float[Tensor, "B T I"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, "B I"]:
    """Returns the mean over the tokens, or 0 if there are none."""
    count = mask.sum(dim=1, keepdim=True).clamp(min=1)
    return (vectors * mask[:, :, None]).sum(dim=1) / count


def matrix_attention(left: Float[Tensor, "B S I"], right: Float[Tensor, "B T I"]) -> Float[Tensor, "B S T"]:
    """Returns the dot products of all vectors of one sentence with all of the other."""
    return left @ right.transpose(1, 2)


def attend(
    scores: Float[Tensor, "B S T"], values: Float[Tensor, "B T I"], mask: Bool[Tensor, "B T"]
) -> Float[Tensor, "B S I"]:
    """Averages the other sentence's vectors for each token of one, weighted by the softmax of the scores."""
    return masked_softmax(scores, mask[:, None, :]) @ values


class FeedForward(nn.Sequential):
    """Affine layers, each followed by a ReLU and dropout."""

    def __init__(self, input_dim: int, dims: Sequence[int], dropout: float = 0.0) -> None:
        sizes = [input_dim, *dims]
        layers = [(Affine(before, after), nn.ReLU(), nn.Dropout(dropout)) for before, after in pairwise(sizes)]
        super().__init__(*(part for layer in layers for part in layer))
