"""The reference names what exists: every member that its pages list is one of its module or class."""

import re
from importlib import import_module
from pathlib import Path

import pytest
from places import ROOT

PAGES = [ROOT / "docs" / "api.md", *sorted((ROOT / "docs").glob("reference-*.md"))]
ENTRY = re.compile(r"^\.\. auto(module|class|function):: (\S+)\n(?:   :members:([^\n]*)\n)?", re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_a_page_of_the_reference_lists_exists(page: Path) -> None:
    entries = ENTRY.findall(page.read_text(encoding="utf-8"))
    assert entries
    for kind, name, members in entries:
        home, _, own = name.rpartition(".")
        found = import_module(name) if kind == "module" else getattr(import_module(home), own)
        for member in filter(None, re.split(r"[,\s]+", members)):
            assert hasattr(found, member) or member in getattr(found, "__annotations__", {}), f"{name} has no {member}"
