"""Published models on this machine: one folder per model, in the cache.

`ELMO_CACHE` names the cache; the default is `elmo` in `XDG_CACHE_HOME` or in `~/.cache`. Beside a model's files is
`pulled.json`, with the source and the sha256 of each. Nothing here uses the network.
"""

import errno
import os
from pathlib import Path
from typing import Any

from elmo.config import load_json
from elmo.errors import InputError
from elmo.formats import published
from elmo.formats.published import PublishedModel

RECORD = "pulled.json"


def cache_folder() -> Path:
    """Returns the folder of pulled models. Raises InputError if it lies in the home folder and that is unknown."""
    named = os.environ.get("ELMO_CACHE")
    xdg = os.environ.get("XDG_CACHE_HOME", "")
    try:
        if named:
            return Path(named).expanduser()
        # The XDG specification says to ignore a relative path.
        return (Path(xdg) if Path(xdg).is_absolute() else Path.home() / ".cache") / "elmo"
    except RuntimeError as error:
        raise InputError(f"{named or '~/.cache/elmo'}: no such home folder; name another in ELMO_CACHE") from error


def make_folder(folder: Path, remedy: str = "name another folder in ELMO_CACHE") -> None:
    """Creates a folder for a cache. Raises OSError, which names the remedy, if that fails."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        problem = f"the cache cannot be written ({error.strerror}); {remedy}"
        raise OSError(error.errno, problem, str(folder)) from error


def folder_of(model: PublishedModel) -> Path:
    """Returns the model's folder, which may not exist."""
    return cache_folder() / model.name


def path_of(model: PublishedModel) -> Path:
    """Returns the path for `elmo.load` of a model in the cache: its folder, or its file if it has only one."""
    folder = folder_of(model)
    names = [file.name for file in model.files] or _put_by_hand(folder)
    return folder / names[0] if len(names) == 1 else folder


def is_pulled(model: PublishedModel) -> bool:
    """Returns whether all files of the model are in the cache, or, if they are unknown, anything in its folder."""
    folder = folder_of(model)
    if not model.files:
        return bool(_put_by_hand(folder))
    return all((folder / file.name).is_file() for file in model.files)


def by_hand(model: PublishedModel) -> str:
    """Returns words for an error: how to get a model that cannot be downloaded."""
    what = "put it" if model.files else "give its path, or put its files"
    return f"get it at {model.page} and {what} into {folder_of(model)}"


def _put_by_hand(folder: Path) -> list[str]:
    """The names in the folder of a model whose files are unknown, so nothing is downloaded there."""
    return sorted(file.name for file in folder.iterdir() if not file.name.startswith(".")) if folder.is_dir() else []


def local(reference: str | Path) -> Path | None:
    """Returns the local file or folder that `reference` means; None if it is unknown.

    `reference` is a path, the name of a published model (its folder, or its file if it has only one), one of the
    addresses from which programs load a published file (its copy in the cache), or the bare name of such a file
    (`elmo_2x4096_512_2048cnn_2xhighway_weights.hdf5`). Downloads nothing: raises FileNotFoundError, which names the
    command, for a known model that is not in the cache, and InputError for an unknown address.
    """
    if Path(reference).exists():
        return Path(reference)
    model = published.find_model(str(reference))
    if model is not None:
        _require(model, str(reference))
        return path_of(model)
    found = published.find_file(str(reference))
    if found is not None:
        model, file = found
        path = folder_of(model) / file.name
        if not path.is_file():
            _require(model, str(reference))
        return path
    if "://" in str(reference):
        raise InputError(
            f"{reference}: not an address of a published model (elmo models --json lists them); download the file"
            " yourself and give its path"
        )
    return None


def _require(model: PublishedModel, reference: str) -> None:
    if not is_pulled(model):
        what = "a published model" if model.name == reference else f"of the published model {model.name}"
        if not model.files:
            raise FileNotFoundError(f"{reference}: {what} without a known download address; {by_hand(model)}")
        raise FileNotFoundError(f"{reference}: {what}, not yet in {cache_folder()}; get it: elmo pull {model.name}")


def read_record(folder: Path) -> dict[str, dict[str, Any]]:
    """Reads the entries of `pulled.json` by file, without damaged ones; there are none if the file is missing."""
    try:
        return {file: entry for file, entry in load_json(folder / RECORD)["files"].items() if isinstance(entry, dict)}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
