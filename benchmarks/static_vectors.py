"""Trains static word vectors on a biLM's own text, for the baselines of the tasks, in GloVe's text format, lower-case.

    pip install gensim
    export OPENBLAS_CORETYPE=Haswell
    python benchmarks/static_vectors.py 'lm/wiki.train.*' 'lm/books.train.*' --output skip-grams.100.txt

The vectors are gensim's, by skip-gram with negative sampling (Mikolov et al. 2013). The text is tokenised once, as the
biLM's was, into a file beside the output, which is used again if it is finished. With one worker, a seed and OpenBLAS
set to one type of processor, the numbers repeat: an AMD EPYC and an Intel Xeon gave the same file (docs/log.md). It
takes 15 minutes for 59M words.
"""

import argparse
import time
from multiprocessing import get_context
from pathlib import Path

from elmo.disk.files import atomic_path
from elmo.text import corpus
from elmo.text.tokenizer import TextConfig, Tokenizer


def tokenised(path: Path) -> tuple[str, int]:
    """Returns the sentences of a file, one per line and in lower case, and the number of their tokens."""
    lines = [" ".join(sentence).lower() for sentence in corpus.corpus_sentences([path], Tokenizer(TextConfig()))]
    return "".join(f"{line}\n" for line in lines), sum(line.count(" ") + 1 for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("text", nargs="+")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--dim", type=int, default=100)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--min-count", type=int, default=10)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    sentences = arguments.output.with_name(f"{arguments.output.name}.sentences")
    if not sentences.exists():
        began, tokens = time.monotonic(), 0
        with (
            atomic_path(sentences, overwrite=True) as temporary,
            temporary.open("w", encoding="utf-8") as file,
            get_context("spawn").Pool(arguments.workers) as pool,
        ):
            for text, count in pool.imap(tokenised, corpus.expand_patterns(arguments.text)):
                file.write(text)
                tokens += count
                print(f"{tokens:,} tokens, {tokens / (time.monotonic() - began):,.0f} a second", flush=True)

    from gensim.models import Word2Vec  # type: ignore[import-not-found]

    began = time.monotonic()
    model = Word2Vec(
        corpus_file=str(sentences),
        vector_size=arguments.dim,
        sg=1,
        negative=5,
        window=5,
        min_count=arguments.min_count,
        epochs=arguments.epochs,
        workers=arguments.workers,
        seed=arguments.seed,
    )
    with atomic_path(arguments.output, overwrite=True) as temporary, temporary.open("w", encoding="utf-8") as file:
        for word, vector in zip(model.wv.index_to_key, model.wv.vectors, strict=True):
            file.write(f"{word} {' '.join(f'{number:.5f}' for number in vector)}\n")
    print(f"{arguments.output}: {len(model.wv):,} words of {arguments.dim} numbers; {time.monotonic() - began:,.0f} s")


if __name__ == "__main__":
    main()
