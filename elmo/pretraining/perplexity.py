"""Perplexity under the full softmax, forward and backward, with unknown words counted and left out.

`exp(-mean log p(target))` over the words and the sentence ends of a text (forward `</S>`, backward `<S>`). The mean of
both directions is what the paper reports (39.7, sec. 3.4). A small vocabulary flatters: compare only numbers that were
taken with the same vocabulary file.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from elmo.pretraining.objective import LanguageModel
from elmo.types import LmBatch

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
        return math.exp(-total[direction] / tokens) if tokens else math.nan

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


@torch.inference_mode()
def tally(
    model: LanguageModel, batches: Iterable[LmBatch], streams: int, policy: Policy, unknown: int, device: torch.device
) -> Tensor:
    """The sums of `Perplexity` as one tensor (2, 4), so that those of several processes can be added: of every
    direction targets, unknown ones, log-probability of all, log-probability of the known ones."""
    sums = torch.zeros(2, 4, dtype=torch.float64)
    state = model.bilm.initial_state(streams)
    for batch in batches:
        batch = batch.to(device)
        keep = ~batch.starts if policy == "reset" else torch.ones_like(batch.keep)
        hidden, state = model.read(batch.char_ids, batch.inputs, keep, state)
        targets = batch.targets.transpose(1, 2)
        for direction in range(2):
            there = targets[direction] >= 0
            words = targets[direction][there]
            scores = model.lm_head.log_probabilities(hidden[direction][there], words).double()
            known = words != unknown
            sums[direction] += torch.tensor(
                [len(words), int((~known).sum()), float(scores.sum()), float(scores[known].sum())], dtype=torch.float64
            )
    return sums


def perplexity_of(sums: Tensor) -> Perplexity:
    """The result of `tally`, read."""
    (tokens, unknown_f, all_f, known_f), (_, unknown_b, all_b, known_b) = sums.tolist()
    return Perplexity(int(tokens), (int(unknown_f), int(unknown_b)), (all_f, all_b), (known_f, known_b))
