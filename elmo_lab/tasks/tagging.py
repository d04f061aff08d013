"""Detects the tag schemes BIO, IOB1, IOE and IOBES, converts tags to BIO, and reads spans from them.

- In BIO, `B-` begins every chunk, and `I-` continues it.
- In IOB1, `I-` also begins a chunk; `B-` only separates it from a neighbour of the same type.
- In IOE, `E-` ends a chunk, always (IOE2) or only before a neighbour of the same type (IOE1).
- In IOBES, `E-` ends a chunk of several tokens, and `S-` is a chunk of one. BILOU has `L-` and `U-` for these; BMES
  has `M-` for `I-`.

A tag without a type, such as `B`, begins a chunk of the type "".
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Scheme = Literal["BIO", "IOB1", "IOE", "IOBES"]
Span = tuple[int, int, str]
"""A chunk as its first token, the one after its last, and its type."""

TAG = re.compile(r"O|[BIESLUMW](-.*)?")
OTHER_NAMES = {"L": "E", "U": "S", "M": "I", "W": "S"}


@dataclass(frozen=True)
class BioSentences:
    """Sentences of BIO tags, and the places that break the scheme of the file, each as sentence, token and problem."""

    scheme: Scheme
    sentences: list[tuple[str, ...]]
    broken: list[tuple[int, int, str]]


@dataclass(frozen=True)
class TagLabels:
    """The labels of the training data that a network needs to tag tokens."""

    tags: tuple[str, ...]
    """All BIO tags that the network may predict."""


@dataclass(frozen=True)
class TagPrediction:
    """The best BIO tags of a sentence."""

    tags: tuple[str, ...]
    probabilities: tuple[float, ...] = ()
    """The probability of each span in the tags, in order; empty unless probabilities are requested."""


BROKEN = {
    "BIO": "a tag I- where no entity of its type is open, so it begins one",
    "IOBES": "a tag that IOBES does not allow after the one before it",
}


def is_tag(tag: str) -> bool:
    """Returns whether this is a tag of one of the schemes."""
    return TAG.fullmatch(tag) is not None


def to_bio(sentences: Sequence[Sequence[str]], scheme: Scheme | None = None) -> BioSentences:
    """Converts the tags of a file's sentences to BIO. The default of `scheme` is detected from all of them.

    A sequence that the scheme does not allow is read as CoNLL's scorer reads it: a chunk begins where no chunk of its
    type is open. `broken` lists all such places.
    """
    scheme = scheme or scheme_of(sentences)
    return BioSentences(scheme, [convert_to_bio(tags) for tags in sentences], list(_broken(sentences, scheme)))


def scheme_of(sentences: Iterable[Sequence[str]]) -> Scheme:
    """Detects the scheme of a file's tags, which is BIO if they fit both BIO and IOB1."""
    # Whether some I begins a chunk, and whether every B comes right after a chunk of its type.
    i_begins, b_parts = False, True
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
    """Converts a sentence's tags to BIO: a chunk begins at B or S, and where no chunk of its type is open."""
    result, before = list[str](), "O"
    for tag in map(_usual, tags):
        begins = tag[0] in "BS" or before[0] in "OES" or before[1:] != tag[1:]
        result.append("O" if tag == "O" else f"{'B' if begins else 'I'}{tag[1:]}")
        before = tag
    return tuple(result)


def spans(tags: Iterable[str]) -> list[Span]:
    """Returns the chunks of one sentence's tags in order, as conlleval reads them; the tags may have any scheme."""
    found: list[Span] = []
    for place, tag in enumerate(convert_to_bio(tags)):
        if tag[0] == "B":
            found.append((place, place + 1, tag[2:]))
        elif tag[0] == "I":
            begin, _, kind = found[-1]
            found[-1] = (begin, place + 1, kind)
    return found


def tags_of(chunks: Iterable[Span], length: int) -> tuple[str, ...]:
    """Returns the BIO tags of a sentence of `length` tokens with these chunks, of which no two overlap."""
    tags = ["O"] * length
    for begin, end, kind in chunks:
        first, inside = tags_of_type(kind)
        tags[begin:end] = [first] + [inside] * (end - begin - 1)
    return tuple(tags)


def tags_of_type(kind: str) -> tuple[str, str]:
    """Returns both tags of a type: that of a chunk's first token, and that of its other tokens."""
    return (f"B-{kind}", f"I-{kind}") if kind else ("B", "I")


def _broken(sentences: Iterable[Sequence[str]], scheme: Scheme) -> Iterator[tuple[int, int, str]]:
    """Yields all violations of a scheme, each as sentence, token and problem."""
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
    """Returns a tag with a letter of BIO or IOBES, and without the hyphen if its type is empty."""
    return f"{OTHER_NAMES.get(tag[0], tag[0])}{tag[1:] if len(tag) > 2 else ''}"


def labels_of(examples: Iterable[Any]) -> TagLabels:
    """Returns O and both tags, B- and I-, of every type in the `tags` of examples."""
    return TagLabels(bio_tags({tag[2:] for example in examples for tag in example.tags or () if tag != "O"}))


def bio_tags(kinds: Iterable[str]) -> tuple[str, ...]:
    """Returns O, and both tags of every kind of span, in alphabetical order."""
    return ("O", *(tag for kind in sorted(kinds) for tag in tags_of_type(kind)))
