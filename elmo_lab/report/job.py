"""Writes the report on folders of results: an HTML page, or Markdown with its figures beside it, or both."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from elmo.disk.files import atomic_path, check_distinct, check_not_input, check_output
from elmo.errors import InputError
from elmo_lab.report import markdown, page, sections
from elmo_lab.report.collect import collect

INDEX = "index.html"
FIGURES = ("*.svg",)


def write_report(
    paths: Sequence[Path],
    output: Path | None = None,
    markdown_file: Path | None = None,
    title: str = "Results",
    overwrite: bool = False,
) -> list[Path]:
    """Writes the results in `paths`; returns the written pages.

    `output` is an HTML file, or a folder that gets an `index.html`. `markdown_file` gets a folder of figures beside it,
    `NAME-figures`. The same results give the same bytes. Raises InputError if nothing is found or a result is damaged,
    or would be lost, and OSError if an output exists and may not be replaced.
    """
    if output is None and markdown_file is None:
        raise InputError("neither --output nor --markdown is given; name an HTML file or folder, or a Markdown file")
    file = None if output is None else _html_file(output)
    folder = None if markdown_file is None else markdown_file.with_name(f"{markdown_file.stem}-figures")
    check_distinct(file, markdown_file, folder)
    given = [path for path in paths if path.is_file()]
    outputs = [each for each in (file, markdown_file, folder) if each is not None]
    for each in outputs:
        if each.parent != output or each.parent.exists():
            check_output(each, overwrite, FIGURES if each == folder else (), given)
    results = collect(paths)
    for each in outputs:
        check_not_input(each, results.files)
    document = sections.document(results, title)
    written: list[Path] = []
    if file is not None:
        text = page.render(document)
        if file.parent == output:
            file.parent.mkdir(exist_ok=True)
        _write_page(file, text, overwrite)
        written.append(file)
    if markdown_file is not None and folder is not None:
        text, drawn = markdown.render(document, folder.name)
        if drawn:  # these are written first, so that the page never refers to a missing one
            write_figures(folder, drawn, overwrite)
        _write_page(markdown_file, text, overwrite)
        written.append(markdown_file)
    return written


def _html_file(output: Path) -> Path:
    """Returns the file of the page: the given file, or the one in the given folder."""
    if output.suffix not in (".html", ".htm"):
        if output.is_file():
            raise InputError(f"{output}: is a file; name an .html file, or a folder")
        return output / INDEX
    if output.is_dir():
        raise InputError(f"{output}: is a folder; name a file, or a folder whose name does not end with .html")
    return output


def write_figures(folder: Path, drawn: Mapping[str, bytes], overwrite: bool) -> None:
    """Writes the files of figures to a folder, which is replaced as a whole."""
    with atomic_path(folder, overwrite, FIGURES) as temporary:
        temporary.mkdir()
        for name, content in drawn.items():
            (temporary / name).write_bytes(content)


def _write_page(file: Path, text: str, overwrite: bool) -> None:
    with atomic_path(file, overwrite) as temporary:
        temporary.write_text(text, encoding="utf-8", errors="backslashreplace", newline="\n")
