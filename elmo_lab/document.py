"""Documents of results, for any format: texts, tables, figures and folded parts, in sections.

All strings are plain text, which the writers of HTML and Markdown escape.
"""

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from typing import Any

ABSENT = "-"
"""The text of a table cell without a number."""
PAPERS = "paper's"
"""The prefix of the heads of columns with the paper's numbers."""
NUMBER = re.compile(r"[+-]?[0-9][0-9,]*(\.[0-9]+)?( %)?( of [0-9]+)?")


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str


@dataclass(frozen=True)
class Heading:
    """A heading within a section."""

    text: str


@dataclass(frozen=True)
class Code:
    """Commands or settings, as typed."""

    text: str


@dataclass(frozen=True)
class Table:
    """A table with cells of text; every row has as many as the head."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    groups: bool = False
    """Whether adjacent rows with the same first cell form a group, which shows this cell once."""

    def __post_init__(self) -> None:
        assert all(len(row) == len(self.head) for row in self.rows), "a row of another length than the head"

    def is_numeric(self, column: int) -> bool:
        """Returns whether a column has only numbers, with signs and units."""
        cells = [row[column] for row in self.rows if row[column]]
        return bool(cells) and all(cell == ABSENT or NUMBER.fullmatch(cell) for cell in cells)

    def is_papers(self, column: int) -> bool:
        """Returns whether a column has the paper's numbers, not ours."""
        return self.head[column].startswith(PAPERS)

    def starts_group(self, number: int) -> bool:
        """Returns whether a row is the first of its group."""
        return not self.groups or number == 0 or self.rows[number][0] != self.rows[number - 1][0]


@dataclass(frozen=True)
class Figure:
    """A figure, which is drawn when it is written."""

    name: str
    """The name of the file, of lower-case letters, digits and hyphens. It should be unique in the report."""
    alt: str
    """The alternative text."""
    draw: Callable[[bool], Any] = field(repr=False)
    """The function that draws the figure with matplotlib. Its argument is whether the page is dark."""


@dataclass(frozen=True)
class Figures:
    """Figures side by side, if there is room."""

    figures: tuple[Figure, ...]
    caption: str


@dataclass(frozen=True)
class Details:
    """A part that is folded until opened."""

    summary: str
    blocks: tuple["Block", ...]


Block = Text | Heading | Code | Table | Figures | Details


@dataclass(frozen=True)
class Section:
    """A part of the report with its own heading."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Document:
    """A document with a title, an introduction and sections."""

    title: str
    intro: tuple[Block, ...]
    sections: tuple[Section, ...]

    def anchors(self) -> list[str]:
        """Returns the anchors of the sections; repeated ones get a number."""
        found: list[str] = []
        for section in self.sections:
            found.append(unused_name(slug(section.title) or "section", found))
        return found


def slug(text: str) -> str:
    """Turns text into lower-case letters, digits and single hyphens."""
    kept = "".join(letter if letter.isascii() and letter.isalnum() else " " for letter in text.lower())
    return "-".join(kept.split())


def unused_name(name: str, taken: Collection[str]) -> str:
    """Returns the name, or the first of name-2, name-3, ... that is not taken."""
    return next(each for each in chain([name], (f"{name}-{number}" for number in count(2))) if each not in taken)


def table(head: Sequence[str], rows: Sequence[Sequence[str]], groups: bool = False) -> Table:
    """Makes a table, without empty columns."""
    kept = [place for place in range(len(head)) if any(row[place] for row in rows)]
    return Table(tuple(head[i] for i in kept), tuple(tuple(row[i] for i in kept) for row in rows), groups)
