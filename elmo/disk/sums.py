"""The sha256 of the files that a run goes on from, so that a damaged one is named and never read."""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from elmo import config as configs
from elmo.disk.files import write_run_file

SUMS = "sha256.json"
"""The file in a folder with the sums of the others."""


def sha256_of(path: Path) -> str:
    """Returns the sha256 of a file, as hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_sums(folder: Path, names: Iterable[str]) -> None:
    """Writes the sums of the files with these names, for `check_sums`."""
    sums = {name: sha256_of(folder / name) for name in names}
    write_run_file(folder / SUMS, json.dumps(sums, indent=2).encode())


def check_sums(folder: Path) -> None:
    """Raises ValueError if a file has changed since `write_sums`, and FileNotFoundError if it is missing.

    Runs of version 0.1.0 have no sums, and nothing is checked.
    """
    if not (folder / SUMS).exists():
        return
    sums = configs.load_json(folder / SUMS)
    if not isinstance(sums, dict):
        raise ValueError(f"{SUMS} has no sums")
    for name, known in sums.items():
        configs.check_regular(folder / name)
        if sha256_of(folder / name) != known:
            raise ValueError(f"{name} is not what was written")
