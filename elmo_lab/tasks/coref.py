"""Coreference resolution over whole documents (Lee et al. 2017).

- The encoder has one LSTM per direction, which reads each sentence separately.
- A span is represented by the states at both ends, an attention-weighted mean of its words, and its width.
- Pruning keeps the spans with the highest mention scores, a fixed number per token, of which no two cross.
- Each kept span chooses one earlier span, or none; the loss sums over all gold antecedents.
- Training reads a random window of a document's sentences, to bound time and memory.
- The score is the mean F1 of MUC, B3 and CEAF-phi4.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial, partialmethod
from itertools import accumulate, zip_longest
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from elmo import ops
from elmo.config import ConfigError, check_range, check_sizes
from elmo.errors import InputError
from elmo.forking import cached_property
from elmo.model.affine import Affine
from elmo.text.records import suffix_of
from elmo.text.tokenizer import Tokenizer
from elmo_lab.tasks import coref_spans as spans
from elmo_lab.tasks import readers_coref as readers
from elmo_lab.tasks.coref_scores import coref_scores
from elmo_lab.tasks.coref_spans import Span, Spans, SpanVectors
from elmo_lab.tasks.inputs import Inputs, Tokens
from elmo_lab.tasks.layers import BiLstm, FeedForward, VariationalDropout, masked_softmax
from elmo_lab.tasks.readers import write_predictions
from elmo_lab.tasks.readers_coref import read_coref as read
from elmo_lab.tasks.scores import LabelScores, label_scores
from elmo_lab.tasks.task import Task

UNNAMED = ("", "-")
"""The names of an unknown speaker."""

Example = readers.Document
"""A document; the clusters may be None for prediction."""


@dataclass(frozen=True)
class CorefConfig:
    """The network's settings. The defaults are those of Lee et al. (2017, sec. 6), which the ELMo paper uses (A.6)."""

    hidden_size: int = 200
    """The size of the LSTM, per direction."""
    feed_forward: tuple[int, ...] = (150, 150)
    """The sizes of the hidden layers of the mention scorer, the pair scorer and the attention."""
    feature_dim: int = 20
    """The size of the embeddings of width, distance, speaker and genre."""
    max_width: int = 10
    """The most tokens of a span."""
    spans_per_token: float = 0.4
    """The number of spans that are kept per token of the document."""
    max_antecedents: int = 250
    window: int = 50
    """The most sentences of a document in a training step."""
    dropout: float = 0.2
    """The dropout of the LSTM's states on their way to the next token and to the spans, with one mask for all tokens of
    a sentence, and that of the hidden layers and of the features' embeddings."""

    def __post_init__(self) -> None:
        if not self.feed_forward:
            raise ConfigError("model.feed_forward is empty; at least one hidden layer is expected")
        sizes = ("hidden_size", "feed_forward", "feature_dim", "max_width", "max_antecedents", "window")
        check_sizes(self, sizes, "model.")
        check_range(self, ("spans_per_token",), 0, where="model.")
        check_range(self, ("dropout",), 0, 1, "model.")


@dataclass(frozen=True)
class CorefLabels:
    """The labels of the training data that the network needs."""

    genres: tuple[str, ...]


@dataclass(frozen=True)
class CorefPrediction:
    """The clusters of a document, and the links that form them."""

    clusters: tuple[tuple[Span, ...], ...]
    links: tuple[tuple[Span, Span | None], ...] = ()
    """Each kept span with its antecedent, or None if it has none."""
    probabilities: tuple[float, ...] = ()
    """The probability of each link, that of having no antecedent included; empty unless probabilities are requested."""


@dataclass(frozen=True)
class DocumentPart:
    """The sentences of a document from `begin` up to, but not including, `end`."""

    document: Example
    begin: int
    end: int

    @cached_property
    def lengths(self) -> list[int]:
        """The lengths of its sentences, in tokens."""
        return [len(sentence) for sentence in self.document.sentences[self.begin : self.end]]

    @cached_property
    def offset(self) -> int:
        """The number of tokens of the document before this part."""
        return sum(len(sentence) for sentence in self.document.sentences[: self.begin])


class Ranking(NamedTuple):
    """The kept spans of a part, and the scores of their antecedents."""

    spans: Spans
    scores: Float[Tensor, "K A"]
    rows: Int[Tensor, "K A"]
    """The index of each antecedent among the kept spans."""
    mask: Bool[Tensor, "K A"]


def unlabelled(sentences: Sequence[Sequence[str]], line: int = 0) -> Example:
    """Makes an unlabelled document of these sentences, named after its line."""
    tokens = tuple(tuple(sentence) for sentence in sentences)
    speakers = tuple(("",) * len(sentence) for sentence in tokens)
    return Example(f"line-{line}" if line else "document", tokens, None, speakers, line=line)


def of_text(parts: Sequence[str], tokenizer: Tokenizer, line: int = 0) -> list[Example]:
    """Makes the document of a line, split into sentences."""
    return [unlabelled([tokens for part in parts for tokens in tokenizer.sentences(part)], line)]


def labels_of(examples: Sequence[Example]) -> CorefLabels:
    """Returns the genres of the training documents."""
    return CorefLabels(tuple(sorted({example.genre for example in examples})))


def check(examples: Sequence[Example], labels: CorefLabels, path: Path) -> None:
    """Raises InputError if a document for training or scoring has no clusters, or if no document has a mention.

    In CoNLL-2012, a file without labels looks like one in which nothing corefers.
    """
    for example in examples:
        if example.clusters is None:
            raise InputError(
                f"{path}: line {example.line}: the document {example.name!r} has no 'clusters'; add them (an empty"
                " list where nothing corefers) or remove the document"
            )
    if examples and not any(example.clusters for example in examples):  # so looks CoNLL-2012 without labels
        raise InputError(f"{path}: no document has a mention; give a file with coreference")


class PairScorer(nn.Module):
    """Scores a span as another's antecedent (eq. 9) by a feed-forward network of both, their product, and features.

    `sizes` are those of its hidden layers. The first layer is linear in the concatenated parts, so each span's own part
    is computed once, not once per pair.
    """

    def __init__(self, sizes: Sequence[int], feature_dim: int, dropout: float, span_dim: int, n_genres: int) -> None:
        super().__init__()
        first, *others = sizes
        tables = (
            nn.Embedding(len(spans.DISTANCES), feature_dim),
            nn.Embedding(3, feature_dim),
            nn.Embedding(n_genres + 1, feature_dim, padding_idx=0),  # zeros for an unknown genre
        )
        self.features = nn.ModuleList(tables)
        self.sizes = [span_dim, span_dim, span_dim, len(tables) * feature_dim]
        self.first = nn.Linear(sum(self.sizes), first)
        self.others = nn.Sequential(FeedForward(first, others, dropout), nn.Linear([first, *others][-1], 1))
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        vectors: Float[Tensor, "K G"],
        span: Int[Tensor, " pairs"],
        before: Int[Tensor, " pairs"],
        features: Sequence[Int[Tensor, " pairs"]],
    ) -> Float[Tensor, " pairs"]:
        """Returns the scores of pairs of rows of `vectors`; `features` are distance, speaker and genre."""
        of_span, of_before, of_product, of_features = self.first.weight.split(self.sizes, dim=1)
        alone, earlier = nn.functional.linear(vectors, of_span, self.first.bias), vectors @ of_before.T
        products = ops.multiplied_pairs(vectors, of_product, span, before)
        looked_up = [self.dropout(table(rows)) for table, rows in zip(self.features, features, strict=True)]
        hidden = products + alone.index_select(0, span) + earlier.index_select(0, before)
        hidden = hidden + torch.cat(looked_up, dim=1) @ of_features.T
        return self.others(self.dropout(hidden.relu())).squeeze(1)


class CorefModel(nn.Module):
    """The network, which finds the clusters of documents."""

    def __init__(self, config: CorefConfig, inputs: Inputs, labels: CorefLabels) -> None:
        super().__init__()
        self.config, self.inputs, self.labels = config, inputs, labels
        sizes, dropout, feature = config.feed_forward, config.dropout, config.feature_dim
        self.encoder = BiLstm(inputs.dim, config.hidden_size, recurrent_dropout=dropout)
        self.state_dropout = VariationalDropout(dropout)
        state = self.encoder.output_dim + inputs.output_dim
        self.attention = nn.Sequential(FeedForward(state, sizes, dropout), nn.Linear(sizes[-1], 1))
        self.widths = nn.Embedding(config.max_width, feature)
        self.span_dim = 2 * state + inputs.dim + feature
        self.mention = nn.Sequential(FeedForward(self.span_dim, sizes, dropout), nn.Linear(sizes[-1], 1))
        self.pair = PairScorer(sizes, feature, dropout, self.span_dim, len(labels.genres))
        self.dropout = nn.Dropout(dropout)
        self._genres = {genre: row for row, genre in enumerate(labels.genres, 1)}

    def loss(self, tokens: Tokens, examples: Sequence[Example]) -> Float[Tensor, ""]:
        """Returns the negative marginal log-likelihood of a document's gold antecedents, averaged over the documents.

        In training mode, a document longer than `CorefConfig.window` is cut to a random window.
        """
        parts = list(map(self._part, examples))
        total = 0.0 * self.widths.weight.sum()  # keeps the loss in the graph if all documents are empty
        for part, ranking in zip(parts, self.rankings(tokens, parts), strict=True):
            clusters = _gold_clusters(part, ranking.spans)
            gold = spans.same_cluster(clusters, ranking.rows, ranking.mask)
            total = total - spans.marginal_log_likelihood(ranking.scores, ranking.mask, gold).sum()
        return total / max(1, len(examples))

    def decode(self, tokens: Tokens, examples: Sequence[Example], probable: bool = False) -> list[CorefPrediction]:
        """Predicts the clusters of whole documents, and the probability of every link (eq. 1) if it is asked for."""
        predictions = []
        for ranking in self.rankings(tokens, [DocumentPart(each, 0, len(each.sentences)) for each in examples]):
            pairs = ranking.spans.pairs()
            best = spans.best_antecedents(ranking.scores, ranking.rows, ranking.mask)
            links = {span: None if row is None else pairs[row] for span, row in zip(pairs, best, strict=True)}
            linked = _linked(links)
            if probable:
                known = dict(zip(pairs, spans.best_probabilities(ranking.scores, ranking.mask), strict=True))
                linked = replace(linked, probabilities=tuple(known[span] for span, _ in linked.links))
            predictions.append(linked)
        return predictions

    decode_probable = partialmethod(decode, probable=True)

    def _part(self, example: Example) -> DocumentPart:
        """A document; in training, a random window of its sentences, drawn from torch's generator."""
        spare = len(example.sentences) - self.config.window if self.training else 0
        begin = int(torch.randint(spare + 1, ())) if spare > 0 else 0
        return DocumentPart(example, begin, len(example.sentences) - max(0, spare) + begin)

    def rankings(self, tokens: Tokens, parts: Sequence[DocumentPart]) -> Iterator[Ranking]:
        """Yields a ranking for each part; the rows of `tokens` are all sentences of the parts' documents."""
        starts = accumulate((len(part.document.sentences) for part in parts), initial=0)
        rows = [start + row for start, part in zip(starts, parts, strict=False) for row in range(part.begin, part.end)]
        if not any(part.lengths for part in parts):
            rows, mask = (part.to(tokens.lengths.device) for part in spans.antecedents(0, 1))
            none = spans.candidates([], 1).to(mask.device)
            yield from (Ranking(none, torch.zeros(mask.shape, device=mask.device), rows, mask) for _ in parts)
            return
        tokens = tokens.rows(rows)
        vectors, elmo = self.inputs(tokens)
        states = self.state_dropout(self.encoder(vectors, tokens.lengths))
        if elmo is not None:
            states = torch.cat([states, elmo], dim=-1)
        counts = [sum(part.lengths) for part in parts]
        words_of, states_of = vectors[tokens.mask].split(counts), states[tokens.mask].split(counts)
        for part, words, state in zip(parts, words_of, states_of, strict=True):
            yield self._rank(part, words, state)

    def _rank(self, part: DocumentPart, words: Float[Tensor, "T I"], states: Float[Tensor, "T D"]) -> Ranking:
        found = spans.candidates(part.lengths, self.config.max_width).to(words.device)
        described = self.describe(found, words, states)
        mention_scores = self.score_mentions(described)
        limit = max(1, int(self.config.spans_per_token * len(words)))
        kept = spans.prune(found, mention_scores, limit).to(words.device)
        found, mention_scores = found.at(kept), mention_scores.index_select(0, kept)
        vectors = described.at(kept).vectors()
        rows, mask = (part.to(words.device) for part in spans.antecedents(len(kept), self.config.max_antecedents))
        span, place = mask.nonzero(as_tuple=True)
        before = rows[span, place]
        features = [spans.distance_bins(place + 1), self._speakers(part, found, span, before)]
        features.append(torch.full_like(span, self._genres.get(part.document.genre, 0)))
        pairs = self.pair(vectors, span, before, features)
        pairs = pairs + mention_scores.index_select(0, span) + mention_scores.index_select(0, before)
        scores = pairs.new_zeros(mask.shape).index_put((span, place), pairs)
        return Ranking(Spans(found.first + part.offset, found.last + part.offset), scores, rows, mask)

    def describe(self, found: Spans, words: Float[Tensor, "T I"], states: Float[Tensor, "T D"]) -> SpanVectors:
        """Computes the parts of the spans' vectors (eq. 2-6): both ends, the attended words, the width."""
        places = found.first[:, None] + torch.arange(self.config.max_width, device=words.device)
        inside = places <= found.last[:, None]
        places = places.clamp(max=max(0, len(words) - 1))
        weights = masked_softmax(self.attention(states).squeeze(1)[places], inside)
        widths = self.dropout(self.widths(found.last - found.first))
        return SpanVectors(found, states, words, places, weights, widths)

    def score_mentions(self, described: SpanVectors) -> Float[Tensor, " M"]:
        """Scores spans as mentions (eq. 8), without building the vectors of all candidates, of which few are kept."""
        feed_forward, score = self.mention
        first, *others = cast(FeedForward, feed_forward)
        first = cast(Affine, first)
        return score(nn.Sequential(*others)(described.times(first.weight, first.bias))).squeeze(1)

    def _speakers(self, part: DocumentPart, found: Spans, span: Tensor, before: Tensor) -> Int[Tensor, " pairs"]:
        """The speaker feature of each pair: 0 if either is unknown, 1 if they differ, 2 if they are the same."""
        names = [name for sentence in part.document.speakers[part.begin : part.end] for name in sentence]
        ids = {name: number for number, name in enumerate(dict.fromkeys(names), 1)} | dict.fromkeys(UNNAMED, 0)
        speakers = torch.tensor([ids[name] for name in names], dtype=torch.long).to(span.device)[found.first]
        first, second = speakers[span], speakers[before]
        return torch.where((first > 0) & (second > 0), 1 + (first == second).long(), 0)


def _gold_clusters(part: DocumentPart, kept: Spans) -> Int[Tensor, " K"]:
    """The number of each span's gold cluster, or -1 if it has none."""
    clusters = part.document.clusters
    assert clusters is not None, "a document without clusters cannot be learned from"
    number = {mention: row for row, cluster in enumerate(clusters) for mention in cluster}
    return torch.tensor([number.get(span, -1) for span in kept.pairs()], dtype=torch.long).to(kept.first.device)


def _linked(links: dict[Span, Span | None]) -> CorefPrediction:
    return CorefPrediction(spans.clusters_of(links), tuple(sorted(links.items())))


def score(examples: Sequence[Example], predictions: Sequence[CorefPrediction]) -> dict[str, float]:
    """Returns precision, recall and F1 of MUC, B3 and CEAF-phi4, and `f1`, the mean of the three F1, in percent."""
    gold = [example.clusters or () for example in examples]
    return coref_scores(gold, [prediction.clusters for prediction in predictions])


def by_label(examples: Sequence[Example], predictions: Sequence[CorefPrediction]) -> LabelScores:
    """Returns precision, recall, F1 and support of mentions, whatever their clusters."""
    pairs = ([each.clusters or () for each in examples], [each.clusters for each in predictions])
    sides = ([[(mention, "mention") for cluster in one for mention in cluster] for one in side] for side in pairs)
    return label_scores(*sides)


def combine(members: Sequence[Sequence[CorefPrediction]]) -> list[CorefPrediction]:
    """Links each span to the antecedent that most members chose; ties go to the first member."""
    found = []
    for votes in zip(*members, strict=True):
        chosen = [dict(vote.links) for vote in votes]
        every = sorted({span for links in chosen for span in links})
        linked = _linked({span: Counter(links.get(span) for links in chosen).most_common(1)[0][0] for span in every})
        known = [dict(zip(vote.links, vote.probabilities, strict=False)) for vote in votes]
        if any(known):
            means = (sum(each.get(link, 0.0) for each in known) / len(votes) for link in linked.links)
            linked = replace(linked, probabilities=tuple(means))
        found.append(linked)
    return found


def record(example: Example, prediction: CorefPrediction) -> dict[str, Any]:
    """Returns a prediction as a JSON object: the document, its clusters, and the links between their mentions."""
    found = readers.as_record(replace(example, clusters=prediction.clusters))
    known = zip_longest(prediction.links, prediction.probabilities)
    links = [
        {"mention": span, "antecedent": before} | ({} if probability is None else {"probability": probability})
        for (span, before), probability in known
        if before is not None
    ]
    return found | {"links": links}


def write(path: Path, examples: Sequence[Example | None], predictions: Sequence[Any]) -> None:
    """Writes predicted clusters as CoNLL-2012 columns, or as JSON lines to `.jsonl` and `.jsonl.gz`.

    JSON lines have the links with their probabilities, too, and an empty line for an example that is None.
    """
    if suffix_of(path) == ".jsonl":
        write_predictions(path, examples, predictions, record)
        return
    pairs = zip(examples, predictions, strict=True)
    documents = [replace(example, clusters=found.clusters) for example, found in pairs if example is not None]
    readers.write_conll2012(path, documents)


TASK = Task(
    name="coref",
    version="2",
    title="Coreference: which mentions in a document mean the same",
    metric="f1",
    columns=("f1", "muc_f1", "b3_f1", "ceaf_f1"),
    config=CorefConfig,
    labels=CorefLabels,
    network=CorefModel,
    read=read,
    sentences=lambda example: [list(sentence) for sentence in example.sentences],
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
)
