"""Prints the tables, settings and progress of the commands. `rich` is imported when a table is printed."""

import os
import re
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Self

UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Matches the characters that a terminal obeys instead of showing them."""
WIDEST = 100_000
"""The characters per line without a terminal, which is practically no limit."""


def escape_controls(text: str) -> str:
    r"""Escapes control characters, and those that turn the direction of text, as JSON does: `\u001b`.

    Names and cards of models come from strangers. Escaped JSON on one line keeps its meaning.
    """
    return UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Prints a table without rules, as wide as the terminal or, without one, as needed. An empty head is omitted."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, show_header=bool(head))
    for name in head:
        table.add_column(Text(name))
    for row in rows:
        table.add_row(*(Text(escape_controls(cell)) for cell in row))  # `Text` takes brackets literally, not as markup
    is_terminal = sys.stdout.isatty()  # rich would obey FORCE_COLOR, which Jupyter sets
    Console(width=None if is_terminal else WIDEST, force_terminal=is_terminal).print(table)


def print_settings(values: Mapping[str, Any]) -> None:
    """Prints names and values; a nested table is indented below its name."""
    print_table([], list(_lines(values)))


def _lines(values: Mapping[str, Any], indent: str = "") -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        if isinstance(value, list | tuple) and any(isinstance(part, Mapping) for part in value):
            value = {str(number): part for number, part in enumerate(value, 1)}
        if isinstance(value, Mapping) and value:
            yield indent + str(name), ""
            yield from _lines(value, indent + "  ")
        else:
            yield indent + str(name), format_value(value)


def format_value(value: Any) -> str:
    """Returns a value as text for people."""
    if value is None or value == {}:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1e4 else f"{value:.4g}"
    if isinstance(value, list | tuple):
        parts = (f"({format_value(part)})" if isinstance(part, list | tuple) else format_value(part) for part in value)
        return ", ".join(parts) or "none"
    return " ".join(str(value).split())


REDRAWN, LOGGED = 0.1, 30.0
"""The seconds between two states of the line on a terminal, and between two lines of a log."""
TICK = 1.0
"""The seconds between two states of a line that only has the time."""
BAR = 16
"""The characters of the bar on a terminal."""
drawn = 0
"""The characters of the line of progress that is on the terminal now."""


def print_line(line: str) -> None:
    """Prints a line to stderr, above a line of progress."""
    _wipe()
    _write(f"{line}\n")


def _write(text: str) -> None:
    """Writes to stderr. No job ends because its log is on a full disk: the line is lost, or comes later."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except BrokenPipeError:  # its reader is done
        raise
    except OSError:
        return


class Counter:
    """Shows how far a job is, on stderr: done, total, speed and time left.

    On a terminal and in a notebook, it rewrites one line, which is never wider than the terminal. Elsewhere, as in a
    log file, it prints a line every half minute. `what` is the name of what is counted; `scale` is how many of it make
    a shown unit (1e6 for MB).
    """

    def __init__(self, what: str, quiet: bool = False, label: str = "", scale: float = 1) -> None:
        self._what, self._label, self._scale = what, f"{label}: " if label else "", scale
        self._quiet, self._is_live = quiet, _is_live()
        self.begin(0)

    def begin(self, done: int) -> None:
        """Sets the count that was done before, as by an interrupted run; the speed is that of the rest."""
        self._began, self._first = time.monotonic(), done
        self._done, self._total, self._notes = done, 0, []
        self._due = self._began + (0 if self._is_live else LOGGED)

    def update(self, done: int, total: int | None = None, notes: Sequence[str] = ()) -> None:
        """Shows the count; `total` and `notes`, the further parts of the line, stay until they are given again."""
        self._done, self._total = done, total or self._total
        self._notes = list(notes) or self._notes
        if not self._quiet and time.monotonic() >= self._due:
            self.show()

    def show(self) -> None:
        """Shows the count now."""
        if self._quiet:
            return
        now = time.monotonic()
        self._due = now + (REDRAWN if self._is_live else LOGGED)
        self._put(self._parts(now))

    @contextmanager
    def waiting(self, step: str) -> Iterator[None]:
        """Shows a step that cannot tell how far it is, and the time that it has taken, while the block runs."""
        if self._quiet:
            yield
            return
        began, ended = time.monotonic(), threading.Event()

        def tell() -> None:
            while not ended.wait(TICK if self._is_live else LOGGED):
                so_far = timedelta(seconds=round(time.monotonic() - began))
                self._put([f"{self._label}{step}", f"{so_far} so far"])

        teller = threading.Thread(target=tell, daemon=True)
        teller.start()
        try:
            yield
        finally:
            ended.set()
            teller.join()
            if self._is_live:
                _wipe()

    def _put(self, parts: Sequence[str]) -> None:
        if self._is_live:
            _draw(_fitting(parts, _width()))
        else:
            print_line("  ".join(parts))

    def _parts(self, now: float) -> list[str]:
        """Returns the parts of the line, the most important first."""
        of = f" of {self._shown(self._total)}" if self._total else ""
        parts = [f"{self._label}{self._shown(self._done)}{of} {self._what}"]
        share = min(1.0, self._done / self._total) if self._total else 0.0
        if self._total and self._is_live:
            parts.append(("#" * round(BAR * share)).ljust(BAR, "."))
        fresh, seconds = self._done - self._first, now - self._began
        if fresh > 0 and seconds > 0:
            speed = fresh / seconds
            parts.append(f"{speed / self._scale:,.{0 if speed >= 10 * self._scale else 2}f}/s")
            if self._total:
                left = timedelta(seconds=round(max(0, self._total - self._done) / speed))
                parts.append(f"{left} left")
        return [*parts, *self._notes]

    def _shown(self, number: int) -> str:
        return f"{number:,}" if self._scale == 1 else f"{number / self._scale:,.1f}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._is_live and not self._quiet:
            _wipe()


def _is_live() -> bool:
    """Whether a line on stderr can be rewritten: on a terminal, or in a notebook."""
    return sys.stderr.isatty() or type(sys.stderr).__module__.startswith("ipykernel")


def _width() -> int:
    """Returns the columns of the terminal less one, since a full line would begin the next."""
    try:
        columns = int(os.environ.get("COLUMNS", 0)) or os.get_terminal_size(sys.stderr.fileno()).columns
    except (OSError, ValueError):  # a notebook has no terminal
        columns = 80
    return max(1, columns - 1)


def _fitting(parts: Sequence[str], width: int) -> str:
    """Joins as many of the parts as fit into the width, in order."""
    line = parts[0][:width]
    for part in parts[1:]:
        if len(line) + 2 + len(part) <= width:
            line += f"  {part}"
    return line


def _draw(line: str) -> None:
    global drawn
    _write(f"\r{line.ljust(drawn)}")
    drawn = len(line)


def _wipe() -> None:
    """Removes the line of progress, if there is one."""
    global drawn
    if drawn:
        _write(f"\r{' ' * drawn}\r")
        drawn = 0
