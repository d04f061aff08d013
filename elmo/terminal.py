"""Output of the commands: tables, settings, progress. Imports `rich` when something is shown."""

import math
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Characters that a terminal obeys instead of showing them."""
WIDEST = 100_000
"""Characters per line without a terminal: practically no limit."""


def printable(text: str) -> str:
    r"""The text with control characters, and those that turn its direction, escaped as in JSON: `\u001b`.

    Names and cards of models come from strangers. A text of JSON means the same afterwards, on one line.
    """
    return UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table without rules, as wide as the terminal or, without one, as needed. Omits an empty head."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, show_header=bool(head))
    for name in head:
        table.add_column(Text(name))
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))  # brackets are no markup
    is_terminal = sys.stdout.isatty()  # rich would obey FORCE_COLOR, which Jupyter sets
    Console(width=None if is_terminal else WIDEST, force_terminal=is_terminal).print(table)


def print_settings(values: Mapping[str, Any]) -> None:
    """Names and values; a nested table is indented below its name."""
    print_table([], list(_lines(values)))


def _lines(values: Mapping[str, Any], indent: str = "") -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        if isinstance(value, list | tuple) and any(isinstance(part, Mapping) for part in value):
            value = {str(number): part for number, part in enumerate(value, 1)}
        if isinstance(value, Mapping) and value:
            yield indent + str(name), ""
            yield from _lines(value, indent + "  ")
        else:
            yield indent + str(name), shown(value)


def shown(value: Any) -> str:
    """A value in readable form."""
    if value is None or value == {}:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1e4 else f"{value:.4g}"
    if isinstance(value, list | tuple):
        parts = (f"({shown(part)})" if isinstance(part, list | tuple) else shown(part) for part in value)
        return ", ".join(parts) or "none"
    return " ".join(str(value).split())


SECONDS = 60
"""Between the lines of a counter that is not shown on a terminal."""


class Counter:
    """Shows progress on a terminal; elsewhere, as in a log file, prints a line a minute to stderr."""

    def __init__(self, what: str, quiet: bool, *columns: Any) -> None:
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        console = Console(stderr=True, force_terminal=sys.stderr.isatty())
        columns = columns or (SpinnerColumn(), TextColumn("{task.completed:,} " + what), TimeElapsedColumn())
        self._progress = Progress(*columns, console=console, transient=True, disable=quiet or not console.is_terminal)
        self._task = self._progress.add_task(what, total=None)
        self._what = what
        self._next_line = math.inf if quiet or console.is_terminal else time.monotonic() + SECONDS

    def update(self, done: int, total: int | None = None) -> None:
        """Shows the count; `total` is kept if it is not given again."""
        self._progress.update(self._task, completed=done, total=total)
        if time.monotonic() >= self._next_line:
            sys.stderr.write(f"{self._what}: {done:,}\n")
            self._next_line = time.monotonic() + SECONDS

    def __enter__(self) -> "Counter":
        self._progress.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._progress.stop()
