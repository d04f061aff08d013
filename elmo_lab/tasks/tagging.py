"""Spans as tags: detects BIO, IOB1, IOE and IOBES, normalises them to BIO, and reads spans.

- BIO: `B-` begins every chunk, `I-` continues it
- IOB1: `I-` also begins a chunk; `B-` only separates it from a neighbour of the same type
- IOE: `E-` ends a chunk, always (IOE2) or only before a neighbour of the same type (IOE1)
- IOBES: `E-` ends a chunk of several tokens, `S-` is a chunk of one (BILOU: `L-` and `U-`; BMES: `M-` for `I-`)

A tag without a type, such as `B`, begins a chunk of the type "".
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

Scheme = Literal["BIO", "IOB1", "IOE", "IOBES"]
Span = tuple[int, int, str]
"""The first token, the one after the last, and the type."""

TAG = re.compile(r"O|[BIESLUMW](-.*)?")
OTHER_NAMES = {"L": "E", "U": "S", "M": "I", "W": "S"}


@dataclass(frozen=True)
class BioSentences:
    """Sentences of BIO tags, and the places that break their scheme: sentence, token, problem."""

    scheme: Scheme
    sentences: list[tuple[str, ...]]
    broken: list[tuple[int, int, str]]


@dataclass(frozen=True)
class TagLabels:
    """What a network that tags tokens needs from the training data."""

    tags: tuple[str, ...]
    """All BIO tags that it may predict."""


@dataclass(frozen=True)
class TagPrediction:
    """The best BIO tags of a sentence."""

    tags: tuple[str, ...]
    probabilities: tuple[float, ...] = ()
    """The probability of each span in the tags, in order; none if they were not asked for."""


BROKEN = {
    "BIO": "a tag I- where no entity of its type is open, so it begins one",
    "IOBES": "a tag that IOBES does not allow after the one before it",
}


def is_tag(tag: str) -> bool:
    """Whether this is a tag of one of the schemes."""
    return TAG.fullmatch(tag) is not None


def to_bio(sentences: Sequence[Sequence[str]], scheme: Scheme | None = None) -> BioSentences:
    """The tags of a file's sentences as BIO; `scheme` is by default what they show together.

    A sequence that the scheme does not allow is read as CoNLL's scorer does, a chunk beginning where nothing of its
    type is open; `broken` has all of these places.
    """
    scheme = scheme or scheme_of(sentences)
    return BioSentences(scheme, [convert_to_bio(tags) for tags in sentences], list(_broken(sentences, scheme)))


def scheme_of(sentences: Iterable[Sequence[str]]) -> Scheme:
    """The scheme of a file's tags; BIO if they also fit IOB1."""
    i_begins, b_parts = False, True  # whether some I begins a chunk; whether every B comes after a chunk of its type
    letters = set[str]()
    for tags in sentences:
        before = "O"
        for tag in map(_usual, tags):
            letters.add(tag[0])
            follows = before != "O" and tag[1:] == before[1:]
            i_begins |= tag[0] == "I" and not follows
            b_parts &= tag[0] != "B" or follows
            before = tag
    if not letters.isdisjoint("ES"):
        return "IOE" if letters <= set("IOE") else "IOBES"
    return "IOB1" if i_begins and b_parts else "BIO"


def convert_to_bio(tags: Iterable[str]) -> tuple[str, ...]:
    """One sentence's tags, of any scheme, as BIO: a chunk begins at B or S, and where none of its type is open."""
    result, before = list[str](), "O"
    for tag in map(_usual, tags):
        begins = tag[0] in "BS" or before[0] in "OES" or before[1:] != tag[1:]
        result.append("O" if tag == "O" else f"{'B' if begins else 'I'}{tag[1:]}")
        before = tag
    return tuple(result)


def spans(tags: Iterable[str]) -> list[Span]:
    """The chunks of one sentence's tags, in any of the schemes, in order, as conlleval reads them."""
    found: list[Span] = []
    for place, tag in enumerate(convert_to_bio(tags)):
        if tag[0] == "B":
            found.append((place, place + 1, tag[2:]))
        elif tag[0] == "I":
            begin, _, kind = found[-1]
            found[-1] = (begin, place + 1, kind)
    return found


def tags_of(chunks: Iterable[Span], length: int) -> tuple[str, ...]:
    """The BIO tags of a sentence of `length` tokens with these chunks, of which no two overlap."""
    tags = ["O"] * length
    for begin, end, kind in chunks:
        first, inside = tags_of_type(kind)
        tags[begin:end] = [first] + [inside] * (end - begin - 1)
    return tuple(tags)


def tags_of_type(kind: str) -> tuple[str, str]:
    """Both tags of a type: that of a chunk's first token, and that of the others."""
    return (f"B-{kind}", f"I-{kind}") if kind else ("B", "I")


def _broken(sentences: Iterable[Sequence[str]], scheme: Scheme) -> Iterator[tuple[int, int, str]]:
    """All violations of a scheme: sentence, token, problem."""
    for number, tags in enumerate(sentences):
        before = "O"
        for place, tag in enumerate(map(_usual, tags)):
            if not _allowed(before, tag, scheme):
                yield number, place, BROKEN[scheme]
            before = tag
        if scheme == "IOBES" and before[0] in "BI":
            yield number, len(tags) - 1, "an entity that its sentence does not end with E- or S- (IOBES)"


def _allowed(before: str, tag: str, scheme: Scheme) -> bool:
    if scheme in ("IOB1", "IOE"):
        return True
    if scheme == "BIO":
        return tag[0] in "OB" or (before != "O" and before[1:] == tag[1:])
    is_open = before[0] in "BI"
    return is_open == (tag[0] in "IE") and (not is_open or before[1:] == tag[1:])


def _usual(tag: str) -> str:
    """The tag with a letter of BIO or IOBES, and without a type instead of with an empty one."""
    return f"{OTHER_NAMES.get(tag[0], tag[0])}{tag[1:] if len(tag) > 2 else ''}"


def bio_tags(kinds: Iterable[str]) -> tuple[str, ...]:
    """O, and both tags of every kind of span, in alphabetical order."""
    return ("O", *(tag for kind in sorted(kinds) for tag in tags_of_type(kind)))
