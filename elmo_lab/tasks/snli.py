"""Entailment between two sentences: the enhanced sequential inference model, ESIM (Chen et al. 2017, sec. 3).

The task is SNLI (Bowman et al. 2015), with the network of the ELMo paper (supplement A.3).

A biLSTM encodes both sentences, and attention aligns every token with the other sentence. Each token is compared with
its alignment, `[a; a~; a - a~; a * a~]`, and projected. A second biLSTM reads the result, which is pooled by mean and
maximum over each sentence. ELMo at the output is concatenated to the first biLSTM's vectors, before the attention.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from elmo.config import check_range, check_sizes
from elmo.errors import InputError
from elmo.text.tokenizer import TextConfig, Tokenizer
from elmo_lab.tasks.classes import ClassLabels, ClassPrediction, by_class, combine, likeliest, score
from elmo_lab.tasks.inputs import Inputs, Tokens
from elmo_lab.tasks.layers import BiLstm, FeedForward, attend, masked_max, masked_mean, matrix_attention
from elmo_lab.tasks.readers import write_predictions
from elmo_lab.tasks.readers_pairs import SNLI_LABELS, Pair, as_record, read_snli
from elmo_lab.tasks.task import Task


@dataclass(frozen=True)
class SnliConfig:
    """The network's settings; the defaults are the paper's (A.3)."""

    hidden_dim: int = 300
    """The size of both LSTMs per direction, of the projection between them, and of the output network."""
    dropout: float = 0.5
    """The variational dropout on the input of both LSTMs, and the plain one before both layers of the output
    network."""
    attention_dropout: float = 0.0
    """The plain dropout on `[a; a~; a - a~; a * a~]`, after the attention and before the projection. The paper has 0.5
    in its network with ELMo, and none in its baseline."""

    def __post_init__(self) -> None:
        check_sizes(self, ("hidden_dim",), "model.")
        check_range(self, ("dropout", "attention_dropout"), 0, 1, "model.")


@dataclass(frozen=True)
class SnliExample:
    """Two sentences, and whether the first entails the second, contradicts it, or neither."""

    premise: tuple[str, ...]
    hypothesis: tuple[str, ...]
    label: str | None = None
    """One of SNLI's three labels; None if it is unknown."""
    texts: tuple[str, str] | None = None
    """Both sentences before tokenisation."""
    line: int = 0
    """The line of the pair in the file."""


def read(path: Path, unlabelled: bool = False) -> list[SnliExample]:
    """Reads the pairs of a file of SNLI's JSON lines, and tokenises them by spaCy's rules for English.

    Pairs with the gold_label "-" (no agreement among annotators) are omitted, as they can be neither learned from nor
    scored; with `unlabelled`, all pairs are kept.
    """
    tokens = Tokenizer(TextConfig()).tokens
    return [_example(pair, tokens) for pair in read_snli(path, unlabelled)]


def _example(pair: Pair, tokens: Callable[[str], list[str]]) -> SnliExample:
    premise, hypothesis = (tuple(tokens(text)) for text in (pair.premise, pair.hypothesis))
    return SnliExample(premise, hypothesis, pair.label, (pair.premise, pair.hypothesis), pair.line)


def of_text(parts: Sequence[str], tokenizer: Tokenizer, line: int = 0) -> list[SnliExample]:
    """Makes the pair of a line, which is a premise, a tab and a hypothesis."""
    if len(parts) != 2:
        raise InputError(f"{len(parts)} tab-separated texts; premise, tab, hypothesis is expected")
    premise, hypothesis = parts
    return [_example(Pair(premise, hypothesis, None, line), tokenizer.tokens)]


def unlabelled(sentences: Sequence[Sequence[str]], line: int = 0) -> SnliExample:
    """Makes an unlabelled pair of a premise and a hypothesis."""
    if len(sentences) != 2:
        raise InputError(f"{len(sentences)} tab-separated sentences; premise, tab, hypothesis is expected")
    premise, hypothesis = sentences
    return SnliExample(tuple(premise), tuple(hypothesis), line=line)


def check(examples: Sequence[SnliExample], labels: ClassLabels, path: Path) -> None:
    """Raises InputError if a pair for training or scoring has no label."""
    for example in examples:
        if example.label is None:
            raise InputError(
                f"{path}: line {example.line} has no gold_label; one of {', '.join(labels.names)} is expected: label"
                " the pair or remove the line"
            )


class SnliModel(nn.Module):
    """The network: ESIM in its sequential form (without trees)."""

    def __init__(self, config: SnliConfig, inputs: Inputs, labels: ClassLabels) -> None:
        super().__init__()
        self.inputs = inputs
        size = config.hidden_dim
        self.encoder = BiLstm(inputs.dim, size, dropout=config.dropout)
        self.attention_dropout = nn.Dropout(config.attention_dropout)
        self.projection = FeedForward(4 * (2 * size + inputs.output_dim), (size,))
        self.composition = BiLstm(size, size, dropout=config.dropout)
        self.head = nn.Sequential(
            nn.Dropout(config.dropout),
            *FeedForward(8 * size, (size,), config.dropout),
            nn.Linear(size, len(labels.names)),
        )

    def forward(self, tokens: Tokens) -> Float[Tensor, "B K"]:
        """Returns the scores of the K classes of B pairs, whose sentences alternate in the 2 B rows of `tokens`."""
        vectors, output = self.inputs(tokens)
        encoded = self.encoder(vectors, tokens.lengths)
        if output is not None:
            encoded = torch.cat([encoded, output], dim=2)
        mask = tokens.mask
        aligned = align(encoded, mask)
        compared = torch.cat([encoded, aligned, encoded - aligned, encoded * aligned], dim=2)
        composed = self.composition(self.projection(self.attention_dropout(compared)), tokens.lengths)
        pools = torch.cat([masked_mean(composed, mask), masked_max(composed, mask)], dim=1)
        return self.head(pools.unflatten(0, (-1, 2)).flatten(1))

    def loss(self, tokens: Tokens, examples: Sequence[SnliExample]) -> Float[Tensor, ""]:
        """Returns the mean cross-entropy."""
        assert all(example.label in SNLI_LABELS for example in examples), "training needs the label of every pair"
        targets = [SNLI_LABELS.index(example.label or "") for example in examples]
        return functional.cross_entropy(self(tokens), torch.tensor(targets, device=tokens.lengths.device))

    def decode(self, tokens: Tokens, examples: Sequence[SnliExample]) -> list[ClassPrediction]:
        """Predicts the likeliest class of every pair."""
        return [likeliest(row, SNLI_LABELS) for row in torch.softmax(self(tokens), dim=1).tolist()]


def align(encoded: Float[Tensor, "B T I"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, "B T I"]:
    """Returns, for every token, the mean of the other sentence's vectors, weighted by attention (eq. 11-13).

    The sentences of a pair are in consecutive rows.
    """
    others, other_mask = swap(encoded), swap(mask)
    return attend(matrix_attention(encoded, others), others, other_mask)


def swap(rows: Tensor) -> Tensor:
    """Exchanges the two rows of every pair."""
    return rows.unflatten(0, (-1, 2)).flip(1).flatten(0, 1)


def record(example: SnliExample, prediction: ClassPrediction) -> dict[str, Any]:
    """Returns a prediction as a JSON object with SNLI's keys and `probabilities`."""
    premise, hypothesis = example.texts or (" ".join(example.premise), " ".join(example.hypothesis))
    known = dict(zip(SNLI_LABELS, prediction.probabilities, strict=False))
    return as_record(Pair(premise, hypothesis, prediction.label, example.line)) | {"probabilities": known}


TASK = Task(
    name="snli",
    version="1",
    title="Entailment: what a premise says of a hypothesis",
    metric="accuracy",
    columns=("accuracy",),
    place="both",
    config=SnliConfig,
    labels=ClassLabels,
    network=SnliModel,
    read=read,
    sentences=lambda example: [list(example.premise), list(example.hypothesis)],
    labels_of=lambda examples: ClassLabels(SNLI_LABELS),  # whichever the examples have
    score=score,
    by_label=lambda examples, found: by_class([each.label for each in examples], [each.label for each in found]),
    combine=partial(combine, labels=SNLI_LABELS),
    write=partial(write_predictions, record=record),
    record=record,
    unlabelled=unlabelled,
    of_text=of_text,
    read_all=partial(read, unlabelled=True),
    check=check,
)
