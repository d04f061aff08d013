"""Named entities: word vectors and characters, two biLSTMs, a CRF (Peters et al. 2018, supplement A.7).

- Files have columns, with one token and its tag per line (BIO, IOB1 or IOBES, which are read as BIO).
- The CRF scores transitions, and predicts only tags that BIO allows.
- The score is the F1 of spans, counted like conlleval.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial, partialmethod
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from elmo.config import ConfigError, check_range, check_sizes
from elmo.errors import InputError
from elmo.text.records import suffix_of
from elmo.text.tokenizer import Tokenizer
from elmo_lab.tasks import readers, scores
from elmo_lab.tasks.crf import Crf, best_tags, bio_transitions
from elmo_lab.tasks.ensemble import mean_of_spans
from elmo_lab.tasks.inputs import Inputs, Tokens
from elmo_lab.tasks.layers import BiLstm
from elmo_lab.tasks.readers_columns import TaggedSentence, write_conll
from elmo_lab.tasks.readers_columns import read_entities as read
from elmo_lab.tasks.tagging import TagLabels, TagPrediction, labels_of, spans, tags_of
from elmo_lab.tasks.task import Task


@dataclass(frozen=True)
class NerConfig:
    """The network's settings."""

    hidden_dims: tuple[int, ...] = (200, 100)
    """The sizes of the LSTMs, lowest layer first, per direction."""
    dropout: float = 0.5
    """The variational dropout on the input of every biLSTM; the network has no other."""

    def __post_init__(self) -> None:
        if not self.hidden_dims:
            raise ConfigError("model.hidden_dims is empty; at least one layer is expected")
        check_sizes(self, ("hidden_dims",), "model.")
        check_range(self, ("dropout",), 0, 1, "model.")


NerExample = TaggedSentence
"""A sentence, and its BIO tags if they are known."""


def of_text(parts: Sequence[str], tokenizer: Tokenizer, line: int = 0) -> list[NerExample]:
    """Makes examples of the sentences of a line of text."""
    return [NerExample(tuple(tokens)) for part in parts for tokens in tokenizer.sentences(part)]


def unlabelled(sentences: Sequence[Sequence[str]], line: int = 0) -> NerExample:
    """Makes an unlabelled example of one sentence."""
    if len(sentences) != 1:
        raise InputError(f"{len(sentences)} tab-separated sentences; an example of ner is one sentence")
    return NerExample(tuple(sentences[0]))


def check(examples: Sequence[NerExample], labels: TagLabels, path: Path) -> None:
    """Warns of types that are not in the training data. Raises InputError if a sentence has no tags."""
    for example in examples:
        if example.tags is None:
            raise InputError(f"{path}: line {(*example.lines, 0)[0]}: the sentence has no tags; give a file with tags")
    kinds = {tag[2:] for tag in labels.tags if tag[0] == "B"}
    tags = (pair for each in examples for pair in zip(each.lines, each.tags or (), strict=False))
    readers.tell_unknown(((line, tag[2:]) for line, tag in tags if tag[0] == "B"), kinds, path, "type")


class NerModel(nn.Module):
    """The network: its inputs are read by biLSTMs, whose states give a score per tag to a CRF."""

    def __init__(self, config: NerConfig, inputs: Inputs, labels: TagLabels) -> None:
        super().__init__()
        self.inputs = inputs
        self.tags = labels.tags
        sizes = [inputs.dim, *(2 * size for size in config.hidden_dims)]
        self.encoders = nn.ModuleList(
            BiLstm(size, hidden, dropout=config.dropout)
            for size, hidden in zip(sizes, config.hidden_dims, strict=False)
        )
        self.scores = nn.Linear(sizes[-1] + inputs.output_dim, len(labels.tags))
        self.crf = Crf(len(labels.tags), bio_transitions(labels.tags))

    def forward(self, tokens: Tokens) -> Float[Tensor, "B T K"]:
        """Returns the scores of all tags."""
        vectors, output = self.inputs(tokens)
        for encoder in self.encoders:
            vectors = encoder(vectors, tokens.lengths)
        return self.scores(vectors if output is None else torch.cat([vectors, output], dim=-1))

    def loss(self, tokens: Tokens, examples: Sequence[NerExample]) -> Float[Tensor, ""]:
        """Returns the negative log-likelihood of the gold tags, averaged over the sentences."""
        ids = {tag: number for number, tag in enumerate(self.tags)}
        gold = torch.zeros(tokens.word_ids.shape, dtype=torch.long)
        for row, example in enumerate(examples):
            assert example.tags is not None, "an example without tags cannot be learned from"
            gold[row, : len(example.tags)] = torch.tensor([ids[tag] for tag in example.tags], dtype=torch.long)
        return -self.crf.log_likelihood(self(tokens), gold.to(tokens.word_ids.device), tokens.mask).mean()

    def decode(self, tokens: Tokens, examples: Sequence[NerExample], probable: bool = False) -> list[TagPrediction]:
        """Predicts the best tags that BIO allows, and the probability of every span if it is asked for."""
        return best_tags(self(tokens), tokens.mask, self.crf.transitions(), self.tags, probable)

    decode_probable = partialmethod(decode, probable=True)


def score(examples: Sequence[NerExample], predictions: Sequence[TagPrediction]) -> dict[str, float]:
    """Returns precision, recall and F1 of spans with their types, over all sentences, in percent."""
    return scores.span_scores([each.tags or () for each in examples], [each.tags for each in predictions])


def by_label(examples: Sequence[NerExample], predictions: Sequence[TagPrediction]) -> scores.LabelScores:
    """Returns precision, recall, F1 and support of each type."""
    pairs = ([each.tags or () for each in examples], [each.tags for each in predictions])
    sides = ([[((begin, end), kind) for begin, end, kind in spans(tags)] for tags in side] for side in pairs)
    return scores.label_scores(*sides)


def combine(members: Sequence[Sequence[TagPrediction]]) -> list[TagPrediction]:
    """Chooses the spans that more than half of the members predict, or exactly half with the first member among them.

    The probability of a span is the mean over the members, in which those that do not predict it count as 0.
    """
    found = []
    for votes in zip(*members, strict=True):
        counts = Counter(span for vote in votes for span in spans(vote.tags))
        first = set(spans(votes[0].tags))
        # No two of these overlap: a member predicts at most one of two overlapping spans.
        chosen = [span for span, count in counts.items() if 2 * count + (span in first) > len(votes)]
        tags = tags_of(sorted(chosen), len(votes[0].tags))
        found.append(TagPrediction(tags, mean_of_spans(tags, votes)))
    return found


def record(example: NerExample, prediction: TagPrediction) -> dict[str, Any]:
    """Returns a prediction as a JSON object: tokens, tags, and spans with their first and last token."""
    chunks = readers.spans_record(example.tokens, prediction.tags, prediction.probabilities, "label")
    return {"tokens": example.tokens, "tags": prediction.tags, "spans": chunks}


def write(path: Path, examples: Sequence[NerExample | None], predictions: Sequence[Any]) -> None:
    """Writes tokens and predicted BIO tags, and in `.jsonl` also the spans with their probabilities.

    An example that is None becomes an empty line.
    """
    if suffix_of(path) == ".jsonl":
        readers.write_predictions(path, examples, predictions, record)
        return
    pairs = zip(examples, predictions, strict=True)
    rows = [() if example is None else (example.tokens, prediction.tags) for example, prediction in pairs]
    write_conll(path, rows)


TASK = Task(
    name="ner",
    version="1",
    title="Named entities: spans of tokens with a type",
    metric="f1",
    columns=("precision", "recall", "f1"),
    config=NerConfig,
    labels=TagLabels,
    network=NerModel,
    read=read,
    sentences=lambda example: [list(example.tokens)],
    labels_of=labels_of,
    score=score,
    by_label=by_label,
    combine=combine,
    write=write,
    record=record,
    unlabelled=unlabelled,
    of_text=of_text,
    read_all=partial(read, unlabelled=True),
    check=check,
    is_of_sentences=True,
)
