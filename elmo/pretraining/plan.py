"""Plans a run from its settings and the counts of its text."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from elmo.pretraining.order import MAX_CHARACTERS
from elmo.pretraining.settings import TrainConfig
from elmo.text.vocabulary import CorpusCounts

PIECES = 8
"""The pieces per stream and epoch of a small corpus, if its lines are short enough."""


@dataclass(frozen=True)
class RunPlan:
    """The size of a run, which is counted and not configured."""

    words: int
    """The positions per epoch: tokens and sentence ends."""
    words_a_step: int
    steps: int

    @property
    def all_words(self) -> int:
        """The positions that all steps read."""
        return self.steps * self.words_a_step


def make_plan(config: TrainConfig, counts: CorpusCounts) -> RunPlan:
    """Computes the number of steps."""
    words = counts.tokens + counts.sentences
    a_step = config.streams * config.window * config.loop.accumulate
    wanted = min(config.epochs * words, config.max_words or math.inf)
    return RunPlan(words, a_step, max(1, math.ceil(wanted / a_step)))


def remarks(plan: RunPlan, config: TrainConfig) -> Iterator[str]:
    """Yields warnings before a run that cannot succeed: it has too little text, or its rate never reaches the peak."""
    if plan.words < plan.words_a_step:
        yield (
            f"the text has {plan.words:,} words and sentence ends, fewer than the {plan.words_a_step:,} of one step; a"
            " language model needs hundreds of thousands: name more files, or fine-tune a model (--init-from)"
        )
    warmup = config.optim.warmup_steps
    if plan.steps < warmup:
        yield (
            f"the learning rate rises for {warmup:,} steps, but the run has {plan.steps:,}: use fewer streams, more"
            " epochs or a smaller optim.warmup_steps"
        )


def piece_characters(counts: CorpusCounts, streams: int) -> int:
    """Returns the most characters that a stream gets at once, so that every stream gets several pieces per epoch.

    With fewer pieces than streams, some streams would start the text again before the rest of it is read.
    """
    return max(1, min(MAX_CHARACTERS, counts.characters // (PIECES * streams)))
