"""Measures whether ELMo helps more outside the domain that a network was trained on, with named entities.

    python benchmarks/domains.py --data DATA --vectors vectors.txt --output domains/

Networks are trained on GUM (many genres of written English) and on WNUT-17 (social media), without ELMo and with it.
Each is scored on its own test set and on those of other domains: GUM, WNUT-17, the English Web Treebank (UNER) and the
Broad Twitter Corpus. The corpora name different kinds of entities, so only persons, places and organisations are kept,
in training, too; what counts as one still differs. All work is done by commands of elmo. An interrupted run continues
where it stopped, and `elmo report domains/` shows the results.
"""

import argparse
import json
import lzma
from collections.abc import Iterable, Iterator
from pathlib import Path

from fine_tuning import elmo

NAMES = {
    "person": "PER", "PER": "PER",
    "place": "LOC", "location": "LOC", "LOC": "LOC",
    "organization": "ORG", "corporation": "ORG", "group": "ORG", "ORG": "ORG",
}  # fmt: skip
"""The tags of the kinds that are kept. WNUT-17's `group` is a team or a band, an organisation in the other corpora."""
TRAINED = {"gum": ("ner-gum", "gum_named.{}.bio.xz"), "wnut17": ("ner-wnut17", "wnut17.{}.conll.xz")}
TESTS = {
    "gum": ["gum_named.test.bio.xz"],
    "wnut17": ["wnut17.test.conll.xz"],
    "web": ["uner_ewt.test.iob2.xz"],
    "tweets": [f"btc.{part}.conll.xz" for part in "abefg"],
}
SEEDS = (1, 2, 3)
ROW = """
[[rows]]
name = "{name}"
title = "NER, three kinds, {name}"
recipe = "{recipe}"
seeds = {seeds}
arms = {{ none = {none}, input = {input} }}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--vectors", required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--model", default="default")
    parser.add_argument("--jobs", default="1")
    arguments = parser.parse_args()
    output, source = arguments.output.absolute(), arguments.data / "ner"
    texts = output / "data"
    texts.mkdir(parents=True, exist_ok=True)
    rows = []
    for name, (recipe, files) in TRAINED.items():
        for part in ("train", "dev", "test"):
            write(texts / f"{name}.{part}.txt", [source / files.format(part)])
        common = [f"{part}={texts / f'{name}.{part}.txt'}" for part in ("train", "dev", "test")]
        arms = {"none": common, "input": [*common, "inputs.elmo=input", f"inputs.model={arguments.model}"]}
        said = {arm: json.dumps(settings) for arm, settings in arms.items()}
        rows.append(ROW.format(name=name, recipe=recipe, seeds=list(SEEDS), **said))
    for name, files in TESTS.items():
        write(texts / f"{name}.test.txt", [source / file for file in files])
    queue = output / "queue.toml"
    queue.write_text("".join(rows), encoding="utf-8")
    elmo("task", "compare", queue, "--output", output, "--vectors", arguments.vectors, "--jobs", arguments.jobs)
    for seed in sorted(output.glob("*/*/seed-*")):
        for name in TESTS:
            if name != seed.parts[-3] and not (seed / f"{name}.json").exists():
                scores = elmo("task", "eval", seed, texts / f"{name}.test.txt", "--json", keep=True)
                (seed / f"{name}.json").write_text(scores, encoding="utf-8")


def write(target: Path, files: Iterable[Path]) -> None:
    """Writes tokens and tags of three kinds, in columns."""
    if not target.exists():
        target.write_text("".join(f"{line}\n" for file in files for line in lines(file)), encoding="utf-8")


def lines(file: Path) -> Iterator[str]:
    """Yields lines of columns from lines of `token TAB tag`, or of Universal NER (number, token, tag, ...)."""
    with lzma.open(file, "rt", encoding="utf-8") as text:
        for line in text:
            columns = line.rstrip("\n").split("\t")
            if not line.strip():
                yield ""
                continue
            if len(columns) == 1:  # the line is a comment
                continue
            token, tag = columns[1:3] if columns[0].isdecimal() and len(columns) > 2 else columns[:2]
            if not token.strip():  # a tweet has a lone blank as a token
                continue
            kind = NAMES.get(tag.partition("-")[2])
            yield f"{token}\t{tag[0]}-{kind}" if kind else f"{token}\tO"
    yield ""


if __name__ == "__main__":
    main()
