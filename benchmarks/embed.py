"""How many tokens a second `Embedder` turns into vectors, and how long one sentence takes.

    python benchmarks/embed.py                                   # random weights of the published sizes, demo sentences
    python benchmarks/embed.py --model run/ --text held.txt      # a model and a text (tokens parted by spaces) of yours

Vectors are of all layers and are dropped as they come. Every setting is warmed up on a tenth of the text, then timed
`--rounds` times; the fastest round is printed, since other programs can only slow one down.
"""

import argparse
import platform
import time
from collections.abc import Callable, Sequence
from importlib.resources import files
from itertools import cycle, islice
from pathlib import Path

import torch

from elmo import formats
from elmo.embedding.embedder import Embedder
from elmo.model.bilm import BiLM, BiLMConfig
from elmo.model.char_cnn import CharCnnConfig
from elmo.model.lstm import LstmConfig

SIZES = {
    "original, 4096 cells": BiLMConfig(),
    "small, 1024 cells": BiLMConfig(LstmConfig(1024, 128), CharCnnConfig(n_highway=1)),
}
"""Of the published models."""


def main() -> None:
    arguments = parse()
    torch.set_num_threads(arguments.threads or torch.get_num_threads())
    sentences = read(arguments.text, arguments.sentences)
    tokens = [len(sentence) for sentence in sentences]
    words = len({word for sentence in sentences for word in sentence})
    device = arguments.device or ("cuda" if torch.cuda.is_available() else "cpu")
    place = torch.cuda.get_device_name() if device.startswith("cuda") else f"CPU, {torch.get_num_threads()} threads"
    print(f"torch {torch.__version__}, {platform.machine()}, {place}")
    print(f"{len(sentences)} sentences, {sum(tokens)} tokens, {words} distinct words, longest {max(tokens)}")

    print(f"\n{'model':24}{'precision':12}{'tokens a batch':>15}{'tokens/s':>12}{'one sentence, ms':>19}")
    for name, bilm in models(arguments.model).items():
        for precision in arguments.precision:
            alone = Embedder(bilm, device=device, precision=precision)
            middle = sorted(sentences, key=len)[len(sentences) // 2]
            embed(alone, [middle])
            latency = fastest(lambda: embed(alone, [middle]), arguments.rounds)  # noqa: B023
            for budget in arguments.batch_tokens:
                embedder = Embedder(bilm, device=device, precision=precision, batch_tokens=budget)
                embed(embedder, sentences[: -(-len(sentences) // 10)])
                seconds = fastest(lambda: embed(embedder, sentences), arguments.rounds)  # noqa: B023
                row = f"{name:24}{precision:12}{budget:15}{sum(tokens) / seconds:12,.0f}{1000 * latency:19.1f}"
                print(row, flush=True)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, help="folder or file of a model (default: random weights)")
    parser.add_argument("--text", type=Path, help="a sentence a line, tokens parted by spaces (default: the demo's)")
    parser.add_argument("--sentences", type=int, default=400, help="how many to embed; the text is repeated if short")
    parser.add_argument("--batch-tokens", type=int, nargs="+", default=[256, 2048], metavar="N")
    parser.add_argument("--precision", nargs="+", default=["float32", "bfloat16"], metavar="TYPE")
    parser.add_argument("--device", help="cpu, cuda, ...")
    parser.add_argument("--threads", type=int, help="CPU threads")
    parser.add_argument("--rounds", type=int, default=3)
    return parser.parse_args()


def read(path: Path | None, count: int) -> list[list[str]]:
    """`count` sentences of the text, from its beginning again where it is short."""
    file = path or files("elmo") / "assets" / "demo.txt"
    sentences = [line.split() for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    return list(islice(cycle(sentences), count))


def models(path: Path | None) -> dict[str, BiLM]:
    if path is not None:
        return {path.name: formats.load(path).bilm()}
    return {name: BiLM(config).requires_grad_(False) for name, config in SIZES.items()}


def embed(embedder: Embedder, sentences: Sequence[Sequence[str]]) -> None:
    for _ in embedder.embed_stream(sentences):
        pass


def fastest(work: Callable[[], None], rounds: int) -> float:
    """Seconds of the fastest round."""
    seconds = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    return min(seconds)


if __name__ == "__main__":
    main()
