"""What the commands show: tables, and how far they are. `rich` is imported when something is shown."""

import sys
from collections.abc import Sequence
from typing import Any

WIDEST = 100_000
"""Characters of a line where there is no terminal: a limit that is not reached."""


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table without lines; as wide as the terminal, or as it must be where that is none."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for name in head:
        table.add_column(Text(name))
    for row in rows:
        table.add_row(*map(Text, row))  # what is in brackets is no markup here
    is_terminal = sys.stdout.isatty()  # rich would believe FORCE_COLOR, which Jupyter sets
    Console(width=None if is_terminal else WIDEST, force_terminal=is_terminal).print(table)


class Counter:
    """How many are done and how fast, on the terminal only."""

    def __init__(self, what: str, quiet: bool, *columns: Any) -> None:
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        console = Console(stderr=True, force_terminal=sys.stderr.isatty())
        columns = columns or (SpinnerColumn(), TextColumn("{task.completed:,} " + what), TimeElapsedColumn())
        self._progress = Progress(*columns, console=console, transient=True, disable=quiet or not console.is_terminal)
        self._task = self._progress.add_task(what, total=None)

    def update(self, done: int, total: int | None = None) -> None:
        self._progress.update(self._task, completed=done, total=total)

    def __enter__(self) -> "Counter":
        self._progress.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._progress.stop()
