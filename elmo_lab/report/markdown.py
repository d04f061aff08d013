"""Renders a `Document` as Markdown, with figures as files in a folder beside it."""

import html
from collections.abc import Iterator
from pathlib import PurePosixPath
from urllib.parse import quote

from elmo_lab import figures
from elmo_lab.document import Block, Code, Details, Document, Figure, Figures, Heading, Table, Text, unused_name

SPECIAL = frozenset("\\`*_{}[]<>#|~$&")
"""The characters that have a meaning anywhere in Markdown, or in HTML inside it."""


def render(document: Document, folder: str) -> tuple[str, dict[str, bytes]]:
    """Returns the page, and the figures by file name; `folder` is the prefix of links to them."""
    drawn: dict[str, bytes] = {}
    lines = [f"# {escape_markdown(document.title)}", "", *_blocks(document.intro, folder, drawn)]
    for section in document.sections:
        lines += [f"## {escape_markdown(section.title)}", "", *_blocks(section.blocks, folder, drawn)]
    return "\n".join(lines).rstrip() + "\n", drawn


def escape_markdown(text: str) -> str:
    """Escapes text, and puts it on one line."""
    return "".join(f"\\{letter}" if letter in SPECIAL else letter for letter in " ".join(text.split()))


def _blocks(blocks: tuple[Block, ...], folder: str, drawn: dict[str, bytes]) -> Iterator[str]:
    for block in blocks:
        match block:
            case Text(text):
                yield from (escape_markdown(text), "")
            case Heading(text):
                yield from (f"### {escape_markdown(text)}", "")
            case Code(text):
                yield from (*_code(text), "")
            case Table():
                yield from (*_table(block), "")
            case Figures(several, caption):
                yield from (*(_image(figure, folder, drawn) for figure in several), "", escape_markdown(caption), "")
            case Details(summary, inside):
                yield from ("<details>", f"<summary>{html.escape(summary)}</summary>", "")
                yield from _blocks(inside, folder, drawn)
                yield from ("</details>", "")


def _code(text: str) -> list[str]:
    """Puts code in a fence that is longer than any in the code."""
    fence = "```"
    while fence in text:
        fence += "`"
    return [f"{fence}text", text, fence]


def _table(table: Table) -> Iterator[str]:
    yield _row(table.head)
    yield "|" + "|".join("---:" if table.is_numeric(column) else "---" for column in range(len(table.head))) + "|"
    for place, row in enumerate(table.rows):
        yield _row(row if table.starts_group(place) else ("", *row[1:]))


def _row(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(map(escape_markdown, cells)) + " |"


def _image(figure: Figure, folder: str, drawn: dict[str, bytes]) -> str:
    """Draws a figure as a file, and links to it; repeated names get a number."""
    name = f"{unused_name(figure.name, {file.removesuffix('.svg') for file in drawn})}.svg"
    drawn[name] = figures.svg(figure.draw(False), transparent=False)
    return f"![{escape_markdown(figure.alt)}]({quote(str(PurePosixPath(folder, name)))})"
