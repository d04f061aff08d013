"""Reads the table of published models (`models.toml`): where their files are, and the sources of that information.

The table is data. Nothing here uses the network or the cache; `pull` and `cache` do.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

from elmo import errors
from elmo.config import ConfigError, from_dict, load_toml, merge_tables
from elmo.errors import InputError

TABLE = Path(__file__).with_name("models.toml")


@dataclass(frozen=True)
class PublishedFile:
    """One file of a published model."""

    name: str
    """The file's name in the cache."""
    urls: tuple[str, ...] = ()
    """Download addresses: the authors' own, then mirrors. Empty if no plain request works."""
    known_as: tuple[str, ...] = ()
    """Other addresses that programs use for this file; never used for downloads."""
    size: int | None = None
    """The size in bytes."""
    sha256: str | None = None
    hash_from: str = ""
    """The source of size and hash."""


@dataclass(frozen=True)
class PublishedModel:
    """One row of the table. A field is empty if the source does not say it."""

    name: str
    language: str
    about: str
    layout: str
    page: str
    """The model's web page."""
    files: tuple[PublishedFile, ...]
    citation: str
    address_from: str
    """The source of the addresses."""
    license: str = ""
    license_from: str = ""
    """The source of the licence, or the place where none was found."""
    aliases: tuple[str, ...] = ()
    note: str = ""


@cache
def published_models() -> tuple[PublishedModel, ...]:
    """Returns the whole table, in order."""
    rows = []
    for collection in load_toml(TABLE)["collection"]:
        shared = {key: value for key, value in collection.items() if key != "model"}
        rows += [merge_tables(shared, row) for row in collection["model"]]
    try:
        return tuple(from_dict(PublishedModel, row) for row in rows)
    except ConfigError as error:
        raise ConfigError(f"{TABLE}: {error}") from error


def find_model(name: str) -> PublishedModel | None:
    """Returns the model with this name or alias, ignoring case."""
    wanted = name.lower()
    known = ((model, each) for model in published_models() for each in (model.name, *model.aliases))
    return next((model for model, each in known if each.lower() == wanted), None)


def model_named(name: str) -> PublishedModel:
    """Returns what `find_model` returns. Raises InputError if there is no such model."""
    model = find_model(name)
    if model is None:
        close = [other.name for other in published_models() if name.lower() in other.name.lower()]
        hint = f"; similar names: {', '.join(close[:8])}" if close else did_you_mean(name)
        raise InputError(f"{name!r} is not a known published model{hint or '; elmo models lists them'}")
    return model


def did_you_mean(name: str, others: Sequence[str] = ()) -> str:
    """Returns a question for the end of an error, with the most similar name of these and the published models."""
    known = [*others, *(alias for model in published_models() for alias in (model.name, *model.aliases))]
    return errors.did_you_mean(name, known, 0.75)


def find_file(reference: str) -> tuple[PublishedModel, PublishedFile] | None:
    """Returns the first file in the table with this address, or with this bare file name of AllenNLP (`elmo_...`)."""
    if "/" not in reference:
        return next(((m, f) for m, f in _files() if f.name == reference and f.name.startswith("elmo_")), None)
    try:
        wanted = normal_address(reference)
    except ValueError:  # it is not an address
        return None
    return next(((m, f) for m, f in _files() if wanted in map(normal_address, (*f.urls, *f.known_as))), None)


def normal_address(url: str) -> str:
    """Returns an address for comparison: without scheme and query, and with one of S3's two ways of naming a bucket."""
    parts = urlsplit(url)
    host, path = parts.netloc.lower(), parts.path
    in_path = re.fullmatch(r"s3[-.\w]*\.amazonaws\.com", host)
    in_host = re.fullmatch(r"([-\w]+)\.s3[-.\w]*\.amazonaws\.com", host)
    if in_path:
        return f"s3:{path}"
    if in_host:
        return f"s3:/{in_host[1]}{path}"
    return f"{parts.scheme}:{host}{path}" if parts.scheme == "hf" else f"{host}{path}"


def _files() -> Iterator[tuple[PublishedModel, PublishedFile]]:
    return ((model, file) for model in published_models() for file in model.files)
