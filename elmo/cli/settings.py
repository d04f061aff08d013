"""Reads and shows the settings of a verb: its recipe and its overrides.

The descriptions are read from the source of the settings' dataclasses. Nothing is imported, so help comes at once.
"""

import argparse
import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from textwrap import wrap
from typing import Any

from elmo import config
from elmo.cli.arguments import add_options, print_json
from elmo.cli.parser import Parser
from elmo.errors import InputError

WIDTH = 100


@dataclass(frozen=True)
class Setting:
    """One setting of a verb."""

    name: str
    """The full name of the setting, section.key."""
    kind: str
    """The type of the setting, as annotated."""
    about: str
    """The description of the setting, from its docstring, in one line."""


@cache
def settings_of(module: str, name: str) -> tuple[Setting, ...]:
    """Returns the settings of a dataclass and of the dataclasses in its fields, in order."""
    return tuple(_settings(module, name, ""))


def _settings(module: str, name: str, where: str) -> Iterator[Setting]:
    found = _class(module, name)
    assert found is not None, f"{module} has no class {name}"
    home, body = found
    for field, following in zip(body, [*body[1:], ast.Pass()], strict=True):
        if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
            continue
        inner = _inner(home, field.annotation)
        if inner is not None:
            yield from _settings(*inner, f"{where}{field.target.id}.")
            continue
        has_doc = isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
        about = str(following.value.value) if has_doc else ""  # type: ignore[union-attr]
        yield Setting(where + field.target.id, ast.unparse(field.annotation), " ".join(about.split()))


def _inner(module: str, annotation: ast.expr) -> tuple[str, str] | None:
    """Returns the module and name of the dataclass that a field holds; None if it holds something else."""
    for part in [annotation.left, annotation.right] if isinstance(annotation, ast.BinOp) else [annotation]:
        if isinstance(part, ast.Name) and _class(module, part.id) is not None:
            return module, part.id
    return None


@cache
def _tree(module: str) -> ast.Module:
    """Parses the source of a module; it is empty if there is none. `find_spec` would import the package above it."""
    package, *names = module.split(".")
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        return ast.parse("")
    place = Path(spec.origin).parent.joinpath(*names)
    file = place.with_suffix(".py") if names and not place.is_dir() else place / "__init__.py"
    return ast.parse(file.read_text(encoding="utf-8") if file.is_file() else "")


@cache
def _class(module: str, name: str) -> tuple[str, list[ast.stmt]] | None:
    """Finds the module that defines a class, which `module` may import, and the class's body."""
    for node in _tree(module).body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            return module, node.body
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("elmo"):
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return _class(str(node.module), alias.name)
    return None


def config_of(entry_point: str, keyword: str = "config") -> tuple[str, str] | None:
    """Finds the settings of an entry point, `module:NAME`: the class that NAME's call takes as its argument `config`.

    Returns the module and name of the class, or None if the source has no such call.
    """
    module, _, name = entry_point.partition(":")
    for node in _tree(module).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and ast.unparse(node.targets[0]) == name:
            for argument in node.value.keywords:
                if argument.arg == keyword and isinstance(argument.value, ast.Name):
                    return module, argument.value.id
    return None


def add_settings(
    parser: Parser,
    home: Callable[[], tuple[str, str] | None],
    recipe: str = "a TOML file or a packaged recipe",
    example: str = "",
) -> None:
    """Adds a verb's recipe, its overrides, and the flags that only print settings.

    `home` finds the module and the dataclass of the settings, or returns None if they cannot be known beforehand. It is
    called only for help and settings, since reading the source of all probes would take longer than most commands.
    """
    parser.add_argument("recipe", nargs="?", help=recipe)
    about = f"settings{example and f', e.g. {example}'}"
    parser.add_argument("overrides", nargs="*", metavar="section.key=value", help=about)
    add_options(
        parser,
        ("--settings", "only print all settings, with their meaning, as TOML to edit"),
        ("--print-config", "only print the configuration, as JSON"),
    )
    parser.set_defaults(settings_of=lambda arguments: [] if (found := home()) is None else settings_of(*found))
    parser.home = home
    parser.settings = lambda: _listed(home(), parser.prog)


def _listed(home: tuple[str, str] | None, verb: str) -> str:
    """Returns the lines for the help of a verb: every setting with its kind and its description."""
    if home is None:
        return ""
    lines = [f"settings, as section.key=value ({verb} --settings shows them with their values, to edit):"]
    for setting in settings_of(*home):
        lines.append(f"  {setting.name:<32} {setting.kind}")
        lines += [f"      {line}" for line in wrap(setting.about, WIDTH - 6)]
    return "\n".join(lines) + "\n"


def only_shows(arguments: argparse.Namespace) -> bool:
    """Returns whether a verb is asked to print its settings and do nothing else."""
    return arguments.settings or arguments.print_config


def show(arguments: argparse.Namespace, made: Any) -> None:
    """Prints the settings `made` as they were asked for: as TOML to edit, or as JSON."""
    if arguments.print_config:
        print_json(config.to_dict(made), indent=2)
        return
    verb = " ".join(filter(None, (arguments.parser.prog, getattr(arguments, "task", None))))
    print(f"# {verb} SETTINGS.toml; what is removed from this file keeps its default\n")
    print(config.to_toml(config.to_dict(made), setting_comments(arguments.settings_of(arguments))), end="")


def setting_comments(settings: Sequence[Setting]) -> dict[str, list[str]]:
    """Returns the lines that stand above each setting in a file of settings, by the setting's name."""
    found = {}
    for setting in settings:
        choices = [setting.kind] if setting.kind.startswith("Literal") else []
        found[setting.name] = [line for text in (setting.about, *choices) for line in wrap(text, WIDTH)]
    return found


def recipe_and_overrides(arguments: argparse.Namespace) -> tuple[str | None, list[str]]:
    """Returns the recipe and the overrides; without a recipe, argparse puts the first override in its place."""
    if arguments.recipe is not None and "=" in arguments.recipe:
        return None, [arguments.recipe, *arguments.overrides]
    return arguments.recipe, list(arguments.overrides)


def resumed_folder(output: str | None, record: str | None = None) -> Path:
    """Returns the folder of the run to resume. Raises InputError if `output` is None, or lacks the file `record`."""
    if output is None:
        raise InputError("--resume needs --output, the folder of the run to continue; omit it to start a new run")
    folder = Path(output)
    if record is not None and not (folder / record).is_file():
        raise InputError(f"{folder / record}: no such file, so there is no run to resume; omit --resume to start one")
    return folder


def require(values: dict[str, Any], placeholders: Mapping[str, Any], shows: bool, example: str) -> None:
    """Raises InputError for a missing setting that has a flag; if settings are only shown, a placeholder is set."""
    for name, placeholder in placeholders.items():
        if name in values:
            continue
        if not shows:
            raise InputError(f"--{name.replace('_', '-')} is missing; for example: {example}")
        values[name] = placeholder
