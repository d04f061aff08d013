"""Spans as tags: detects BIO, IOB1 and IOBES, normalises them to BIO, and reads spans.

- BIO: `B-` begins every chunk, `I-` continues it
- IOB1: `I-` also begins a chunk; `B-` only separates it from a neighbour of the same type
- IOBES: `E-` ends a chunk of several tokens, `S-` is a chunk of one (BILOU: `L-` and `U-`)
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

Scheme = Literal["BIO", "IOB1", "IOBES"]
Span = tuple[int, int, str]
"""The first token, the one after the last, and the type."""

TAG = re.compile(r"O|[BIESLU]-\S.*")
OF_BILOU = {"L": "E", "U": "S"}


@dataclass(frozen=True)
class Bio:
    """Sentences of BIO tags, and the first violation of the scheme: sentence, token, problem."""

    scheme: Scheme
    sentences: list[tuple[str, ...]]
    broken: tuple[int, int, str] | None


def is_tag(tag: str) -> bool:
    """Whether this is a tag of one of the schemes."""
    return TAG.fullmatch(tag) is not None


def to_bio(sentences: Sequence[Sequence[str]], scheme: Scheme | None = None) -> Bio:
    """The tags of a file's sentences as BIO; `scheme` is by default what they show together.

    A sequence that the scheme does not allow is read as CoNLL's scorer does, a chunk beginning where nothing of its
    type is open; `broken` tells of the first.
    """
    scheme = scheme or scheme_of(sentences)
    return Bio(scheme, [bio(tags) for tags in sentences], next(_broken(sentences, scheme), None))


def scheme_of(sentences: Iterable[Sequence[str]]) -> Scheme:
    """The scheme of a file's tags; BIO if they also fit IOB1."""
    i_begins, b_parts = False, True  # whether some I begins a chunk; whether every B comes after a chunk of its type
    for tags in sentences:
        before = "O"
        for tag in tags:
            if tag[0] in "ESLU":
                return "IOBES"
            follows = before != "O" and tag[1:] == before[1:]
            i_begins |= tag[0] == "I" and not follows
            b_parts &= tag[0] != "B" or follows
            before = tag
    return "IOB1" if i_begins and b_parts else "BIO"


def bio(tags: Iterable[str]) -> tuple[str, ...]:
    """One sentence's tags, of any scheme, as BIO: a chunk begins at B or S, and where none of its type is open."""
    result, before = list[str](), "O"
    for tag in map(_of_bilou, tags):
        begins = tag[0] in "BS" or before[0] in "OES" or before[1:] != tag[1:]
        result.append("O" if tag == "O" else f"{'B' if begins else 'I'}{tag[1:]}")
        before = tag
    return tuple(result)


def spans(tags: Iterable[str]) -> list[Span]:
    """The chunks of one sentence's tags, in any of the schemes, in order, as conlleval reads them."""
    found: list[Span] = []
    for place, tag in enumerate(bio(tags)):
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
        tags[begin:end] = [f"B-{kind}"] + [f"I-{kind}"] * (end - begin - 1)
    return tuple(tags)


def _broken(sentences: Iterable[Sequence[str]], scheme: Scheme) -> Iterator[tuple[int, int, str]]:
    """All violations of a scheme: sentence, token, problem."""
    known = "OBIESLU" if scheme == "IOBES" else "OBI"
    for number, tags in enumerate(sentences):
        before = "O"
        for place, tag in enumerate(tags):
            if tag[0] not in known:
                yield number, place, f"has the tag {tag!r}, which is not part of {scheme}"
            elif not _allowed(_of_bilou(before), _of_bilou(tag), scheme):
                yield number, place, f"has the tag {tag!r} after {before!r}, which {scheme} does not allow"
            before = tag
        if scheme == "IOBES" and before[0] in "BI":
            yield number, len(tags) - 1, f"ends its sentence with {before!r}, which {scheme} does not allow"


def _allowed(before: str, tag: str, scheme: Scheme) -> bool:
    if scheme == "IOB1":
        return True
    if scheme == "BIO":
        return tag[0] != "I" or (before != "O" and before[1:] == tag[1:])
    is_open = before[0] in "BI"
    return is_open == (tag[0] in "IE") and (not is_open or before[1:] == tag[1:])


def _of_bilou(tag: str) -> str:
    return f"{OF_BILOU.get(tag[0], tag[0])}{tag[1:]}"


def bio_tags(kinds: Iterable[str]) -> tuple[str, ...]:
    """O, and both tags of every kind of span, in alphabetical order."""
    return ("O", *(f"{prefix}-{kind}" for kind in sorted(kinds) for prefix in "BI"))
