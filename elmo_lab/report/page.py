"""Renders a `Document` as one self-contained HTML page, for light and dark, wide and narrow screens."""

import base64
from collections.abc import Iterator
from html import escape

from elmo_lab import figures
from elmo_lab.document import Block, Code, Details, Document, Figure, Figures, Heading, Section, Table, Text

STYLE = """
:root { color-scheme: light dark; --paper: #ffffff; --ink: #212126; --soft: #5d5b66; --line: #dedde3; --faint: #f5f5f8;
  --link: #0067a5; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #17171b; --ink: #e4e3e9; --soft: #a9a6b2; --line: #37373f; --faint: #202026; --link: #62b6ee; }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; text-size-adjust: 100%; }
body { margin: 0; background: var(--paper); color: var(--ink); line-height: 1.55;
  font-family: system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
main { max-width: 66rem; margin: 0 auto; padding: 2.5rem 1.25rem 5rem; }
h1 { font-size: 1.9rem; line-height: 1.2; letter-spacing: -0.015em; margin: 0 0 1rem; overflow-wrap: anywhere; }
h2 { font-size: 1.3rem; line-height: 1.3; letter-spacing: -0.01em; margin: 0 0 1rem; overflow-wrap: anywhere; }
section { margin-top: 3rem; padding-top: 2rem; border-top: 1px solid var(--line); }
p { max-width: 44rem; margin: 0.9rem 0; overflow-wrap: anywhere; }
section p { color: var(--soft); font-size: 0.94rem; }
a { color: var(--link); text-underline-offset: 0.15em; }
nav { margin-top: 1.5rem; }
nav ul { list-style: none; display: flex; flex-wrap: wrap; gap: 0.4rem 1.4rem; margin: 0; padding: 0; }
nav li { overflow-wrap: anywhere; min-width: 0; }
h3 { font-size: 1rem; margin: 2rem 0 0.6rem; }
.scroll { overflow-x: auto; margin: 1rem 0; /* a shadow where there is more to either side */
  background: linear-gradient(to right, var(--paper) 40%, transparent) left / 2.5rem 100% no-repeat local,
    linear-gradient(to left, var(--paper) 40%, transparent) right / 2.5rem 100% no-repeat local,
    linear-gradient(to right, var(--line), transparent) left / 0.8rem 100% no-repeat scroll,
    linear-gradient(to left, var(--line), transparent) right / 0.8rem 100% no-repeat scroll; }
.scroll:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
table { border-collapse: collapse; font-size: 0.9rem; line-height: 1.4;
  font-variant-numeric: tabular-nums lining-nums; }
th, td { padding: 0.4rem 0.9rem 0.4rem 0; text-align: left; vertical-align: baseline; white-space: nowrap;
  font-weight: 400; }
th:last-child, td:last-child { padding-right: 0.25rem; }
thead th { color: var(--soft); font-size: 0.82rem; vertical-align: bottom; border-bottom: 1px solid var(--ink); }
tbody tr.first > * { border-top: 1px solid var(--line); }
tbody tr:first-child > * { border-top: 0; }
tbody th { font-weight: 600; vertical-align: top; }
.number { text-align: right; }
td.papers { color: var(--soft); font-style: italic; }
.text { white-space: normal; min-width: 12rem; overflow-wrap: anywhere; }
figure { margin: 1.25rem 0; }
.drawings { display: flex; flex-wrap: wrap; gap: 1.5rem 2.5rem; }
.drawings picture { flex: 0 1 auto; min-width: 0; }
img { display: block; max-width: 100%; height: auto; }
figcaption { color: var(--soft); font-size: 0.88rem; margin-top: 0.6rem; max-width: 44rem; overflow-wrap: anywhere; }
details { margin: 0.4rem 0; max-width: 100%; }
summary { cursor: pointer; color: var(--soft); font-size: 0.9rem; overflow-wrap: anywhere; }
summary:hover { color: var(--ink); }
details[open] { margin: 0.6rem 0 1.4rem; padding-left: 0.9rem; border-left: 2px solid var(--line); }
pre { background: var(--faint); border-radius: 4px; padding: 0.7rem 0.9rem; margin: 0.6rem 0; overflow-x: auto;
  font: 0.82rem/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; max-height: 26rem; }
@media (max-width: 34rem) {
  main { padding-top: 1.5rem; }
  h1 { font-size: 1.55rem; }
  section { margin-top: 2rem; padding-top: 1.5rem; }
  th, td { padding-right: 0.75rem; }
  .text { min-width: 9rem; } /* two columns and a word are on a telephone's screen */
}
@media print { details { display: none; } main { max-width: none; } }
"""
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""The policy that lets the page load nothing and run no script, whatever a name contains."""
LONG = 20
"""The length of a cell above which its column wraps if the page is narrower than the table."""


def render(document: Document) -> str:
    """Returns the page, with all results escaped."""
    anchored = list(zip(document.anchors(), document.sections, strict=True))
    links = "".join(f'<li><a href="#{anchor}">{escape(section.title)}</a></li>' for anchor, section in anchored)
    parts = [
        "<!doctype html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(document.title)}</title>",
        f"<style>{STYLE}</style>",
        "</head>",
        "<body>",
        "<main>",
        f"<h1>{escape(document.title)}</h1>",
        *_blocks(document.intro),
        f'<nav aria-label="Sections"><ul>{links}</ul></nav>',
        *(line for anchor, section in anchored for line in _section(anchor, section)),
        "</main>",
        "</body>",
        "</html>",
    ]
    return "\n".join(parts) + "\n"


def _section(anchor: str, section: Section) -> Iterator[str]:
    yield f'<section id="{anchor}">'
    yield f"<h2>{escape(section.title)}</h2>"
    yield from _blocks(section.blocks)
    yield "</section>"


def _blocks(blocks: tuple[Block, ...]) -> Iterator[str]:
    for block in blocks:
        match block:
            case Text(text):
                yield f"<p>{escape(text)}</p>"
            case Heading(text):
                yield f"<h3>{escape(text)}</h3>"
            case Code(text):
                yield f'<pre tabindex="0">{escape(text)}</pre>'
            case Table():
                yield from _table(block)
            case Figures(drawings, caption):
                pictures = "".join(map(_picture, drawings))
                yield f'<figure><div class="drawings">{pictures}</div>'
                yield f"<figcaption>{escape(caption)}</figcaption></figure>"
            case Details(summary, inside):
                yield f"<details><summary>{escape(summary)}</summary>"
                yield from _blocks(inside)
                yield "</details>"


def _table(table: Table) -> Iterator[str]:
    """Renders a table in a box that scrolls if the page is narrower."""
    classes = [_class(table, column) for column in range(len(table.head))]
    yield f'<div class="scroll" role="region" aria-label="{escape(", ".join(table.head))}" tabindex="0"><table>'
    head = "".join(f'<th scope="col"{kind}>{escape(name)}</th>' for name, kind in zip(table.head, classes, strict=True))
    yield f"<thead><tr>{head}</tr></thead><tbody>"
    for place, row in enumerate(table.rows):
        cells = [f"<td{kind}>{escape(cell)}</td>" for cell, kind in zip(row, classes, strict=True)]
        if table.groups:
            cells[0] = _group(table, place, classes[0]) if table.starts_group(place) else ""
        first = ' class="first"' if table.starts_group(place) else ""
        yield f"<tr{first}>{''.join(cells)}</tr>"
    yield "</tbody></table></div>"


def _group(table: Table, place: int, kind: str) -> str:
    """Renders the first cell of a group, which spans all its rows."""
    size = 1
    while place + size < len(table.rows) and not table.starts_group(place + size):
        size += 1
    span = f' rowspan="{size}"' if size > 1 else ""
    return f'<th scope="rowgroup"{kind}{span}>{escape(table.rows[place][0])}</th>'


def _class(table: Table, column: int) -> str:
    """Returns the attribute with the kinds of a column."""
    kinds = {
        "number": table.is_numeric(column),
        "papers": table.is_papers(column),
        "text": any(len(row[column]) > LONG for row in table.rows),
    }
    names = " ".join(name for name, is_one in kinds.items() if is_one)
    return f' class="{names}"' if names else ""


def _picture(figure: Figure) -> str:
    """Renders the figure for light and for dark pages."""
    drawn = (base64.b64encode(figures.svg(figure.draw(is_dark))).decode() for is_dark in (False, True))
    light, dark = (f"data:image/svg+xml;base64,{each}" for each in drawn)
    return (
        f'<picture><source srcset="{dark}" media="(prefers-color-scheme: dark)">'
        f'<img src="{light}" alt="{escape(figure.alt)}"></picture>'
    )
