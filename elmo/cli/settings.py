"""The settings of a verb, as the source of its dataclasses describes them; imports nothing, so help comes at once."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from textwrap import wrap

WIDTH = 100


@dataclass(frozen=True)
class Setting:
    """One setting of a verb."""

    name: str
    """Its full name, section.key."""
    kind: str
    """Its annotation."""
    about: str
    """Its docstring, in one line."""


@cache
def settings_of(module: str, name: str) -> tuple[Setting, ...]:
    """The settings of a dataclass and of those in its fields, in their order."""
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
    """The dataclass that a field holds, by its module and name; None if it holds something else."""
    for part in [annotation.left, annotation.right] if isinstance(annotation, ast.BinOp) else [annotation]:
        if isinstance(part, ast.Name) and _class(module, part.id) is not None:
            return module, part.id
    return None


@cache
def _tree(module: str) -> ast.Module:
    spec = find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    return ast.parse(Path(spec.origin).read_text(encoding="utf-8"))


@cache
def _class(module: str, name: str) -> tuple[str, list[ast.stmt]] | None:
    """The body of a class, and the module that defines it, which this one may import it from."""
    for node in _tree(module).body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            return module, node.body
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("elmo"):
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return _class(str(node.module), alias.name)
    return None


def listed(module: str, name: str, verb: str) -> str:
    """Lines for the help of a verb: every setting with its kind and its description."""
    lines = [f"settings, as section.key=value ({verb} --settings shows them with their values, to edit):"]
    for setting in settings_of(module, name):
        lines.append(f"  {setting.name:<32} {setting.kind}")
        lines += [f"      {line}" for line in wrap(setting.about, WIDTH - 6)]
    return "\n".join(lines) + "\n"


def comments(module: str, name: str) -> dict[str, list[str]]:
    """The lines that stand above every setting in a file of settings, by its name."""
    found = {}
    for setting in settings_of(module, name):
        choices = [setting.kind] if setting.kind.startswith("Literal") else []
        found[setting.name] = [line for text in (setting.about, *choices) for line in wrap(text, WIDTH)]
    return found
