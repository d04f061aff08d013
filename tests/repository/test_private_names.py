"""Tests see the packages as their users do: by public names."""

import ast
from collections.abc import Iterator
from pathlib import Path

from places import ROOT, TESTS

PACKAGES = ("elmo", "elmo_lab", "results")
PUBLIC_ELSEWHERE = {
    "_ElmoBiLm": "AllenNLP",
    "_ElmoCharacterEncoder": "AllenNLP",
    "_elmo_lstm": "AllenNLP",
    "_scalar_mixes": "AllenNLP",
    "_states": "AllenNLP",
    "_token_embedder": "AllenNLP",
    "_replace": "namedtuple",
    "_repr_png_": "Jupyter",
    "_schema": "torch",
}
"""Names with an underscore that are another program's; programs written for it use them."""


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in PUBLIC_ELSEWHERE


def defined(file: Path) -> Iterator[str]:
    """The private names of a file: functions, classes, variables and attributes."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name


def reached(file: Path) -> Iterator[tuple[int, str]]:
    """(line, name) of what a test imports, takes from an object other than its own, or replaces by its name."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        match node:
            case ast.ImportFrom(module=str(module), names=names) if module.partition(".")[0] in PACKAGES:
                yield from ((node.lineno, part) for name in names for part in f"{module}.{name.name}".split("."))
            case ast.Attribute(value=ast.Name(id="self" | "cls")):
                pass
            case ast.Attribute(attr=name):
                yield node.lineno, name
            case ast.Call(
                func=ast.Attribute(attr="setattr" | "object" | "delattr") | ast.Name(id="getattr"), args=given
            ):
                texts = [each.value for each in given if isinstance(each, ast.Constant)]
                yield from ((node.lineno, part) for text in texts for part in str(text).split("."))


def test_tests_use_no_private_name_of_the_packages() -> None:
    ours = {name for package in PACKAGES for file in (ROOT / package).rglob("*.py") for name in defined(file)}
    used = [
        f"{file.relative_to(ROOT)}:{line}: {name} is private; test what it does, or make it public"
        for file in sorted(TESTS.rglob("*.py"))
        for line, name in reached(file)
        if is_private(name) and name in ours
    ]
    assert not used, "\n".join(used)


def test_a_private_name_is_seen(tmp_path: Path) -> None:
    file = tmp_path / "test_a.py"
    file.write_text(
        "from elmo.cli import _a\nimport elmo\nelmo.x._b()\npatch.setattr(elmo, '_c', 1)\nself._d\n_e = 1\n",
        encoding="utf-8",
    )
    assert {name for _, name in reached(file) if is_private(name)} == {"_a", "_b", "_c"}
    assert list(defined(file)) == ["_e"]
