"""Downloads a published model into the cache: each file from its first address that works.

The variable `ELMO_OFFLINE` forbids it, unless it is 0 or empty. A second `pull` of the same model downloads nothing.
"""

import codecs
import datetime
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elmo.disk.files import atomic_path
from elmo.disk.run import lock_folder
from elmo.errors import InputError
from elmo.formats import cache, published
from elmo.formats.download import DownloadError, ExpectedFile, download, part_of
from elmo.formats.published import PublishedFile, PublishedModel
from elmo.text.vocabulary import SPECIAL

Progress = Callable[[str, int, int | None], None]
"""A function that is called with a file's name, the bytes received and the total."""


@dataclass(frozen=True)
class Pulled:
    """A model in the cache."""

    model: PublishedModel
    path: Path
    """The path for `elmo.load`."""
    new: tuple[str, ...]
    """The files downloaded by this call."""
    sha256: dict[str, str]
    """The sha256 of each file that was downloaded, now or before."""


def is_offline() -> bool:
    """Returns whether the variable ELMO_OFFLINE forbids the network."""
    return os.environ.get("ELMO_OFFLINE", "") not in ("", "0")


def pull(name: str, progress: Progress | None = None) -> Pulled:
    """Downloads the missing files of the model with this name.

    Raises InputError if the name is unknown, has no address or may not be downloaded, and DownloadError (an OSError) if
    no address provides a file. The received part is kept; the next call continues it.
    """
    model = published.model_named(name)
    folder = cache.folder_of(model)
    missing = _missing(model, folder)
    if not cache.is_pulled(model):
        _check_may_download(model, missing)
        cache.make_folder(folder)
        with lock_folder(folder, "is pulling this model", "stop it"):
            missing = _missing(model, folder)  # another process may have downloaded it meanwhile
            for file in missing:
                _pull_file(model, file, folder, progress)
    digests = {file: entry["sha256"] for file, entry in cache.read_record(folder).items() if "sha256" in entry}
    return Pulled(model, cache.path_of(model), tuple(file.name for file in missing), digests)


def discard_pages(pulled: Pulled) -> list[str]:
    """Removes files that are web pages, such as a login, so that the next pull gets them; returns their names."""
    folder = cache.folder_of(pulled.model)
    pages = [file.name for file in pulled.model.files if _is_page(folder / file.name)]
    if not pages:
        return []
    for name in pages:
        (folder / name).unlink()
    _write_record(folder, {name: entry for name, entry in cache.read_record(folder).items() if name not in pages})
    return pages


def _is_page(path: Path) -> bool:
    """Whether a file is HTML or XML. Among a model's files, only a vocabulary begins with `<`, that of `<S>`."""
    with path.open("rb") as file:
        start = file.read(1000).removeprefix(codecs.BOM_UTF8).lstrip()
    return start.startswith(b"<") and not start.startswith(tuple(word.encode() for word in SPECIAL))


def _missing(model: PublishedModel, folder: Path) -> list[PublishedFile]:
    return [file for file in model.files if not (folder / file.name).is_file()]


def _check_may_download(model: PublishedModel, missing: list[PublishedFile]) -> None:
    by_hand = cache.by_hand(model)
    if is_offline():
        raise InputError(f"{model.name} is not in the cache, and ELMO_OFFLINE is set; unset it, or {by_hand}")
    if not model.files:
        raise InputError(f"{model.name}: no download address is known; {by_hand}")
    for file in missing:
        if not file.urls:
            raise InputError(f"{model.name}: no download address of {file.name} is known; {by_hand}")


def _pull_file(model: PublishedModel, file: PublishedFile, folder: Path, progress: Progress | None) -> None:
    tell = None if progress is None else lambda done, total: progress(file.name, done, total)
    target = folder / file.name
    try:
        digest = download(file.urls, target, ExpectedFile(file.size, file.sha256), tell)
    except DownloadError as error:
        kept = "the received part is kept: " if part_of(target).exists() else ""
        raise DownloadError(
            f"{model.name}: {error}; {kept}try again later, or get {file.name} elsewhere (see {model.page}) and put it"
            f" into {folder}"
        ) from error
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    entry = {"sha256": digest, "bytes": target.stat().st_size, "date": today}
    _write_record(folder, cache.read_record(folder) | {file.name: entry})


def _write_record(folder: Path, files: dict[str, dict[str, Any]]) -> None:
    with atomic_path(folder / cache.RECORD, overwrite=True) as temporary:
        temporary.write_text(json.dumps({"files": files}, indent=2) + "\n", encoding="utf-8", newline="\n")
