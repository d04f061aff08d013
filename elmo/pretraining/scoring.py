"""What a language model with its softmax says about single tokens: their probability, and likely substitutes.

- `score`: `log p` of every token given the words before it (forward) and given those after it (backward)
- `substitutes`: the most probable words at a position

Every sentence starts from the zero state. Probabilities are those of the full softmax over the vocabulary.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from elmo.errors import InputError
from elmo.formats import Model
from elmo.model.bilm import BiLM
from elmo.ops.packed_softmax import PackedSoftmax
from elmo.pretraining.perplexity import softmax_of
from elmo.text.batching import check_tokens, to_batch
from elmo.text.characters import BOS, EOS

Side = Literal["both", "forward", "backward"]
"""The words before the position, those after it, or the product of the two distributions."""
BATCH_TOKENS = 2048
"""Tokens of a batch, padding included."""


@dataclass(frozen=True)
class Scores:
    """Natural log-probabilities of one sentence. An unknown word has those of `<UNK>`."""

    tokens: tuple[str, ...]
    forward: Float[np.ndarray, " T"]
    """Log-probability of every token given the tokens before it."""
    backward: Float[np.ndarray, " T"]
    """Log-probability of every token given the tokens after it."""
    known: Bool[np.ndarray, " T"]
    """Whether a token is in the vocabulary."""
    end: float
    """Log-probability that the sentence ends here, given all tokens (forward)."""
    begin: float
    """Log-probability that it begins here, given all tokens (backward)."""


@dataclass(frozen=True)
class Substitute:
    """A word for a position, with its log-probabilities there."""

    word: str
    log_probability: float
    """Given the requested side; for both, the normalized product of the two distributions."""
    forward: float
    backward: float


class Scorer:
    """Scores tokens with a model and its softmax.

    `packed` is the model's network, if already packed. Raises InputError if the model has no softmax or vocabulary.
    """

    def __init__(self, model: Model, packed: BiLM | None = None) -> None:
        self.vocabulary, self.lm_head = softmax_of(model)
        self._table = self.vocabulary if model.config.char_cnn is None else None
        self._softmax = PackedSoftmax(self.lm_head.weight, self.lm_head.bias)
        self._ids_per_token = model.config.ids_per_token
        self._bilm: BiLM = packed or model.bilm().packed()

    def score(self, sentences: Iterable[Sequence[str]]) -> Iterator[Scores]:
        """The scores of every sentence, in order, for any number of sentences.

        Raises InputError for a string instead of a list of tokens.
        """
        if isinstance(sentences, str):
            check_tokens(sentences)
        batch: list[list[str]] = []
        longest = 0
        for sentence in sentences:
            check_tokens([sentence])
            longest = max(longest, len(sentence) + 2)
            if batch and (len(batch) + 1) * longest > BATCH_TOKENS:
                yield from self._score(batch)
                batch, longest = [], len(sentence) + 2
            batch.append(list(sentence))
        if batch:
            yield from self._score(batch)

    def substitutes(self, sentence: Sequence[str], position: int, k: int = 10, side: Side = "both") -> list[Substitute]:
        """The `k` most probable words at token `position` (from 0), best first.

        The list omits boundaries and `<UNK>`; the probabilities include them.
        Raises InputError if there is no such token.
        """
        if not 0 <= position < len(sentence):
            raise InputError(f"position is {position}; the sentence has {len(sentence)} tokens, counted from 0")
        return self.substitutes_at(sentence, [position], k, side)[0]

    @torch.inference_mode()
    def substitutes_at(
        self, sentence: Sequence[str], positions: Iterable[int], k: int = 10, side: Side = "both"
    ) -> list[list[Substitute]]:
        """`substitutes` at several positions of a sentence that is read once."""
        if side not in get_args(Side):
            raise InputError(f"side is {side!r}; one of {', '.join(get_args(Side))} is expected")
        if k < 1:
            raise InputError(f"k is {k}; at least 1 is expected")
        forward, backward = self._top([sentence])[0]
        hidden = (torch.stack([forward[position], backward[position + 1]]) for position in positions)
        return [self._ranked(both, k, side) for both in hidden]

    def _ranked(self, hidden: Float[Tensor, "2 P"], k: int, side: Side) -> list[Substitute]:
        each = torch.log_softmax((hidden @ self.lm_head.weight.T + self.lm_head.bias).double(), dim=1)  # 2 V
        scores = {"both": torch.log_softmax(each.sum(0), dim=0), "forward": each[0], "backward": each[1]}[side]
        special = [*self.vocabulary.ids([BOS, EOS]), self.vocabulary.unknown]
        ranked = scores.index_fill(0, torch.tensor(special, device=scores.device), -torch.inf)
        best = ranked.topk(min(k, len(scores) - len(set(special)))).indices.tolist()
        words = self.vocabulary.words
        return [Substitute(words[i], float(scores[i]), float(each[0, i]), float(each[1, i])) for i in best]

    def _score(self, sentences: list[list[str]]) -> Iterator[Scores]:
        ids = [self.vocabulary.ids([BOS, *sentence, EOS]) for sentence in sentences]
        hidden = torch.cat([half for top in self._top(sentences) for half in top])
        targets = [target for own in ids for target in (*own[1:], *own[:-1])]
        found = self._softmax.log_probabilities(hidden, torch.tensor(targets, device=hidden.device)).double().numpy()
        for sentence in sentences:
            forward, backward, found = np.split(found, [len(sentence) + 1, 2 * len(sentence) + 2])
            known = np.array([word in self.vocabulary for word in sentence], dtype=bool)
            yield Scores(tuple(sentence), forward[:-1], backward[1:], known, float(forward[-1]), float(backward[0]))

    @torch.inference_mode()
    def _top(self, sentences: Sequence[Sequence[str]]) -> list[tuple[Float[Tensor, "t P"], Float[Tensor, "t P"]]]:
        """What the softmax sees of a sentence: forward at `<S>` and all tokens, backward at all tokens and `</S>`."""
        batch = to_batch(sentences, self._ids_per_token, self._table)
        top = self._bilm(batch).layers[-1]  # B T D
        halves = [row[:length].chunk(2, dim=-1) for row, length in zip(top, batch.lengths.tolist(), strict=True)]
        return [(forward[:-1], backward[1:]) for forward, backward in halves]


def score(model: Model, sentences: Iterable[Sequence[str]]) -> Iterator[Scores]:
    """`Scorer.score` for a model that is used once."""
    return Scorer(model).score(sentences)


def substitutes(
    model: Model, sentence: Sequence[str], position: int, k: int = 10, side: Side = "both"
) -> list[Substitute]:
    """`Scorer.substitutes` for a model that is used once."""
    return Scorer(model).substitutes(sentence, position, k, side)
