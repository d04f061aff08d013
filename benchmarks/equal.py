"""Compares the numbers of two checkouts, to the bit: vectors, perplexity, a training, a probe and a task.

    git worktree add --detach ../before 5d96370
    python benchmarks/equal.py ../before .

Both run the same commands with this Python, on the model and the text of the first checkout. The program prints one
line per case and exits with 1 if a case differs.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

TRAINING = [
    "min_count=1",
    "model.char_cnn.filters=[[1,8],[2,16]]",
    "model.lstm.dim=64",
    "model.lstm.projection_dim=16",
    "objective.negatives=64",
    "optim.warmup_steps=5",
    "loop.log_steps=10",
    "streams=4",
    "window=10",
    "epochs=4",
    "seed=3",
]
TASK = [
    "training.epochs=2",
    "seeds=[3]",
    "inputs.elmo=both",
    "inputs.penalty=0.1",
    "model.hidden_dims=[20,10]",
    "inputs.dropout=0",
    "inputs.elmo_dropout=0",
    "model.dropout=0",
]
"""The settings of the task, without dropout, whose places in the network a correction of a recipe may change."""
LENGTH_OF_A_SENTENCE = 7


@dataclass(frozen=True)
class Case:
    """One command that both checkouts run, and the numbers that it gives."""

    name: str
    arguments: list[str]
    read: Callable[[Path, str], dict[str, Any]]
    """A function that turns the output folder and the printed text into arrays, or values that JSON can hold."""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--model", type=Path, help="a native folder (default: the english-small of before)")
    arguments = parser.parse_args()
    before, after = arguments.before.resolve(), arguments.after.resolve()
    different = 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for case in cases(arguments.model or before / "models" / "english-small", before, folder):
            numbers = [run(case, checkout, folder) for checkout in (before, after)]
            seen = differences(*numbers)
            different += bool(seen)
            print(f"{case.name:28} {', '.join(seen) or f'equal: {len(numbers[0])} arrays or values'}", flush=True)
    return int(different > 0)


def cases(model: Path, checkout: Path, folder: Path) -> list[Case]:
    text = folder / "demo.txt"
    text.write_bytes((checkout / "elmo" / "assets" / "demo.txt").read_bytes())
    columns = folder / "columns.conll"
    columns.write_text(tagged(text.read_text(encoding="utf-8")), encoding="utf-8")
    of_model = ["--model", str(model)]
    found = [
        Case(f"embed {state} {precision}", ["embed", str(text), "{out}/v.npz", *of_model, "--quiet", "--state", state,
             "--precision", precision], lambda out, _: dict(np.load(out / "v.npz")))
        for state in ("reset", "carry", "echo")
        for precision in ("float32", "bfloat16", "int8")
    ]  # fmt: skip
    files = [f"--{split}={columns}" for split in ("train", "dev", "test")]
    return [
        *found,
        Case("perplexity", ["perplexity", str(text), *of_model, "--json"], lambda _, printed: untimed(printed)),
        Case("probe senses", ["probe", "senses", *of_model, "--json"], lambda _, printed: untimed(printed)),
        Case("train", ["train", "english-small", f"--train={text}", "--output={out}/run", "--quiet", *TRAINING],
             lambda out, _: load_file(out / "run" / "model" / "model.safetensors")),
        Case("task train ner", ["task", "train", "ner", *files, "--output={out}/run", "--quiet", *TASK,
             f"inputs.model={model}"],
             lambda out, _: load_file(next((out / "run" / "seed-3").glob("*.safetensors")))),
    ]  # fmt: skip


def tagged(text: str) -> str:
    """Returns columns with a label for each capitalised word, which is enough to train on."""
    words = text.split()
    rows = [f"{word} {'B-X' if word[:1].isupper() else 'O'}\n" for word in words]
    starts = range(0, len(rows), LENGTH_OF_A_SENTENCE)
    return "\n".join("".join(rows[start : start + LENGTH_OF_A_SENTENCE]) for start in starts)


def run(case: Case, checkout: Path, folder: Path) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(dir=folder) as out:
        command = [sys.executable, "-m", "elmo", *(each.replace("{out}", out) for each in case.arguments)]
        environment = os.environ | {"PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, cwd=out, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{case.name} in {checkout}: {done.stderr.strip()}")
        return case.read(Path(out), done.stdout)


def untimed(printed: str) -> dict[str, Any]:
    """Returns the printed JSON, one object or one per line, without what changes from run to run."""
    rows, rest, decoder = [], printed.strip(), json.JSONDecoder()
    while rest:
        row, end = decoder.raw_decode(rest)
        rows.append(row)
        rest = rest[end:].lstrip()
    return {
        f"{number} {key}": value
        for number, row in enumerate(rows)
        for key, value in row.items()
        if key not in ("seconds", "tokens_per_second", "measured_on")
    }


def differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    found = [f"{key} is missing" for key in before.keys() ^ after.keys()]
    for key in sorted(before.keys() & after.keys()):
        if not same(before[key], after[key]):
            found.append(f"{key} differs")
    return [*found[:5], f"and {len(found) - 5} more"] if len(found) > 5 else found


def same(one: Any, other: Any) -> bool:
    """Whether two results are equal: arrays are compared to the bit, what JSON holds by value."""
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return (one.shape, one.dtype, one.tobytes()) == (other.shape, other.dtype, other.tobytes())
    return one == other


if __name__ == "__main__":
    sys.exit(main())
