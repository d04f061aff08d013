"""Draws architecture.svg, the picture of docs/design.md: python docs/architecture.py"""

from pathlib import Path

PICTURE = Path(__file__).with_name("architecture.svg")
WIDTH, MARGIN, GAP, HEIGHT = 920, 24, 10, 50
LIBRARY = 640
"""Where the rooms of the library end; those of the laboratory stand right of it."""
ROWS = [
    [("cli", "the commands of elmo")],
    [("integrations", "other libraries, engines"), ("server", "HTTP and the page"), ("bench", "speed")],
    [("search", "nearest vectors, index"), ("pretraining", "text to a trained biLM")],
    [("embedding", "a model and a text to vectors, files of vectors")],
    [("formats", "files of weights to a Model, names of models, the Hub")],
    [("text", "strings to ids"), ("model", "the equations"), ("training", "loops, optimizers")],
    [("disk", "files, locks, runs"), ("ops", "the equations, fast")],
    [("config · errors · forking · machine · terminal · types", "single files")],
]
"""From the top down; a room imports only rooms of the rows below it."""
LABORATORY = [
    (0, [("cli", "four more commands")]),
    (1, [("report", "results on one page")]),
    (2, [("probes", "what layers know")]),
    (3, [("tasks", "six networks")]),
    (4, [("plugins · record", "and document, figures")]),
]
INK, SOFT, LINE = "#1f2328", "#57606a", "#8c959f"
STYLE = f"""text{{fill:{INK}}} .s{{fill:{SOFT};font-size:12.5px}} .n{{font-weight:600}}
.lib{{fill:#dbe9f8;stroke:#9cc1ea}} .lab{{fill:#fde8d8;stroke:#eab58a}} .base{{fill:#eef1f4;stroke:#c4ccd4}}"""


def box(x: float, y: float, width: float, name: str, about: str, kind: str) -> str:
    """A room."""
    middle = x + width / 2
    return (
        f'<rect class="{kind}" x="{x:.0f}" y="{y:.0f}" width="{width:.0f}" height="{HEIGHT}" rx="6"/>\n'
        f'<text class="n" x="{middle:.0f}" y="{y + 22:.0f}" text-anchor="middle">{name}</text>\n'
        f'<text class="s" x="{middle:.0f}" y="{y + 40:.0f}" text-anchor="middle">{about}</text>'
    )


def row(rooms: list[tuple[str, str]], left: float, right: float, y: float, kind: str) -> str:
    """Rooms side by side."""
    width = (right - left - GAP * (len(rooms) - 1)) / len(rooms)
    return "\n".join(box(left + i * (width + GAP), y, width, *room, kind) for i, room in enumerate(rooms))


def picture() -> str:
    """The whole picture."""
    step, top = HEIGHT + 18, 58
    height = top + step * len(ROWS) + 6
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-labelledby="t d"'
        ' font-family="system-ui, sans-serif" font-size="15">',
        '<title id="t">The rooms of elmo</title>',
        '<desc id="d">Eight rows of rooms in the library and five in the laboratory. Every room imports only rooms of'
        " the rows below it, and the laboratory imports the library.</desc>",
        f"<style>{STYLE}</style>",
        f'<rect width="{WIDTH}" height="{height}" rx="10" fill="#ffffff"/>',
        f'<text x="{MARGIN}" y="36" class="n" font-size="15">elmo, the library</text>',
        f'<text x="{LIBRARY + 40}" y="36" class="n" font-size="15">elmo_lab, the laboratory</text>',
        f'<path d="M{LIBRARY + 20} 20V{height - 24}" stroke="{LINE}" stroke-dasharray="4 4"/>',
    ]
    for number, rooms in enumerate(ROWS):
        kind = "base" if number == len(ROWS) - 1 else "lib"
        parts.append(row(rooms, MARGIN, LIBRARY, top + number * step, kind))
        if number:
            x, y = (MARGIN + LIBRARY) / 2, top + number * step - 16
            parts.append(f'<path d="M{x:.0f} {y:.0f}v12m-4 -5l4 5l4 -5" stroke="{LINE}" fill="none"/>')
    for number, rooms in LABORATORY:
        parts.append(row(rooms, LIBRARY + 40, WIDTH - MARGIN, top + number * step, "lab"))
    x, y = (LIBRARY + 40 + WIDTH - MARGIN) / 2, top + 5 * step
    for line in ("imports everything of the library;", "the library imports nothing of it"):
        parts.append(f'<text class="s" x="{x:.0f}" y="{y:.0f}" text-anchor="middle">{line}</text>')
        y += 18
    return "\n".join([*parts, "</svg>\n"])


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8", newline="\n")
