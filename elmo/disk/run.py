"""Folders of runs: each has a record of its settings, belongs to one process at a time, and resumes with the same."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from elmo import config as configs
from elmo.disk.files import advise_resume, is_unfinished
from elmo.disk.lock import LOCK, locked
from elmo.errors import InputError

T = TypeVar("T")


def make_folder(folder: Path, remedy: str = "name another --output") -> None:
    """Creates a folder, before hours of work. Raises OSError with the remedy if that fails."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(error.errno, f"{error.strerror}; {remedy}", str(folder)) from error


@contextmanager
def lock_folder(
    folder: Path, activity: str = "trains here", remedy: str = "name another --output", is_moved: bool = False
) -> Iterator[None]:
    """Creates a run's folder and locks it for the block; removes it if it is empty afterwards.

    The lock is a file in the folder, or beside it if the block moves the folder. If another process uses the folder,
    raises InputError with its `activity` and the `remedy`.
    """
    try:
        with ExitStack() as stack:
            make_folder(folder, remedy)  # if this fails, there is nothing to resume
            with advise_resume(folder):
                lock = folder.with_name(f".{folder.name}{LOCK}") if is_moved else folder / LOCK
                mine = stack.enter_context(locked(lock))
            if not mine:
                raise InputError(f"{folder}: another process {activity}; wait until it ends, or {remedy}")
            yield
    finally:
        with suppress(OSError):
            folder.rmdir()


def holds_run(record: Path, besides: Sequence[str] = (), inside: Sequence[str] = ()) -> bool:
    """Returns whether the folder of `record`, a run's first file, holds a run; False if it is empty or missing.

    Raises InputError if the folder or one of its folders, `inside`, is a file, and if it holds anything else than a
    run. A lock, unfinished files and the names in `besides` do not count.
    """
    folder = record.parent
    try:
        str(folder).encode()
    except UnicodeEncodeError as error:  # safetensors can write files there, but cannot read them
        raise InputError(f"{folder}: the name is not UTF-8; name another --output") from error
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: is a file; name a folder for the run as --output")
    # This is checked before the record, since another job of the queue may start the run in between.
    used = is_used(folder, besides)
    if record.exists():
        for part in (folder / name for name in inside):
            if os.path.lexists(part) and not part.is_dir():
                raise InputError(f"{part}: is a file, but the run needs a folder there; move it out")
        return True
    if used:
        raise InputError(f"{folder}: the folder exists but holds no run; name another --output, or empty it")
    return False


def is_used(folder: Path, besides: Sequence[str] = ()) -> bool:
    """Returns whether a folder exists and holds anything but a lock, unfinished files and the names in `besides`."""
    others = (LOCK, *besides)
    return folder.exists() and any(path.name not in others and not is_unfinished(path) for path in folder.iterdir())


def check_same(
    record: Path, kept: Mapping[str, Any], now: Mapping[str, Any], remedy: str = "name another --output"
) -> None:
    """Raises InputError if a resumed run has other settings `now` than those `kept` in `record`. Both are JSON."""
    for name, value in now.items():
        if kept.get(name) != value:
            was, is_now = configs.differing_parts(kept.get(name), value)
            raise InputError(
                f"{record}: {name} was {was!r}, now it is {is_now!r}; a resumed run keeps its settings: give the former"
                f" one, or {remedy}"
            )


def read_settings(kind: type[T], record: Path, key: str | None = None) -> T:
    """Reads the settings of a run from its record, where they are the whole object or its value at `key`.

    Raises InputError if the file is damaged or not such a record, and FileNotFoundError if there is none.
    """
    try:
        values = configs.load_json(record)
        return configs.from_dict(kind, values if key is None else values[key])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{record}: not the record of a run ({error}); name another --output") from error


def read_json(file: Path, remedy: str = "name another --output") -> dict[str, Any]:
    """Reads a JSON object that a run wrote. Raises InputError with the remedy if the file is damaged."""
    try:
        found = configs.load_json(file)
    except ValueError as error:
        raise InputError(f"{file}: not valid JSON ({error}); {remedy}") from error
    if not isinstance(found, dict):
        raise InputError(f"{file}: not a JSON object; {remedy}")
    return found
