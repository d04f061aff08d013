"""Reads the lines of a text file with their numbers."""

from collections.abc import Iterator
from pathlib import Path

from elmo.errors import InputError
from elmo.text import corpus

MOST_CHARACTERS = 1 << 28
"""The most characters of a line of labelled text; SQuAD's training data are a single line of 30 million."""


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yields the lines of a text file (also .gz, .xz, .bz2) without line ends, with their numbers from 1."""
    if path.is_dir():
        raise InputError(f"{path}: is a folder; name one file")
    lines = corpus.file_lines(path, MOST_CHARACTERS, whole=True)
    return enumerate((line.rstrip(corpus.END_OF_FILE) for line in lines), 1)
