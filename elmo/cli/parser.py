"""The parser of the command line: argparse's, with verbs by job, their examples, and errors that suggest options."""

import argparse
import re
import sys
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from elmo.errors import did_you_mean
from elmo.terminal import escape_controls

CHOICE = re.compile(r"^(.*invalid choice: '([^']*)') \(choose from (.*)\)$")
GROUPS = ("text to vectors", "similar uses", "a language model", "models", "in the browser, and for other programs")
"""The jobs, in the order of `elmo --help`; those of other packages follow."""


class Parser(argparse.ArgumentParser):
    """Suggests the word that was probably meant. `settings` returns the lines on a verb's settings for its help.

    `home` finds the module and the name of the dataclass of these settings, or returns None if there is none.
    """

    group = ""
    example = ""
    settings: Callable[[], str] | None = None
    home: Callable[[], tuple[str, str] | None] = staticmethod(lambda: None)

    def error(self, message: str) -> NoReturn:
        if (found := CHOICE.match(message)) is not None:
            choices = re.findall(r"[^\s,']+", found[3])
            meant = did_you_mean(found[2], choices) or did_you_mean(found[2], self.options())
            message = found[1] + (meant or f"; one of {', '.join(choices)} is expected")
        elif "; " not in message:
            message += f"; {self.prog} --help lists the options"
        said = escape_controls(" ".join(message.split()))
        program = "elmo" if self.prog.startswith("elmo") else self.prog  # without the verb
        self.exit(2, f"{program}: error: {said}\n")

    def _print_message(self, message: str, file: Any = None) -> None:
        if file is sys.stdout:  # argparse would ignore that it takes no more of the help
            print(message, end="", flush=True)
        else:
            super()._print_message(message, file)

    def format_help(self) -> str:
        verbs = next((action for action in self._actions if isinstance(action, argparse._SubParsersAction)), None)
        if verbs is not None and self.prog == "elmo":
            return self._all_verbs(verbs)
        shown = super().format_help()
        if self.settings is not None and (lines := self.settings()):
            shown += f"\n{lines}"
        return shown + (f"\nexample:\n  {self.example}\n" if self.example else "")

    def _all_verbs(self, verbs: Any) -> str:
        """Returns the help of `elmo` itself, which lists its verbs by job, each with an example."""
        about = {action.dest: action.help for action in verbs._choices_actions}
        parts = [self.format_usage(), f"\n{self.description}\n"]
        found = {parser.group for parser in verbs.choices.values()}
        for group in (*GROUPS, *sorted(found.difference(GROUPS))):
            parts.append(f"\n{group}:\n")
            for name, parser in verbs.choices.items():
                if parser.group == group:
                    parts.append(
                        f"    {name:<13}{about[name]}\n" + (f"        $ {parser.example}\n" if parser.example else "")
                    )
        parts.append("\noptions:\n    -h, --help   this help; elmo VERB --help lists a verb's options\n")
        parts.append("    --version    the version\n")
        return "".join(parts)

    def options(self) -> list[str]:
        """Returns the long options of this parser."""
        return [name for action in self._actions for name in action.option_strings if name.startswith("--")]


def meant_option(parser: Parser, unknown: str, following: str | None, settings: Iterable[str]) -> str:
    """Returns the end of the error for an unknown option; it names the setting or the option that was meant."""
    name = unknown.lstrip("-").partition("=")[0].replace("-", "_")
    value = unknown.partition("=")[2] or (following if following and not following.startswith("-") else "VALUE")
    for setting in settings:
        if name in (setting, setting.rpartition(".")[2]):
            return f"; a setting is written without dashes: {setting}={value}"
    if not unknown.startswith("-") and "--text" in parser.options():
        return f"; a text to read is given as --text {unknown}"
    meant = did_you_mean(unknown.partition("=")[0], parser.options())
    return meant or f"; {parser.prog} --help lists the options"
