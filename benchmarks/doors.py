"""Measures the integrations with other libraries beside the bare `Embedder`: CPU seconds of one thread, in turns.

    python benchmarks/doors.py --text sentences.txt              # one sentence per line, tokens separated by whitespace

Every integration has a process of its own, in which it takes turns with an `Embedder`. Both are opened anew for each
turn and know no words. Opening is not timed; the libraries' own work on sentences and vectors is.
"""

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from elmo import formats
from elmo.embedding.embedder import Embedder

Sentences = list[list[str]]


def embedder(folder: str) -> Callable[[Sentences], Any]:
    opened = Embedder.load(folder, device="cpu")
    return lambda sentences: opened.embed(sentences, "average")


def sklearn(folder: str) -> Callable[[Sentences], Any]:
    from elmo.integrations.sklearn import ElmoVectorizer

    vectorizer = ElmoVectorizer(folder, device="cpu").fit([])
    return vectorizer.transform


def sentence_transformers(folder: str) -> Callable[[Sentences], Any]:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling

    from elmo.integrations.sentence_transformers import Elmo

    elmo = Elmo(folder)
    model: Any = SentenceTransformer(modules=[elmo, Pooling(elmo.get_embedding_dimension(), "mean")], device="cpu")
    return lambda sentences: model.encode(sentences, batch_size=256, show_progress_bar=False)


def transformers(folder: str) -> Callable[[Sentences], Any]:
    from transformers import AutoModel, AutoTokenizer

    import elmo.integrations.transformers  # noqa: F401

    model: Any = AutoModel.from_pretrained(folder)
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)

    def run(sentences: Sentences) -> None:
        ordered = sorted(sentences, key=len)
        with torch.no_grad():
            for start in range(0, len(ordered), 256):
                batch = ordered[start : start + 256]
                model(**tokenizer(batch, is_split_into_words=True, padding=True, return_tensors="pt"))

    return run


def flair(folder: str) -> Callable[[Sentences], Any]:
    from flair.data import Sentence

    from elmo.integrations.flair import ElmoEmbeddings

    embeddings = ElmoEmbeddings(folder, layers="average")

    def run(sentences: Sentences) -> None:
        made = [Sentence(sentence) for sentence in sentences]
        for start in range(0, len(made), 256):
            embeddings.embed(made[start : start + 256])

    return run


def spacy(folder: str) -> Callable[[Sentences], Any]:
    import spacy
    from spacy.tokens import Doc

    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", config={"model": folder})
    nlp("")  # the model is opened when it is first used
    return lambda sentences: list(nlp.pipe(Doc(nlp.vocab, sentence) for sentence in sentences))


DOORS = {door.__name__: door for door in (sklearn, sentence_transformers, transformers, flair, spacy)}


def seconds(door: Callable[[str], Callable[[Sentences], Any]], folder: str, sentences: Sentences) -> float:
    run = door(folder)
    start = time.process_time()
    run(sentences)
    return time.process_time() - start


def measure(name: str, folder: str, sentences: Sentences, rounds: int) -> None:
    """Measures one integration and prints its row."""
    torch.set_num_threads(1)
    pairs = [(seconds(embedder, folder, sentences), seconds(DOORS[name], folder, sentences)) for _ in range(rounds)]
    ratio = statistics.median(bare / through for bare, through in pairs)
    bare, through = (statistics.median(column) for column in zip(*pairs, strict=True))
    print(f"| {name} | {bare:.1f} | {through:.1f} | {ratio:.2f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--text", type=Path, required=True, help="one sentence per line, tokens separated by whitespace"
    )
    parser.add_argument("--model", default="default")
    parser.add_argument("--sentences", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--door", choices=DOORS, help="this one alone, in this process")
    options = parser.parse_args()
    if options.door:
        lines = options.text.read_text(encoding="utf-8").splitlines()
        sentences = [line.split() for line in lines if line.strip()][: options.sentences]
        measure(options.door, str(formats.find(options.model)), sentences, options.rounds)
        return
    print("| door | Embedder, s | door, s | speed |\n|---|---|---|---|", flush=True)
    for name in DOORS:
        subprocess.run([sys.executable, __file__, *sys.argv[1:], "--door", name], check=True)


if __name__ == "__main__":
    main()
