"""Shows where ELMo helps coreference: to find mentions or to link them, which of them, and how sure the number is.

    python benchmarks/coreference_errors.py runs/tasks/coref/none runs/tasks/coref/input --data DATA

The first run is the baseline. The numbers are percentages on the test documents, means over the networks of each run
(`seed-*`): the task's score, the F1 of finding mentions, and the share of mentions that are found together with an
earlier mention of their entity. That share is given for pronouns, for mentions that repeat the words of an earlier one,
and for the others. The reduction of the baseline's errors has a 95 % interval over draws of the test documents
(bootstrap).
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from jaxtyping import Float

from elmo_lab.tasks import coref
from elmo_lab.tasks.coref_scores import b3, ceaf, muc
from elmo_lab.tasks.files import find_file
from elmo_lab.tasks.scores import Counts
from elmo_lab.tasks.train import CONFIG, read_config
from elmo_lab.tasks.trained import TrainedTask

DRAWS = 2000
COLUMNS = ("F1", "mentions", "pronouns", "same words", "other words")
PRONOUNS = """
    i me my mine myself you your yours yourself yourselves he him his himself she her hers herself it its itself we us
    our ours ourselves they them their theirs themselves this that these those who whom whose which
"""
KNOWN = frozenset(PRONOUNS.split())


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--data", help="folder of the recipe's files")
    options = parser.parse_args()
    config = read_config(options.runs[0] / CONFIG)
    assert config.test is not None
    test = coref.read(find_file(config.test, options.data or config.data))
    draws = np.random.default_rng(1).integers(len(test), size=(DRAWS, len(test)))
    print("| run | " + " | ".join(COLUMNS) + " |\n|---|" + "---|" * len(COLUMNS))
    base: list[np.ndarray] = []
    for run in options.runs:
        networks = [TrainedTask.load(folder)(test) for folder in sorted(run.glob("seed-*"))]
        counts = np.array([[counted(*pair) for pair in zip(test, found, strict=True)] for found in networks])
        whole, drawn = scores(counts.sum(1)), scores(counts[:, draws].sum(2))
        cells = [f"{score:.1f}" for score in whole]
        if base:
            gain, gains = 100 * (whole - base[0]) / (100 - base[0]), 100 * (drawn - base[1]) / (100 - base[1])
            ends = np.percentile(gains, (2.5, 97.5), axis=0).T
            said = (f": {g:+.1f} % ({low:+.1f} to {high:+.1f})" for g, (low, high) in zip(gain, ends, strict=True))
            cells = [cell + more for cell, more in zip(cells, said, strict=True)]
        base = base or [whole, drawn]
        print("|", " | ".join([str(run), *cells]), "|", flush=True)


def counted(document: coref.Example, prediction: coref.CorefPrediction) -> list[list[float]]:
    """Counts what is right in a document, and all of both sides: MUC, B3, CEAF, mentions and three kinds of links."""
    gold, found = ([set(cluster) for cluster in each.clusters or ()] for each in (document, prediction))
    mentions = set().union(*gold), set().union(*found)
    right = len(mentions[0] & mentions[1])
    parts = [each(gold, found) for each in (muc, b3, ceaf)]
    parts.append(Counts(right, len(mentions[1]), right, len(mentions[0])))
    linked = list(links(document, found))
    for kind in COLUMNS[2:]:
        right = [is_right for name, is_right in linked if name == kind]
        parts.append(Counts(sum(right), len(right), sum(right), len(right)))
    return [[part.right_of_predicted, part.predicted, part.right_of_gold, part.gold] for part in parts]


def links(document: coref.Example, found: list[set[coref.Span]]) -> Iterator[tuple[str, bool]]:
    """Yields the kind of every mention but the first of its entity, and whether it is found with an earlier one."""
    tokens = [token.lower() for sentence in document.sentences for token in sentence]
    place_of = {mention: number for number, cluster in enumerate(found) for mention in cluster}
    for cluster in document.clusters or ():
        words, places = set(), set()
        for number, (first, last) in enumerate(sorted(cluster)):
            said, place = " ".join(tokens[first : last + 1]), place_of.get((first, last))
            if number:
                kind = "pronouns" if said in KNOWN else "same words" if said in words else "other words"
                yield kind, place in places - {None}
            words.add(said)
            places.add(place)


def scores(counts: Float[np.ndarray, "N *draws K 4"]) -> Float[np.ndarray, "*draws columns"]:
    """Returns the numbers of `COLUMNS`, as means over N networks; a number without counts is 0 %."""
    precision, recall = (counts[..., part] / np.maximum(counts[..., part + 1], 1e-9) for part in (0, 2))
    f1 = 200 * precision * recall / np.maximum(precision + recall, 1e-9)
    return np.concatenate([f1[..., :3].mean(-1, keepdims=True), f1[..., 3:]], axis=-1).mean(0)


if __name__ == "__main__":
    main()
