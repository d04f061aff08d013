"""Finds the models in this package and in model packages, wheels that hold the files of a native folder and no code.

A model package names its folder in the entry points of the group `elmo.models`: `english-large =
elmo_torch_english_large`. `models/` in the repository has the sources of this project's own.
"""

import warnings
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from shlex import quote

from elmo import __version__
from elmo.errors import InputError, in_one_line, installer
from elmo.formats import native, published
from elmo.formats.stored import Description

ASSETS = Path(__file__).parent.parent / "assets"
GROUP = "elmo.models"
SOURCES = Path(__file__).parents[2] / "models"
"""The folders that this project's model packages are built from, in a clone."""
OWN = ("english-large", "english-small", "latin")
"""The models of this project's model packages."""


def packaged_names() -> list[str]:
    """Returns the names of the models that come with the package."""
    return sorted(folder.name for folder in ASSETS.glob("*/") if native.recognizes(folder))


def installed_packages() -> dict[str, str]:
    """Returns the models of installed model packages: their names, and the package with its version.

    It leaves out names that mean another model.
    """
    points = entry_points(group=GROUP)
    names = sorted(points.names - {"default", *packaged_names()})
    return {name: _source(points[name]) for name in names if published.find_model(name) is None}


def folder_of(name: str) -> Path | None:
    """Returns the folder of an installed model; None if there is no such model.

    Raises InputError if its package is not whole, or if several packages have a model of this name.
    """
    points = sorted(entry_points(group=GROUP, name=name), key=_source)
    sources = sorted({_source(point) for point in points})
    if not sources:
        return None
    if len(sources) > 1:
        raise InputError(f"{name}: is in several packages ({', '.join(sources)}); uninstall all but one")
    try:
        found = find_spec(points[0].value)
    except Exception:  # it imports what the name lies in, which can raise anything
        found = None
    for folder in (found.submodule_search_locations or ()) if found is not None else ():
        if native.recognizes(Path(folder)):
            return Path(folder)
    raise InputError(f"{name}: the package {sources[0]} has no model in it; install it again")


def describe_all() -> list[tuple[str, str, Description]]:
    """Returns the packaged models, then the installed ones: name, package with its version, and description.

    Warns of a package that is damaged or of another version, which hides no other model.
    """
    own = [(name, f"elmo-torch {__version__}", native.describe(ASSETS / name)) for name in packaged_names()]
    for name, package in installed_packages().items():
        try:
            if (folder := folder_of(name)) is not None:
                own.append((name, package, native.describe(folder)))
        except (InputError, OSError) as error:
            warnings.warn(f"{name} ({package}) is not listed: {in_one_line(error)}", stacklevel=2)
    return own


def how_to_install(name: str) -> str:
    """Returns words for an error: how to install one of this project's model packages."""
    if (SOURCES / name / "pyproject.toml").is_file():
        return f"{installer()} {quote(str(SOURCES / name))}"
    return f"{installer()} ./models/{name} (in a clone of the repository)"


def _source(point: EntryPoint) -> str:
    return "an unknown package" if point.dist is None else f"{point.dist.name} {point.dist.version}"
