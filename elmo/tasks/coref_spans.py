"""Spans of a document and what links them, for coreference (Lee et al. 2017): no parameters, no files.

Letters beyond those of `elmo.types`: M candidate spans of a document; K spans that are kept; A antecedents of a span;
A span is its first and its last token, both included, counted from the document's first.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

Span = tuple[int, int]

DISTANCES = (1, 2, 3, 4, 5, 8, 16, 32, 64)
"""Where the bins of distances begin (sec. 4): 1, 2, 3, 4, 5-7, 8-15, 16-31, 32-63, 64 and more."""
IMPOSSIBLE = float("-inf")


class Spans(NamedTuple):
    """Spans of one document, in the order of the text: by the first token, then by the last."""

    first: Int[Tensor, " M"]
    last: Int[Tensor, " M"]

    def at(self, rows: Tensor) -> "Spans":
        """Some of them."""
        return Spans(self.first[rows], self.last[rows])

    def to(self, device: torch.device) -> "Spans":
        """The spans on another device."""
        return Spans(self.first.to(device), self.last.to(device))

    def pairs(self) -> list[Span]:
        """As plain numbers."""
        return list(zip(self.first.tolist(), self.last.tolist(), strict=True))


def candidates(lengths: Sequence[int], max_width: int) -> Spans:
    """All spans of at most `max_width` tokens that lie within a sentence."""
    ends = torch.tensor([0, *lengths]).cumsum(0)
    end = torch.repeat_interleave(ends[1:], torch.tensor(lengths, dtype=torch.long))
    first = torch.arange(len(end))[:, None]
    last = first + torch.arange(max_width)
    inside = last < end[:, None]
    return Spans(first.expand_as(last)[inside], last[inside])


def prune(spans: Spans, scores: Float[Tensor, " M"], limit: int) -> Int[Tensor, " K"]:
    """Which spans are kept, in the order of the text: at most `limit`, taken by their scores, the highest first.

    A span that crosses one that was taken before is left out (sec. 5): it begins within it and ends after it, or begins
    before it and ends within it.
    """
    pairs = spans.pairs()
    furthest: dict[int, int] = {}  # first token -> the last one of the longest span taken there
    earliest: dict[int, int] = {}  # last token -> the first one of the longest span taken there
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
    """The bin of DISTANCES that a distance of at least 1 is in."""
    starts = torch.tensor(DISTANCES, device=distances.device)
    return torch.bucketize(distances, starts, right=True) - 1


def antecedents(n_spans: int, limit: int) -> tuple[Int[Tensor, "K A"], Bool[Tensor, "K A"]]:
    """The spans right before each, at most `limit`, the nearest first; and which of the places hold one."""
    n_antecedents = max(0, min(limit, n_spans - 1))
    rows = torch.arange(n_spans)[:, None] - 1 - torch.arange(n_antecedents)
    return rows.clamp(min=0), rows >= 0


def same_cluster(
    clusters: Int[Tensor, " K"], rows: Int[Tensor, "K A"], mask: Bool[Tensor, "K A"]
) -> Bool[Tensor, "K A"]:
    """Which antecedents are in the gold cluster of their span; `clusters` has -1 for a span that is in none."""
    return mask & (clusters[:, None] >= 0) & (clusters[rows] == clusters[:, None])


def marginal_log_likelihood(
    scores: Float[Tensor, "K A"], mask: Bool[Tensor, "K A"], gold: Bool[Tensor, "K A"]
) -> Float[Tensor, " K"]:
    """`log sum_{y in gold(i)} P(y)` of every span (sec. 3, eq. 1), the score of having no antecedent being 0.

    A span none of whose antecedents is gold has "no antecedent" for its gold one.
    """
    none = scores.new_zeros(len(scores), 1)
    scores = scores.masked_fill(~mask, IMPOSSIBLE)
    total = torch.cat([none, scores], dim=1).logsumexp(dim=1)
    has_none = torch.where(gold.any(dim=1, keepdim=True), IMPOSSIBLE, none)
    return torch.cat([has_none, scores.masked_fill(~gold, IMPOSSIBLE)], dim=1).logsumexp(dim=1) - total


def best_antecedents(
    scores: Float[Tensor, "K A"], rows: Int[Tensor, "K A"], mask: Bool[Tensor, "K A"]
) -> list[int | None]:
    """The antecedent of the highest score of every span; None where all scores are below 0, that of having none."""
    if not scores.shape[1]:
        return [None] * len(scores)
    best, place = scores.masked_fill(~mask, IMPOSSIBLE).max(dim=1)
    chosen = rows.gather(1, place[:, None]).squeeze(1).tolist()
    return [row if score > 0 else None for row, score in zip(chosen, best.tolist(), strict=True)]


def clusters_of(links: Mapping[Span, Span | None]) -> tuple[tuple[Span, ...], ...]:
    """The clusters that the links from spans to their antecedents make; a span without any link is in none.

    Spans of several networks may cross: a link that would put two such into one cluster, for which no format of files
    has a place, is left out.
    """
    cluster: dict[Span, list[Span]] = {}
    for span, antecedent in sorted(links.items()):
        if antecedent is None:
            continue
        members, own = (cluster.get(each, [each]) for each in (antecedent, span))
        if own is not members and not any(_cross(one, other) for one in members for other in own):
            members.extend(own)
            cluster.update(dict.fromkeys(members, members))
    return _ordered({id(members): members for members in cluster.values()}.values())


def _cross(one: Span, other: Span) -> bool:
    (first, last), (begin, end) = sorted((one, other))
    return first < begin <= last < end


def _ordered(clusters: Iterable[Iterable[Span]]) -> tuple[tuple[Span, ...], ...]:
    return tuple(sorted(tuple(sorted(cluster)) for cluster in clusters))
