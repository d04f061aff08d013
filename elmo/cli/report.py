"""`elmo report`: everything that is in folders of results, as one page."""

import argparse
from pathlib import Path
from typing import Any

from elmo.cli.arguments import add_verb


def add_verbs(verbs: Any) -> None:
    """That of this file."""
    report = add_verb(verbs, "report", report_verb, "write all results in folders as one HTML page, or as Markdown")
    report.add_argument("folders", nargs="+", metavar="RUN", help="folders, or files of --json, that commands wrote")
    report.add_argument("--output", metavar="PLACE", help="an .html file, or a folder that gets an index.html")
    report.add_argument("--markdown", metavar="FILE", help="a Markdown file, with a folder of figures beside it")
    report.add_argument("--title", default="Results", metavar="TEXT", help="of the page (default: Results)")
    report.add_argument("--overwrite", action="store_true", help="replace the output if it exists")


def report_verb(arguments: argparse.Namespace) -> None:
    from elmo.report import job

    output, markdown = (None if each is None else Path(each) for each in (arguments.output, arguments.markdown))
    written = job.write(list(map(Path, arguments.folders)), output, markdown, arguments.title, arguments.overwrite)
    for path in written:
        print(path)
