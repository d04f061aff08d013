"""Makes paragraphs from the lines of a file: removes page numbers and running heads, and joins broken lines.

A file counts as broken into lines if its layout says so: the lines are short, and most do not end a sentence. In such a
file a blank or indented line begins a paragraph, and a word that a hyphen divides is joined. In other files a line is a
paragraph, as in training.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from elmo.text.tokenizer import CLOSERS, TERMINATORS

WIDEST = 100
"""The most characters of a line in a file that is broken into lines."""
LONGEST_HEAD = 60
"""The most characters of a running head."""
OFTEN = 3
"""A running head occurs at least this often in a file."""
FEWEST = 3
"""The fewest lines that show a layout."""
ROMAN = r"(?=[MDCLXVI])M{0,4}(?:CM|CD|D?C{0,3})(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,4})"
AROUND = r"[\s\[\](){}<>|*.·_–—-]*"  # noqa: RUF001
PAGE = re.compile(rf"{AROUND}(?:(?:page|pag|p|pp|fol|S)\.?\s*)?(?:\d{{1,4}}|{ROMAN}){AROUND}", re.IGNORECASE)
NUMBER = re.compile(r"^\d{1,4}\s+|\s+\d{1,4}$")
DIVIDED = re.compile(r"[^\W\d_][-\u00ad¬‐]$")  # noqa: RUF001
INVISIBLE = dict.fromkeys([*range(9), *range(14, 32), 0x7F, 0xFEFF, 0x200B, 0x200E, 0x200F])
Note = Callable[[str, int], None]
"""A function that is called with what is removed or changed, and the number of the line from 1."""


class KeptLine(NamedTuple):
    """A line that is kept."""

    number: int
    text: str
    is_indented: bool
    after: str
    """What separates the line from the one before: nothing, "blank", or "page" (a page number or a running head)."""


def paragraphs_of(text: str, keep_lines: bool, note: Note) -> list[tuple[int, str]]:
    """Returns the paragraphs of a text with the numbers of their first lines; `keep_lines` joins no lines."""
    kept = _kept(list(_numbered(text)), note)
    if keep_lines or not is_broken([line.text for line in kept]):
        return [(line.number, _without_soft_hyphens(line.text)) for line in kept]
    found: list[tuple[int, str]] = []
    for line in kept:
        if not found or _begins(line, found[-1][1]):
            found.append((line.number, line.text))
            continue
        number, before = found[-1]
        if DIVIDED.search(before) and line.text[0].islower():
            note("words divided at the end of a line, joined", line.number)
            found[-1] = number, before[:-1] + line.text
        else:
            found[-1] = number, f"{before} {line.text}"
    return [(number, _without_soft_hyphens(paragraph)) for number, paragraph in found]


def _without_soft_hyphens(text: str) -> str:
    """The text without soft hyphens, and without the white space that they leave."""
    return " ".join(text.replace("\u00ad", "").split())


def is_broken(lines: Sequence[str]) -> bool:
    """Returns whether paragraphs are broken into lines: these are short, and at most half of them end a sentence."""
    if len(lines) < FEWEST or max(map(len, lines)) > WIDEST:
        return False
    return 2 * sum(map(_ends_sentence, lines)) <= len(lines)


def _numbered(text: str) -> Iterator[tuple[int, str]]:
    """The lines with their numbers, as editors count them: a form feed divides a line, but does not count."""
    number = 1
    for line in text.splitlines(keepends=True):
        yield number, line.translate(INVISIBLE)
        number += line.endswith(("\n", "\r"))


def _kept(lines: Sequence[tuple[int, str]], note: Note) -> list[KeptLine]:
    heads = _running_heads([line for _, line in lines])
    kept: list[KeptLine] = []
    after = ""
    for number, line in lines:
        text = " ".join(line.split())
        if not text:
            after = after or "blank"
        elif PAGE.fullmatch(text):
            note("page numbers and lone numerals", number)
            after = "page"
        elif _bare(text) in heads:
            note("running heads", number)
            after = "page"
        elif not any(map(str.isalpha, text)):
            note("lines without letters", number)
            after = after or "blank"
        else:
            kept.append(KeptLine(number, text, line[0].isspace(), after))
            after = ""
    return kept


def _running_heads(lines: Sequence[str]) -> set[str]:
    """The short lines that occur again at page breaks: beside a page number, or with one."""
    texts = [text for line in lines if (text := " ".join(line.split()))]
    pages = [bool(PAGE.fullmatch(text)) for text in texts]
    seen, at_pages = Counter[str](), Counter[str]()
    for place, text in enumerate(texts):
        if pages[place] or len(text) > LONGEST_HEAD or not any(map(str.isalpha, text)) or _ends_sentence(text):
            continue
        bare = _bare(text)
        seen[bare] += 1
        beside = pages[max(0, place - 1) : place + 2]
        at_pages[bare] += any(beside) or bare != text.casefold()
    return {bare for bare, count in seen.items() if count >= OFTEN and 2 * at_pages[bare] >= count}


def _bare(text: str) -> str:
    """The text without a page number before or after it."""
    return NUMBER.sub("", text).casefold()


def _begins(line: KeptLine, before: str) -> bool:
    """Whether a paragraph begins with a line of a broken file."""
    if line.after == "page":
        return _ends_sentence(before) or not (line.text[0].islower() or DIVIDED.search(before))
    return line.after == "blank" or (line.is_indented and _ends_sentence(before))


def _ends_sentence(text: str) -> bool:
    return text.rstrip("\"'" + "".join(mark for mark in CLOSERS if len(mark) == 1))[-1:] in TERMINATORS
