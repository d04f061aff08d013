"""The pages of the documentation: their sections, and their blocks of code, which tests run as a reader would."""

import re

from places import ROOT

FENCED = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
SECTION = re.compile(r"^## (.+?)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)


def read(page: str) -> str:
    """The text of a page, which is named by its path in the checkout."""
    return (ROOT / page).read_text(encoding="utf-8")


def sections(page: str) -> dict[str, str]:
    """The text of each section of a page, by its heading."""
    return dict(SECTION.findall(read(page)))


def blocks(text: str, *languages: str) -> list[str]:
    """The fenced blocks of a text in these languages, in order."""
    return [body for language, body in FENCED.findall(text) if language in languages]
