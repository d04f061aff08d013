"""Scores of labelled text, in percent, counted like the official scorers.

- Spans have precision, recall and F1 over all chunks (conlleval of CoNLL-2000).
- Semantic roles have the same over arguments (srl-eval of CoNLL-2005).
- SQuAD 1.1 has exact match and F1 of words, against the best answer.

`coref_scores.py` has the scores of coreference.
"""

import re
import string
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from elmo_lab.tasks.tagging import spans

ARTICLES = re.compile(r"\b(a|an|the)\b")
NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
CONTINUES = "C-"
VERB = "V"

Argument = tuple[str, tuple[tuple[int, int], ...]]
"""A role and the pieces of its argument, each as its first token and the one after its last."""


Labelled = tuple[Hashable, str]
"""An item, such as the place of a span, and its label."""
LabelScores = dict[str, dict[str, float | int]]
"""The scores of each label, and its `support`, the number of gold items, by their names."""


@dataclass(frozen=True)
class Counts:
    """The numbers of correct, predicted and gold items, summed over documents."""

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
        """The share of predictions that are right, in percent; 0 if nothing was predicted."""
        return 100 * self.right_of_predicted / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        """The share of gold items that were predicted, in percent; 0 if there are no gold items."""
        return 100 * self.right_of_gold / self.gold if self.gold else 0.0

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall; 0 if both are 0."""
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0

    def named(self, prefix: str = "") -> dict[str, float]:
        """Returns precision, recall and F1 by name."""
        return {f"{prefix}precision": self.precision, f"{prefix}recall": self.recall, f"{prefix}f1": self.f1}


def accuracy(gold: Sequence[Hashable], predicted: Sequence[Hashable]) -> float:
    """Returns the percentage of known labels (not None) that are predicted, or 0 if no label is known."""
    right = [ours == theirs for ours, theirs in zip(gold, predicted, strict=True) if ours is not None]
    return 100 * sum(right) / len(right) if right else 0.0


def span_scores(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> dict[str, float]:
    """Returns `precision`, `recall` and `f1` of chunks, given sentences of tags (BIO, IOB1 or IOBES).

    A chunk is right if its tokens and type are. Tags that break their scheme are read as conlleval reads them.
    """
    return _exact(map(spans, gold), map(spans, predicted)).named()


def role_scores(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> dict[str, float]:
    """Returns `precision`, `recall` and `f1` of arguments, given the BIO tags of each predicate; V is not scored.

    An argument is right if its role and all its pieces are, as `arguments_of` gives them.
    """
    return _exact(map(scored_arguments, gold), map(scored_arguments, predicted)).named()


def label_scores(gold: Iterable[Iterable[Labelled]], predicted: Iterable[Iterable[Labelled]]) -> LabelScores:
    """Returns `precision`, `recall`, `f1` and `support` (the number of gold items) of each label, by its name.

    A predicted item is right if it is among the gold items of its example, with the same label.
    """
    total: dict[str, Counts] = {}
    for ours, theirs in zip(map(set, gold), map(set, predicted), strict=True):
        for each in ours | theirs:
            right = int(each in ours and each in theirs)
            counts = Counts(right, int(each in theirs), right, int(each in ours))
            total[each[1]] = total.get(each[1], Counts()) + counts
    return {label: total[label].named() | {"support": int(total[label].gold)} for label in sorted(total)}


def arguments_of(tags: Iterable[str]) -> list[Argument]:
    """Returns the arguments in the tags of one predicate.

    A chunk C-X continues the last argument X before it; if there is none, the chunk is an argument X itself.
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
    """Returns the means of `em` and `f1` over questions, each scored by its best answer; each has at least one."""
    pairs = list(zip(answers, predicted, strict=True))
    count = max(1, len(pairs))
    exact = sum(any(normalize_answer(text) == normalize_answer(answer) for answer in golds) for golds, text in pairs)
    overlap = sum(max(word_f1(answer, text) for answer in golds) for golds, text in pairs)
    return {"em": 100 * exact / count, "f1": 100 * overlap / count}


def normalize_answer(text: str) -> str:
    """Lower-cases a text and removes (ASCII) punctuation, articles and extra whitespace (Rajpurkar et al. 2016)."""
    return " ".join(ARTICLES.sub(" ", text.lower().translate(NO_PUNCTUATION)).split())


def word_f1(answer: str, text: str) -> float:
    """Returns F1, from 0 to 1, of the words that two texts share when normalised, repetitions included."""
    gold, predicted = normalize_answer(answer).split(), normalize_answer(text).split()
    common = (Counter(gold) & Counter(predicted)).total()
    return 2 * common / (len(gold) + len(predicted)) if common else 0.0


def scored_arguments(tags: Iterable[str]) -> list[Argument]:
    """Returns the arguments, without the predicate itself."""
    return [argument for argument in arguments_of(tags) if argument[0] != VERB]


def _exact(gold: Iterable[Iterable[Hashable]], predicted: Iterable[Iterable[Hashable]]) -> Counts:
    """Counts items. A predicted item is right if it is among the gold items of its sentence."""
    total = Counts()
    for ours, theirs in zip(map(set, gold), map(set, predicted), strict=True):
        right = len(ours & theirs)
        total += Counts(right, len(theirs), right, len(ours))
    return total
