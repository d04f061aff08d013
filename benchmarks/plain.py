"""The plain way to run a biLM, for comparison: the character CNN on every token, then one cell after another.

This does what AllenNLP's `Elmo` does, in its order, written anew. Batches are in the order of the input and padded. All
50 characters of every token are read, padding included, and no word is remembered. Each direction of each layer runs by
itself, with both products of a cell at every step, without sentences that have ended. Every sentence starts from the
zero state.
"""

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from elmo import formats
from elmo.machine import peak_memory
from elmo.model.bilm import BiLM
from elmo.model.char_cnn import CharCnn
from elmo.model.highway import Highway
from elmo.model.lstm import BiLstmLayer
from elmo.text.batching import to_batch


@dataclass(frozen=True)
class Plain:
    """The speed of the plain loop on a text."""

    batch: int
    """The number of sentences in a batch."""
    tokens_per_second: float
    """The speed of the median round."""
    rounds: list[float]
    """The seconds of every round."""
    peak_bytes: int


def measure(model: str, sentences: Sequence[Sequence[str]], batch: int, rounds: int) -> Plain:
    """Measures the plain loop; call it in a process of its own, to measure memory."""
    bilm = formats.load(model).bilm()
    run(bilm, sentences[:batch])
    seconds = []
    for _ in range(rounds):
        began = time.perf_counter()
        for start in range(0, len(sentences), batch):
            run(bilm, sentences[start : start + batch])
        seconds.append(time.perf_counter() - began)
    tokens = sum(map(len, sentences))
    return Plain(batch, tokens / statistics.median_low(seconds), seconds, peak_memory())


@torch.no_grad()
def run(bilm: BiLM, sentences: Sequence[Sequence[str]]) -> Float[Tensor, "N B T D"]:
    """Returns all layers of one batch, boundaries included; padding is zero in all layers but the first."""
    encoder = bilm.token_encoder
    assert isinstance(encoder, CharCnn)
    batch = to_batch(sentences, encoder.config.max_characters_per_token)
    tokens = encode(encoder, batch.char_ids)
    # As in packed sequences, the longest come first, so that those which have ended are at the end.
    order = batch.lengths.argsort(descending=True, stable=True)
    lengths = batch.lengths[order].tolist()
    forward = backward = tokens[order]
    layers = [torch.cat([forward, backward], dim=-1)]
    for depth, layer in enumerate(bilm.layers):
        assert isinstance(layer, BiLstmLayer)
        outputs = [one_direction(layer, d, x, lengths) for d, x in enumerate((forward, backward))]
        if depth > 0 and bilm.config.lstm.use_skip_connections:
            outputs = [outputs[0] + forward, outputs[1] + backward]
        forward, backward = outputs
        layers.append(torch.cat(outputs, dim=-1))
    return torch.stack(layers)[:, order.argsort()]


def encode(encoder: CharCnn, char_ids: Tensor) -> Float[Tensor, "B T P"]:
    """Returns the vector of every token, padding included."""
    rows, steps, characters = char_ids.shape
    embedded = functional.embedding(char_ids.view(rows * steps, characters), encoder.embedding).transpose(1, 2)
    activation = torch.relu if encoder.config.activation == "relu" else torch.tanh
    maps = [functional.conv1d(embedded, each.weight, each.bias) for each in encoder.convolutions]  # type: ignore[arg-type]
    vectors = torch.cat([activation(values.max(dim=-1).values) for values in maps], dim=-1)
    for highway in encoder.highways:
        assert isinstance(highway, Highway)
        gate = torch.sigmoid(plain_linear(highway.carry, vectors))
        vectors = gate * torch.relu(plain_linear(highway.transform, vectors)) + (1 - gate) * vectors
    if encoder.projection is not None:
        vectors = plain_linear(encoder.projection, vectors)
    return vectors.view(rows, steps, -1)


def plain_linear(layer: nn.Linear, x: Tensor) -> Tensor:
    """Multiplies with torch's own product instead of elmo's, which the layer would use."""
    return functional.linear(x, layer.weight, layer.bias)


def one_direction(layer: BiLstmLayer, direction: int, inputs: Tensor, lengths: list[int]) -> Float[Tensor, "B T P"]:
    """Runs one direction of one layer over padded rows, of which the longest come first."""
    config = layer.config
    to_gates, to_state = layer.weight_input[direction].t(), layer.weight_state[direction].t()
    rows, steps, _ = inputs.shape
    hidden, memory = inputs.new_zeros(rows, config.projection_dim), inputs.new_zeros(rows, config.dim)
    outputs = inputs.new_zeros(rows, steps, config.projection_dim)
    for t in range(steps) if direction == 0 else reversed(range(steps)):
        n = sum(length > t for length in lengths)
        gates = torch.mm(inputs[:n, t], to_gates) + torch.mm(hidden[:n], to_state) + layer.bias[direction]
        i, j, f, o = gates.chunk(4, dim=1)
        cell = torch.sigmoid(i) * torch.tanh(j) + torch.sigmoid(f + config.forget_bias) * memory[:n]
        if config.cell_clip is not None:
            cell = torch.clamp(cell, -config.cell_clip, config.cell_clip)
        output = torch.sigmoid(o) * torch.tanh(cell)
        if layer.weight_projection is not None:
            output = torch.mm(output, layer.weight_projection[direction].t())
            if config.proj_clip is not None:
                output = torch.clamp(output, -config.proj_clip, config.proj_clip)
        hidden, memory = hidden.clone(), memory.clone()
        hidden[:n], memory[:n] = output, cell
        outputs[:n, t] = output
    return outputs
