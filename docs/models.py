"""Writes the tables of models.md from elmo/formats/models.toml: `make models`. A test compares the two."""

from itertools import groupby
from pathlib import Path

from elmo.formats import published
from elmo.formats.published import PublishedFile, PublishedModel

PAGE = Path(__file__).with_name("models.md")
MARK = "<!-- What follows is written by `make models` from elmo/formats/models.toml. -->\n"


def page() -> str:
    """The whole page: what people wrote of it up to the mark, then a section for each layout and source."""
    text = PAGE.read_text(encoding="utf-8").partition(MARK)[0]
    groups = groupby(
        published.published_models(), key=lambda model: (model.layout, model.page, model.citation, model.license)
    )
    return text + MARK + "".join(section(list(rows)) for _, rows in groups)


def section(rows: list[PublishedModel]) -> str:
    """Models that share layout, page and citation."""
    first = rows[0]
    languages = {row.language for row in rows}
    title = f"{', '.join(languages) if len(languages) == 1 else 'Several languages'}: {first.layout}"
    lines = [
        f"\n## {title}\n",
        f"[Page]({first.page}). Licence: {first.license or 'none is stated'}. {first.citation}\n",
        "| name | language | about | size | files |",
        "|---|---|---|---|---|",
        *(f"| {names(row)} | {row.language} | {row.about} | {size(row)} | {files(row)} |" for row in rows),
        "",
        *(f"- {name}: {text}" for name, text in sources(rows)),
    ]
    return "\n".join(lines) + "\n"


def names(row: PublishedModel) -> str:
    """The name, then the aliases."""
    return ", ".join(f"`{name}`" for name in (row.name, *row.aliases))


def size(row: PublishedModel) -> str:
    """In bytes, where it is known of any file."""
    known = [f"{file.size:,}" for file in row.files if file.size is not None]
    return " + ".join(known)


def files(row: PublishedModel) -> str:
    """Links to each file and its mirrors, and its hash."""
    return "; ".join(map(links, row.files)) or "by hand, from the page"


def links(file: PublishedFile) -> str:
    """One file: its name is the first address, a number each mirror."""
    mirrors = "".join(f" [{number}]({url})" for number, url in enumerate(file.urls[1:], 2))
    return f"[{file.name}]({file.urls[0]}){mirrors}" + (f" sha256 `{file.sha256}`" if file.sha256 else "")


def sources(rows: list[PublishedModel]) -> list[tuple[str, str]]:
    """Where addresses, licences, hashes were read, each text once with the models it is about."""
    kinds = {
        "addresses": lambda row: row.address_from,
        "licence": lambda row: row.license_from or "not found",
        "hash": lambda row: "; ".join(sorted({file.hash_from for file in row.files if file.hash_from})),
        "note": lambda row: row.note,
    }
    found = []
    for kind, read in kinds.items():
        by_text: dict[str, list[str]] = {}
        for row in rows:
            by_text.setdefault(read(row), []).append(f"`{row.name}`")
        for text, models in by_text.items():
            which = "" if len(by_text) == 1 else f" of {', '.join(models) if len(models) < 6 else 'the others'}"
            found += [(kind + which, text)] if text else []
    return found


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
