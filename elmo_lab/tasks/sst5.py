"""Sentiment in five classes: the biattentive classification network (McCann et al. 2017, sec. 5).

The task is the Stanford Sentiment Treebank (Socher et al. 2013), with the network of the ELMo paper (supplement A.8).

The network has a feed-forward layer, a biLSTM encoder, self-attention over the sentence, a biLSTM that integrates both,
four pools (maximum, minimum, mean, self-attentive), and an output network of two rectified layers, where McCann et al.
have maxout layers with batch normalisation. A second biLSTM reads ELMo at the output and joins the encoder's vectors.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from elmo.config import check_range, check_sizes
from elmo.errors import InputError
from elmo.text.records import suffix_of
from elmo.text.tokenizer import Tokenizer
from elmo_lab.tasks.classes import ClassLabels, ClassPrediction, by_class, combine, likeliest, score
from elmo_lab.tasks.inputs import Inputs, Tokens
from elmo_lab.tasks.layers import (
    BiLstm,
    FeedForward,
    attend,
    masked_max,
    masked_mean,
    masked_min,
    masked_softmax,
    matrix_attention,
    tokens_mask,
)
from elmo_lab.tasks.readers import write_predictions
from elmo_lab.tasks.readers_trees import Node, Tree, read_trees, write_trees
from elmo_lab.tasks.scores import LabelScores
from elmo_lab.tasks.task import Task

CLASSES = ("very negative", "negative", "neutral", "positive", "very positive")
"""The names of the labels in trees, from 0 to 4."""
NEUTRAL = 2


@dataclass(frozen=True)
class Sst5Config:
    """The network's settings. The defaults of `hidden_dim`, `output_encoder` and `phrase_tokens` are the paper's (A.8),
    which names no dropouts."""

    hidden_dim: int = 300
    """The size of the feed-forward layer and of every LSTM per direction (H); the output network has 4 H and 2 H."""
    output_encoder: bool = True
    """Whether a second biLSTM reads ELMo at the output; otherwise ELMo joins the encoder's vectors unchanged."""
    feed_forward_dropout: float = 0.25
    integrator_dropout: float = 0.1
    """The dropout of the integrator's input and output."""
    head_dropout: tuple[float, float] = (0.2, 0.3)
    """The dropouts after the first and the second layer of the output network."""
    phrase_tokens: int = 4
    """The fewest tokens of a phrase that is a separate training example; with 0, no phrase is. A phrase is read alone,
    so its ELMo vectors know nothing of its sentence."""

    def __post_init__(self) -> None:
        check_sizes(self, ("hidden_dim",), "model.")
        check_range(self, ("phrase_tokens",), 0, where="model.")
        check_range(self, ("feed_forward_dropout", "integrator_dropout", "head_dropout"), 0, 1, "model.")


@dataclass(frozen=True)
class Sst5Example:
    """A sentence with its sentiment and that of its phrases."""

    tokens: tuple[str, ...]
    label: int | None = None
    """The class, from 0 (very negative) to 4 (very positive); None if it is unknown."""
    phrases: tuple[Node, ...] = ()
    """The labelled nodes of the sentence's tree, itself first; empty for text without a tree."""


def read(path: Path, unlabelled: bool = False) -> list[Sst5Example]:
    """Reads the trees of a file such as the treebank's `train.txt`. Raises InputError for a broken tree.

    With `unlabelled`, sentences need no label, and a tree may have others.
    """
    return [
        Sst5Example(tree.tokens, tree.nodes[0].label if tree.nodes else None, tree.nodes)
        for tree in read_trees(path, len(CLASSES), unlabelled)
    ]


def of_text(parts: Sequence[str], tokenizer: Tokenizer, line: int = 0) -> list[Sst5Example]:
    """Makes one example of the whole text of a line."""
    return [Sst5Example(tuple(tokenizer.tokens(" ".join(parts))))]


def training(examples: Sequence[Sst5Example], config: Sst5Config) -> list[Sst5Example]:
    """Returns the sentences and their phrases of at least `phrase_tokens` tokens."""
    found = []
    for example in examples:
        nodes = example.phrases[1:] if config.phrase_tokens else ()
        long = (node for node in nodes if node.end - node.begin >= config.phrase_tokens)
        found += [example, *(Sst5Example(example.tokens[node.begin : node.end], node.label) for node in long)]
    return found


def unlabelled(sentences: Sequence[Sequence[str]], line: int = 0) -> Sst5Example:
    """Makes an unlabelled example of one sentence."""
    if len(sentences) != 1:
        raise InputError(f"{len(sentences)} tab-separated sentences; an example of sst5 is one sentence")
    return Sst5Example(tuple(sentences[0]))


class Sst5Model(nn.Module):
    """The network: biattentive classification."""

    def __init__(self, config: Sst5Config, inputs: Inputs, labels: ClassLabels) -> None:
        super().__init__()
        self.inputs = inputs
        size = config.hidden_dim
        self.feed_forward = FeedForward(inputs.dim, (size,), config.feed_forward_dropout)
        self.encoder = BiLstm(size, size)
        self.output_encoder = BiLstm(inputs.output_dim, size) if inputs.output_dim and config.output_encoder else None
        attended = 2 * size + (inputs.output_dim if self.output_encoder is None else 2 * size)
        self.integrator = BiLstm(3 * attended, size)
        self.dropout = nn.Dropout(config.integrator_dropout)
        self.pool_scores = nn.Linear(2 * size, 1)
        early, late = config.head_dropout
        layers = *FeedForward(8 * size, (4 * size,), early), *FeedForward(4 * size, (2 * size,), late)
        self.head = nn.Sequential(*layers, nn.Linear(2 * size, len(labels.names)))

    def forward(
        self, vectors: Float[Tensor, "B T I"], output: Float[Tensor, "B T D"] | None, lengths: Int[Tensor, " B"]
    ) -> Float[Tensor, "B K"]:
        """Returns the scores of the K classes."""
        mask = tokens_mask(lengths, vectors.shape[1])
        encoded = self.encoder(self.feed_forward(vectors), lengths)
        if output is not None:
            read: Tensor = output if self.output_encoder is None else self.output_encoder(output, lengths)
            encoded = torch.cat([encoded, read], dim=2)
        attended = attend(matrix_attention(encoded, encoded), encoded, mask)
        both = torch.cat([encoded, encoded - attended, encoded * attended], dim=2)
        integrated = self.dropout(self.integrator(self.dropout(both), lengths))
        weights = masked_softmax(self.pool_scores(integrated).squeeze(2), mask)
        self_attentive = torch.einsum("bt,btd->bd", weights, integrated)
        pools = [pool(integrated, mask) for pool in (masked_max, masked_mean, masked_min)]
        return self.head(torch.cat([*pools, self_attentive], dim=1))

    def loss(self, tokens: Tokens, examples: Sequence[Sst5Example]) -> Float[Tensor, ""]:
        """Returns the mean cross-entropy."""
        labels = [example.label for example in examples]
        assert None not in labels, "training needs the label of every sentence"
        vectors, output = self.inputs(tokens)
        scores = self(vectors, output, tokens.lengths)
        return functional.cross_entropy(scores, torch.tensor(labels, device=scores.device))

    def decode(self, tokens: Tokens, examples: Sequence[Sst5Example]) -> list[ClassPrediction]:
        """Predicts the likeliest class of every sentence."""
        vectors, output = self.inputs(tokens)
        rows = torch.softmax(self(vectors, output, tokens.lengths), dim=1).tolist()
        return [likeliest(row, range(len(CLASSES))) for row in rows]


def by_label(examples: Sequence[Sst5Example], predictions: Sequence[ClassPrediction]) -> LabelScores:
    """Returns precision, recall, F1 and support of each class, over labelled sentences."""
    gold = [None if example.label is None else CLASSES[example.label] for example in examples]
    return by_class(gold, [CLASSES[found.label] for found in predictions])


def record(example: Sst5Example, prediction: ClassPrediction) -> dict[str, Any]:
    """Returns a prediction as a JSON object: the text, its label from 0 to 4, and the probability of every class."""
    known = dict(zip(CLASSES, prediction.probabilities, strict=False))
    return {"text": " ".join(example.tokens), "label": prediction.label, "probabilities": known}


def write(path: Path, examples: Sequence[Sst5Example | None], predictions: Sequence[Any]) -> None:
    """Writes trees with the predictions at their roots; to `.jsonl`, texts with labels and probabilities.

    Text without a tree gets a flat tree of neutral words. An example that is None or empty becomes an empty line.
    """
    if suffix_of(path) == ".jsonl":
        write_predictions(path, examples, predictions, record)
        return
    trees: list[Tree | None] = []
    for line, (example, prediction) in enumerate(zip(examples, predictions, strict=True), 1):
        if example is None or not example.tokens:
            trees.append(None)
            continue
        below, size = example.phrases[1:], len(example.tokens)
        if not below and size > 1:
            below = tuple(Node(place, place + 1, NEUTRAL) for place in range(size))
        trees.append(Tree(example.tokens, (Node(0, size, prediction.label), *below), line))
    write_trees(path, trees)


TASK = Task(
    name="sst5",
    version="3",
    title="Sentiment of a sentence, in five classes",
    metric="accuracy",
    columns=("accuracy",),
    place="both",
    config=Sst5Config,
    labels=ClassLabels,
    network=Sst5Model,
    read=read,
    sentences=lambda example: [list(example.tokens)],
    labels_of=lambda examples: ClassLabels(CLASSES),  # whichever the examples have
    score=score,
    by_label=by_label,
    combine=partial(combine, labels=range(len(CLASSES))),
    write=write,
    record=record,
    unlabelled=unlabelled,
    of_text=of_text,
    read_all=partial(read, unlabelled=True),
    training=training,
)
