"""Measures a training step: words per second, and where the time goes, beside two plain ways to write the same step.

    python benchmarks/train.py                     # LSTM 512/128, 25,000 words, 64 x 20 tokens, 1,024 negatives
    python benchmarks/train.py --size small        # the published small size: 1024/128, 2,048 filters

Every row has a process of its own. Windows hold words of the packaged vocabulary, drawn log-uniformly by rank, about as
often as in text. These are the rows:

- `elmo` is the step of `elmo train`.
- `nn.LSTM` is the same with torch's own LSTM with projection for the recurrence. It has no clips, so it computes less.
- `plain` is the obvious code: every occurrence of a word goes through Conv1d and the highways, cells run token by
  token, autograd differentiates everything, the softmax has a dense gradient, and torch's AdamW takes the step.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

import torch
from torch import Tensor, nn

from elmo import ops
from elmo.bench.machine import measure_limits
from elmo.model.bilm import BiLMConfig
from elmo.model.char_cnn import CharCnn, CharCnnConfig
from elmo.model.lm_head import log_expected, log_uniform
from elmo.model.lstm import BiLstmLayer, LstmConfig, recurrence
from elmo.pretraining.objective import LanguageModel, ObjectiveConfig
from elmo.text.characters import encode_words
from elmo.training.memory import keep_freed_memory
from elmo.training.optim import OptimConfig, build_optimizer
from elmo.types import LmBatch, LstmState

PEERS_FILTERS = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256))
SIZES = {
    "peers": BiLMConfig(LstmConfig(512, 128), CharCnnConfig(filters=PEERS_FILTERS, n_highway=1)),
    "small": BiLMConfig(LstmConfig(1024, 128), CharCnnConfig(n_highway=1)),
    "base": BiLMConfig(LstmConfig(2048, 256), CharCnnConfig(n_highway=1)),
}
ROWS = (
    "elmo float32",
    "elmo float32, not compiled",
    "elmo bfloat16",
    "elmo bfloat16, not compiled",
    "nn.LSTM float32",
    "nn.LSTM bfloat16",
    "plain float32",
)


@dataclass(frozen=True)
class Measured:
    """The milliseconds of the median step."""

    words_a_second: float
    forward: float
    backward: float
    update: float
    lstm_gflops: float
    """The LSTMs' products, forward and backward, in 1e9 operations per second of the whole step."""


class TorchLstm(nn.Module):
    """One layer of both directions by `nn.LSTM`, which replaces a `BiLstmLayer`."""

    def __init__(self, config: LstmConfig) -> None:
        super().__init__()
        size = config.projection_dim
        self.directions = nn.ModuleList(nn.LSTM(size, config.dim, proj_size=size) for _ in range(2))

    def forward(
        self,
        inputs: Tensor,
        hidden: Tensor,
        cell: Tensor,
        active: list[int] | None = None,
        keep: Tensor | None = None,
        same: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Runs as `BiLstmLayer.forward` does, but never resets the state: `keep` would need one call per token."""
        outputs, hiddens, cells = [], [], []
        for d, lstm in enumerate(self.directions):
            output, (h, c) = lstm(inputs[d], (hidden[d : d + 1], cell[d : d + 1]))
            outputs.append(output.float())
            hiddens.append(h[0].float())
            cells.append(c[0].float())
        return torch.stack(outputs), torch.stack(hiddens), torch.stack(cells)


class PlainLstm(BiLstmLayer):
    """A layer that runs token by token and is differentiated by autograd."""

    def forward(
        self,
        inputs: Tensor,
        hidden: Tensor,
        cell: Tensor,
        active: list[int] | Tensor | None = None,
        keep: Tensor | None = None,
        same: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        return recurrence(self, inputs, hidden, cell, active, keep)


def plain_loss(model: LanguageModel, batch: LmBatch, state: LstmState) -> tuple[Tensor, LstmState]:
    """Returns the loss of `LanguageModel`, with every occurrence of a word encoded by torch's own modules."""
    bilm, head = model.bilm, model.lm_head
    encoder, inputs = bilm.token_encoder, batch.inputs.transpose(1, 2)
    assert isinstance(encoder, CharCnn)
    assert encoder.projection is not None
    characters = nn.functional.embedding(batch.char_ids[inputs.flatten()], encoder.embedding).transpose(1, 2)
    filters = [c for c in encoder.convolutions if isinstance(c, nn.Conv1d)]
    found = [nn.functional.conv1d(characters, c.weight, c.bias).amax(2) for c in filters]
    vectors = torch.cat(found, 1).relu()
    for highway in encoder.highways:
        vectors = highway(vectors)
    vectors = encoder.projection(vectors).view(*inputs.shape, -1)
    outputs, state = bilm.read(vectors, state, keep=batch.keep.transpose(1, 2))
    hidden, words = outputs[-1].flatten(0, 2), batch.targets.transpose(1, 2).flatten()
    negatives = head.draw(model.objective.negatives)
    chances = log_expected(len(head.bias), len(negatives))
    own = (hidden * head.weight[words]).sum(1) + head.bias[words] - chances[words]
    others = hidden @ head.weight[negatives].T + head.bias[negatives] - chances[negatives]
    others = others.masked_fill(words[:, None] == negatives, -torch.inf)
    logits = torch.cat([own[:, None], others], 1)
    return nn.functional.cross_entropy(logits, torch.zeros_like(words)), state


def our_loss(model: LanguageModel, batch: LmBatch, state: LstmState) -> tuple[Tensor, LstmState]:
    return model(batch.char_ids, batch.inputs, batch.targets, batch.keep, batch.starts, state)


def build(row: str, config: BiLMConfig, n_words: int, negatives: int) -> tuple[LanguageModel, torch.optim.Optimizer]:
    """Returns the model and the optimizer of a row."""
    torch.manual_seed(0)
    model = LanguageModel(config, n_words, ObjectiveConfig(negatives, 0.0, 0.0), sparse=not row.startswith("plain"))
    other = {"nn.LSTM": TorchLstm, "plain": PlainLstm}.get(row.split()[0])
    if other is not None:
        model.bilm.layers = nn.ModuleList(other(config.lstm) for _ in range(config.lstm.n_layers))
    if row.startswith("plain"):
        return model, torch.optim.AdamW(model.parameters(), 1e-3)
    return model, build_optimizer(model.bilm.parameters(), OptimConfig(lr=1e-3), model.lm_head.parameters())


def windows(words: list[str], rows: int, steps: int, count: int) -> list[LmBatch]:
    """Makes `count` windows, with the shapes to which `elmo train` pads."""
    torch.manual_seed(1)
    batches = []
    for _ in range(count):
        drawn = log_uniform(len(words)).multinomial(2 * rows * steps, replacement=True).view(2, rows, steps)
        distinct, index = drawn.unique(return_inverse=True)
        ids = torch.from_numpy(encode_words([words[i] for i in distinct])).long()
        ids = torch.cat([ids, ids.new_zeros(-len(ids) % 64, ids.shape[1])])
        everywhere = torch.ones(2, rows, steps, dtype=torch.bool)
        batches.append(LmBatch(ids, index, drawn, everywhere, ~everywhere, {}))
    return batches


def measure(row: str, config: BiLMConfig, arguments: argparse.Namespace) -> Measured:
    """Measures the median of `arguments.steps` steps, after a few to warm up."""
    keep_freed_memory()
    words = (files("elmo") / "assets/english-base/vocab.txt").read_text(encoding="utf-8").split("\n")
    words = words[: arguments.words]
    model, optimizer = build(row, config, len(words), arguments.negatives)
    loss_of = plain_loss if row.startswith("plain") else our_loss
    batches = windows(words, arguments.rows, arguments.window, 8)
    state, times = model.bilm.initial_state(arguments.rows), []
    for step in range(arguments.steps + 5):
        marks = [time.perf_counter()]
        with (
            torch.autocast("cpu", torch.bfloat16, enabled="bfloat16" in row),
            ops.compiled_steps(row in ("elmo float32", "elmo bfloat16")),
        ):
            loss, state = loss_of(model, batches[step % len(batches)], state)
        state = LstmState(*(part.detach() for part in state))
        marks.append(time.perf_counter())
        loss.backward()
        marks.append(time.perf_counter())
        optimizer.step()
        optimizer.zero_grad()
        marks.append(time.perf_counter())
        times.append([after - before for before, after in pairwise(marks)])
    middle = sorted(times[5:], key=sum)[arguments.steps // 2]
    lstm, tokens = config.lstm, arguments.rows * arguments.window
    weights = 2 * lstm.n_layers * lstm.projection_dim * lstm.dim * (4 + 4 + 1)
    gflops = 3 * 2 * weights * tokens / sum(middle) / 1e9  # forward, and twice as much backward
    forward, backward, update = (1000 * part for part in middle)
    return Measured(tokens / sum(middle), forward, backward, update, gflops)


def main() -> None:
    arguments = parse()
    config = SIZES[arguments.size]
    if arguments.row:
        print(json.dumps(vars(measure(arguments.row, config, arguments))))
        return
    machine = measure_limits(config.lstm)
    found = dict(rows(arguments))
    print(
        f"{machine.processor}, {machine.threads} threads, torch {machine.torch}, {date.today()}; size {arguments.size}"
    )
    print(f"peak of products: float32 {machine.peak('float32'):.0f}, bfloat16 {machine.peak('bfloat16'):.0f} GFLOP/s\n")
    print(f"{'':28}{'words/s':>10}{'forward':>10}{'backward':>10}{'update ms':>11}{'LSTM GFLOP/s':>14}")
    for row, m in found.items():
        print(
            f"{row:28}{m.words_a_second:10,.0f}{m.forward:10.1f}{m.backward:10.1f}{m.update:11.1f}{m.lstm_gflops:14.0f}"
        )
    if arguments.output:
        record = {"machine": str(machine), "settings": vars(arguments) | {"output": None}}
        record["rows"] = {row: vars(measured) for row, measured in found.items()}
        arguments.output.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def rows(arguments: argparse.Namespace) -> Iterator[tuple[str, Measured]]:
    """Measures every row in a process of its own, so that no row finds the memory that another left."""
    for row in ROWS:
        command = [sys.executable, __file__, *sys.argv[1:], "--row", row]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        yield row, Measured(**json.loads(done.stdout.splitlines()[-1]))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--size", choices=sorted(SIZES), default="peers")
    parser.add_argument("--words", type=int, default=25_000, help="of the softmax")
    parser.add_argument("--negatives", type=int, default=1024)
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--window", type=int, default=20)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--row", choices=ROWS, help="only this row, as JSON")
    parser.add_argument("--output", type=Path, help="a JSON file for the results")
    return parser.parse_args()


if __name__ == "__main__":
    main()
