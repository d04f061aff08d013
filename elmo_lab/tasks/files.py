"""Finds the files that a recipe names."""

import os
from pathlib import Path

from elmo.errors import InputError

DATA = "ELMO_DATA"
"""The environment variable that names the data folder, if no setting does."""


def resolve_data(path: str, data: str | None) -> Path:
    """Returns the path itself if it exists, otherwise its place in the folder `data` or that of ELMO_DATA."""
    root = data or os.environ.get(DATA)
    here = Path(path)
    if here.exists() or here.is_absolute() or root is None:
        return here
    return Path(root) / path


def find_file(path: str, data: str | None) -> Path:
    """Finds a file as `resolve_data` does. Raises InputError if it does not exist."""
    found = resolve_data(path, data)
    if not found.is_file():
        remedy = "put it there" if found != Path(path) else f"name the folder of the data with --data, or in {DATA}"
        raise InputError(f"{found}: no such file; {remedy}, or name another file")
    return found
