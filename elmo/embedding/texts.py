"""Embeds texts: a text is split as the training text was, and its sentences' vectors are joined into one array."""

import re
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from elmo.embedding.pooling import Shaping
from elmo.errors import InputError, check_whole, did_you_mean, shown
from elmo.text.given import TEXTS, check_outer, check_sentence, has_items, no_text, place_of
from elmo.text.opening import MARK
from elmo.text.records import Span, text_records
from elmo.text.tokenizer import Tokenizer

LINE_END = re.compile(r"\r\n|\n|\r")
ONE_KIND = "give strings alone, or lists of tokens alone, as one call takes one kind"


@dataclass(frozen=True)
class SplitText:
    """A text and its tokens."""

    text: str
    tokens: tuple[str, ...] = ()
    """The tokens of all its sentences."""
    offsets: tuple[Span, ...] | None = ()
    """Start and end (exclusive) of every token in `text`, in characters; None if unknown."""
    sentences: tuple[Span, ...] = ()
    """The first token of every sentence, and the one after its last."""

    @property
    def ends(self) -> list[int]:
        """For each sentence, the number of tokens at its end."""
        return [end for _, end in self.sentences]

    def part(self, token: int) -> tuple[tuple[str, ...], int]:
        """Returns the tokens of the sentence that has a token, and the token's place in it.

        Raises InputError if there is no such token.
        """
        for first, last in self.sentences:
            if first <= token < last:
                return self.tokens[first:last], token - first
        raise InputError(f"position is {token}; the text has {len(self.tokens)} tokens, counted from 0")

    @classmethod
    def of(cls, text: str, tokenizer: Tokenizer) -> "SplitText":
        """Splits a text as a file with the same lines would be split. Raises InputError for what is no string."""
        if not isinstance(text, str):
            raise no_text(text, "the text", "one string is expected")
        text = str(text)  # spaCy refuses subclasses of str, such as NumPy's
        tokens: list[str] = []
        spans: list[Span] = []
        known, sentences, begin = True, [], 0
        for end in [*LINE_END.finditer(text), None]:
            begin += text.startswith(MARK, begin)
            line = text[begin:] if end is None else text[begin : end.start()]
            for record in text_records(line, tokenizer):
                if not record.tokens:
                    continue
                sentences.append((len(tokens), len(tokens) + len(record.tokens)))
                tokens += record.tokens
                known = known and record.offsets is not None
                first = begin + record.start
                spans += [(first + a, first + b) for a, b in record.offsets or ()]
            begin = 0 if end is None else end.end()
        return cls(text, tuple(tokens), tuple(spans) if known else None, tuple(sentences))

    @classmethod
    def of_tokens(cls, tokens: Sequence[str]) -> "SplitText":
        """Returns a sentence of these tokens, whose text is unknown."""
        return cls("", tuple(tokens), None, ((0, len(tokens)),) if tokens else ())


Text = str | Sequence[str]
"""A text, which is split into sentences and tokens as the model's training text was, or the tokens of a sentence."""


class TextVectors(np.ndarray):
    """The vectors of one text: an array that knows the text's tokens. `Embedder.embed` describes its shape.

    T counts the tokens of all sentences of the text. A copy knows them, too; parts of the array, and results of
    arithmetic and of NumPy's functions, are plain arrays.
    """

    split: SplitText = SplitText("")
    """The text with its tokens, their characters and its sentences; empty for an array whose tokens are unknown."""
    is_pooled: bool = False
    """Whether the vectors of the tokens were pooled into one."""

    @classmethod
    def of(cls, vectors: np.ndarray, split: SplitText, is_pooled: bool = False) -> "TextVectors":
        """Returns the vectors with their text, without a copy."""
        made = vectors.view(cls)
        made.split, made.is_pooled = split, is_pooled
        return made

    @property
    def text(self) -> str:
        """The text as given."""
        return self.split.text

    @property
    def tokens(self) -> tuple[str, ...]:
        """The tokens of the text: `vectors[..., t, :]` is the vector of `tokens[t]`."""
        return self.split.tokens

    @property
    def offsets(self) -> tuple[Span, ...] | None:
        """Start and end (exclusive) of every token in `text`, in characters; None if unknown."""
        return self.split.offsets

    @property
    def sentences(self) -> tuple[Span, ...]:
        """The first token of every sentence, and the one after its last."""
        return self.split.sentences

    def word(self, word: str, occurrence: int = 0) -> np.ndarray:
        """Returns the vector of a word, (D,) or (N, D). `occurrence` counts its occurrences among the tokens from 0.

        Raises InputError if the text does not have that occurrence.
        """
        if self.is_pooled:
            raise InputError("the tokens are pooled into one vector; embed the text without pool to have each word's")
        if not isinstance(word, str):
            raise InputError(f"the word is {shown(word)}; a token is expected, as a string")
        check_whole("occurrence", occurrence, -len(self.tokens))
        places = [place for place, token in enumerate(self.tokens) if token == word]
        if not places:
            meant = did_you_mean(word, self.tokens)
            raise InputError(f"{word!r} is not among the tokens, {shown(' '.join(self.tokens), 80)}{meant}")
        if not -len(places) <= occurrence < len(places):
            raise InputError(f"occurrence is {occurrence}; {word!r} is {len(places)} times among the tokens, from 0 on")
        return self.view(np.ndarray)[..., places[occurrence], :]

    # NumPy tells a copy from an array with other axes or order, such as `.T` or `.take`, only by the method.
    def copy(self, order: Any = "C") -> "TextVectors":
        """Returns a copy, which knows the text."""
        return TextVectors.of(self.view(np.ndarray).copy(order), self.split, self.is_pooled)

    def astype(self, dtype: Any, *arguments: Any, **options: Any) -> Any:
        """Returns the vectors as another type of number; they know the text."""
        return TextVectors.of(self.view(np.ndarray).astype(dtype, *arguments, **options), self.split, self.is_pooled)

    def __copy__(self) -> "TextVectors":
        return self.copy()

    def __deepcopy__(self, memo: Any) -> "TextVectors":
        return self.copy()

    def __array_wrap__(self, array: np.ndarray, context: Any = None, return_scalar: bool = False) -> Any:
        if array is self:  # arithmetic in place
            return self
        plain = np.asarray(array)
        return plain if plain.ndim else plain[()]

    def __array_function__(self, function: Any, types: Any, arguments: Any, options: Any) -> Any:
        found = super().__array_function__(function, types, arguments, options)
        return found.view(np.ndarray) if isinstance(found, TextVectors) else found

    def __getitem__(self, key: Any) -> Any:
        return self.view(np.ndarray)[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.view(np.ndarray))

    def __repr__(self) -> str:
        if not self.text:
            return repr(self.view(np.ndarray))
        return f"<TextVectors {self.shape} of {self.text[:60]!r}: {len(self.tokens)} tokens>"

    def __reduce__(self) -> Any:
        return TextVectors.of, (self.view(np.ndarray), self.split, self.is_pooled)


def told_apart(given: Any) -> tuple[bool, Iterator[Any]]:
    """Returns whether the first of `given` is a text, and an iterator over all of `given`.

    Strings are texts, and so are texts that are already split; anything else is a sentence, given as its tokens.
    Raises InputError if `given` has no order or is a table, and if its first item is neither.
    """
    check_outer(given, f"a text, or {TEXTS}")
    _warn_of_tokens(given)
    rows = iter(given)
    for first in rows:
        if not isinstance(first, str | SplitText) and not has_items(first):
            raise no_text(first, place_of("text", 0, given), ONE_KIND)
        return isinstance(first, str | SplitText), chain([first], rows)
    return False, rows


def split_texts(rows: Iterable[Any], given: Any, tokenizer: Callable[[], Tokenizer]) -> Iterator[SplitText]:
    """Yields the texts, split. Raises InputError, with the row in `given`, for an item that is missing or no text."""
    for number, text in enumerate(rows):
        if isinstance(text, SplitText):
            yield text
        elif isinstance(text, str):
            yield SplitText.of(text, tokenizer())
        else:
            raise no_text(text, place_of("text", number, given), ONE_KIND)


def texts_and_tokens(given: Any) -> list[Text]:
    """Returns texts, or sentences as tokens, which may be mixed, as a list. The tokens are lists.

    Raises InputError for a string, whose letters would be texts, and, with its row, for an item that is neither.
    """
    if getattr(given, "ndim", 1) > 1:
        raise InputError("texts in one dimension are expected, such as a list or a column: frame['text']")
    found: list[Text] = []
    for row, text in enumerate(check_outer(given, TEXTS)):
        if isinstance(text, str):
            found.append(text)
        elif has_items(text):
            found.append(check_sentence(text, row, given))
        else:
            raise no_text(text, place_of("text", row, given), "a string or a list of tokens is expected")
    return found


def _warn_of_tokens(given: Any) -> None:
    """Warns of a list that looks like the tokens of one sentence: single words, and a mark without letters."""
    if not isinstance(given, list | tuple) or len(given) < 2 or not all(isinstance(word, str) for word in given):
        return
    if all(len(word.split()) == 1 for word in given) and not all(any(map(str.isalnum, word)) for word in given):
        warnings.warn(
            f"{list(given)[:8]!r} looks like the tokens of one sentence, but a list of strings is a list of texts: put"
            " the tokens in a list of their own, [tokens]",
            stacklevel=4,
        )


def embed_texts(
    texts: Iterable[SplitText],
    read: Callable[[Iterator[list[str]]], Iterator[np.ndarray]],
    shape: Shaping,
    is_pooled: bool,
) -> Iterator[TextVectors]:
    """Yields the vectors of every text. `read` gives one array (N, T, D) or (T, D) per sentence, in order."""
    waiting: deque[SplitText] = deque()  # the texts that the reader has read ahead

    def sentences() -> Iterator[list[str]]:
        for text in texts:
            waiting.append(text)
            for begin, end in text.sentences or [(0, 0)]:  # an empty text is read as an empty sentence
                yield list(text.tokens[begin:end])

    arrays = read(sentences())
    for first in arrays:
        text = waiting.popleft()
        parts = [first, *(next(arrays) for _ in text.sentences[1:])]
        whole = first if len(parts) == 1 else np.concatenate(parts, axis=-2)
        del first, parts
        yield TextVectors.of(shape(whole), text, is_pooled)
        del whole, text
