"""Scores of labelled text, in percent, as the official scorers count them.

- spans: precision, recall and F1 over all chunks (conlleval of CoNLL-2000)
- semantic roles: the same over arguments (srl-eval of CoNLL-2005)
- SQuAD 1.1: exact match and F1 of words, against the best of the answers

Coreference is scored in `coref_scores.py`.
"""

import re
import string
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from elmo.tasks.tagging import spans

ARTICLES = re.compile(r"\b(a|an|the)\b")
NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
CONTINUES = "C-"
VERB = "V"

Argument = tuple[str, tuple[tuple[int, int], ...]]
"""A role and the pieces of its argument: first token and that after the last."""


@dataclass(frozen=True)
class Counts:
    """How many things are right, and what they are measured against. Sums are over documents."""

    right_of_predicted: int | float = 0
    predicted: int | float = 0
    right_of_gold: int | float = 0
    gold: int | float = 0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(
            self.right_of_predicted + other.right_of_predicted,
            self.predicted + other.predicted,
            self.right_of_gold + other.right_of_gold,
            self.gold + other.gold,
        )

    @property
    def precision(self) -> float:
        """In percent; 0 where nothing was predicted."""
        return 100 * self.right_of_predicted / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        """In percent; 0 where there was nothing to find."""
        return 100 * self.right_of_gold / self.gold if self.gold else 0.0

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall; 0 where both are."""
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0

    def named(self, prefix: str = "") -> dict[str, float]:
        """Precision, recall and F1 by name."""
        return {f"{prefix}precision": self.precision, f"{prefix}recall": self.recall, f"{prefix}f1": self.f1}


def accuracy(gold: Sequence[Hashable], predicted: Sequence[Hashable]) -> float:
    """The share of the known labels (those that are not None) that are found, in percent; 0 where there is none."""
    right = [ours == theirs for ours, theirs in zip(gold, predicted, strict=True) if ours is not None]
    return 100 * sum(right) / len(right) if right else 0.0


def span_scores(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> dict[str, float]:
    """`precision`, `recall` and `f1` of chunks, given sentences of tags (BIO, IOB1 or IOBES).

    A chunk is right if its tokens and its type are. Tags that break their scheme are read as conlleval reads them.
    """
    return _exact(map(spans, gold), map(spans, predicted)).named()


def role_scores(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> dict[str, float]:
    """`precision`, `recall` and `f1` of arguments, given the BIO tags of each predicate; V is not scored.

    An argument is right if its role and all of its pieces are: see `arguments`.
    """
    return _exact(map(_scored, gold), map(_scored, predicted)).named()


def arguments(tags: Iterable[str]) -> list[Argument]:
    """The arguments of one predicate's tags.

    A chunk C-X is one more piece of the last argument X before it; without one it is an argument X itself.
    """
    found: list[Argument] = []
    latest: dict[str, int] = {}
    for begin, end, kind in spans(tags):
        role = kind.removeprefix(CONTINUES)
        if kind != role and role in latest:
            found[latest[role]] = (role, (*found[latest[role]][1], (begin, end)))
        else:
            latest[role] = len(found)
            found.append((role, ((begin, end),)))
    return found


def squad_scores(answers: Sequence[Sequence[str]], predicted: Sequence[str]) -> dict[str, float]:
    """`em` and `f1`: means over questions, each scored by the best of its answers, of which there is at least one."""
    pairs = list(zip(answers, predicted, strict=True))
    count = max(1, len(pairs))
    exact = sum(any(normalised(text) == normalised(answer) for answer in golds) for golds, text in pairs)
    overlap = sum(max(word_f1(answer, text) for answer in golds) for golds, text in pairs)
    return {"em": 100 * exact / count, "f1": 100 * overlap / count}


def normalised(text: str) -> str:
    """Lower case, without punctuation (ASCII), articles and superfluous white space (Rajpurkar et al. 2016)."""
    return " ".join(ARTICLES.sub(" ", text.lower().translate(NO_PUNCTUATION)).split())


def word_f1(answer: str, text: str) -> float:
    """F1, from 0 to 1, of the words that two normalised texts have in common, each as often as in both."""
    gold, predicted = normalised(answer).split(), normalised(text).split()
    common = (Counter(gold) & Counter(predicted)).total()
    return 2 * common / (len(gold) + len(predicted)) if common else 0.0


def _scored(tags: Iterable[str]) -> list[Argument]:
    return [argument for argument in arguments(tags) if argument[0] != VERB]


def _exact(gold: Iterable[Iterable[Hashable]], predicted: Iterable[Iterable[Hashable]]) -> Counts:
    """Counts of things that are right if they are among the gold ones of their sentence."""
    total = Counts()
    for ours, theirs in zip(map(set, gold), map(set, predicted), strict=True):
        right = len(ours & theirs)
        total += Counts(right, len(theirs), right, len(ours))
    return total
