"""Compares two training recipes with the same text, vocabulary, sizes and words, by the perplexity at every mark.

    python benchmarks/recipes.py --train wiki.train.txt --heldout wiki.valid.txt --words 2000000 --output compare/

The program trains with the published recipe (Adagrad 0.2, Peters et al. 2018) and with the default one, as `elmo train`
does. It prints the full-softmax perplexities, as the mean of both directions, from the carried state and from the zero
state. Both recipes get the settings given as `section.key=value`. Interrupted runs in `--output` continue.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

RECIPES = {"published": ("published",), "default": ()}
"""The recipes that `elmo train` gets, by name."""
SMALL = (
    "vocab_size=50000", "min_count=2", "streams=64", "precision=32-true",
    "model.lstm.dim=256", "model.lstm.projection_dim=64", "model.char_cnn.n_highway=1",
    "model.char_cnn.filters=[[1,32],[2,32],[3,64],[4,128]]",
)  # fmt: skip
"""The settings of a model that one core trains in minutes."""
MARKS = 8


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--train", action="append", required=True)
    parser.add_argument("--heldout", action="append", required=True)
    parser.add_argument("--words", type=int, default=2_000_000)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("settings", nargs="*", default=SMALL, metavar="section.key=value", help="sizes of both")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    measured = {name: train(name, recipe, arguments) for name, recipe in RECIPES.items()}
    (arguments.output / "recipes.json").write_text(
        json.dumps({"settings": arguments.settings, **measured}, indent=1), encoding="utf-8"
    )
    print(table(measured))


def train(name: str, recipe: tuple[str, ...], arguments: argparse.Namespace) -> list[dict[str, float]]:
    """Trains with one recipe, or continues; returns the records that hold perplexities."""
    folder = arguments.output / name
    steps = arguments.words // (64 * 20 * MARKS)
    command = [sys.executable, "-m", "elmo", "train", *recipe, *arguments.settings]
    for flag, values in (("--train", arguments.train), ("--heldout", arguments.heldout)):
        command += [part for value in values for part in (flag, value)]
    command += [f"loop.evaluate_steps={steps}", f"max_words={steps * MARKS * 64 * 20}", "epochs=1000"]
    command += ["--output", str(folder), *(["--resume"] if (folder / "train.json").exists() else [])]
    subprocess.run(command, check=True)
    records = map(json.loads, (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    return [record for record in records if "carry_mean" in record]


def table(measured: dict[str, list[dict[str, float]]]) -> str:
    rows = ["| words | published, carry | default, carry | ratio | published, reset | default, reset | ratio |"]
    rows.append("|---" * 7 + "|")
    for published, default in zip(measured["published"], measured["default"], strict=True):
        assert published["tokens"] == default["tokens"]
        cells = [f"{int(default['tokens']):,}"]
        for policy in ("carry_mean", "reset_mean"):
            ratio = default[policy] / published[policy]
            cells += [f"{published[policy]:,.0f}", f"{default[policy]:,.0f}", f"{ratio:.2f}"]
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows)


if __name__ == "__main__":
    main()
