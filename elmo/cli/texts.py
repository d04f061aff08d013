"""`elmo text`, which makes texts to train on."""

import argparse
from pathlib import Path
from typing import Any

from elmo.cli.arguments import add_options, add_output, add_verb, print_json, take_output
from elmo.terminal import Counter, print_table

GROUP = "a language model"


def add_verbs(verbs: Any) -> None:
    """Adds the verb of this file."""
    about = "make a clean training text and a held-out text from a folder of files"
    text = add_verb(verbs, "text", text_verb, about, "elmo text texts/ clean/ --language la")
    text.add_argument("input", nargs="+", metavar="FOLDER", help="text files (.txt, .gz, .xz, .bz2); last, the output")
    add_output(text, "a new folder: train.txt, heldout.txt, report.json")
    add_options(
        text,
        ("--language CODE", "remove paragraphs in another language, e.g. la"),
        ("--encoding NAME", "of files that are not Unicode, e.g. windows-1252"),
        ("--heldout-share SHARE", "share held out, in whole files (default: 0.02)", 0.02),
        ("--seed N", "which files are held out (default: 1)", 1),
        ("--keep-lines", "every line is a paragraph, as in verse"),
        ("--json", "print the report as JSON"),
        "--overwrite",
        "--strict",
        "--quiet",
    )


def text_verb(arguments: argparse.Namespace) -> None:
    from dataclasses import asdict

    from elmo.text.clean import CleanConfig, clean_folder

    take_output(arguments, most=1)
    config = CleanConfig(
        arguments.language, arguments.encoding, arguments.heldout_share, arguments.seed, arguments.keep_lines
    )
    with Counter("files", arguments.quiet) as counter:
        report = clean_folder(arguments.input[0], arguments.output, config, arguments.overwrite, counter.update)
    if arguments.json:
        print_json(asdict(report), indent=2)
        return
    _print_report(report, Path(arguments.output))


def _print_report(report: Any, output: Path) -> None:
    for part, words in report.words.items():
        own = [file for file in report.files if file.part == part]
        if own:
            print(f"{output / part}: {words:,} words of {len(own):,} files")
    encodings = [file.encoding for file in report.files]
    counts = ", ".join(f"{encodings.count(each):,} {each}" for each in sorted(set(encodings)))
    print(f"encodings: {counts}")
    if report.removed:
        rows = [[what, f"{found['count']:,}", ", ".join(found["first"])] for what, found in report.removed.items()]
        print_table(["removed or changed", "times", "first places"], rows)
    print(f"{output / 'report.json'} has this of every file")
