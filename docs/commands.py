"""Writes commands.md from the command line's own parser: `make commands`. A test compares the two."""

import argparse
import dataclasses
import json
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from elmo import config
from elmo.cli import build_parser
from elmo.cli.parser import GROUPS, Parser
from elmo.cli.settings import settings_of

PAGE = Path(__file__).with_name("commands.md")
HEAD = """# Commands

This page lists the commands by job, each with an example. A click on *Options* opens their table.
`elmo VERB --help` prints the same in a terminal.

An option may stand before or after the files. A setting has no dashes: `section.key=value`. An error is one line that
says what to do, and the exit code is 2. It is 1 if training cannot continue or memory runs out, and 130 after Ctrl-C.
"""
DEFAULT = re.compile(r"\s*\(default: ([^()]*(?:\([^()]*\))?[^()]*)\)$")


def page() -> str:
    """The whole page."""
    parser = build_parser()
    verbs = verbs_of(parser)
    groups = (*GROUPS, *sorted({verb.group for verb in verbs.values()}.difference(GROUPS)))
    parts = [HEAD, contents(verbs, groups)]
    for group in groups:
        parts.append(f"\n## {group[0].upper()}{group[1:]}\n")
        for verb in verbs.values():
            if verb.group == group:
                parts += sections(verb)
    return "".join(parts)


def verbs_of(parser: argparse.ArgumentParser) -> dict[str, Parser]:
    """The parsers of a parser's verbs, by name."""
    found: dict[str, Parser] = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found |= action.choices
    return found


def contents(verbs: dict[str, Parser], groups: tuple[str, ...]) -> str:
    """The table of jobs and their commands."""
    rows = ["\n| job | commands |\n|---|---|\n"]
    for group in groups:
        links = [link("elmo", name) for name, verb in verbs.items() if verb.group == group]
        rows.append(f"| {group} | {', '.join(links)} |\n")
    return "".join(rows)


def link(program: str, name: str) -> str:
    """A link to the section of a command."""
    return f"[{name}](#{program.replace(' ', '-')}-{name})"


def sections(parser: Parser) -> Iterator[str]:
    """The part of the page of a command, and those of its subcommands."""
    level = "#" * (1 + len(parser.prog.split()))
    yield f"\n{level} {parser.prog}\n\n{escaped(parser.description or '')}\n"
    if parser.example:
        yield f"\n```sh\n{parser.example}\n```\n"
    inner = verbs_of(parser)
    arguments = [] if inner else list(rows(parser))
    if arguments:
        yield folded(f"Options of <code>{parser.prog}</code>", ("argument", "meaning", "default"), arguments)
    if (home := parser.home()) is not None:
        yield f"\n`{parser.prog} --settings` prints all settings as a file to edit.\n"
        yield folded(f"Settings of <code>{parser.prog}</code>", ("setting", "meaning", "default"), [*settings(*home)])
    if inner:
        yield f"\nIts commands: {', '.join(link(parser.prog, name) for name in inner)}.\n"
    for verb in inner.values():
        yield from sections(verb)


def folded(title: str, head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A table that opens at a click on its title, which keeps the page short on a phone."""
    return f"\n<details>\n<summary>{title}</summary>\n{table(head, rows)}\n</details>\n"


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A table in Markdown."""
    lines = [head, ("---",) * len(head), *rows]
    return "\n" + "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def rows(parser: Parser) -> Iterator[tuple[str, str, str]]:
    """Each argument of a command: how it is written, what it means, what it is if it is left out."""
    for action in parser._actions:
        if isinstance(action, argparse._HelpAction) or action.help == argparse.SUPPRESS:
            continue
        meaning = str(action.help or "")
        default = DEFAULT.search(meaning)
        one_of = f"one of {', '.join(f'`{each}`' for each in action.choices)}" if action.choices else ""
        meaning = "; ".join(filter(None, (DEFAULT.sub("", meaning), one_of)))
        yield written(action), escaped(meaning), escaped(default[1] if default else default_of(action))


def written(action: argparse.Action) -> str:
    """An argument as it is typed."""
    value = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    if not action.option_strings:
        return f"`{value}`" + (" ..." if action.nargs in ("+", "*") else "")
    name = max(action.option_strings, key=len)
    return f"`{name}`" if action.nargs == 0 else f"`{name} {value}`" + (" ..." if action.nargs in ("+", "*") else "")


def default_of(action: argparse.Action) -> str:
    """What an argument is if it is left out, as far as the parser knows."""
    if action.nargs == 0 or action.default is None or action.default == []:
        needed = action.required and action.nargs not in ("*", "?")
        return "required" if needed else ""
    return str(action.default)


def settings(module: str, name: str) -> Iterator[tuple[str, str, str]]:
    """The settings of a command, with their defaults."""
    kind = getattr(import_module(module), name)
    for setting in settings_of(module, name):
        kinds = re.findall(r"'([^']*)'", setting.kind) if setting.kind.startswith("Literal") else []
        one_of = f"One of {', '.join(f'`{each}`' for each in kinds)}." if kinds else ""
        meaning = " ".join(filter(None, (setting.about, one_of)))
        yield f"`{setting.name}`", escaped(meaning), value_of(kind, setting.name)


def value_of(kind: Any, name: str) -> str:
    """A setting's default as it is written in a file of settings, by its full name; nothing if it has none."""
    first, *inner = name.split(".")
    field = kind.__dataclass_fields__[first]
    value = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
    if value is dataclasses.MISSING:
        return ""
    for key in inner:
        value = getattr(value, key, None)
    return "`none`" if value is None else f"`{json.dumps(value, default=config.to_dict)}`"


def escaped(text: str) -> str:
    """Text for a cell of a table."""
    return text.replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8", newline="\n")
