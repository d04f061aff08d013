"""Finds paragraphs in another language, by the frequent small words that spaCy lists for it, and by the script."""

import re
from collections import Counter
from importlib import import_module
from unicodedata import name

from elmo.errors import InputError
from elmo.text.tokenizer import TextConfig, Tokenizer

OTHERS = ("en", "de", "fr", "it", "es", "pt", "nl", "la", "ru", "el")
"""The languages that are looked for."""
SHORTEST = 10
"""The fewest words of a paragraph whose language can be told."""
LEAST, TIMES, DISTINCT = 0.3, 2, 5
"""A paragraph is in another language if its share of that language's small words is at least `LEAST` and `TIMES` that
of the own language's, and `DISTINCT` of them are different."""
WORD = re.compile(r"[^\W\d_]+")


class Languages:
    """Recognizes paragraphs in another language than `own`, a code such as "la".

    Raises InputError if spaCy does not know the language.
    """

    def __init__(self, own: str) -> None:
        Tokenizer(TextConfig(language=own))
        self._own = _small_words(own)
        if not self._own:
            raise InputError(
                f"language {own!r}: spaCy has no list of its small words, to tell languages apart; leave out --language"
            )
        self._others = {other: _small_words(other) for other in OTHERS if other != own}
        self._script = _script("".join(self._own))

    def foreign(self, paragraph: str) -> str | None:
        """Returns the code of another language or the name of another script; None if neither is recognized."""
        words = WORD.findall(paragraph.lower())
        if len(words) < SHORTEST:
            return None
        script = _script("".join(words))
        if script != self._script:
            return script
        own = sum(word in self._own for word in words)
        counts = {other: sum(word in small for word in words) for other, small in self._others.items()}
        other = max(counts, key=lambda each: counts[each])
        is_foreign = counts[other] >= LEAST * len(words) and counts[other] > TIMES * own
        return other if is_foreign and len(self._others[other].intersection(words)) >= DISTINCT else None


def _small_words(language: str) -> frozenset[str]:
    """The stop words of spaCy with two letters or more; none if spaCy has no list."""
    try:
        words = import_module(f"spacy.lang.{language}.stop_words").STOP_WORDS
    except ImportError:
        return frozenset()
    return frozenset(word.lower() for word in words if len(word) > 1)


def _script(text: str) -> str:
    """The script of most letters: the first word of their names in Unicode, such as "latin"."""
    counts = Counter(name(letter, "other").split()[0].lower() for letter in text[:1000])
    return counts.most_common(1)[0][0]
