"""Measures one sentence at a time, in every precision and with every library of int8-weights, in turns.

    python benchmarks/one_sentence.py english-base                # two threads: an idle machine
    python benchmarks/one_sentence.py english-base --threads 1    # the thread's own time: other programs matter less

The numbers are milliseconds, the least of all rounds: for one sentence of 20 tokens whose words are new, and known; for
four sentences side by side, and for 96 sentences of 24 tokens, whose words are known.
"""

import argparse
import time

import torch

from elmo.bench.embedding import cut_runs
from elmo.cli.arguments import DEMO_TEXT
from elmo.embedding.embedder import Embedder
from elmo.ops import find_support

WAYS = [("float32", None), ("bfloat16", None), ("int8", None)]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("model")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--rounds", type=int, default=20)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    clock = time.thread_time if arguments.threads == 1 else time.perf_counter
    words = [line.split() for line in DEMO_TEXT.read_text(encoding="utf-8").splitlines()]
    alone, four, many = cut_runs(words, 20, 8), cut_runs(words, 20, 4), cut_runs(words, 24, 96)
    ways = WAYS + [("int8-weights", library) for library in find_support("int8-weights").libraries]
    embedders = [Embedder.load(arguments.model, device="cpu", precision=p, library=one) for p, one in ways]
    least = [[float("inf")] * 4 for _ in ways]
    for number in range(arguments.rounds):
        sentence = alone[number % len(alone)]
        for embedder, found in zip(embedders, least, strict=True):
            embedder.embed(many if number == 0 else four)
            embedder.words.clear()
            works = [[sentence], [sentence], four, many]
            for column, work in enumerate(works[: 4 if number % 8 == 0 else 3]):
                if column > 1:
                    embedder.words(sorted({word for tokens in work for word in tokens}))
                began = clock()
                embedder.embed(work)
                found[column] = min(found[column], 1e3 * (clock() - began))
    print(f"{arguments.model}, threads: {arguments.threads}, ms")
    print("| precision | library | 20 tokens, new words | known words | 4 x 20 | 96 x 24 |\n|---|---|---|---|---|---|")
    for (precision, library), found in zip(ways, least, strict=True):
        print(f"| {precision} | {library or ''} | " + " | ".join(f"{one:.1f}" for one in found) + " |")


if __name__ == "__main__":
    main()
