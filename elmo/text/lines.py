"""The lines of a text file, and the columns of a line."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from elmo.errors import InputError
from elmo.text import corpus


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a text file (.gz, .xz), without line ends, with their numbers, counted from 1."""
    if path.is_dir():
        raise InputError(f"{path}: is a folder; name one file")
    return enumerate(corpus.lines(path, max_characters=sys.maxsize), 1)


def columns_at_spaces(line: str) -> list[str]:
    """The columns of a line. Other white space, such as a no-break space, belongs to them, but not at their ends."""
    return [column.strip() for column in re.split("[ \t]", line) if column.strip()]
