"""Perplexity under the full softmax, forward and backward, with unknown words counted and left out.

`exp(-mean log p(target))` over the words and the sentence ends of a text (forward `</S>`, backward `<S>`). The mean of
both directions is what the paper reports (39.7, sec. 3.4). A small vocabulary flatters: compare only numbers that were
taken with the same vocabulary file.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from elmo.errors import InputError
from elmo.formats import Model
from elmo.model.bilm import BiLM
from elmo.model.lm_head import LmHead
from elmo.pretraining.batches import LmReader, ReaderConfig
from elmo.pretraining.objective import top_layer
from elmo.text.tokenizer import TextConfig
from elmo.text.vocabulary import Vocabulary
from elmo.types import LmBatch

STREAMS = 16
WINDOW = 50
DOCUMENT_CHARACTERS = 16_384  # short pieces: the streams come to their ends together

Policy = Literal["carry", "reset"]
"""`carry`: the LSTM state goes on from sentence to sentence, as in the paper; `reset`: every sentence from zero."""


@dataclass(frozen=True)
class Perplexity:
    """Sums over a text, by direction (0 forward, 1 backward)."""

    tokens: int
    unknown: tuple[int, int]
    """Targets that are not in the vocabulary."""
    log_probability: tuple[float, float]
    """Of all targets, an unknown word as `<UNK>`."""
    log_probability_known: tuple[float, float]
    """Of the targets in the vocabulary only."""

    def perplexity(self, direction: int, known: bool = False) -> float:
        """Of one direction; `known` leaves unknown words out."""
        tokens = self.tokens - self.unknown[direction] if known else self.tokens
        total = self.log_probability_known if known else self.log_probability
        try:
            return math.exp(-total[direction] / tokens) if tokens else math.nan
        except OverflowError:  # of a network that has diverged
            return math.inf

    def summary(self) -> dict[str, Any]:
        """The numbers to report."""
        both = [self.perplexity(d) for d in range(2)]
        known = [self.perplexity(d, known=True) for d in range(2)]
        return {
            "forward": both[0],
            "backward": both[1],
            "mean": sum(both) / 2,
            "forward_known": known[0],
            "backward_known": known[1],
            "mean_known": sum(known) / 2,
            "tokens": self.tokens,
            "unknown_rate": self.unknown[0] / self.tokens if self.tokens else math.nan,
        }


@dataclass(frozen=True)
class HeldOut:
    """A text to be judged on, and how it is read."""

    paths: Sequence[Path]
    text: TextConfig
    vocabulary: Vocabulary
    max_characters: int = 50
    max_words: int | None = None
    """Only the beginning of the text: as many windows as this holds, and one at least."""

    def windows(self, rank: int = 0, world: int = 1) -> tuple[Iterator[LmBatch], int]:
        """The windows of one process, and how many streams they have."""
        streams = max(1, STREAMS // world) * world
        config = ReaderConfig(
            streams, WINDOW, 0, False, 1, self.max_characters, rank, world, document_characters=DOCUMENT_CHARACTERS
        )
        reader: Iterator[LmBatch] = LmReader(self.paths, self.vocabulary, self.text, config)
        if self.max_words is not None:
            reader = _beginning(reader, self.max_words / world)
        return reader, len(config.own_streams)


def _beginning(windows: Iterator[LmBatch], tokens: float) -> Iterator[LmBatch]:
    for number, batch in enumerate(windows):
        if number and batch.position["tokens"] > tokens:
            return
        yield batch


@torch.inference_mode()
def tally(
    bilm: BiLM,
    lm_head: LmHead,
    heldout: HeldOut,
    policy: Policy,
    rank: int = 0,
    world: int = 1,
    progress: Callable[[int], None] | None = None,
) -> Tensor:
    """The sums of `Perplexity` as one tensor (2, 4), so that those of several processes can be added: of every
    direction targets, unknown ones, log-probability of all, log-probability of the known ones."""
    sums = torch.zeros(2, 4, dtype=torch.float64)
    windows, streams = heldout.windows(rank, world)
    state = bilm.initial_state(streams)
    for batch in windows:
        batch = batch.to(lm_head.bias.device)
        keep = ~batch.starts if policy == "reset" else torch.ones_like(batch.keep)
        hidden, state = top_layer(bilm, batch.char_ids, batch.inputs, keep, state)
        targets = batch.targets.transpose(1, 2)
        for direction in range(2):
            there = targets[direction] >= 0
            words = targets[direction][there]
            scores = lm_head.log_probabilities(hidden[direction][there], words).double()
            known = words != heldout.vocabulary.unknown
            numbers = [len(words), int(known.logical_not().sum()), float(scores.sum()), float(scores[known].sum())]
            sums[direction] += torch.tensor(numbers, dtype=torch.float64)
        if progress is not None:
            progress(int(sums[0, 0]))
    return sums


def perplexity_of(sums: Tensor) -> Perplexity:
    """The result of `tally`, read."""
    (tokens, unknown_f, all_f, known_f), (_, unknown_b, all_b, known_b) = sums.tolist()
    return Perplexity(int(tokens), (int(unknown_f), int(unknown_b)), (all_f, all_b), (known_f, known_b))


def report(
    model: Model,
    paths: Sequence[Path],
    text: TextConfig,
    max_words: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> dict[str, Any]:
    """`elmo perplexity`: the numbers of a stored model under both state policies, with its vocabulary's identity."""
    if model.lm_head is None or model.vocabulary is None:
        raise InputError("the model has no softmax, so it has no perplexity; use one that `elmo train` made")
    vocabulary = model.vocabulary
    lm_head = LmHead(len(vocabulary), model.config.lstm.projection_dim)
    lm_head.load_state_dict(model.lm_head)
    characters = model.config.char_cnn.max_characters_per_token
    heldout = HeldOut(paths, text, vocabulary, characters, max_words)
    bilm = model.bilm()
    sums = {policy: tally(bilm, lm_head, heldout, policy, progress=progress) for policy in get_args(Policy)}
    return {
        "text": [path.name for path in paths],
        "vocabulary": {"size": len(vocabulary), "sha256": vocabulary.sha256},
        "perplexity": {policy: perplexity_of(sums[policy]).summary() for policy in sums},
    }
