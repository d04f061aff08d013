"""Makes the table of all tasks: without ELMo, with it, and with a fine-tuned biLM (Table 1, supplement A.1).

    python benchmarks/fine_tuning.py --data DATA --vectors vectors.txt --output tuning/
    python benchmarks/fine_tuning.py speeches snli sst5 --data DATA --vectors vectors.txt --output tuning/

The arguments name rows of the packaged queue, which run one after the other; by default, all run in the queue's order.
For each row, the program does three things:

- It trains the arms of the queue.
- It trains the biLM once more on the task's training sentences, without labels, and measures the full-softmax
  perplexity before and after, on development sentences that are not in training, under the model's own vocabulary.
- It trains the arm `fine-tuned`, which has that biLM at the better of the places `input` and `both`, by the mean on
  development data over the row's seeds, or at `input` if they are equal.

The paper fine-tuned for all tasks but semantic roles and coreference, and so does this program. `speeches`
(`lm/un.train`, of which the last twentieth of the documents is held out) has only perplexities. All work is done by
commands of elmo. An interrupted run continues where it stopped, and `elmo report tuning/` shows the results.
`tuning/tasks` may be the folder of `elmo task compare queue`, whose arms are not trained again. `elmo train` gets what
is given as `--set section.key=value`.
"""

import argparse
import json
import lzma
import statistics
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from elmo.config import from_dict
from elmo_lab import RECIPES
from elmo_lab.tasks.queue import QueueRow, chosen_work, metric_of, results_of

SETTINGS = ("streams=32", "optim.lr=1e-3", "optim.warmup_steps=50", "optim.decay=0.9")
"""The settings of fine-tuning, in which the learning rate falls nearly from the beginning."""
SPEECHES, TASKS = "speeches", "tasks"
NOT_TUNED = ("srl", "coref")
"""The recipes of tasks for which the paper gives no perplexity after fine-tuning (A.1)."""
PLACES = ("input", "both")
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
    parser.add_argument("rows", nargs="*", default=list(queue), choices=[SPEECHES, *queue])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--vectors", required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--model", default="default")
    parser.add_argument("--jobs", default="1", help="of the training of the tasks")
    parser.add_argument("--set", nargs="+", default=SETTINGS, metavar="section.key=value", help="of the fine-tuning")
    arguments = parser.parse_args()
    for name in arguments.rows:
        folder = arguments.output / name
        folder.mkdir(parents=True, exist_ok=True)
        if name == SPEECHES:
            split_speeches(arguments.data / "lm" / "un.train.00.txt.xz", folder)
            tune(folder, arguments.model, [], arguments.set)
            continue
        row = queue[name]
        compare(row, arguments)
        if row["recipe"] not in NOT_TUNED:
            split_sentences(row["recipe"], arguments.data, folder)
            tune(folder, arguments.model, ["--pretokenized"], arguments.set)
            compare(with_fine_tuned(row, folder / "run", arguments.output / TASKS), arguments)


def compare(row: dict[str, Any], arguments: argparse.Namespace) -> None:
    """Trains the arms of a row that are not trained, and adds them to the table."""
    file = arguments.output / row["name"] / "queue.toml"
    file.write_text(written(row), encoding="utf-8")
    given = ("--data", arguments.data, "--vectors", arguments.vectors, "--model", arguments.model)
    elmo("task", "compare", file, "--output", arguments.output / TASKS, *given, "--jobs", arguments.jobs)


def with_fine_tuned(row: dict[str, Any], tuned: Path, output: Path) -> dict[str, Any]:
    """Returns the row with one more arm, which has ELMo at the better place by the finished runs in `output`."""
    made = from_dict(QueueRow, row)

    def on_dev(place: str) -> float:
        best = chosen_work(made, place, output)
        assert best is not None, "the arms of the queue are trained first"
        metric = metric_of(best.folder)
        return statistics.fmean(result["dev"][metric] for result in results_of(best.folder, made.seeds))

    place = max(PLACES, key=on_dev)  # `max` takes the first of equal ones
    return row | {"arms": row["arms"] | {"fine-tuned": [*row["arms"][place], f"inputs.model={tuned}"]}}


def packaged(name: str) -> dict[str, Any]:
    """Reads a packaged recipe of a task, or a packaged queue."""
    return tomllib.loads((RECIPES / "tasks" / f"{name}.toml").read_text(encoding="utf-8"))


def written(row: dict[str, Any]) -> str:
    """Writes a row as the TOML of a queue."""
    lists = {"seeds": json.dumps(row["seeds"]), "tuning": json.dumps(row.get("tuning", [[]]))}
    lists["arms"] = "\n".join(f"{arm} = {json.dumps(settings)}" for arm, settings in row["arms"].items())
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

    SNLI's parts share no premises, but they share hypotheses: one line in six of dev is a line of train.
    """
    if (folder / "heldout.txt").exists():
        return
    with (folder / "train.txt").open(encoding="utf-8") as train, (folder / "dev.txt").open(encoding="utf-8") as dev:
        known = set(train)
        new = [line for line in dev if line not in known]
    (folder / "heldout.txt").write_text("".join(new), encoding="utf-8")


def documents(lines: Iterator[str]) -> Iterator[list[str]]:
    """Yields the lines of every document, with a blank line at its end."""
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
    texts = ("--train", folder / "train.txt", "--heldout", folder / "heldout.txt", "epochs=1", *own)
    run = folder / "run"
    perplexity(folder / "heldout.txt", model, how, folder / "as-it-is.json")
    if not (folder / "fine-tuned.json").exists():
        begun = (run / "train.json").exists()
        begin = ("--resume",) if begun else ("--init-from", model, *texts, *settings)
        elmo("train", *begin, "--output", run)
    perplexity(folder / "heldout.txt", str(run), how, folder / "fine-tuned.json")


def perplexity(text: Path, model: str, how: list[str], output: Path) -> None:
    """Writes the result of `elmo perplexity` to a file, unless the file exists."""
    if not output.exists():
        said = elmo("perplexity", text, "--model", model, *how, "--json", keep=True)
        output.write_text(json.dumps(json.loads(said), indent=2) + "\n", encoding="utf-8")


def elmo(*arguments: object, keep: bool = False) -> str:
    """Runs a command; returns what it prints if `keep` is true."""
    command = [sys.executable, "-m", "elmo", *map(str, arguments)]
    done = subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE if keep else None)
    return done.stdout or ""


if __name__ == "__main__":
    main()
