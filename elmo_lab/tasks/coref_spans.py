"""Spans of a document and links between them, for coreference (Lee et al. 2017). There are no parameters here.

Shapes use the letters of `elmo.types` and M (candidate spans of a document), K (kept spans), A (antecedents of a span).
A span is its first and last token, inclusive, counted from the start of the document.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

Span = tuple[int, int]

DISTANCES = (1, 2, 3, 4, 5, 8, 16, 32, 64)
"""The lower bounds of the distance bins (sec. 4): 1, 2, 3, 4, 5-7, 8-15, 16-31, 32-63, 64 and more."""
IMPOSSIBLE = float("-inf")


class Spans(NamedTuple):
    """The spans of one document, ordered by first token, then by last."""

    first: Int[Tensor, " M"]
    last: Int[Tensor, " M"]

    def at(self, rows: Tensor) -> "Spans":
        """Selects spans."""
        return Spans(self.first[rows], self.last[rows])

    def to(self, device: torch.device) -> "Spans":
        """Copies the spans to another device."""
        return Spans(self.first.to(device), self.last.to(device))

    def pairs(self) -> list[Span]:
        """Returns the spans as Python numbers."""
        return list(zip(self.first.tolist(), self.last.tolist(), strict=True))


class SpanVectors(NamedTuple):
    """The parts of the spans' vectors (eq. 2-6): the states at both ends, a weighted sum of words, and the width.

    G is the size of a span's vector, `2 * D + I + F`; L is the number of tokens in the longest span.
    """

    spans: Spans
    states: Float[Tensor, "T D"]
    words: Float[Tensor, "T I"]
    places: Int[Tensor, "M L"]
    """The tokens of each span, padded with other tokens, whose weight is 0."""
    weights: Float[Tensor, "M L"]
    """The weight of each token in the sum of words; 0 for a token that is not in the span."""
    widths: Float[Tensor, "M F"]

    def at(self, rows: Tensor) -> "SpanVectors":
        """Selects spans."""
        places, weights, widths = (part[rows] for part in (self.places, self.weights, self.widths))
        return self._replace(spans=self.spans.at(rows), places=places, weights=weights, widths=widths)

    def vectors(self) -> Float[Tensor, "M G"]:
        """Joins the parts."""
        return torch.cat([*self._parts(self.states, self.states, self.words), self.widths], dim=1)

    def times(self, weight: Float[Tensor, "N G"], bias: Float[Tensor, " N"]) -> Float[Tensor, "M N"]:
        """Computes `vectors() weight^T + bias`, but multiplies each token's parts once, not once per span."""
        sizes = [self.states.shape[1], self.states.shape[1], self.words.shape[1], self.widths.shape[1]]
        of_first, of_last, of_words, of_width = (part.T for part in weight.split(sizes, dim=1))
        parts = self._parts(self.states @ of_first + bias, self.states @ of_last, self.words @ of_words)
        return sum(parts, start=self.widths @ of_width)

    def _parts(self, first: Tensor, last: Tensor, words: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Looks up each span in three tables of tokens: at its first token, at its last, and as a weighted sum."""
        head = functional.embedding_bag(self.places, words, per_sample_weights=self.weights, mode="sum")
        return first.index_select(0, self.spans.first), last.index_select(0, self.spans.last), head


def candidates(lengths: Sequence[int], max_width: int) -> Spans:
    """Returns all spans of at most `max_width` tokens that lie within a sentence."""
    ends = torch.tensor([0, *lengths]).cumsum(0)
    end = torch.repeat_interleave(ends[1:], torch.tensor(lengths, dtype=torch.long))
    first = torch.arange(len(end))[:, None]
    last = first + torch.arange(max_width)
    inside = last < end[:, None]
    return Spans(first.expand_as(last)[inside], last[inside])


def prune(spans: Spans, scores: Float[Tensor, " M"], limit: int) -> Int[Tensor, " K"]:
    """Returns the indices of the kept spans in text order: at most `limit`, taken by descending score.

    A span that crosses a span taken earlier is dropped (sec. 5): it starts inside and ends after it, or starts before
    and ends inside it.
    """
    pairs = spans.pairs()
    furthest: dict[int, int] = {}  # first token -> last token of the longest kept span that starts there
    earliest: dict[int, int] = {}  # last token -> first token of the longest kept span that ends there
    taken: list[int] = []
    for row in scores.detach().argsort(descending=True, stable=True).tolist():
        if len(taken) == limit:
            break
        first, last = pairs[row]
        crosses = any(furthest.get(place, -1) > last for place in range(first + 1, last + 1)) or any(
            earliest.get(place, first) < first for place in range(first, last)
        )
        if not crosses:
            taken.append(row)
            furthest[first] = max(last, furthest[first]) if first in furthest else last
            earliest[last] = min(first, earliest[last]) if last in earliest else first
    return torch.tensor(sorted(taken), dtype=torch.long)


def distance_bins(distances: Int[Tensor, "*any"]) -> Int[Tensor, "*any"]:
    """Returns the bin in DISTANCES of each distance, which is at least 1."""
    starts = torch.tensor(DISTANCES, device=distances.device)
    return torch.bucketize(distances, starts, right=True) - 1


def antecedents(n_spans: int, limit: int) -> tuple[Int[Tensor, "K A"], Bool[Tensor, "K A"]]:
    """Returns the spans right before each span, at most `limit`, nearest first, and a mask of those that exist."""
    n_antecedents = max(0, min(limit, n_spans - 1))
    rows = torch.arange(n_spans)[:, None] - 1 - torch.arange(n_antecedents)
    return rows.clamp(min=0), rows >= 0


def same_cluster(
    clusters: Int[Tensor, " K"], rows: Int[Tensor, "K A"], mask: Bool[Tensor, "K A"]
) -> Bool[Tensor, "K A"]:
    """Returns a mask of the antecedents in the gold cluster of their span; `clusters` is -1 for a span in none."""
    return mask & (clusters[:, None] >= 0) & (clusters[rows] == clusters[:, None])


def marginal_log_likelihood(
    scores: Float[Tensor, "K A"], mask: Bool[Tensor, "K A"], gold: Bool[Tensor, "K A"]
) -> Float[Tensor, " K"]:
    """Returns `log sum_{y in gold(i)} P(y)` of each span (sec. 3, eq. 1), in which "no antecedent" has score 0.

    "No antecedent" is gold for a span if none of its antecedents is.
    """
    none = scores.new_zeros(len(scores), 1)
    scores = scores.masked_fill(~mask, IMPOSSIBLE)
    total = torch.cat([none, scores], dim=1).logsumexp(dim=1)
    has_none = torch.where(gold.any(dim=1, keepdim=True), IMPOSSIBLE, none)
    return torch.cat([has_none, scores.masked_fill(~gold, IMPOSSIBLE)], dim=1).logsumexp(dim=1) - total


def best_antecedents(
    scores: Float[Tensor, "K A"], rows: Int[Tensor, "K A"], mask: Bool[Tensor, "K A"]
) -> list[int | None]:
    """Returns the best antecedent of each span, or None if no score is above 0, which "no antecedent" has."""
    if not scores.shape[1]:
        return [None] * len(scores)
    best, place = scores.masked_fill(~mask, IMPOSSIBLE).max(dim=1)
    chosen = rows.gather(1, place[:, None]).squeeze(1).tolist()
    return [row if score > 0 else None for row, score in zip(chosen, best.tolist(), strict=True)]


def best_probabilities(scores: Float[Tensor, "K A"], mask: Bool[Tensor, "K A"]) -> list[float]:
    """Returns the probability of the choice of `best_antecedents` for each span, which may be "no antecedent"."""
    none = scores.new_zeros(len(scores), 1)
    every = torch.cat([none, scores.masked_fill(~mask, IMPOSSIBLE)], dim=1)
    return every.softmax(dim=1).amax(dim=1).tolist()


def clusters_of(links: Mapping[Span, Span | None]) -> tuple[tuple[Span, ...], ...]:
    """Returns the clusters that the links from spans to antecedents form; a span without a link is in none.

    Spans of several networks may cross. A link that would put two crossing spans into one cluster is dropped, since
    no file format can represent it.
    """
    cluster: dict[Span, list[Span]] = {}
    for span, antecedent in sorted(links.items()):
        if antecedent is None:
            continue
        members, own = (cluster.get(each, [each]) for each in (antecedent, span))
        if own is not members and not any(_cross(one, other) for one in members for other in own):
            members.extend(own)
            cluster.update(dict.fromkeys(members, members))
    distinct = {id(members): members for members in cluster.values()}.values()
    return tuple(sorted(tuple(sorted(members)) for members in distinct))


def _cross(one: Span, other: Span) -> bool:
    (first, last), (begin, end) = sorted((one, other))
    return first < begin <= last < end
