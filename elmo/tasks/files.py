"""Where the files are that a recipe names."""

import os
from pathlib import Path

from elmo.errors import InputError

DATA = "ELMO_DATA"
"""The variable that names the folder of the data, where no setting does."""


def resolve(path: str, data: str | None) -> Path:
    """The file: as it is named, else in the folder `data`, or in that which ELMO_DATA names."""
    root = data or os.environ.get(DATA)
    here = Path(path)
    if here.exists() or here.is_absolute() or root is None:
        return here
    return Path(root) / path


def find_file(path: str, data: str | None) -> Path:
    """As `resolve`. Raises InputError where the file is not there."""
    found = resolve(path, data)
    if not found.is_file():
        remedy = "put it there" if found != Path(path) else f"name the folder of the data with --data, or in {DATA}"
        raise InputError(f"{found}: no such file; {remedy}, or name another file")
    return found
