"""Shows which sentences ELMo helps to classify (SST-5, SNLI), likely or unlikely ones, and how sure the number is.

    python benchmarks/sentence_errors.py runs/tasks/sst5/none/trial-1 runs/tasks/sst5/input/trial-2 --data DATA

The first run is the baseline. The table has the mean accuracy of each run's networks (`seed-*`) on the test examples,
and the reduction of the baseline's errors with its 95 % interval over draws of the test examples (bootstrap). Both are
given for all examples and for thirds of them, by the perplexity that the biLM gives their sentences, each read alone.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from elmo import formats
from elmo.embedding.embedder import Embedder
from elmo.pretraining.perplexity import softmax_of
from elmo.text.vocabulary import BOS, EOS
from elmo_lab.tasks import task as tasks
from elmo_lab.tasks.files import find_file
from elmo_lab.tasks.train import CONFIG, read_config
from elmo_lab.tasks.trained import TrainedTask

DRAWS = 2000
THIRDS = ("all", "most likely third", "middle", "least likely third")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--data", help="folder of the recipe's files")
    parser.add_argument("--model", default="english-base", help="the biLM that gives the perplexities")
    options = parser.parse_args()
    config = read_config(options.runs[0] / CONFIG)
    assert config.test is not None
    task = tasks.find(config.task)
    test = task.read(find_file(config.test, options.data or config.data))
    losses = losses_of([tasks.sentences_of(task, [example]) for example in test], options.model)
    order = np.argsort(losses)
    groups = [order, *np.array_split(order, 3)]
    shown = [f"{name} ({np.exp(losses[group].mean()):.0f})" for name, group in zip(THIRDS, groups, strict=True)]
    print("| run | " + " | ".join(shown) + " |\n|---|---|---|---|---|")
    base: list[Float[np.ndarray, " M"]] = []
    for run in options.runs:
        right = np.mean([correct(task, test, folder) for folder in sorted(run.glob("seed-*"))], axis=0)
        base = base or [right[group] for group in groups]
        cells = [cell(right[group], first) for group, first in zip(groups, base, strict=True)]
        print("|", " | ".join([str(run), *cells]), "|", flush=True)


def losses_of(examples: Sequence[Sequence[list[str]]], name: str) -> Float[np.ndarray, " M"]:
    """Returns each example's mean loss (nats) in both directions; a token predicts the next one or the boundary."""
    model = formats.load(name)
    vocabulary, head = softmax_of(model)
    embedder = Embedder.of(model, device="cpu")
    size = model.config.lstm.projection_dim
    sentences = [(number, tokens) for number, example in enumerate(examples) for tokens in example]
    sums, counts = np.zeros(len(examples)), np.zeros(len(examples))
    arrays = embedder.embed_stream((tokens for _, tokens in sentences), layers="top")
    for (number, tokens), array in zip(sentences, map(torch.from_numpy, arrays), strict=True):
        words = torch.tensor(vocabulary.ids([BOS, *tokens, EOS]))
        for states, targets in ((array[:, :size], words[2:]), (array[:, size:], words[:-2])):
            sums[number] -= float(head.log_probabilities(states, targets).sum())
            counts[number] += len(targets)
    return sums / counts


def correct(task: tasks.Task, test: Sequence[Any], folder: Path) -> Float[np.ndarray, " M"]:
    """Returns 1 for every right prediction of a network, and 0 for the others."""
    predictions = TrainedTask.load(folder)(test)
    return np.array([task.score([e], [p])[task.metric] / 100 for e, p in zip(test, predictions, strict=True)])


def cell(right: Float[np.ndarray, " M"], base: Float[np.ndarray, " M"]) -> str:
    """Formats the accuracy and, for other runs than the baseline, the reduction of errors with its interval."""
    said = f"{100 * right.mean():.1f}"
    if right is base or (right == base).all():
        return said
    rows = np.random.default_rng(1).integers(len(right), size=(DRAWS, len(right)))
    drawn = 100 * (1 - (1 - right)[rows].sum(1) / (1 - base)[rows].sum(1))
    low, high = np.percentile(drawn, (2.5, 97.5))
    return f"{said}: {100 * (right.mean() - base.mean()) / (1 - base.mean()):+.1f} % ({low:+.1f} to {high:+.1f})"


if __name__ == "__main__":
    main()
