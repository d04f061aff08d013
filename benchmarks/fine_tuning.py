"""What fine-tuning the biLM on a domain's text gives (Peters et al. 2018, sec. 3.4 and supplement A.1).

    python benchmarks/fine_tuning.py --data DATA --vectors vectors.txt --output tuning/
    python benchmarks/fine_tuning.py speeches snli sst5 ner-gum --data DATA --vectors vectors.txt --output tuning/

Domains: `speeches` (`lm/un.train`, the last twentieth of the documents held out), and the sentences of a task, by the
name of its recipe (labels ignored, those of dev that are not in training held out). Of each the full-softmax perplexity
of the held-out text before and after, under the model's own vocabulary; then the task's row of the packaged queue, with
the arm `fine-tuned` beside its own. Everything is done by commands of elmo, goes on where it was stopped, and is shown
by `elmo report tuning/`. `tuning/tasks` may be the folder of `elmo task compare queue`: its arms are not trained again.
`--set section.key=value` goes to `elmo train`.
"""

import argparse
import json
import lzma
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from elmo_lab import RECIPES

SETTINGS = ("streams=32", "optim.lr=1e-3", "optim.warmup_steps=50", "optim.decay=0.9")
"""Of fine-tuning: the rate falls nearly from the beginning."""
SPEECHES = "speeches"
HELD_OUT = 0.05
ROW = """
[[rows]]
name = "{name}"
title = "{title}"
recipe = "{recipe}"
seeds = {seeds}
tuning = {tuning}

[rows.arms]
{arms}
"""


def main() -> None:
    queue = {row["name"]: row for row in packaged("queue")["rows"]}
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("domains", nargs="*", default=[SPEECHES, "snli"], choices=[SPEECHES, *queue])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--vectors", required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--model", default="default")
    parser.add_argument("--jobs", default="1", help="of the training of the tasks")
    parser.add_argument("--set", nargs="+", default=SETTINGS, metavar="section.key=value", help="of the fine-tuning")
    arguments = parser.parse_args()
    output, rows = arguments.output, ""
    for domain in arguments.domains:
        folder = output / domain
        folder.mkdir(parents=True, exist_ok=True)
        if domain == SPEECHES:  # millions of words are read once, hundreds of thousands three times
            split_speeches(arguments.data / "lm" / "un.train.00.txt.xz", folder)
            tune(folder, arguments.model, ["epochs=1"], arguments.set)
        else:
            split_sentences(domain, arguments.data, folder)
            tune(folder, arguments.model, ["epochs=3", "--pretokenized"], arguments.set)
            rows += row_of(queue[domain], folder / "run")
    if rows:
        (output / "queue.toml").write_text(rows, encoding="utf-8")
        common = ("--data", arguments.data, "--vectors", arguments.vectors, "--jobs", arguments.jobs)
        common += ("--model", arguments.model)
        elmo("task", "compare", output / "queue.toml", "--output", output / "tasks", *common)


def packaged(name: str) -> dict[str, Any]:
    """A packaged recipe of a task, or queue."""
    return tomllib.loads((RECIPES / "tasks" / f"{name}.toml").read_text(encoding="utf-8"))


def row_of(row: dict[str, Any], tuned: Path) -> str:
    """The queue's row, and an arm that has the fine-tuned biLM where the last one has ELMo."""
    *_, where = row["arms"].values()
    arms = row["arms"] | {"fine-tuned": [*where, f"inputs.model={tuned}"]}
    lists = {"seeds": json.dumps(row["seeds"]), "tuning": json.dumps(row.get("tuning", [[]]))}
    lists["arms"] = "\n".join(f"{arm} = {json.dumps(settings)}" for arm, settings in arms.items())
    return ROW.format(name=row["name"], title=row["title"], recipe=row["recipe"], **lists)


def split_sentences(recipe: str, data: Path, folder: Path) -> None:
    """Writes the sentences of a task's training and development examples, and those held out."""
    settings = packaged(recipe)
    for part in ("train", "dev"):
        if not (folder / f"{part}.txt").exists():
            elmo("task", "sentences", settings["task"], data / settings[part], folder / f"{part}.txt")
    leave_out_known(folder)


def split_speeches(source: Path, folder: Path) -> None:
    """Writes the documents, which blank lines part, to `train.txt`, and the last ones to `heldout.txt`."""
    if (folder / "heldout.txt").exists():
        return
    with lzma.open(source, "rt", encoding="utf-8") as file:
        found = list(documents(file))
    first = len(found) - max(1, round(HELD_OUT * len(found)))
    for name, part in (("train", found[:first]), ("heldout", found[first:])):
        (folder / f"{name}.txt").write_text("".join(chain.from_iterable(part)), encoding="utf-8")


def leave_out_known(folder: Path) -> None:
    """Writes the lines of `dev.txt` that are not in `train.txt` to `heldout.txt`.

    SNLI's parts have no premise in common, but hypotheses: one line in six of dev is a line of train.
    """
    if (folder / "heldout.txt").exists():
        return
    with (folder / "train.txt").open(encoding="utf-8") as train, (folder / "dev.txt").open(encoding="utf-8") as dev:
        known = set(train)
        new = [line for line in dev if line not in known]
    (folder / "heldout.txt").write_text("".join(new), encoding="utf-8")


def documents(lines: Iterator[str]) -> Iterator[list[str]]:
    """The lines of every document, each with a blank line at its end."""
    document: list[str] = []
    for line in chain(lines, [""]):
        if line.strip():
            document.append(line)
        elif document:
            yield [*document, "\n"]
            document = []


def tune(folder: Path, model: str, own: list[str], settings: tuple[str, ...]) -> None:
    """Fine-tunes on `train.txt`; `as-it-is.json` and `fine-tuned.json` have the perplexities of `heldout.txt`."""
    how = [each for each in own if each.startswith("--")]
    texts = ("--train", folder / "train.txt", "--heldout", folder / "heldout.txt", *own)
    run = folder / "run"
    perplexity(folder / "heldout.txt", model, how, folder / "as-it-is.json")
    if not (folder / "fine-tuned.json").exists():
        begun = (run / "train.json").exists()
        begin = ("--resume",) if begun else ("--init-from", model, *texts, *settings)
        elmo("train", *begin, "--output", run)
    perplexity(folder / "heldout.txt", str(run), how, folder / "fine-tuned.json")


def perplexity(text: Path, model: str, how: list[str], output: Path) -> None:
    """What `elmo perplexity` says, in a file, where it is not there."""
    if not output.exists():
        said = elmo("perplexity", text, "--model", model, *how, "--json", keep=True)
        output.write_text(json.dumps(json.loads(said), indent=2) + "\n", encoding="utf-8")


def elmo(*arguments: object, keep: bool = False) -> str:
    """Runs a command; what it prints, where that is to be kept."""
    command = [sys.executable, "-m", "elmo", *map(str, arguments)]
    done = subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE if keep else None)
    return done.stdout or ""


if __name__ == "__main__":
    main()
