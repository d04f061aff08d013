"""`elmo cove`, which trains a translation model for the vectors of its encoder."""

import argparse
from typing import Any

from elmo import config
from elmo.cli.arguments import add_options, add_verb
from elmo.cli.settings import add_settings, only_shows, recipe_and_overrides, require, resumed_folder, show

GROUP = "the paper's tasks, and what layers know"

NEEDED = ("source", "target", "heldout_source", "heldout_target", "output")


def add_verbs(verbs: Any) -> None:
    """Adds the verb of this file."""
    about = "train a translation model, and keep its encoder for its vectors (CoVe)"
    cove = add_verb(verbs, "cove", cove_verb, about, "elmo cove --source en.txt --target de.txt --output run/")
    add_settings(cove, lambda: ("elmo_lab.tasks.translation", "CoveConfig"), "a TOML file", "encoder.dim=600")
    add_options(
        cove,
        ("--source TEXT", "text (.txt, .gz, .xz, .bz2) in the language that gets vectors"),
        ("--target TEXT", "its translation, line by line"),
        ("--heldout-source TEXT", "text to measure perplexity on, to choose the epoch"),
        ("--heldout-target TEXT", "its translation, line by line"),
        ("--vectors FILE", "static word vectors in GloVe's text format (default: learned)"),
        ("--output FOLDER", "folder of the run; the encoder is FOLDER/model"),
        ("--resume", "continue the run in FOLDER, with the same result"),
        "--quiet",
    )


def cove_verb(arguments: argparse.Namespace) -> None:
    from elmo_lab.tasks import translation

    begun = None
    if arguments.resume:
        folder = resumed_folder(arguments.output, translation.RECORD)
        begun = config.to_dict(translation.read_record(folder))
    recipe, overrides = recipe_and_overrides(arguments)
    flags = {name: getattr(arguments, name) for name in (*NEEDED, "vectors")}
    of_recipe = {} if recipe is None else config.load_toml(config.find_recipe(recipe))
    values = config.combined(of_recipe, flags, overrides, begun)
    example = "elmo cove --source en.txt --target de.txt --heldout-source en.dev --heldout-target de.dev --output run/"
    require(values, {name: name.upper() for name in NEEDED}, only_shows(arguments), example)
    made = config.from_dict(translation.CoveConfig, values)
    if only_shows(arguments):
        show(arguments, made)
        return
    for name, value in translation.train_cove(made, arguments.resume, arguments.quiet).items():
        print(f"{name:20} {value:,}" if isinstance(value, int) else f"{name:20} {value}")
