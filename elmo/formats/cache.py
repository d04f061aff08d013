"""Published models on this machine: one folder per model, in the cache.

`ELMO_CACHE` names the cache; the default is `elmo` in `XDG_CACHE_HOME` or in `~/.cache`. Beside a model's files is
`pulled.json`, with the source and the sha256 of each. Nothing here uses the network.
"""

import errno
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from elmo.errors import InputError
from elmo.formats import published
from elmo.formats.download import sha256_of
from elmo.formats.published import PublishedModel

RECORD = "pulled.json"
Verdict = Literal["as published", "as pulled", "unknown", "differs", "missing"]


def cache_folder() -> Path:
    """Where pulled models are. Raises InputError if that is in a home folder that is unknown."""
    named = os.environ.get("ELMO_CACHE")
    xdg = os.environ.get("XDG_CACHE_HOME", "")
    try:
        if named:
            return Path(named).expanduser()
        # The XDG specification: ignore a relative path.
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
    """The model's folder, which may not exist."""
    return cache_folder() / model.name


def path_of(model: PublishedModel) -> Path:
    """The path for `elmo.load` of a model in the cache: its folder, or its file if it has only one."""
    folder = folder_of(model)
    names = [file.name for file in model.files] or _put_by_hand(folder)
    return folder / names[0] if len(names) == 1 else folder


def is_pulled(model: PublishedModel) -> bool:
    """Whether all files of the model are in the cache; if its files are unknown, whether anything is in its folder."""
    folder = folder_of(model)
    if not model.files:
        return bool(_put_by_hand(folder))
    return all((folder / file.name).is_file() for file in model.files)


def by_hand(model: PublishedModel) -> str:
    """How to get a model that cannot be downloaded: words for an error."""
    folder = folder_of(model)
    if not model.files:
        return f"get it at {model.page} and give its path, or put its files into {folder}"
    return f"get it at {model.page} and put it into {folder}"


def _put_by_hand(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir() if not _is_ours(file)) if folder.is_dir() else []


def local(reference: str | Path) -> Path | None:
    """The local file or folder that `reference` means; None if it is unknown.

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
    """The entries of `pulled.json` by file; empty without one."""
    try:
        files = json.loads((folder / RECORD).read_text(encoding="utf-8"))["files"]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return files if isinstance(files, dict) else {}


# Verifying


@dataclass(frozen=True)
class Verified:
    """The result for one file."""

    path: Path
    verdict: Verdict
    sha256: str | None
    about: str
    """The matching published file, or what was expected."""


def verify(reference: str | Path) -> list[Verified]:
    """Compares files with the table by their sha256: those of a pulled model by its name, one file, or a folder's.

    "as published": the sha256 is in the table. "as pulled": the table has none for it, but it matches what `elmo pull`
    got. "differs": from either. "unknown": nothing to compare with. "missing": a file of the model is not in the cache.
    Raises FileNotFoundError if `reference` is neither a path nor a name.
    """
    path = Path(reference)
    if path.is_file():
        return [_verify(path)]
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.is_file() and not _is_ours(file))
        if not files:
            raise InputError(f"{path}: the folder has no files; name another")
        return [_verify(file) for file in files]
    model = published.find_model(str(reference))
    if model is None:
        raise FileNotFoundError(
            f"{reference}: no such file or folder, and not a published model (elmo models lists them)"
        )
    folder = folder_of(model)
    names = [file.name for file in model.files] or _put_by_hand(folder)
    if not names:
        raise InputError(f"{model.name}: its files are unknown, and {folder} has none; give the path of a file")
    return [_verify(folder / name, model) for name in names]


def _is_ours(file: Path) -> bool:
    return file.name == RECORD or file.name.startswith(".") or file.name.endswith((".part", ".part.json"))


def _verify(path: Path, model: PublishedModel | None = None) -> Verified:
    if not path.is_file():
        return Verified(path, "missing", None, f"elmo pull {model.name}" if model else "")
    digest = sha256_of(path)
    same = published.files_by_hash().get(digest)
    if same is not None:
        return Verified(path, "as published", digest, f"{same[0].name}: {same[1].name}")
    expected = _expected(path, model)
    if expected is not None:
        return Verified(path, "differs", digest, f"{expected} is published")
    pulled = read_record(path.parent).get(path.name, {}).get("sha256")
    if pulled is not None:
        verdict: Verdict = "as pulled" if pulled == digest else "differs"
        return Verified(path, verdict, digest, f"{pulled} was pulled; none is published")
    return Verified(path, "unknown", digest, "no published sha256 to compare with")


def _expected(path: Path, model: PublishedModel | None) -> str | None:
    """The published sha256 of the file of this name: in its model, or if the name is unique (`elmo_...`)."""
    model = model or published.find_model(path.absolute().parent.name)
    found = next((file for file in model.files if file.name == path.name), None) if model is not None else None
    if found is None:
        by_name = published.find_file(path.name)
        found = by_name[1] if by_name is not None else None
    return None if found is None else found.sha256
