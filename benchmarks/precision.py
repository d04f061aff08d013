"""Measures what bfloat16 and int8 do to the vectors: cosines to float32, layer by layer, and a task's score.

    python benchmarks/precision.py --model run/ --text prose.txt --tokens 20000

The program prints a table with the smallest and the mean cosine over all tokens, and the share of labelled words whose
nearest neighbour has their sense (`elmo probe senses`).
"""

import argparse
from pathlib import Path

import numpy as np

import elmo
from elmo.bench.job import first_sentences
from elmo.cli.looking import SENSES
from elmo.search import senses
from elmo.text.tokenizer import TextConfig, Tokenizer


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--model", help="a model (default: the packaged one)")
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--tokens", type=int, default=20_000)
    arguments = parser.parse_args()
    sentences = first_sentences(arguments.text, Tokenizer(TextConfig()), arguments.tokens)
    occurrences = senses.read_occurrences(SENSES)
    exact: list[np.ndarray] = []
    print(
        "| precision | layer | smallest cosine | mean cosine | largest difference | same sense |\n" + "|---" * 6 + "|"
    )
    for precision in ("float32", "bfloat16", "int8"):
        embedder = elmo.load(arguments.model, precision=precision)
        vectors = embedder.embed(sentences)
        exact = exact or vectors
        scores = [row.accuracy for row in senses.score_layers(embedder, occurrences)]
        for layer in range(embedder.n_layers):
            seen, true = (np.concatenate([array[layer] for array in arrays]) for arrays in (vectors, exact))
            cosines = (seen * true).sum(1) / np.linalg.norm(seen, axis=1) / np.linalg.norm(true, axis=1)
            print(
                f"| {precision} | {layer} | {cosines.min():.6f} | {cosines.mean():.6f} |"
                f" {np.abs(seen - true).max():.4f} | {100 * scores[layer]:.1f} % |"
            )


if __name__ == "__main__":
    main()
