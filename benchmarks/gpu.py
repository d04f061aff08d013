"""A GPU: whether it gives the CPU's vectors, how fast it embeds, and how long a training step takes.

    python benchmarks/gpu.py sentences.txt     # one pretokenized sentence per line; some 200,000 tokens

A step is measured without the optimizer. `launched` is when Python has given the GPU all its work: where that is close
to the end, the GPU waits for Python.
"""

import argparse
import time
from collections import Counter
from itertools import islice, product
from pathlib import Path
from statistics import median

import numpy as np
import torch
from embed import random_weights

from elmo import ops
from elmo.bench.embedding import cut, latency, throughput
from elmo.bench.machine import synchronize
from elmo.embedding.embedder import Embedder
from elmo.formats import load
from elmo.machine import card
from elmo.model.bilm import BiLMConfig
from elmo.pretraining.batches import LmReader, ReaderConfig
from elmo.pretraining.objective import LanguageModel, ObjectiveConfig
from elmo.text.tokenizer import TextConfig
from elmo.text.vocabulary import Vocabulary

STEPS = (("english-base", 32, 4096), ("english-base", 256, 4096), ("published", 384, 8192))
"""Size, streams and negatives."""
WINDOW = 20
COMPARED = 150
"""Sentences whose vectors are compared with the CPU's."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("text", type=Path)
    parser.add_argument("--sentences", type=int, default=6000)
    parser.add_argument("--device", default="cuda")
    arguments = parser.parse_args()
    with arguments.text.open(encoding="utf-8") as file:
        sentences = [line.split() for line in islice(file, arguments.sentences)]
    print(card(arguments.device), f"{sum(map(len, sentences)):,} tokens")
    torch.backends.cudnn.allow_tf32 = False  # as in `elmo train`
    compare(sentences[:COMPARED], arguments.device)
    for size, precision in product(("english-base", "published"), ("float32", "bfloat16")):
        bilm = load(size).bilm() if size == "english-base" else random_weights(BiLMConfig())
        embed(size, precision, Embedder(bilm, device=arguments.device, precision=precision), sentences)
    counts = Counter(token for sentence in sentences for token in sentence)
    vocabulary = Vocabulary(("<S>", "</S>", "<UNK>", *(word for word, _ in counts.most_common(50_000))))
    for (size, streams, negatives), bfloat16 in product(STEPS, (False, True)):
        config = load(size).config if size == "english-base" else BiLMConfig()
        model = LanguageModel(config, len(vocabulary), ObjectiveConfig(negatives=negatives))
        reader = LmReader([arguments.text], vocabulary, TextConfig("whitespace", "line"), ReaderConfig(streams, WINDOW))
        print(f"{size}, {streams} streams, {'bfloat16' if bfloat16 else 'float32'}:", end=" ")
        print(steps(model.to(arguments.device), reader, streams, bfloat16, torch.device(arguments.device)))


def compare(sentences: list[list[str]], device: str) -> None:
    """Prints how far the device's vectors are from the CPU's, and from its own in another batch."""
    embedder = Embedder.load("english-base", device=device)
    here, there = Embedder.load("english-base", device="cpu").embed(sentences), embedder.embed(sentences)
    alone = [embedder.embed([sentence])[0] for sentence in sentences[:20]]
    print(f"largest difference: from the CPU {furthest(here, there):.1e}, ", end="")
    print(f"between alone and in a batch {furthest(alone, there):.1e}")


def furthest(some: list[np.ndarray], others: list[np.ndarray]) -> float:
    """The largest difference between vectors of the same sentences; the second list may be longer."""
    return max(float(np.abs(one - other).max()) for one, other in zip(some, others, strict=False))


def embed(size: str, precision: ops.Precision, embedder: Embedder, sentences: list[list[str]]) -> None:
    """Prints tokens a second, and milliseconds for one sentence."""
    fast, alone = throughput(embedder, sentences, rounds=3), latency(embedder, cut(sentences, 20, 8))
    lstm = f"{fast.lstm_seconds / fast.seconds:.0%} in the LSTMs"
    one = f"20 tokens {alone.new_words:.1f} ms, known words {alone.known_words:.1f} ms"
    print(f"{size}, {precision}: {fast.tokens_per_second:,.0f} tokens/s, {lstm}; {one}")


def steps(model: LanguageModel, reader: LmReader, streams: int, bfloat16: bool, device: torch.device) -> str:
    """The median of some training steps, forward and backward, after two untimed ones."""
    state, taken = model.bilm.initial_state(streams), []
    for _ in range(7):
        batch = next(reader).to(device)
        synchronize(device)
        began = time.perf_counter()
        with torch.autocast(device.type, torch.bfloat16, enabled=bfloat16):
            loss, state = model(batch.char_ids, batch.inputs, batch.targets, batch.keep, batch.starts, state)
        loss.backward()
        launched = time.perf_counter() - began
        synchronize(device)
        taken.append((time.perf_counter() - began, launched))
        model.zero_grad(set_to_none=True)
        state = type(state)(*(part.detach() for part in state))
    seconds, launched = (median(times) for times in zip(*taken[2:], strict=True))
    return f"{1e3 * seconds:.0f} ms, launched after {1e3 * launched:.0f} ms, {streams * WINDOW / seconds:,.0f} words/s"


if __name__ == "__main__":
    main()
