"""Splits text into tokens and sentences, with settings that the model stores, so that it reads text as in training.

- Tokens come from spaCy's rules for the language (no download), or from white space if the text is tokenised.
- Sentences come from a rule over tokens, from pysbd, or from lines.
"""

import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any, Literal

from elmo.config import to_dict
from elmo.errors import InputError, in_one_line, pip_line
from elmo.text.normalization import check_steps

MAX_STRINGS = 500_000  # spaCy keeps every word it has seen: about 0.1 GB at this number
LONG_WORD = re.compile(r"(\S{1001,})")  # such words are not split: brackets in a row take spaCy quadratic time
SPACES = re.compile(r"[ \t\n\r\f\v\x1c-\x1f]+")
PART = re.compile(r".{1,10000}\S*", re.DOTALL)  # cut after a word
# For languages without spaces, whose tokenizers take quadratic time or refuse a long text: cut after a sentence.
UNSPACED_PART = re.compile(r".{1,10000}(?:(?<=[\s。！？])|\Z)|.{1,10000}", re.DOTALL)  # noqa: RUF001
VERSION = 5  # the version of the tokens: counts of another version are not reused

# The marks that end a sentence in the scripts in use, and the marks after them that still belong to the sentence.
TERMINATORS = frozenset(".!?…‼⁇⁈⁉。！？｡．؟۔।॥។៕።፧፨՜՞։܀܁܂᠃᠉")  # noqa: RUF001
CLOSERS = frozenset("'”’»›)]}」』】）") | {"''"}  # noqa: RUF001
ELLIPSES = frozenset({"..", "...", "…"})
CONTINUERS = frozenset(",;:")


@dataclass(frozen=True)
class TextConfig:
    """How raw text becomes sentences of tokens."""

    tokens: Literal["spacy", "whitespace"] = "spacy"
    """What separates tokens; `whitespace` is for text that is already tokenised."""
    sentences: Literal["rule", "pysbd", "line"] = "rule"
    """What ends a sentence: marks among the tokens, pysbd's decision on the raw text, or the line."""
    language: str = "en"
    """The ISO code of the language, for spaCy and pysbd."""
    normalize: tuple[str, ...] = ()
    """The spelling that the model reads, in steps such as `nfc`, `lower`, `no-macrons` and `v>u`: see
    `elmo.text.normalization`. Tokens stay as they are."""

    def __post_init__(self) -> None:
        check_steps(self.normalize)


def text_values(text: TextConfig) -> dict[str, Any]:
    """Returns the settings as JSON values, without an empty `normalize`, as the packaged models have them."""
    values = to_dict(text)
    return values if text.normalize else {name: value for name, value in values.items() if name != "normalize"}


WHITESPACE = TextConfig("whitespace", "line")
"""The settings for tokenised text, and for models that do not say how their text was split, as those of bilm-tf."""


def text_of(text: TextConfig | None, pretokenized: bool, lines: bool = False) -> TextConfig:
    """Returns how to split text for a model: as its training text (`text`), or at white space with `pretokenized`.

    With `lines`, a line is one sentence, whatever ends sentences in the training text. If `text` is None, white space
    separates tokens, too; a warning says so unless `pretokenized` is set.
    """
    if not pretokenized and text is None:
        warnings.warn(
            "the model does not say how its text was split, so tokens are separated by whitespace, and a line is a"
            " sentence: if they are, say so with --pretokenized (a probe: pretokenized=true; Python: give lists of"
            " tokens); else split the text first",
            stacklevel=2,
        )
    if text is None:
        return WHITESPACE
    if pretokenized:
        return replace(WHITESPACE, normalize=text.normalize)
    return replace(text, sentences="line") if lines else text


class Tokenizer:
    """Splits text by `config`. Not thread-safe."""

    def __init__(self, config: TextConfig) -> None:
        self.config = config
        self._spacy: Any = _load_spacy(config.language) if config.tokens == "spacy" else None
        self._segment = _load_pysbd(config.language) if config.sentences == "pysbd" else None
        self._is_unspaced = self._spacy is not None and not _splits_at_spaces(self._spacy)

    def tokens(self, line: str) -> list[str]:
        """Returns the tokens of one sentence. spaCy does not get lone surrogates, which UTF-8 cannot express."""
        if self._spacy is None:
            return split_at_spaces(line)
        if self._is_unspaced:
            return [token for part in UNSPACED_PART.findall(line) for token in self._spacy_tokens(part)]
        if len(line) > 1000 and max(map(len, line.split()), default=0) > 1000:
            parts = LONG_WORD.split(line)
            return [token for i, part in enumerate(parts) for token in ([part] if i % 2 else self._spacy_tokens(part))]
        return self._spacy_tokens(line)

    def parts(self, line: str) -> Iterator[list[str]]:
        """Yields `tokens` of some 10,000 characters at a time, for callers that may stop before the end of a long line.

        The tokens are the same, unless a part ends within characters that spaCy could take for a smiley.
        """
        parts = UNSPACED_PART if self._is_unspaced else PART
        return (self.tokens(part[0]) for part in parts.finditer(line))

    def sentences(self, paragraph: str) -> list[list[str]]:
        """Returns the tokens of every sentence of a paragraph; no sentence is empty."""
        return [found for piece in self.pieces(paragraph) for found in self.divided(self.tokens(piece))]

    def pieces(self, paragraph: str) -> Iterator[str]:
        """Yields the paragraph, or what pysbd makes of it; the tokens of each piece are to be `divided`."""
        yield from (paragraph,) if self._segment is None else self._segment(paragraph)

    def divided(self, tokens: list[str]) -> list[list[str]]:
        """Returns the sentences among the tokens of a piece."""
        if self.config.sentences == "rule":
            return split_sentences(tokens)
        return [tokens] if tokens else []

    def _spacy_tokens(self, text: str) -> list[str]:
        if len(self._spacy.vocab.strings) > MAX_STRINGS:
            self._spacy = _load_spacy(self.config.language)
        try:
            found = self._spacy(text)
        except UnicodeEncodeError:
            found = self._spacy(text.encode("utf-8", errors="ignore").decode())
        return [token for token in map(str, found) if not token.isspace()]


def split_at_spaces(line: str) -> list[str]:
    """Returns the tokens or columns of a line, which spaces, tabs and other white space of ASCII separate.

    White space beyond ASCII, such as a no-break space, belongs to a token ("10 000" in French), but not at its ends.
    """
    if line.isascii():
        return line.split()
    return [token for part in SPACES.split(line) if (token := part.strip())]


def split_sentences(tokens: list[str]) -> list[list[str]]:
    """Splits after a token of sentence-ending marks and the closing quotes and brackets that follow it.

    Does not split before a comma or colon, or before a lower-case word that follows a closing quote or an ellipsis.
    """
    sentences: list[list[str]] = []
    begin = end = 0
    in_quotes = False  # straight ones, whose two ends look the same
    while end < len(tokens):
        token = tokens[end]
        end += 1
        in_quotes ^= token == '"'
        if not TERMINATORS.issuperset(token):
            continue
        marks = end
        while end < len(tokens) and _closes(tokens[end], in_quotes):
            in_quotes ^= tokens[end] == '"'
            end += 1
        if end < len(tokens) and _goes_on(tokens[end], end > marks or token in ELLIPSES):
            continue
        sentences.append(tokens[begin:end])
        begin = end
    if begin < len(tokens):
        sentences.append(tokens[begin:])
    return sentences


def _closes(token: str, in_quotes: bool) -> bool:
    return token in CLOSERS or TERMINATORS.issuperset(token) or (in_quotes and token == '"')


def _goes_on(token: str, after_pause: bool) -> bool:
    return token[0] in CONTINUERS or (after_pause and token[0].islower())


def _load_spacy(language: str) -> Any:
    try:
        import spacy
    except ImportError as error:
        raise InputError(
            f"tokens = 'spacy' needs spaCy ({error}): {pip_line('text')}, or give tokenised text and tokens"
            " = 'whitespace' (--pretokenized)"
        ) from error
    try:
        return spacy.blank(language).tokenizer
    except (ImportError, ValueError) as error:
        reason = in_one_line(error)
        raise InputError(f"language {language!r}: spaCy cannot tokenise it ({reason}); try 'xx'") from error


def _splits_at_spaces(tokenizer: Any) -> bool:
    """Whether it is spaCy's own tokenizer; Chinese, Japanese, Korean, Thai and Vietnamese have classes of their own."""
    from spacy.tokenizer import Tokenizer as SpacyTokenizer

    return isinstance(tokenizer, SpacyTokenizer)


def _load_pysbd(language: str) -> Callable[[str], Iterator[str]]:
    try:
        import pysbd
    except ImportError as error:
        raise InputError(
            f"sentences = 'pysbd' needs pysbd ({error}): {pip_line('text')}, or sentences = 'rule'"
        ) from error
    try:
        segmenter = pysbd.Segmenter(language=language, clean=False)
    except ValueError as error:
        raise InputError(f"language {language!r}: pysbd does not know it; use sentences = 'rule'") from error
    return partial(_segmented, segmenter)  # a closure could not be pickled with the tokenizer


def _segmented(segmenter: Any, text: str) -> Iterator[str]:
    """Yields all of `text`, cut where pysbd's sentences begin and end."""
    # pysbd marks its places with signs such as U+266D (flat), so a sentence with one comes back changed: pysbd's own
    # search for it leaves it out. It stays between its neighbours here.
    cuts, found = [0], 0
    for sentence in list(segmenter.processor(text).process()):
        begin = text.find(sentence, found)
        while begin > found and text[begin - 1].isalnum():  # it lies inside a word of a missing sentence
            begin = text.find(sentence, begin + 1)
        if begin < 0:
            continue
        found = begin + len(sentence)
        cuts.append(begin)
        if not sentence[-1:].isalnum():  # otherwise it may be the beginning of a word
            cuts.append(found)
    return (text[begin:end] for begin, end in pairwise([*cuts, len(text)]))
