"""Turns words into the ids of the whole word and of its code points, as ELMoForManyLangs reads them.

It keeps the conventions of the original program, which the weights expect:

- A word begins with the id that the tables call the end of a word, and ends with that of the beginning.
- Every word is padded to the maximum length, and the padding is read like any other character.
- A word that is too long is truncated, also before its id is looked up.
- A sentence boundary is a word of three characters, the second of which is the boundary itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from elmo.errors import InputError
from elmo.text.marks import BOS, EOS

if TYPE_CHECKING:
    import numpy as np
    from jaxtyping import Int

BEGIN_SENTENCE, END_SENTENCE = "<bos>", "<eos>"
FIRST, LAST = "<eow>", "<bow>"
UNKNOWN, PADDING = "<oov>", "<pad>"
BOUNDARIES = {BOS: BEGIN_SENTENCE, EOS: END_SENTENCE}
NEEDED_CHARACTERS = (BEGIN_SENTENCE, END_SENTENCE, UNKNOWN, PADDING, "<bow>", "<eow>")
NEEDED_WORDS = (UNKNOWN, PADDING)


LEAST = 3
"""The fewest characters of a word: one, and both marks."""


def is_length(max_characters: object, may_be_none: bool) -> bool:
    """Returns whether this is a valid maximum length of a word."""
    if max_characters is None:
        return may_be_none
    return type(max_characters) is int and max_characters >= LEAST


@dataclass(frozen=True)
class Lexicon:
    """The ids of words and of characters, from 0; one of the two may be absent."""

    words: Mapping[str, int] | None = field(repr=False)
    characters: Mapping[str, int] | None = field(repr=False)
    max_characters: int | None
    """The most characters of a word, both marks included; None, only without characters, if words are not truncated."""

    def __post_init__(self) -> None:
        for what, table, needed in (
            ("words", self.words, NEEDED_WORDS),
            ("characters", self.characters, NEEDED_CHARACTERS),
        ):
            missing = [form for form in needed if table is not None and form not in table]
            if missing:
                raise InputError(f"the table of {what} has no {' or '.join(missing)}")
        if not is_length(self.max_characters, self.characters is None):
            raise InputError(f"max_characters is {self.max_characters!r}; at least {LEAST} is expected")

    def encode(self, words: Sequence[str]) -> "Int[np.ndarray, 'W C']":
        """Returns a row per word: its own id if there are words, then its characters' ids if there are any; all + 1.

        `<S>` and `</S>` are the sentence boundaries, as in the other models.
        """
        import numpy as np  # a model is described without it

        end = None if self.max_characters is None else self.max_characters - 2
        words = [BOUNDARIES.get(word) or word[:end] for word in words]
        parts = []
        if self.words is not None:
            unknown = self.words[UNKNOWN]
            parts.append(np.array([[self.words.get(word, unknown)] for word in words], np.int64).reshape(-1, 1))
        if self.characters is not None:
            assert self.max_characters is not None
            table, unknown = self.characters, self.characters[UNKNOWN]
            ids = np.full((len(words), self.max_characters), table[PADDING], np.int64)
            for row, word in zip(ids, words, strict=True):
                forms = [word] if word in (BEGIN_SENTENCE, END_SENTENCE) else word
                own = [table[FIRST], *(table.get(form, unknown) for form in forms), table[LAST]]
                row[: len(own)] = own
            parts.append(ids)
        return np.concatenate(parts, axis=1) + 1
