"""Measures the size of the code: lines, files, long files and functions, extras, and the frames from command to kernel.

    python benchmarks/house.py            # this checkout
    python benchmarks/house.py ../before  # another one

The program prints a row of a Markdown table for each figure. `--extras` adds the packages that each extra brings, by
the metadata of what is installed.
"""

import argparse
import ast
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

LONG_FILE, LONG_FUNCTION = 300, 60
EXTRAS = "text", "train", "serve", "tasks", "probes", "index"
SCOPES = {
    "the package with the laboratory": ("elmo", "elmo_lab"),
    "the library (`elmo`)": ("elmo",),
    "tests": ("tests",),
}
FRAMES = """
import runpy, sys, threading
kernels = ("mkldnn", "linear", "_lstm", "baddbmm", "addmm", "matmul")
deepest = []
def watch(frame, event, argument):
    if event == "c_call" and any(name in getattr(argument, "__name__", "") for name in kernels):
        depth, ours = frame, 0
        while depth:
            ours += "/elmo" in depth.f_code.co_filename and "site-packages" not in depth.f_code.co_filename
            depth = depth.f_back
        deepest.append(ours)
sys.setprofile(watch)
threading.setprofile(watch)
try:
    runpy.run_module("elmo", run_name="__main__")
finally:
    sys.setprofile(None)
    print("FRAMES", max(deepest, default=0), file=sys.stderr)
"""
"""A program that runs `elmo` and counts the package's own frames above the deepest product."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("checkout", type=Path, nargs="?", default=Path())
    parser.add_argument(
        "--extras", action="store_true", help="add the packages and megabytes of each extra, which must be installed"
    )
    arguments = parser.parse_args()
    root = arguments.checkout.resolve()
    for title, value in [*figures(root), *frames(root), *(extras() if arguments.extras else [])]:
        print(f"| {title} | {value:,} |", flush=True)


def figures(root: Path) -> Iterator[tuple[str, int]]:
    listed = subprocess.run(["git", "-C", str(root), "ls-files"], capture_output=True, text=True, check=True)
    tracked = [root / name for name in listed.stdout.splitlines()]
    python = [path for path in tracked if path.suffix == ".py"]
    rooms = Counter({"elmo": 0, "elmo_lab": 0, "tests": 0})
    code = Counter(rooms)
    longer, functions = 0, 0
    for path in python:
        room = path.relative_to(root).parts[0]
        text = path.read_text(encoding="utf-8")
        rooms[room] += text.count("\n")
        code[room] += lines_of_code(text)
        if room in ("elmo", "elmo_lab"):
            longer += text.count("\n") > LONG_FILE
            functions += sum(length > LONG_FUNCTION for length in lengths(text))
    for title, parts in SCOPES.items():
        yield f"lines of {title}", sum(rooms[part] for part in parts)
        yield f"lines of code of {title}", sum(code[part] for part in parts)
    yield "tracked files", len(tracked)
    yield f"files over {LONG_FILE} lines in the package", longer
    yield f"functions over {LONG_FUNCTION} lines in the package", functions


def lines_of_code(text: str) -> int:
    """Counts the lines that are not blank and not part of a comment or docstring."""
    aside: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            aside.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines = enumerate(map(str.strip, text.splitlines()), 1)
    return sum(bool(line) and not line.startswith("#") and number not in aside for number, line in lines)


def lengths(text: str) -> Iterator[int]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield (node.end_lineno or node.lineno) - node.lineno + 1


def frames(root: Path) -> Iterator[tuple[str, int]]:
    """Yields the number of the package's own frames from the command to the deepest product, for the main paths."""
    with tempfile.TemporaryDirectory() as folder:
        text, script = Path(folder, "text.txt"), Path(folder, "frames.py")
        text.write_text("She wrote a play .\nThey play chess .\n" * 50, encoding="utf-8")
        script.write_text(FRAMES, encoding="utf-8")
        small = "min_count=1 model.lstm.dim=16 model.lstm.projection_dim=8 objective.negatives=8 streams=2 epochs=1"
        train = ["train", "english-small", "--train", str(text), "--output", f"{folder}/run", *small.split()]
        for arguments in (
            ["embed", str(text), f"{folder}/v.npz"],
            ["score", str(text)],
            ["perplexity", str(text)],
            train,
        ):
            environment = os.environ | {"PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"}
            command = [sys.executable, str(script), *arguments]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
            counts = [int(line.split()[1]) for line in done.stderr.splitlines() if line.startswith("FRAMES")]
            if done.returncode or not counts:
                sys.exit(f"elmo {arguments[0]}: {done.stderr.strip()}")
            yield f"frames from `elmo {arguments[0]}` to a product", counts[0]


def extras() -> Iterator[tuple[str, int]]:
    """Yields the number and the megabytes of the packages that each extra adds, by what is installed here.

    The core is counted without torch and what torch requires, an extra without the core.
    """
    core = brought_by(Requirement("elmo-torch"))
    yield from sizes("the core", core - brought_by(Requirement("torch")) - {"elmo-torch"})
    for extra in EXTRAS:
        yield from sizes(f"`[{extra}]`, besides the core", brought_by(Requirement(f"elmo-torch[{extra}]")) - core)


def sizes(title: str, packages: set[str]) -> Iterator[tuple[str, int]]:
    yield f"packages of {title}", len(packages)
    yield f"megabytes of {title}", sum(map(installed_bytes, packages)) // 1_000_000


def brought_by(wanted: Requirement) -> set[str]:
    """Returns the names of a package and of all that it requires, with the extras that the requirements name."""
    found: dict[str, set[str]] = {}
    waiting = [wanted]
    while waiting:
        requirement = waiting.pop()
        asked = {"", *requirement.extras}
        seen = found.setdefault(canonicalize_name(requirement.name), set())
        for extra in asked - seen:
            seen.add(extra)
            for each in map(Requirement, metadata.requires(requirement.name) or []):
                if each.marker is None or each.marker.evaluate({"extra": extra}):
                    waiting.append(each)
    return set(found)


def installed_bytes(package: str) -> int:
    files = metadata.files(package) or []
    return sum(path.stat().st_size for file in files if (path := Path(str(file.locate()))).exists())


if __name__ == "__main__":
    main()
