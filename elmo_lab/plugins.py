"""Finds tasks and probes by name, of this package and of others, by the entry points `elmo.tasks` and `elmo.probes`."""

import tomllib
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TypeVar

from elmo.errors import InputError, did_you_mean

T = TypeVar("T")
PROJECT = Path(__file__).parents[1] / "pyproject.toml"
"""The file with the entry points of a clone, read so that a clone needs no reinstallation. A wheel has no such file."""


def entry_points_of(group: str) -> dict[str, EntryPoint]:
    """Returns the entry points of a group by name: this project's, in pyproject.toml's order, then those of others."""
    others = sorted(entry_points(group=group), key=lambda point: point.name)
    return {point.name: point for point in (*_of_clone(group), *others)}


@cache
def _of_clone(group: str) -> tuple[EntryPoint, ...]:
    if not PROJECT.is_file():
        return ()
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8")).get("project", {})
    if project.get("name") != "elmo-torch":  # another package has left it beside this one
        return ()
    groups = project["entry-points"]
    return tuple(EntryPoint(name, value, group) for name, value in groups.get(group, {}).items())


def find(group: str, kind: type[T], name: str) -> T:
    """Returns the object of class `kind`, such as `Task`, with a name.

    Raises InputError if the name is unknown, its package cannot be imported, or the object is no `kind` of this name.
    """
    found, what = entry_points_of(group), kind.__name__.lower()
    if name not in found:
        raise InputError(f"unknown {what} {name!r}; the {what}s are {', '.join(found)}{did_you_mean(name, found)}")
    try:
        made = found[name].load()
    except (ImportError, AttributeError) as error:
        raise InputError(f"the {what} {name!r}: {found[name].value} cannot be imported ({error})") from error
    if not isinstance(made, kind) or getattr(made, "name", None) != name:
        raise InputError(f"the {what} {name!r}: {found[name].value} is {made!r:.60}, no {kind.__name__} of this name")
    return made
