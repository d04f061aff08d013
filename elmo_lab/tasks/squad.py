"""Answers to questions as spans of a passage: bidirectional attention with self-attention (Clark and Gardner 2017).

The task is SQuAD 1.1 (Rajpurkar et al. 2016). The network is Clark and Gardner's model of one paragraph (their sec. 3),
as the ELMo paper simplified it (supplement A.4):

- One bidirectional GRU encodes question and passage; ELMo at the output joins its vectors.
- Every token of the passage attends to the question, and the question to the passage (Seo et al. 2017).
- The passage attends to itself, in a residual block.
- Linear layers predict where the answer starts and where it ends. Before them, Clark and Gardner have a GRU for its
  start, and a second one, which reads the first, for its end.

If a question has several answers, the loss sums their probabilities (their sec. 3.2, the summed objective).
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from elmo.config import check_range, check_sizes
from elmo.errors import InputError
from elmo.model.affine import Affine
from elmo.text.records import suffix_of
from elmo.text.tokenizer import TextConfig, Tokenizer
from elmo_lab.tasks.inputs import Inputs, Tokens
from elmo_lab.tasks.layers import BiGru, VariationalDropout, attend, masked_softmax, matrix_attention
from elmo_lab.tasks.readers import write_json_lines
from elmo_lab.tasks.readers_squad import Answer, Passage, passage_of, read_squad, write_squad
from elmo_lab.tasks.scores import LabelScores, squad_scores
from elmo_lab.tasks.task import Task

QUESTION_WORDS = ("who", "whom", "whose", "what", "which", "when", "where", "why", "how")


@dataclass(frozen=True)
class SquadConfig:
    """The network's settings; the defaults are the paper's (A.4)."""

    hidden_dim: int = 90
    """The size of every GRU, per direction; the linear layers have twice as many numbers."""
    answer_encoders: bool = False
    """Whether Clark and Gardner's two GRUs stand before the layers that predict start and end."""
    dropout: float = 0.2
    """The variational dropout on the input and output of the encoder and of the self-attention's GRU, and on the
    vectors from which the answer is predicted."""
    max_answer: int = 17
    """The most tokens of a predicted answer."""
    n_best: int = 20
    """The most answers that a prediction lists."""

    def __post_init__(self) -> None:
        check_sizes(self, ("hidden_dim", "max_answer", "n_best"), "model.")
        check_range(self, ("dropout",), 0, 1, "model.")


@dataclass(frozen=True)
class SquadExample:
    """A question on a passage."""

    question: tuple[str, ...]
    passage: Passage
    answers: tuple[Answer, ...] = ()
    """The answers, possibly repeated; empty if they are unknown."""
    id: str = ""


@dataclass(frozen=True)
class SquadLabels:
    """The labels of the task, which are empty, since every span of a passage can be an answer."""


@dataclass(frozen=True)
class Candidate:
    """A span of the passage as an answer."""

    text: str
    """The text of the span in the passage."""
    first: int
    last: int
    probability: float
    """The probability that the answer starts at `first`, times the probability that it ends at `last`."""


@dataclass(frozen=True)
class SquadPrediction:
    """The answer, and all candidates, the most probable first."""

    text: str
    candidates: tuple[Candidate, ...]


class Bounds(NamedTuple):
    """The log-probabilities that the answer starts, and that it ends, at each token of the passage."""

    first: Float[Tensor, "B T"]
    last: Float[Tensor, "B T"]


def read(path: Path, unlabelled: bool = False) -> list[SquadExample]:
    """Reads and tokenises the questions of a SQuAD file, or of the Hub's JSON lines, by spaCy's rules for English.

    With `unlabelled`, answers are neither needed nor read, and all questions are kept.
    """
    found = read_squad(path, Tokenizer(TextConfig()).tokens, unlabelled)
    return [SquadExample(question.tokens, question.passage, question.answers, question.id) for question in found]


def unlabelled(sentences: Sequence[Sequence[str]], line: int = 0) -> SquadExample:
    """Makes an example of two token lists, question and passage; the passage's text is its tokens joined by spaces.

    The id of the example is the number of its line.
    """
    if len(sentences) != 2:
        raise InputError(f"{len(sentences)} tab-separated sentences; question, tab, passage is expected")
    question, passage = map(tuple, sentences)
    return SquadExample(question, passage_of(" ".join(passage), lambda _: list(passage)), id=str(line or ""))


def of_text(parts: Sequence[str], tokenizer: Tokenizer, line: int = 0) -> list[SquadExample]:
    """Makes the example of a line, which is a question, a tab and a passage; the id is the number of the line."""
    if len(parts) != 2:
        raise InputError(f"{len(parts)} tab-separated texts; question, tab, passage is expected")
    question, passage = parts
    return [SquadExample(tuple(tokenizer.tokens(question)), passage_of(passage, tokenizer.tokens), id=str(line or ""))]


def training(examples: Sequence[SquadExample], config: SquadConfig) -> list[SquadExample]:
    """Returns the questions that have an answer in their passage."""
    return [each for each in examples if any(answer.first is not None for answer in each.answers)]


def check(examples: Sequence[SquadExample], labels: SquadLabels | None = None, path: Path | None = None) -> None:
    """Raises InputError if a question for training or scoring has no answer."""
    where = "" if path is None else f"{path}: "
    for example in examples:
        if not example.answers:
            raise InputError(f"{where}question {example.id!r} has no answers; give a file with answers (SQuAD 1.1)")


class Trilinear(nn.Module):
    """The score `u . left + v . right + w . (left * right)` of two vectors (Seo et al. 2017, eq. 1)."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.left = nn.Linear(dim, 1, bias=False)  # a bias would be the same for all choices
        self.right = nn.Linear(dim, 1, bias=False)
        self.product = nn.Linear(dim, 1, bias=False)
        for part in (self.left, self.right, self.product):
            nn.init.xavier_uniform_(part.weight)

    def forward(self, left: Float[Tensor, "B S I"], right: Float[Tensor, "B T I"]) -> Float[Tensor, "B S T"]:
        products = matrix_attention(left * self.product.weight, right)
        return products + self.left(left) + self.right(right).transpose(1, 2)


class BiAttention(nn.Module):
    """Attention of a passage to a question and back (Seo et al. 2017).

    It gives `[p; q~; p * q~; p * p~]` for every token p of the passage. q~ is the mean of the question's tokens,
    weighted by the attention of p; p~ is the mean of all the passage's tokens, each weighted by its best score with a
    token of the question.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.score = Trilinear(dim)

    def forward(
        self,
        passage: Float[Tensor, "B S I"],
        question: Float[Tensor, "B T I"],
        passage_mask: Bool[Tensor, "B S"],
        question_mask: Bool[Tensor, "B T"],
    ) -> Float[Tensor, "B S 4*I"]:
        scores = self.score(passage, question)
        seen = attend(scores, question, question_mask)
        lowest = torch.finfo(scores.dtype).min
        best = scores.masked_fill(~question_mask[:, None, :], lowest).amax(dim=2)
        # If the question is empty, all tokens of the passage weigh the same.
        best = best.masked_fill(~question_mask.any(dim=1, keepdim=True), 0.0)
        whole = masked_softmax(best, passage_mask)[:, None, :] @ passage
        return torch.cat([passage, seen, passage * seen, passage * whole], dim=-1)


class SelfAttention(nn.Module):
    """Attention of a passage's tokens to the others, and to a zero vector that has a learned score.

    It gives `[p; p~; p * p~]` for every token p; p~ is the mean of the other tokens and the zero vector, weighted
    by the attention of p.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.score = Trilinear(dim)
        self.nothing = nn.Parameter(torch.tensor(-1.0))

    def forward(self, vectors: Float[Tensor, "B T I"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, "B T 3*I"]:
        scores = self.score(vectors, vectors)
        itself = torch.eye(scores.shape[1], dtype=torch.bool, device=scores.device)
        allowed = functional.pad(mask[:, None, :] & ~itself, (0, 1), value=True)
        scores = torch.cat([scores, self.nothing.expand(*scores.shape[:2], 1)], dim=2)
        seen = masked_softmax(scores, allowed)[:, :, :-1] @ vectors
        return torch.cat([vectors, seen, vectors * seen], dim=-1)


class SquadModel(nn.Module):
    """The network, which scores each token of the passage as the first and as the last of the answer."""

    def __init__(self, config: SquadConfig, inputs: Inputs, labels: SquadLabels) -> None:
        super().__init__()
        self.config = config
        self.inputs = inputs
        size = 2 * config.hidden_dim  # a GRU's output has both directions
        self.encoder = BiGru(inputs.dim, config.hidden_dim, dropout=config.dropout)
        self.dropout = VariationalDropout(config.dropout)
        self.attention = BiAttention(size + inputs.output_dim)
        self.projection = Affine(4 * (size + inputs.output_dim), size)
        self.block_encoder = BiGru(size, config.hidden_dim, dropout=config.dropout)
        self.self_attention = SelfAttention(size)
        self.block_projection = Affine(3 * size, size)
        self.first_encoder = BiGru(size, config.hidden_dim) if config.answer_encoders else None
        self.first_score = nn.Linear(size, 1)
        self.last_encoder = BiGru(2 * size, config.hidden_dim) if config.answer_encoders else None
        self.last_score = nn.Linear(size, 1)

    def forward(self, tokens: Tokens) -> Bounds:
        """Returns the bounds of B answers; questions and passages alternate in the 2 B rows of `tokens`."""
        question, passage = (tokens.rows(range(first, len(tokens.lengths), 2)) for first in (0, 1))
        mask, lengths = passage.mask, passage.lengths
        vectors = self.attention(self._encoded(passage), self._encoded(question), mask, question.mask)
        vectors = functional.relu(self.projection(vectors))
        block = self.dropout(self.block_encoder(vectors, lengths))
        block = functional.relu(self.block_projection(self.self_attention(block, mask)))
        vectors = self.dropout(vectors + block)
        first = last = vectors
        if self.first_encoder is not None and self.last_encoder is not None:
            first = self.first_encoder(vectors, lengths)
            last = self.last_encoder(torch.cat([vectors, first], dim=-1), lengths)
        scores = (self.first_score(first).squeeze(-1), self.last_score(last).squeeze(-1))
        scores = (each.masked_fill(~mask, torch.finfo(each.dtype).min) for each in scores)
        return Bounds(*(functional.log_softmax(each, dim=1) for each in scores))

    def loss(self, tokens: Tokens, examples: Sequence[SquadExample]) -> Float[Tensor, ""]:
        """Returns the mean over questions of the negative log-likelihood of the answers' first and last tokens."""
        bounds = self(tokens)
        gold = torch.zeros(2, *bounds.first.shape, dtype=torch.bool)
        for row, example in enumerate(examples):
            assert example.answers, "a question without an answer cannot be learned from"
            for answer in example.answers:
                if answer.first is not None:
                    gold[0, row, answer.first] = gold[1, row, answer.last] = True
        found = torch.stack(bounds).masked_fill(~gold.to(bounds.first.device), -math.inf).logsumexp(dim=2)
        return -found.sum(dim=0).mean()

    def decode(self, tokens: Tokens, examples: Sequence[SquadExample]) -> list[SquadPrediction]:
        """Predicts the best spans of at most `max_answer` tokens; an empty passage gives an empty text."""
        bounds = self(tokens)
        return [
            _prediction(bounds.first[row], bounds.last[row], example.passage, self.config)
            for row, example in enumerate(examples)
        ]

    def _encoded(self, tokens: Tokens) -> Float[Tensor, "B T I"]:
        vectors, output = self.inputs(tokens)
        encoded = self.dropout(self.encoder(vectors, tokens.lengths))
        return encoded if output is None else torch.cat([encoded, output], dim=-1)


def score(examples: Sequence[SquadExample], predictions: Sequence[SquadPrediction]) -> dict[str, float]:
    """Returns exact match and F1 of words, as SQuAD's script does. Raises InputError if a question has no answer."""
    check(examples)
    answers = [[answer.text for answer in example.answers] for example in examples]
    return squad_scores(answers, [prediction.text for prediction in predictions])


def by_label(examples: Sequence[SquadExample], predictions: Sequence[SquadPrediction]) -> LabelScores:
    """Returns exact match, F1 and support by the question's word, such as who or when; the last group is other."""
    groups: dict[str, list[tuple[SquadExample, SquadPrediction]]] = {}
    for pair in zip(examples, predictions, strict=True):
        words = (token.lower() for token in pair[0].question)
        groups.setdefault(next((word for word in words if word in QUESTION_WORDS), "other"), []).append(pair)
    return {
        word: score(*map(list, zip(*groups[word], strict=True))) | {"support": len(groups[word])}
        for word in sorted(groups)
    }


def combine(members: Sequence[Sequence[SquadPrediction]]) -> list[SquadPrediction]:
    """Ranks candidates by their mean probability, which is 0 from members that do not list them."""
    found = []
    for votes in zip(*members, strict=True):
        listed = {(each.first, each.last): each for vote in votes for each in vote.candidates}
        sums = dict.fromkeys(listed, 0.0)
        for vote in votes:
            for each in vote.candidates:
                sums[each.first, each.last] += each.probability
        order = sorted(listed, key=lambda span, sums=sums: -sums[span])
        candidates = tuple(replace(listed[span], probability=sums[span] / len(votes)) for span in order)
        found.append(SquadPrediction(candidates[0].text if candidates else "", candidates))
    return found


def record(example: SquadExample, prediction: SquadPrediction) -> dict[str, Any]:
    """Returns a prediction as a JSON object: the answer, its probability, and all candidates."""
    return {
        "id": example.id,
        "question": " ".join(example.question),
        "answer": prediction.text,
        "probability": prediction.candidates[0].probability if prediction.candidates else 0.0,
        "candidates": [asdict(candidate) for candidate in prediction.candidates],
    }


def write(path: Path, examples: Sequence[SquadExample | None], predictions: Sequence[Any]) -> None:
    """Writes the predicted text by question id, for SQuAD's script; to `.jsonl`, all candidates of each question.

    An example that is None is left out. Raises InputError if two questions have the same id.
    """
    kept = [(example, found) for example, found in zip(examples, predictions, strict=True) if example is not None]
    if suffix_of(path) == ".jsonl":
        write_json_lines(path, (record(*pair) for pair in kept))
        return
    for name, number in Counter(example.id for example, _ in kept).items():
        if number > 1:
            raise InputError(f"{path}: {number} questions have the id {name!r}; give each its own")
    write_squad(path, {example.id: found.text for example, found in kept})


def _prediction(first: Tensor, last: Tensor, passage: Passage, config: SquadConfig) -> SquadPrediction:
    """Finds the best spans from the bounds of one passage with its padding."""
    length = len(passage.tokens)
    if not length:
        return SquadPrediction("", ())
    reach = min(config.max_answer, length)
    ends = functional.pad(last[:length], (0, reach - 1), value=-math.inf)
    spans = first[:length, None] + ends.unfold(0, reach, 1)  # (length, reach): first token, and number after it
    values, places = spans.flatten().topk(min(config.n_best, length))
    found = []
    for value, place in zip(values.exp().tolist(), places.tolist(), strict=True):
        begin, more = divmod(place, reach)
        text = passage.text[passage.offsets[begin][0] : passage.offsets[begin + more][1]]
        found.append(Candidate(text, begin, begin + more, value))
    return SquadPrediction(found[0].text, tuple(found))


TASK = Task(
    name="squad",
    version="1",
    title="Question answering: the span of a passage that answers",
    metric="f1",
    columns=("em", "f1"),
    place="both",
    config=SquadConfig,
    labels=SquadLabels,
    network=SquadModel,
    read=read,
    sentences=lambda example: [list(example.question), list(example.passage.tokens)],
    labels_of=lambda examples: SquadLabels(),
    score=score,
    by_label=by_label,
    combine=combine,
    write=write,
    record=record,
    unlabelled=unlabelled,
    of_text=of_text,
    read_all=partial(read, unlabelled=True),
    check=check,
    training=training,
)
