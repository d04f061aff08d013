"""`elmo completion` prints a script with which a shell completes verbs, options and files."""

import argparse
from typing import Any

from elmo.cli.arguments import add_verb
from elmo.errors import InputError, pip_line

GROUP = "in the browser, and for other programs"

PUBLISHED = "pull"
"""The verb whose arguments are names of published models."""


def add_verbs(verbs: Any) -> None:
    """Adds the verb of this file."""
    about = "print a script that completes commands in your shell"
    completion = add_verb(verbs, "completion", completion_verb, about, "elmo completion bash > ~/.elmo-completion")
    completion.add_argument("shell", choices=["bash", "zsh"], help="your shell")


def completion_verb(arguments: argparse.Namespace) -> None:
    try:
        import shtab
    except ImportError as error:
        raise InputError(f"completion needs shtab ({error}): {pip_line('completion')}") from error
    from elmo.cli import build_parser
    from elmo.formats import published

    parser = build_parser()
    _complete(parser, shtab.FILE, [model.name for model in published.published_models()])
    print(shtab.complete(parser, shell=arguments.shell))


def _complete(parser: argparse.ArgumentParser, file: Any, models: list[str]) -> None:
    """Lets the shell complete arguments that are neither numbers nor choices as files, or as names of models."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for verb in action.choices.values():
                _complete(verb, file, models)
        elif parser.prog.rpartition(" ")[2] == PUBLISHED and not action.option_strings:
            action.choices = models
        elif action.choices is None and action.type is None and action.nargs != 0:
            action.complete = file  # type: ignore[attr-defined]
