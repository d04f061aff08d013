"""The lines of a text file, with their numbers."""

import sys
from collections.abc import Iterator
from pathlib import Path

from elmo.errors import InputError
from elmo.text import corpus


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a text file (.gz, .xz, .bz2), without line ends, with their numbers, counted from 1."""
    if path.is_dir():
        raise InputError(f"{path}: is a folder; name one file")
    return enumerate((line.rstrip(corpus.END_OF_FILE) for line in corpus.lines(path, max_characters=sys.maxsize)), 1)
