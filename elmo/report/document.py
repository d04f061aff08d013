"""What a report consists of, whatever it is written as: sections of texts, tables, figures, and what is folded away.

Everything is plain text; whoever writes it as HTML or Markdown escapes it.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

ABSENT = "-"
"""In a table, where there is no number."""
PAPERS = "paper's"
"""What the heads of columns with the paper's numbers begin with."""
NUMBER = re.compile(r"[+-]?[0-9][0-9,]*(\.[0-9]+)?( %)?( of [0-9]+)?")


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str


@dataclass(frozen=True)
class Heading:
    """Of a part of a section."""

    text: str


@dataclass(frozen=True)
class Code:
    """Commands or settings, as they are typed."""

    text: str


@dataclass(frozen=True)
class Table:
    """Cells of text, as many in every row as in the head."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    groups: bool = False
    """The first column says the same in several rows, which belong together: it is shown once."""

    def __post_init__(self) -> None:
        assert all(len(row) == len(self.head) for row in self.rows), "a row of another length than the head"

    def is_numeric(self, column: int) -> bool:
        """Whether a column holds numbers, with their signs and units, and nothing else."""
        cells = [row[column] for row in self.rows if row[column]]
        return bool(cells) and all(cell == ABSENT or NUMBER.fullmatch(cell) for cell in cells)

    def is_papers(self, column: int) -> bool:
        """Whether a column holds the paper's numbers, not ours."""
        return self.head[column].startswith(PAPERS)

    def starts_group(self, number: int) -> bool:
        """Whether a row is the first of those that belong together."""
        return not self.groups or number == 0 or self.rows[number][0] != self.rows[number - 1][0]


@dataclass(frozen=True)
class Figure:
    """A figure that is drawn when it is written."""

    name: str
    """For a file: lower-case letters, digits and hyphens; no other figure of the report has it."""
    alt: str
    """What it shows, for those who do not see it."""
    draw: Callable[[bool], Any] = field(repr=False)
    """Whether the page is dark -> a figure of matplotlib."""


@dataclass(frozen=True)
class Figures:
    """Figures side by side, where there is room."""

    figures: tuple[Figure, ...]
    caption: str


@dataclass(frozen=True)
class Details:
    """What is folded away until it is asked for."""

    summary: str
    blocks: tuple["Block", ...]


Block = Text | Heading | Code | Table | Figures | Details


@dataclass(frozen=True)
class Section:
    """A part of the report with a heading of its own."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Document:
    """The whole."""

    title: str
    intro: tuple[Block, ...]
    sections: tuple[Section, ...]

    def anchors(self) -> list[str]:
        """What links to the sections name: one of the same letters as another gets a number."""
        found: list[str] = []
        for section in self.sections:
            name = anchor = slug(section.title) or "section"
            number = 1
            while anchor in found:
                number += 1
                anchor = f"{name}-{number}"
            found.append(anchor)
        return found

    def figures(self) -> Iterator[tuple[str, str, Figure]]:
        """All figures, with the titles of their sections and their captions."""
        for section in self.sections:
            for block in _unfolded(section.blocks):
                if isinstance(block, Figures):
                    yield from ((section.title, block.caption, figure) for figure in block.figures)


def _unfolded(blocks: tuple[Block, ...]) -> Iterator[Block]:
    for block in blocks:
        yield block
        if isinstance(block, Details):
            yield from _unfolded(block.blocks)


def slug(text: str) -> str:
    """Lower-case letters, digits and single hyphens."""
    kept = "".join(letter if letter.isascii() and letter.isalnum() else " " for letter in text.lower())
    return "-".join(kept.split())


def table(head: Sequence[str], rows: Sequence[Sequence[str]], groups: bool = False) -> Table:
    """A table without the columns in which nothing stands."""
    kept = [place for place in range(len(head)) if any(row[place] for row in rows)]
    return Table(tuple(head[i] for i in kept), tuple(tuple(row[i] for i in kept) for row in rows), groups)
