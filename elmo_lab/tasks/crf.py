"""Tag sequences: a linear-chain conditional random field, Viterbi decoding, and the rules of BIO.

The score of the tags `y` of a sentence is `start[y_1] + sum_t emission_t[y_t] + sum_t between[y_t-1, y_t] + end[y_n]`
(Lafferty et al. 2001; Lample et al. 2016, sec. 2.2). In shapes, K is the number of tags, and T counts no boundaries.
A mask is True on the tokens of a sentence and False on the padding after them; an empty sentence has no True.
"""

from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from elmo_lab.tasks.tagging import Span, TagPrediction, spans, tags_of_type

Emissions = Float[Tensor, "B T K"]
Mask = Bool[Tensor, "B T"]
FORBIDDEN = -1e6
"""The score of a forbidden transition, which is finite, so that sums of it stay finite."""


class Transitions(NamedTuple):
    """The scores of a tag sequence besides its emissions."""

    start: Float[Tensor, " K"]
    between: Float[Tensor, "K K"]
    """The rows are the previous tags, and the columns the next ones."""
    end: Float[Tensor, " K"]


def bio_transitions(tags: Sequence[str]) -> Transitions:
    """Returns 0 where BIO allows a transition, and `FORBIDDEN` where it does not.

    `I-X` only follows `B-X` or `I-X`, and any tag may be the last. Raises ValueError for a tag other than `O` or a
    prefix with a name, such as `B-LOC`.
    """
    parts = [_split(tag) for tag in tags]
    allowed = [[_follows(before, after) for after in parts] for before in (("O", ""), *parts)]
    scores = torch.where(torch.tensor(allowed, dtype=torch.bool), 0.0, FORBIDDEN).view(len(tags) + 1, len(tags))
    return Transitions(scores[0], scores[1:], torch.zeros(len(tags)))


def _split(tag: str) -> tuple[str, str]:
    prefix, _, name = tag.partition("-")
    if tag not in ("O", "B", "I") and (prefix not in ("B", "I") or not name):
        raise ValueError(f"tag {tag!r}: expected 'O', 'B' or 'I', or one of 'B-', 'I-' with a name after it")
    return prefix, name


def _follows(before: tuple[str, str], after: tuple[str, str]) -> bool:
    return after[0] != "I" or (before[0] in ("B", "I") and before[1] == after[1])


class Crf(nn.Module):
    """A linear-chain CRF with learned transition, start and end scores, initialised to zero.

    `allowed` (from `bio_transitions`) applies to decoding only. The likelihood is normalised over all tag sequences,
    allowed or not, so a gold sequence that breaks a rule still has a probability; it is just never predicted.
    """

    allowed_start: Tensor
    allowed_between: Tensor
    allowed_end: Tensor

    def __init__(self, n_tags: int, allowed: Transitions | None = None) -> None:
        super().__init__()
        self.start = nn.Parameter(torch.zeros(n_tags))
        self.between = nn.Parameter(torch.zeros(n_tags, n_tags))
        self.end = nn.Parameter(torch.zeros(n_tags))
        rules = allowed or Transitions(torch.zeros(n_tags), torch.zeros(n_tags, n_tags), torch.zeros(n_tags))
        for name, scores in rules._asdict().items():
            self.register_buffer(f"allowed_{name}", scores, persistent=False)

    def log_likelihood(self, emissions: Emissions, tags: Int[Tensor, "B T"], mask: Mask) -> Float[Tensor, " B"]:
        """Returns `log p(tags | sentence)` of each sentence: 0 for an empty one. Tags at padding are ignored."""
        learned = Transitions(self.start, self.between, self.end)
        tags = tags.masked_fill(~mask, 0)
        return sequence_score(emissions, tags, mask, learned) - log_partition(emissions, mask, learned)

    def viterbi(self, emissions: Emissions, mask: Mask) -> list[list[int]]:
        """Returns the best allowed tags of each sentence."""
        return viterbi(emissions, mask, self.transitions())

    def transitions(self) -> Transitions:
        """Returns the learned scores plus those of the rules, which exclude what is not allowed."""
        rules = (self.allowed_start, self.allowed_between, self.allowed_end)
        learned = (self.start, self.between, self.end)
        return Transitions(*(score + rule for score, rule in zip(learned, rules, strict=True)))


def sequence_score(
    emissions: Emissions, tags: Int[Tensor, "B T"], mask: Mask, transitions: Transitions
) -> Float[Tensor, " B"]:
    """Returns the score of one tag sequence per sentence, which is 0 for an empty sentence."""
    batch, length, _ = emissions.shape
    if length == 0:
        return emissions.new_zeros(batch)
    here = emissions.gather(2, tags[:, :, None]).squeeze(2)
    steps = transitions.between[tags[:, :-1], tags[:, 1:]]
    last = tags.gather(1, (mask.sum(dim=1, keepdim=True) - 1).clamp(min=0)).squeeze(1)
    ends = transitions.start[tags[:, 0]] + transitions.end[last]
    return (here * mask).sum(dim=1) + (steps * mask[:, 1:]).sum(dim=1) + ends * mask[:, 0]


def log_partition(emissions: Emissions, mask: Mask, transitions: Transitions) -> Float[Tensor, " B"]:
    """Returns the log-sum-exp of the scores of all sequences (forward algorithm), which is 0 for an empty sentence."""
    batch, length, _ = emissions.shape
    if length == 0:
        return emissions.new_zeros(batch)
    total = _forward(emissions, mask, transitions.start, transitions.between)[-1]
    return torch.logsumexp(total + transitions.end, dim=1) * mask[:, 0]


def span_probabilities(
    emissions: Emissions, mask: Mask, transitions: Transitions, names: Sequence[str], rows: Sequence[Sequence[str]]
) -> list[tuple[float, ...]]:
    """Returns the probability of each span in the BIO tags of `rows`, in order.

    It is the probability that exactly these tokens are a span of this type, summed over all tags of the other tokens
    (forward-backward algorithm).

    `names` are those of the K tags. Emissions and transitions may be any scores; `bio_transitions` leaves out all tag
    sequences that BIO does not allow.
    """
    if not emissions.shape[1]:
        return [() for _ in rows]
    emissions = emissions.double()
    start, between, end = (scores.to(emissions) for scores in transitions)
    before = torch.stack(_forward(emissions, mask, start, between), dim=1)
    after = torch.stack(_backward(emissions, mask, between, end), dim=1)
    ids = {name: number for number, name in enumerate(names)}
    return [
        tuple(
            _span_probability(span, emissions[row], before[row], after[row], (between, end), ids, len(tags))
            for span in spans(tags)
        )
        for row, tags in enumerate(rows)
    ]


def _forward(emissions: Tensor, mask: Tensor, start: Tensor, between: Tensor) -> list[Float[Tensor, "B K"]]:
    """The log-sum of the scores of the tags up to each token, by its tag."""
    into, found = between.T.contiguous(), [start + emissions[:, 0]]  # summing over the last axis is twice as fast
    for step in range(1, emissions.shape[1]):
        further = torch.logsumexp(found[-1][:, None, :] + into, dim=2) + emissions[:, step]
        found.append(torch.where(mask[:, step, None], further, found[-1]))
    return found


def _backward(emissions: Tensor, mask: Tensor, between: Tensor, end: Tensor) -> list[Float[Tensor, "B K"]]:
    """The log-sum of the scores of the tags after each token, by its tag."""
    found = [end.expand(emissions.shape[0], -1)]
    for step in range(emissions.shape[1] - 1, 0, -1):
        further = torch.logsumexp((emissions[:, step] + found[-1])[:, None, :] + between, dim=2)
        found.append(torch.where(mask[:, step, None], further, end))
    return found[::-1]


def _span_probability(
    span: Span, emissions: Tensor, before: Tensor, after: Tensor, scores: tuple[Tensor, Tensor],
    ids: Mapping[str, int], length: int,
) -> float:  # fmt: skip
    begin, stop, kind = span
    between, end = scores
    first, inside = (ids[name] for name in tags_of_type(kind))
    total = before[begin, first]
    last = first
    for token in range(begin + 1, stop):
        total = total + between[last, inside] + emissions[token, inside]
        last = inside
    if stop < length:
        following = between[last] + emissions[stop] + after[stop]
        rest = torch.logsumexp(following.index_fill(0, torch.tensor([inside], device=following.device), -torch.inf), 0)
    else:
        rest = end[last]
    return float((total + rest - torch.logsumexp(before[length - 1] + end, 0)).exp())


def best_tags(
    emissions: Emissions, mask: Mask, transitions: Transitions, names: Sequence[str], probable: bool = False
) -> list[TagPrediction]:
    """Returns the highest-scoring tags of each sentence, by name and, if `probable`, the probability of each span."""
    rows = [[names[tag] for tag in row] for row in viterbi(emissions, mask, transitions)]
    known = span_probabilities(emissions, mask, transitions, names, rows) if probable else repeat((), len(rows))
    return [TagPrediction(tuple(tags), probabilities) for tags, probabilities in zip(rows, known, strict=True)]


def viterbi(emissions: Emissions, mask: Mask, transitions: Transitions) -> list[list[int]]:
    """Returns the highest-scoring tags of each sentence; an empty one has none.

    With `bio_transitions` alone, these are the best well-formed tags of a network without learned transitions.
    Emissions may be any scores: logits and log-probabilities give the same tags.
    """
    length = emissions.shape[1]
    if length == 0:
        return [[] for _ in emissions]
    with torch.no_grad():
        start, between, end = (scores.to(emissions) for scores in transitions)
        into = between.T.contiguous()
        stay = torch.arange(emissions.shape[2], device=emissions.device)
        total = start + emissions[:, 0]
        before = []
        for step in range(1, length):
            best, tag = (total[:, None, :] + into).max(dim=2)
            inside = mask[:, step, None]
            total = torch.where(inside, best + emissions[:, step], total)
            before.append(torch.where(inside, tag, stay))
        path = [(total + end).argmax(dim=1)]
        for tag in reversed(before):
            path.append(tag.gather(1, path[-1][:, None]).squeeze(1))
        rows = torch.stack(path[::-1], dim=1).tolist()
    return [row[:count] for row, count in zip(rows, mask.sum(dim=1).tolist(), strict=True)]
