"""Measures perplexity under the full softmax, forward and backward, with and without unknown words.

It is `exp(-mean log p(target))` over the words and the sentence ends of a text (forward `</S>`, backward `<S>`). The
paper reports the mean of both directions (39.7, sec. 3.4). A smaller vocabulary gives lower numbers, so compare only
numbers with the same vocabulary file.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor

from elmo.errors import InputError, check_whole
from elmo.forking import cached_property
from elmo.formats import Model
from elmo.machine import usable_device
from elmo.model.bilm import BiLM
from elmo.model.lm_head import LmHead
from elmo.ops.parallel import run_both
from elmo.ops.softmax import PackedSoftmax
from elmo.pretraining.batches import LmReader, ReaderConfig
from elmo.pretraining.ids import Ids, make_ids
from elmo.pretraining.objective import top_layer
from elmo.text.tokenizer import TextConfig
from elmo.text.vocabulary import Vocabulary
from elmo.types import LmBatch

STREAMS = 16
WINDOW = 50
DOCUMENT_CHARACTERS = 16_384  # pieces are short, so that all streams end together
MOST_OF_A_STREAM = 12_500
"""The most positions that a stream may still have to read when the others are at their end: about two pieces."""

Policy = Literal["carry", "reset"]
"""With `carry`, the LSTM state is carried between sentences, as in the paper; with `reset`, each starts from zero."""
POLICIES: tuple[Policy, ...] = get_args(Policy)


def perplexity_of(loss: float) -> float:
    """Returns the perplexity of a mean loss in nats; it is infinite if the network has diverged."""
    try:
        return math.exp(loss)
    except OverflowError:
        return math.inf


@dataclass(frozen=True)
class Perplexity:
    """Sums over a text, by direction (0 forward, 1 backward)."""

    tokens: int
    unknown: tuple[int, int]
    """The numbers of targets that are not in the vocabulary."""
    log_probability: tuple[float, float]
    """The log-probabilities of all targets; unknown words count as `<UNK>`."""
    log_probability_known: tuple[float, float]
    """The log-probabilities of the targets in the vocabulary."""

    def perplexity(self, direction: int, known: bool = False) -> float:
        """Returns the perplexity of one direction; `known` excludes unknown words."""
        tokens = self.tokens - self.unknown[direction] if known else self.tokens
        total = self.log_probability_known if known else self.log_probability
        return perplexity_of(-total[direction] / tokens) if tokens else math.nan

    def summary(self) -> dict[str, Any]:
        """Returns the numbers to report."""
        numbers: dict[str, Any] = {}
        for name, known in (("", False), ("_known", True)):
            forward, backward = (self.perplexity(d, known) for d in range(2))
            numbers |= {f"forward{name}": forward, f"backward{name}": backward, f"mean{name}": (forward + backward) / 2}
        rate = self.unknown[0] / self.tokens if self.tokens else math.nan
        return numbers | {"tokens": self.tokens, "unknown_rate": rate}


@dataclass(frozen=True)
class HeldOut:
    """A text to measure on, and how to read it."""

    paths: Sequence[Path]
    text: TextConfig
    vocabulary: Vocabulary
    max_characters: int = 50
    max_words: int | None = None
    """About how many words are read, at least a window; 16 streams read the beginnings of the first pieces."""
    reads_words: bool = False
    reading: Callable[[int, int], object] | None = field(default=None, compare=False)
    """It is told the bytes that are tokenized, and their total."""

    @cached_property
    def ids(self) -> Ids:
        """Returns the text, or the part of it that `max_words` need. It is read once."""
        most = None if self.max_words is None else self.max_words + STREAMS * MOST_OF_A_STREAM
        return make_ids(self.paths, self.text, self.reading, most)

    def windows(self, rank: int = 0, world: int = 1) -> tuple[Iterator[LmBatch], int]:
        """Returns the windows of one process, and the number of their streams."""
        streams = max(1, STREAMS // world) * world
        config = ReaderConfig(
            streams, WINDOW, 0, False, 1, self.max_characters, rank, world,
            document_characters=DOCUMENT_CHARACTERS, reads_words=self.reads_words,
        )  # fmt: skip
        reader: Iterator[LmBatch] = LmReader(self.ids, self.vocabulary, config)
        if self.max_words is not None:
            reader = _beginning(reader, self.max_words / world)
        return reader, len(config.own_streams)


def _beginning(windows: Iterator[LmBatch], tokens: float) -> Iterator[LmBatch]:
    for number, batch in enumerate(windows):
        if number and batch.position["tokens"] > tokens:
            return
        yield batch


@torch.inference_mode()
def sum_losses(
    bilm: BiLM,
    lm_head: LmHead,
    heldout: HeldOut,
    rank: int = 0,
    world: int = 1,
    progress: Callable[[int, int], object] | None = None,
) -> Tensor:
    """Returns the sums of `Perplexity` under every policy: (policies, 2, 4), to be added over processes.

    For each direction they are the number of targets and of unknown ones, and the log-probability of all and of the
    known ones. `progress` is called with the targets of one direction that are done, and their total.
    """
    device = lm_head.bias.device
    on_cpu = device.type == "cpu"
    bilm, softmax = (bilm.packed(), PackedSoftmax(lm_head.weight, lm_head.bias)) if on_cpu else (bilm, lm_head)
    sums = torch.zeros(len(POLICIES), 2, 4, dtype=torch.float64, device="cpu")
    windows, streams = heldout.windows(rank, world)
    state = bilm.initial_state(len(POLICIES) * streams)
    total = min(len(heldout.ids.tokens), heldout.max_words or len(heldout.ids.tokens)) // world
    for batch in windows:
        batch = batch.to(device)
        # Every stream has two rows, one per policy, so one pass reads the text and encodes its words.
        keeps = [torch.ones_like(batch.keep) if policy == "carry" else ~batch.starts for policy in POLICIES]
        inputs = batch.inputs.repeat(1, len(POLICIES), 1)
        hidden, state = top_layer(bilm, batch.char_ids, inputs, torch.cat(keeps, 1), state)
        sums += _window_sums(softmax, hidden, batch.targets.transpose(1, 2), heldout.vocabulary.unknown)
        if progress is not None:
            progress(int(sums[0, 0, 0]), total)
    return sums


def _window_sums(
    softmax: LmHead | PackedSoftmax, hidden: Float[Tensor, "2 T K P"], targets: Int[Tensor, "2 T B"], unknown: int
) -> Tensor:
    """The part of a window in `sum_losses`; K are the streams under the first policy, then under the second."""
    sums = torch.zeros(len(POLICIES), 2, 4, dtype=torch.float64, device="cpu")

    def direction(d: int) -> None:
        there = targets[d] >= 0
        words = targets[d][there]  # M
        rows = hidden[d].unflatten(1, (len(POLICIES), -1)).transpose(0, 1)[:, there]  # policies M P
        scores = softmax.log_probabilities(rows.flatten(0, 1), words.repeat(len(POLICIES)))
        scores = scores.cpu().double().view(len(POLICIES), -1)
        known = (words != unknown).cpu()
        sums[:, d, 0] = len(words)
        sums[:, d, 1] = int(known.logical_not().sum())
        sums[:, d, 2] = scores.sum(1)
        sums[:, d, 3] = scores[:, known].sum(1)

    run_both(direction, hidden.device)
    return sums


def perplexities(sums: Tensor) -> dict[Policy, Perplexity]:
    """Turns the sums of `sum_losses` into perplexities."""
    found: dict[Policy, Perplexity] = {}
    for policy, ((tokens, *forward), (_, *backward)) in zip(POLICIES, sums.tolist(), strict=True):
        unknown, every, known = zip(forward, backward, strict=True)
        found[policy] = Perplexity(int(tokens), (int(unknown[0]), int(unknown[1])), every, known)
    return found


def check_softmax(model: Model) -> None:
    """Raises InputError if a stored model has no softmax or no vocabulary."""
    if model.lm_head is None or model.vocabulary is None:
        reason = model.card.get("softmax", "its format has none")
        raise InputError(
            f"the model has no softmax ({reason}), so it cannot predict words; use a model from `elmo train`, or a"
            " TensorFlow checkpoint with its vocab.txt"
        )


def softmax_of(model: Model) -> tuple[Vocabulary, LmHead]:
    """Returns the vocabulary and the softmax of a stored model. Raises InputError if it has none."""
    check_softmax(model)
    assert model.vocabulary is not None
    assert model.lm_head is not None
    lm_head = LmHead(len(model.vocabulary), model.config.lstm.projection_dim)
    lm_head.load_state_dict(model.lm_head)
    return model.vocabulary, lm_head.to("cpu", torch.float32)  # as the weights are, whatever the defaults


def perplexity_report(
    model: Model,
    paths: Sequence[Path],
    text: TextConfig,
    max_words: int | None = None,
    progress: Callable[[int, int], object] | None = None,
    reading: Callable[[int, int], object] | None = None,
    device: str | torch.device = "cpu",
) -> dict[str, Any]:
    """Returns the numbers of a stored model under both state policies, with the identity of its vocabulary.

    This is the work of `elmo perplexity`. `reading` is called with the bytes that are tokenized, then `progress` with
    the words that are measured; both also get the total. Raises InputError if the model has no softmax, or if
    `device` cannot be used.
    """
    if max_words is not None:
        check_whole("max_words", max_words)
    device = usable_device(device)
    vocabulary, lm_head = softmax_of(model)
    config = model.config
    heldout = HeldOut(
        paths, text, vocabulary, config.ids_per_token, max_words, config.n_tokens_vocab is not None, reading
    )
    losses = sum_losses(model.bilm().to(device), lm_head.to(device), heldout, progress=progress)
    return {
        "text": [path.name for path in paths],
        "vocabulary": {"size": len(vocabulary), "sha256": vocabulary.sha256},
        "perplexity": {policy: found.summary() for policy, found in perplexities(losses).items()},
    }
