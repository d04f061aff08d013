"""Scores single tokens by a language model with its softmax, and finds likely substitutes for them.

- `score` gives `log p` of every token given the words before it (forward) and given those after it (backward).
- `substitutes` gives the most probable words at a position.

Every sentence starts from the zero state. Scores are those of the full softmax over the vocabulary. Substitutes are
known words, and their probabilities are shares among these: `<UNK>` stands for thousands of words at once.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, get_args

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from elmo.errors import InputError, check_whole
from elmo.forking import settle_child
from elmo.formats import Model
from elmo.model.bilm import BiLM, reading_backwards, reorder
from elmo.model.lm_head import log_uniform
from elmo.ops.softmax import PackedSoftmax
from elmo.pretraining.perplexity import softmax_of
from elmo.text.characters import encode_words
from elmo.text.given import check_sentences, token_lists
from elmo.text.marks import BOS, EOS
from elmo.text.normalization import respell_before, respell_function

Side = Literal["both", "forward", "backward"]
"""The words before the position, those after it, or both: the product of their distributions, divided by the prior."""
BATCH_TOKENS = 2048
"""The most tokens of a batch, padding included."""
STEPS, WORDS, SOFTMAX_ROWS = 256, 1024, 512
"""The size of a step of long work: tokens of a sentence, words to encode, and tokens whose words are predicted."""
PRIOR = 1.0
"""The exponent of the prior that is taken out of the product of both directions; measured in docs/serving.md."""


@dataclass(frozen=True)
class Scores:
    """Natural log-probabilities of one sentence. An unknown word has those of `<UNK>`."""

    tokens: tuple[str, ...]
    forward: Float[np.ndarray, " T"]
    """The log-probability of every token given the tokens before it."""
    backward: Float[np.ndarray, " T"]
    """The log-probability of every token given the tokens after it."""
    known: Bool[np.ndarray, " T"]
    """Whether a token is in the vocabulary."""
    end: float
    """The log-probability that the sentence ends here, given all tokens (forward)."""
    begin: float
    """The log-probability that it begins here, given all tokens (backward)."""


@dataclass(frozen=True)
class Substitute:
    """A word for a position, with its log-probabilities there."""

    word: str
    log_probability: float
    """The log-probability given the requested side, among the known words."""
    forward: float
    """The log-probability given the tokens before it, among all words, `<UNK>` included, as in `Scores`."""
    backward: float
    """The log-probability given the tokens after it, among all words."""


class Scorer:
    """Scores tokens with a model and its softmax, in memory that does not grow with a sentence.

    `packed` is the model's network, if it is packed or on its device already. `between` is called between two steps of
    long work, for programs that do other work meanwhile; what it raises ends the work. Raises InputError if the model
    has no softmax or vocabulary.
    """

    def __init__(self, model: Model, packed: BiLM | None = None, between: Callable[[], object] | None = None) -> None:
        self.vocabulary, self.lm_head = softmax_of(model)
        characters = partial(encode_words, max_characters=model.config.ids_per_token)
        self._respell = respell_function(model.normalize)
        self._encode = respell_before(
            self.vocabulary.encode if model.config.char_cnn is None else characters, model.normalize
        )
        self._bilm: BiLM = packed or model.bilm().packed()
        self._device = self._bilm.initial_state(1).hidden.device
        self.lm_head.to(self._device)
        on_cpu = self._device.type == "cpu"
        self._softmax = PackedSoftmax(self.lm_head.weight, self.lm_head.bias) if on_cpu else self.lm_head
        special = [*self.vocabulary.ids([BOS, EOS]), self.vocabulary.unknown]
        self._special = torch.tensor(sorted(set(special)), device=self._device)
        self._between = between or (lambda: None)

    def score(self, sentences: Iterable[Sequence[str]]) -> Iterator[Scores]:
        """Yields the scores of every sentence, in order, for any number of sentences.

        Raises InputError for a string instead of a list of tokens.
        """
        batch: list[list[str]] = []
        longest = 0
        for sentence in check_sentences(sentences):
            longest = max(longest, len(sentence) + 2)
            if batch and (len(batch) + 1) * longest > BATCH_TOKENS:
                yield from self._score(batch)
                self._between()
                batch, longest = [], len(sentence) + 2
            batch.append(sentence)
        if batch:
            yield from self._score(batch)

    def substitutes(self, sentence: Sequence[str], position: int, k: int = 10, side: Side = "both") -> list[Substitute]:
        """Returns the `k` most probable words at token `position` (from 0), best first, among the known words.

        Raises InputError if there is no such token.
        """
        if not 0 <= position < len(sentence):
            raise InputError(f"position is {position}; the sentence has {len(sentence)} tokens, counted from 0")
        return self.substitutes_at(sentence, [position], k, side)[0]

    @torch.inference_mode()
    def substitutes_at(
        self, sentence: Sequence[str], positions: Iterable[int], k: int = 10, side: Side = "both"
    ) -> list[list[Substitute]]:
        """Returns `substitutes` at several positions of a sentence, which is read once."""
        if side not in get_args(Side):
            raise InputError(f"side is {side!r}; one of {', '.join(get_args(Side))} is expected")
        check_whole("k", k)
        scores = self.distributions(sentence, positions)
        return [self._ranked(each, k, side) for each in scores]

    @torch.inference_mode()
    def distributions(self, sentence: Sequence[str], positions: Iterable[int]) -> Iterator[Float[Tensor, "2 V"]]:
        """Yields the log-probabilities of all words at each position, given the tokens before it and after it."""
        forward, backward = self._top(token_lists([sentence]))  # each 1 T+1 P
        for position in positions:
            hidden = torch.stack([forward[0, position], backward[0, position + 1]])
            yield torch.log_softmax((hidden @ self.lm_head.weight.T + self.lm_head.bias).double(), dim=1)

    def _ranked(self, each: Float[Tensor, "2 V"], k: int, side: Side) -> list[Substitute]:
        scores = {"both": each.sum(0) - self._prior(), "forward": each[0], "backward": each[1]}[side]
        scores = torch.log_softmax(scores.index_fill(0, self._special, -torch.inf), dim=0)
        best = scores.topk(min(k, len(scores) - len(self._special))).indices.tolist()
        words = self.vocabulary.words
        return [Substitute(words[i], float(scores[i]), float(each[0, i]), float(each[1, i])) for i in best]

    def _prior(self) -> Float[Tensor, " V"]:
        """The log-prior of words, which both directions know without the sentence, so their product has it twice."""
        return PRIOR * log_uniform(len(self.vocabulary)).to(self._device).double().log()

    @torch.inference_mode()
    def _score(self, sentences: list[list[str]]) -> Iterator[Scores]:
        forward, backward = self._top(sentences)  # each B T+1 P
        lengths = [len(sentence) + 1 for sentence in sentences]
        hidden = torch.cat([side[row, :length] for row, length in enumerate(lengths) for side in (forward, backward)])
        read = [[self._respell(word) for word in sentence] for sentence in sentences]
        ids = [self.vocabulary.ids([BOS, *words, EOS]) for words in read]
        targets = torch.tensor([target for own in ids for target in (*own[1:], *own[:-1])], device=self._device)
        found = self._log_probabilities(hidden, targets).double().cpu().numpy()
        for sentence, words in zip(sentences, read, strict=True):
            ahead, behind, found = np.split(found, [len(sentence) + 1, 2 * len(sentence) + 2])
            known = np.array([word in self.vocabulary for word in words], dtype=bool)
            yield Scores(tuple(sentence), ahead[:-1], behind[1:], known, float(ahead[-1]), float(behind[0]))

    def _log_probabilities(self, hidden: Float[Tensor, "M P"], targets: Int[Tensor, " M"]) -> Float[Tensor, " M"]:
        """`log p(target)` of each row, some rows at a time."""
        found = []
        for rows, own in zip(hidden.split(SOFTMAX_ROWS), targets.split(SOFTMAX_ROWS), strict=True):
            if found:
                self._between()
            found.append(self._softmax.log_probabilities(rows, own))
        return torch.cat(found)

    @torch.inference_mode()
    def _top(self, sentences: Sequence[Sequence[str]]) -> tuple[Float[Tensor, "B t P"], Float[Tensor, "B t P"]]:
        """The inputs of the softmax: forward at `<S>` and all tokens, backward at all tokens and `</S>`, padded.

        Both directions read some steps at a time, from the state after the steps before.
        """
        rows = [[BOS, *sentence, EOS] for sentence in sentences]
        lengths = torch.tensor([len(row) for row in rows], device=self._device)
        places = {word: number for number, word in enumerate(dict.fromkeys(word for row in rows for word in row))}
        words, ids = list(places), torch.zeros(len(rows), int(lengths.max()), dtype=torch.long, device=self._device)
        for number, row in enumerate(rows):
            ids[number, : len(row)] = torch.tensor([places[word] for word in row], device=self._device)
        turned = reading_backwards(lengths, ids.shape[1])
        ids = torch.stack([ids, ids.gather(1, turned)]).transpose(1, 2)  # 2 T B
        vectors = self._encoded(words)
        state, parts = self._bilm.initial_state(len(rows)), []
        for same in ids[:, :-1].split(STEPS, dim=1):  # nobody asks what follows the last token
            if parts:
                self._between()
            outputs, state = self._bilm.read(vectors[same], state, same=same)
            parts.append(outputs[-1])
        forward, backward = torch.cat(parts, dim=1).transpose(1, 2)  # B t P
        first = nn.functional.pad(backward, (0, 0, 0, 1))  # it becomes as wide as the places
        return forward, reorder(first, turned)[:, 1:]

    def _encoded(self, words: list[str]) -> Float[Tensor, "W P"]:
        """The context-free vectors of words, some at a time."""
        settle_child()
        parts = []
        for begin in range(0, len(words), WORDS):
            if parts:
                self._between()
            ids = torch.from_numpy(self._encode(words[begin : begin + WORDS])).long()
            parts.append(self._bilm.encode_words(ids.to(self._device)))
        return torch.cat(parts)


def score(model: Model, sentences: Iterable[Sequence[str]]) -> Iterator[Scores]:
    """Yields the scores of `Scorer.score`, for a model that is used once."""
    return Scorer(model).score(sentences)


def substitutes(
    model: Model, sentence: Sequence[str], position: int, k: int = 10, side: Side = "both"
) -> list[Substitute]:
    """Returns the words of `Scorer.substitutes`, for a model that is used once."""
    return Scorer(model).substitutes(sentence, position, k, side)
