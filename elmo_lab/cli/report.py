"""`elmo report`, which shows all results in folders on one page."""

import argparse
from pathlib import Path
from typing import Any

from elmo.cli.arguments import add_options, add_verb

GROUP = "the paper's tasks, and what layers know"


def add_verbs(verbs: Any) -> None:
    """Adds the verb of this file."""
    about = "write all results in folders as one HTML page or Markdown file"
    report = add_verb(verbs, "report", report_verb, about, "elmo report runs/ --output report.html")
    text = "folders that commands wrote, or files of their --json output"
    report.add_argument("folders", nargs="+", metavar="RUN", help=text)
    add_options(
        report,
        ("--output PLACE", "an .html file, or a folder for index.html"),
        ("--markdown FILE", "a Markdown file; figures go to a folder beside it"),
        ("--title TEXT", "title of the page (default: Results)", "Results"),
        "--overwrite",
    )


def report_verb(arguments: argparse.Namespace) -> None:
    from elmo_lab.report import job

    output, markdown = (None if each is None else Path(each) for each in (arguments.output, arguments.markdown))
    folders = list(map(Path, arguments.folders))
    for path in job.write_report(folders, output, markdown, arguments.title, arguments.overwrite):
        print(path)
