"""Tasks and probes by name, of this package and of others: the entry points `elmo.tasks` and `elmo.probes`."""

import tomllib
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

PROJECT = Path(__file__).parents[1] / "pyproject.toml"
"""What a clone's packages register, whenever it was installed; a wheel has no such file."""


def points(group: str) -> dict[str, EntryPoint]:
    """The entry points of a group by name: this project's in the order of pyproject.toml, then those of others."""
    others = sorted(entry_points(group=group), key=lambda point: point.name)
    return {point.name: point for point in (*_of_clone(group), *others)}


@cache
def _of_clone(group: str) -> tuple[EntryPoint, ...]:
    if not PROJECT.is_file():
        return ()
    groups = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["entry-points"]
    return tuple(EntryPoint(name, value, group) for name, value in groups.get(group, {}).items())
