"""Reads sentences on a GPU, with weights in the data type of the products and a CUDA graph for each of a few shapes.

A graph has fixed shapes, so the numbers of rows and steps are rounded up to the next shape. Several launches read a
long sentence: each continues from the state after the one before. A graph encodes the words of one sentence, too.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from threading import RLock
from typing import cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from elmo import ops
from elmo.forking import renew_at_fork
from elmo.model.bilm import BiLM
from elmo.model.char_cnn import CharCnn, without_tail
from elmo.model.lstm import BiLstmLayer
from elmo.types import LstmState

ROWS = (1, 4, 16, 64, 128, 256, 384, 512)
STEPS = (4, 8, 16, 24, 32)
MOST_TOKENS = 8192
"""The most rows times steps of a graph."""
WORDS, CHARACTERS = 32, (16, 32)
"""The words that a graph encodes, and the numbers of their characters."""


@dataclass(frozen=True)
class _Graph:
    """The tensors that a graph reads and writes, and the function that launches it."""

    inputs: Float[Tensor, "2 T B P"]
    live: Float[Tensor, "T B"]
    keep: Bool[Tensor, "2 T B"]
    state: LstmState
    outputs: Float[Tensor, "L 2 T B P"]

    @classmethod
    def of(cls, bilm: BiLM, rows: int, steps: int) -> "_Graph":
        state = bilm.initial_state(rows)
        layers, _, _, size = state.hidden.shape
        new = state.hidden.new_zeros
        keep = torch.ones(2, steps, rows, dtype=torch.bool, device=state.hidden.device)
        return cls(new(2, steps, rows, size), new(steps, rows), keep, state, new(layers, 2, steps, rows, size))


class GraphReader:
    """Does what `BiLM.read` does, without gradients, for a model on a GPU; `dtype` is that of the products.

    The reader copies the weights and does not follow later changes. Threads may share it; one reads at a time.
    """

    def __init__(self, bilm: BiLM, dtype: torch.dtype) -> None:
        self.config = bilm.config
        self._bilm = bilm
        self._dtype = dtype
        # Autocast would keep casts of weights that require gradients, and free them while the graph still reads them.
        encoder = bilm.token_encoder
        self._encoder = copy.deepcopy(encoder).requires_grad_(False) if isinstance(encoder, CharCnn) else None
        self._layers = [
            (
                layer.weight_input.detach().to(dtype, copy=True),
                layer.weight_state.detach().to(dtype, copy=True),
                layer.bias.detach().to(torch.float32, copy=True),
                None if layer.weight_projection is None else layer.weight_projection.detach().to(dtype, copy=True),
            )
            for layer in cast(list[BiLstmLayer], list(bilm.layers))
        ]
        config = bilm.config.lstm
        self._clips = ops.Clips(config.cell_clip, config.proj_clip, config.forget_bias)
        self._graphs: dict[tuple[int, int], tuple[_Graph, ops.Launch]] = {}
        self._encodings: dict[int, tuple[Tensor, Tensor, ops.Launch]] = {}
        """Each graph by the number of characters: the ids that it reads, the vectors that it writes, and its launch."""
        self.lock = RLock()  # a graph has a single place in memory for its inputs
        renew_at_fork(self, lambda reader: setattr(reader, "lock", RLock()))
        self._pool = ops.new_pool(self._layers[0][0].device)

    def initial_state(self, rows: int) -> LstmState:
        """Returns what `BiLM.initial_state` returns."""
        return self._bilm.initial_state(rows)

    def read(
        self,
        inputs: Float[Tensor, "2 T B P"],
        state: LstmState,
        active: list[int],
        keep: Bool[Tensor, "2 T B"],
        same: Int[Tensor, "2 T B"] | None = None,
    ) -> tuple[list[Float[Tensor, "2 T B P"]], LstmState]:
        """Returns what `BiLM.read` returns; `same` changes nothing."""
        steps, rows = inputs.shape[1:3]
        there = torch.arange(rows, device="cpu") < torch.tensor(active, device="cpu")[:, None]
        live = there.float().to(inputs.device)
        most = max(count for count in STEPS if count * _round_up(rows, ROWS) <= MOST_TOKENS or count == STEPS[0])
        parts = []
        with self.lock:
            for start in range(0, steps, most):
                part = slice(start, start + most)
                outputs, state = self._launch(inputs[:, part], live[part], keep[:, part], state)
                parts.append(outputs)
            return list(torch.cat(parts, dim=2)), state

    def encode_words(self, char_ids: Int[Tensor, "W C"]) -> Float[Tensor, "W P"]:
        """Returns what `BiLM.encode_words` returns; a few words that are not long are one launch."""
        encoder, count = self._encoder, len(char_ids)
        if encoder is None or count > WORDS:
            return self._bilm.encode_words(char_ids)
        columns = without_tail(char_ids.cpu(), encoder.config.widest).shape[1]
        size = min(_round_up(columns, CHARACTERS), char_ids.shape[1])
        if size > CHARACTERS[-1]:
            return self._bilm.encode_words(char_ids)
        with self.lock:
            if size not in self._encodings:
                self._encodings[size] = self._encoding(encoder, size)
            ids, vectors, run = self._encodings[size]
            ids[:count].copy_(char_ids[:, :size])
            run()
            return vectors[:count].clone()

    def _encoding(self, encoder: CharCnn, size: int) -> tuple[Tensor, Tensor, ops.Launch]:
        """Captures the encoding of words of `size` characters."""
        device, half = encoder.embedding.device, self._dtype != torch.float32
        with torch.inference_mode(False), torch.no_grad(), torch.autocast(device.type, self._dtype, enabled=half):
            ids = torch.zeros(WORDS, size, dtype=torch.long, device=device)
            vectors = encoder.embedding.new_zeros(WORDS, self.config.lstm.projection_dim)
            run = ops.capture(lambda: self._encode(encoder, ids, vectors), device, lambda: (), self._pool)
        return ids, vectors, run

    def _encode(self, encoder: CharCnn, ids: Tensor, vectors: Tensor) -> None:
        vectors.copy_(encoder.encode_groups([ids]))

    def _launch(
        self,
        inputs: Float[Tensor, "2 T B P"],
        live: Float[Tensor, "T B"],
        keep: Bool[Tensor, "2 T B"],
        state: LstmState,
    ) -> tuple[Float[Tensor, "L 2 T B P"], LstmState]:
        """Runs one graph, which is captured when its shape is first needed."""
        steps, rows = live.shape
        shape = _round_up(rows, ROWS), _round_up(steps, STEPS)
        if shape not in self._graphs:
            # In inference mode, torch would make numbers of its generator that no other graph can use (PyTorch 166792).
            with torch.inference_mode(False), torch.no_grad():
                made = _Graph.of(self._bilm, *shape)
                run = ops.capture(lambda: self._read(made), made.inputs.device, lambda: (), self._pool)
            self._graphs[shape] = made, run
        graph, run = self._graphs[shape]
        graph.live.zero_()
        graph.live[:steps, :rows].copy_(live)
        graph.inputs[:, :steps, :rows].copy_(inputs)
        graph.keep[:, :steps, :rows].copy_(keep)
        for place, part in zip(graph.state, state, strict=True):
            place[:, :, :rows].copy_(part)
        run()
        after = LstmState(*(part[:, :, :rows].clone() for part in graph.state))
        return graph.outputs[:, :, :steps, :rows].clone(), after

    def _read(self, graph: _Graph) -> None:
        inputs = graph.inputs
        for depth, (to_input, to_state, bias, projection) in enumerate(self._layers):
            hidden, cell = graph.state.hidden[depth], graph.state.cell[depth]
            weights = to_input, to_state, bias, projection
            outputs, *after = ops.read_lstm(inputs, *weights, hidden, cell, self._clips, graph.live, graph.keep)
            if depth and self._bilm.config.lstm.use_skip_connections:
                outputs = outputs + inputs
            graph.outputs[depth].copy_(outputs)
            for part, new in zip((hidden, cell), after, strict=True):
                part.copy_(new)
            inputs = outputs


def _round_up(count: int, sizes: Sequence[int]) -> int:
    """Rounds up to the next of the sizes, or to a multiple of the last: every shape takes memory for good."""
    return next((size for size in sizes if size >= count), -(-count // sizes[-1]) * sizes[-1])
