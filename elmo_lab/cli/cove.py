"""`elmo cove`: the encoder of a translation model, for its vectors."""

import argparse
from pathlib import Path
from typing import Any

from elmo import config
from elmo.cli.arguments import add_quiet, add_verb
from elmo.errors import InputError

NEEDED = ("source", "target", "heldout_source", "heldout_target", "output")


def add_verbs(verbs: Any) -> None:
    """Adds the verb of this file."""
    cove = add_verb(
        verbs,
        "cove",
        cove_verb,
        "train a translation model, and keep its encoder for its vectors (CoVe)",
        "elmo cove --source en.txt --target de.txt --output run/",
        "the paper's tasks, and what layers know",
    )
    cove.add_argument("overrides", nargs="*", metavar="section.key=value", help="settings, e.g. encoder.dim=600")
    cove.add_argument("--source", metavar="TEXT", help="text (.txt, .gz, .xz) in the language that gets vectors")
    cove.add_argument("--target", metavar="TEXT", help="its translation, line by line")
    cove.add_argument("--heldout-source", metavar="TEXT", help="text to measure perplexity on, to choose the epoch")
    cove.add_argument("--heldout-target", metavar="TEXT", help="its translation, line by line")
    cove.add_argument("--vectors", metavar="FILE", help="static word vectors in GloVe's text format (default: learned)")
    cove.add_argument("--output", metavar="FOLDER", help="folder of the run; the encoder is FOLDER/model")
    cove.add_argument("--resume", action="store_true", help="continue the run in FOLDER, with the same result")
    add_quiet(cove)


def cove_verb(arguments: argparse.Namespace) -> None:
    from elmo_lab.tasks import translation

    values: dict[str, Any] = {}
    if arguments.resume:
        if arguments.output is None:
            raise InputError("--resume needs --output, the folder of the run to continue")
        values = config.to_dict(translation.read_record(Path(arguments.output)))
    flags = {name: value for name in (*NEEDED, "vectors") if (value := getattr(arguments, name)) is not None}
    values = config.merge(config.merge(values, flags), config.parse_overrides(arguments.overrides))
    for name in NEEDED:
        if name not in values:
            raise InputError(f"--{name.replace('_', '-')} is missing; see elmo cove --help")
    made = config.from_dict(translation.CoveConfig, values)
    for name, value in translation.main(made, arguments.resume, arguments.quiet).items():
        print(f"{name:20} {value:,}" if isinstance(value, int) else f"{name:20} {value}")
