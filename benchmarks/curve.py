"""Draws the held-out perplexity of training runs against the tokens that they have read.

    python benchmarks/curve.py run/ [other_run/ ...] --output curve.png
    python benchmarks/curve.py first/ second/ --end-to-end --output curve.png   (second began from first's model)

Reads `metrics.jsonl` of each run; needs the extra `probes` (matplotlib).
"""

import argparse
import json
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot

from elmo_lab.report.pretraining import newest_perplexities

STYLES = {"carry_mean": "-", "reset_mean": "--"}


def _named(path: Path) -> str:
    """Returns the name of the run's folder or, for a table in results/, the model's name and the run's number."""
    return path.parent.name + path.stem.removeprefix("pretraining") if path.is_file() else path.name


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("metrics", type=Path, nargs="+", help="folders of runs, or metrics files")
    parser.add_argument("--end-to-end", action="store_true", help="every run goes on where the one before ended")
    parser.add_argument("--output", type=Path, required=True)
    arguments = parser.parse_args()
    figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
    before = 0.0  # the million tokens of earlier runs
    for path in arguments.metrics:
        file = path / "metrics.jsonl" if path.is_dir() else path
        points = newest_perplexities(json.loads(line) for line in file.read_text(encoding="utf-8").splitlines())
        color = f"C{arguments.metrics.index(path)}"
        for name, style in STYLES.items():
            tokens = [before + record["tokens"] / 1e6 for record in points]
            label = f"{_named(path)}, {name.removesuffix('_mean')}"
            axes.plot(tokens, [record[name] for record in points], style, color=color, marker=".", label=label)
        if arguments.end_to_end:
            before += points[-1]["tokens"] / 1e6
    axes.set(xlabel="million tokens read", ylabel="perplexity, mean of both directions", yscale="log")
    axes.yaxis.set_major_formatter("{x:.0f}")
    axes.yaxis.set_minor_formatter("{x:.0f}")
    axes.grid(which="both", alpha=0.3)
    axes.legend()
    figure.savefig(arguments.output, dpi=120)


if __name__ == "__main__":
    main()
