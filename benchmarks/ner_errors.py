"""Shows where ELMo helps a tagger of named entities: to find them, to tell their types, to know unseen ones.

    python benchmarks/ner_errors.py runs/tasks/ner-gum/none/trial-1 runs/tasks/ner-gum/input/trial-1

The numbers are percentages on the test data, as mean and standard deviation over the networks of each run (`seed-*`):
the F1 of spans with their types, which is the task's score; the F1 of spans alone; the share of right types among the
right spans; and the recall of entities that the training data have with this type, in upper or lower case, and of the
others.
"""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from elmo_lab.tasks import ner
from elmo_lab.tasks.files import find_file
from elmo_lab.tasks.tagging import spans
from elmo_lab.tasks.train import CONFIG, read_config, summarize
from elmo_lab.tasks.trained import TrainedTask

Entity = tuple[int, int, int, str]
"""The sentence of an entity, its first token, the token after its last, and its type."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--data", help="folder of the recipe's files")
    options = parser.parse_args()
    print("| run | F1 | spans alone | types of right spans | seen in training | not seen |\n|---|---|---|---|---|---|")
    for run in options.runs:
        config = read_config(run / CONFIG)
        assert config.test is not None
        train, test = (ner.read(find_file(name, options.data or config.data)) for name in (config.train, config.test))
        scores = summarize([{"test": measured(train, test, folder)} for folder in sorted(run.glob("seed-*"))])["test"]
        columns = [f"{each['mean']:.1f} ± {each['std']:.1f}" for each in scores.values()]
        print("|", " | ".join([str(run), *columns]), "|", flush=True)


def measured(train: Sequence[ner.NerExample], test: Sequence[ner.NerExample], folder: Path) -> dict[str, float]:
    known = set(named(train, entities([each.tags or () for each in train])))
    gold = set(entities([each.tags or () for each in test]))
    found = set(entities([each.tags for each in TrainedTask.load(folder)(test)]))
    right = gold & found
    places, found_places = ({entity[:3] for entity in group} for group in (gold, found))
    seen = {entity for entity, name in zip(gold, named(test, gold), strict=True) if name in known}
    return {
        "F1": f1(len(right), len(gold), len(found)),
        "spans alone": f1(len(places & found_places), len(places), len(found_places)),
        "types of right spans": 100 * len(right) / len(places & found_places),
        "seen in training": 100 * len(right & seen) / len(seen),
        "not seen": 100 * len(right - seen) / len(gold - seen),
    }


def entities(sentences: Sequence[Sequence[str]]) -> Iterator[Entity]:
    for number, tags in enumerate(sentences):
        yield from ((number, *span) for span in spans(tags))


def named(examples: Sequence[ner.NerExample], found: Iterator[Entity] | set[Entity]) -> Iterator[tuple[str, str]]:
    for number, first, last, kind in found:
        yield " ".join(examples[number].tokens[first:last]).lower(), kind


def f1(right: int, gold: int, found: int) -> float:
    return 200 * right / (gold + found)


if __name__ == "__main__":
    main()
