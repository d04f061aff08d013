"""Trains a small model for each decision on spelling, and compares what the models know; `spelling.py` counts first.

    python benchmarks/spelling_models.py --train latin.train.txt.xz --heldout latin.valid.txt.xz \\
        --treebank la_circse-ud-{train,dev,test}.conllu.xz --other la_llct-ud-test.conllu.xz --output spelling/

All models read the same documents, every `--every`th of the text, once. The columns are:

- bits per character: the mean of both directions over held-out tokens whose words all models know, divided by the
  characters of these tokens as they are written, so that the spelling does not change the denominator. The difference
  from the first model has the 95 % interval of a bootstrap over sentences.
- part of speech: accuracy on the test set of the treebank, and of another, by a linear classifier on layer 1.

One seed each. A finished model in the output folder is not trained again.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from spelling import DECISIONS, read

import elmo
from elmo.formats.opened import open_model
from elmo.pretraining.ids import END
from elmo.pretraining.scoring import Scores, score
from elmo.terminal import print_table
from elmo.text import corpus
from elmo.text.tokenizer import TextConfig
from elmo_lab.probes.pos import PosConfig, classify
from elmo_lab.probes.probe import Context
from elmo_lab.probes.resampling import difference
from elmo_lab.tasks.cache import CacheConfig

NAMES = ["as it is", "u for v", "u, i, macrons, ligatures", "the same, in lower case"]
MODEL = {
    "lstm": {"dim": 512, "projection_dim": 128},
    "char_cnn": {"filters": [[1, 32], [2, 32], [3, 64], [4, 128]], "n_highway": 1},
}


def sample(paths: list[Path], every: int, output: Path) -> Path:
    """Writes every `every`th document of a text to a file, with blank lines between them."""
    documents: list[list[str]] = []
    for path in paths:
        for line, starts_document in corpus.file_paragraphs(path):
            if starts_document or not documents:
                documents.append([])
            documents[-1].append(line)
    output.write_text("\n\n".join("\n".join(lines) for lines in documents[::every]) + "\n", encoding="utf-8")
    return output


def trained(steps: tuple[str, ...], text: Path, language: str, words: int, output: Path) -> Path:
    """Trains a model in the given spelling; returns its folder."""
    if not (output / "model" / "config.json").exists():
        elmo.train(
            text,
            output,
            resume=(output / "train.json").exists(),
            vocab_size=words,
            text={"language": language, "normalize": steps},
            model=MODEL,
            objective={"negatives": 2048},
            optim={"name": "muon", "lr": 8e-3, "decay": 1.0},
            streams=64,
        )
    return output / "model"


def heldout_sentences(paths: list[Path], language: str, folder: Path) -> list[list[str]]:
    """Returns the tokens of all sentences, as they are written."""
    ids = read(paths, TextConfig(language=language), folder)
    ends = np.flatnonzero(ids.tokens == END)
    return [[ids.words[token] for token in part if token != END] for part in np.split(ids.tokens, ends + 1)[:-1]]


def sums(scores: list[Scores], counted: list[Bool[np.ndarray, " T"]]) -> Float[np.ndarray, " sentences"]:
    """Returns the bits of each sentence's counted tokens, the mean of both directions."""
    nats = [-((each.forward + each.backward) / 2)[where].sum() for each, where in zip(scores, counted, strict=True)]
    return np.array(nats) / np.log(2)


def part_of_speech(model: Path, treebank: list[str], test: str) -> float:
    """Returns the accuracy of layer 1 on a test set, in percent."""
    train, dev, _ = treebank
    config = PosConfig(train, dev, test, tags="upos", model=str(model), cache=CacheConfig(enabled=False))
    found = {row.layer: row.test for row in classify(config, Context(source=open_model(str(model))))}
    assert found["1"] is not None
    return found["1"]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--train", action="append", required=True, metavar="TEXT")
    parser.add_argument("--heldout", action="append", required=True, metavar="TEXT")
    parser.add_argument("--treebank", nargs=3, required=True, metavar=("TRAIN", "DEV", "TEST"))
    parser.add_argument("--other", required=True, metavar="TEST", help="the test set of another treebank")
    parser.add_argument("--output", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--language", default="la")
    parser.add_argument("--every", type=int, default=8, help="read every nth document (default: 8)")
    parser.add_argument("--words", type=int, default=30_000, help="words of the vocabulary (default: 30000)")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    text = sample(corpus.expand_patterns(arguments.train), arguments.every, arguments.output / "text.txt")
    heldout = corpus.expand_patterns(arguments.heldout)
    sentences = heldout_sentences(heldout, arguments.language, arguments.output / "heldout")
    models, scored = {}, {}
    for number, name in enumerate(NAMES):
        folder = arguments.output / f"model-{number}"
        models[name] = trained(DECISIONS[name], text, arguments.language, arguments.words, folder)
        scored[name] = list(score(open_model(str(models[name])).model, sentences))
    counted = [np.logical_and.reduce([each.known for each in found]) for found in zip(*scored.values(), strict=True)]
    characters = np.array(
        [
            sum(len(token) for token, is_counted in zip(sentence, where, strict=True) if is_counted)
            for sentence, where in zip(sentences, counted, strict=True)
        ]
    )
    first, rows = sums(scored[NAMES[0]], counted), []
    for name in NAMES:
        bits = sums(scored[name], counted)
        _, low, high = (percent / 100 for percent in difference(bits.tolist(), first.tolist(), characters.tolist()))
        row: dict[str, Any] = {"spelling": name, "bits per character": f"{bits.sum() / characters.sum():.4f}"}
        row["interval of the difference"] = f"{low:+.4f} to {high:+.4f}"
        row["unknown"] = f"{1 - np.concatenate([each.known for each in scored[name]]).mean():.2%}"
        for test in (arguments.treebank[2], arguments.other):
            row[Path(test).name.partition(".")[0]] = f"{part_of_speech(models[name], arguments.treebank, test):.2f}"
        rows.append(row)
        print(json.dumps(row, ensure_ascii=False), flush=True)
    print(f"{sum(map(np.sum, counted)):,} tokens in {len(sentences):,} sentences; {torch.get_num_threads()} threads")
    print_table(list(rows[0]), [list(row.values()) for row in rows])


if __name__ == "__main__":
    main()
