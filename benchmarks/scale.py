"""Estimates how long training takes on several machines, and checks the same arithmetic against measurements.

    python benchmarks/scale.py --check             # 1, 2 and 4 processes here: predicted and measured words/s
    python benchmarks/scale.py                     # 1 Billion Word Benchmark, published size: FLOPs, bytes, hours, cost

The prediction of `--check` is a simulation: every process takes as long for a step as processes that send nothing
(`apart` of `distributed.py`), all wait for the last, and then the messages take as long as they take alone (`wire`).
"""

import argparse
import random
from dataclasses import dataclass
from statistics import mean, median

from distributed import MODELS, add_numbers, started

from elmo.model.bilm import BiLMConfig

PUBLISHED = BiLMConfig()
WORDS, NEGATIVES, STREAMS, WINDOW = 793_471, 8192, 384, 20
CORPUS, EPOCHS = 768_648_884 + 30_301_028, 10
"""The words of the training part with its sentence ends (Chelba et al. 2013), and the number of epochs."""


@dataclass(frozen=True)
class Machines:
    """Devices that train together.

    They have operations per second, of each device in training and in embedding, bytes per second, seconds until a
    message arrives, and dollars per hour for all devices.
    """

    name: str
    count: int
    flops: float
    embedding_flops: float
    network: float
    latency: float
    dollars: float


GPU, GPU_EMBEDS, CORE, OF_32_CORES = 36e12, 7.4e12, 0.12e12, 0.6
"""The operations per second of a GPU and of a core.

Those of an H100 were measured at the published size: a training step in bfloat16, and embedding in float32
(docs/speed.md). That of a core was measured with one thread of a Zen 4 at 2,048/256 in bfloat16 (docs/log.md,
2026-11-24). It is assumed that the 32 cores of a node do 0.6 times as much as 32 such threads."""
NODE = 32 * CORE * OF_32_CORES
FLEETS = (
    Machines("1 GPU", 1, GPU, GPU_EMBEDS, 1, 0, 3.0),
    Machines("8 GPUs, one machine", 8, GPU, GPU_EMBEDS, 300e9, 10e-6, 24.0),
    Machines("64 CPU nodes, 10 Gbit/s", 64, NODE, NODE, 1.25e9, 50e-6, 64 * 1.3),
    Machines("64 CPU nodes, 1 Gbit/s", 64, NODE, NODE, 0.125e9, 100e-6, 64 * 1.3),
)
CRAWL, SENTENCE = 156e9, 21
"""The tokens of the English part of C4 (Dodge et al. 2021), and those of a sentence."""


def lstm_weights(config: BiLMConfig) -> int:
    lstm = config.lstm
    return 2 * lstm.n_layers * (lstm.dim * 4 * 2 * lstm.projection_dim + lstm.dim * lstm.projection_dim)


def cnn_weights(config: BiLMConfig) -> tuple[int, int]:
    """Returns the number of weights of the filters, and that of the highways and the projection."""
    cnn = config.char_cnn
    assert cnn is not None
    filters = sum(count for _, count in cnn.filters)
    convolutions = sum(width * count * cnn.embedding_dim for width, count in cnn.filters)
    return convolutions, cnn.n_highway * 2 * filters**2 + filters * config.lstm.projection_dim


def flops_a_word(config: BiLMConfig, negatives: int, distinct: float) -> dict[str, float]:
    """Returns the operations of forward and backward, 6 per weight; `distinct` is the share of distinct words."""
    convolutions, rest = cnn_weights(config)
    return {
        "LSTMs": 6 * lstm_weights(config),
        "softmax": 2 * 6 * negatives * config.lstm.projection_dim,
        "characters": 6 * distinct * (50 * convolutions + rest),
    }


def bytes_a_step(config: BiLMConfig, words: int, touched: int, processes: int) -> dict[str, float]:
    """Returns the bytes that a process sends in a ring, for `rows` and for `dense`."""
    dense = 4 * (lstm_weights(config) + sum(cnn_weights(config)))
    ring = 2 * (processes - 1) / processes
    width = config.lstm.projection_dim + 1
    return {
        "network": ring * dense,
        "rows": ring * (4 * touched * width + words),
        "dense softmax": ring * 4 * words * width,
    }


def on_paper() -> None:
    total, a_step = CORPUS * EPOCHS, STREAMS * WINDOW
    distinct = 0.25
    flops = flops_a_word(PUBLISHED, NEGATIVES, distinct)
    print(f"words {total:.3g}, steps {total / a_step:,.0f}; operations a word: ", end="")
    print(
        ", ".join(f"{name} {value / 1e6:,.0f} M" for name, value in flops.items()), f"; all {sum(flops.values()):.3g}"
    )
    touched = NEGATIVES + round(2 * a_step * 0.15)
    for fleet in FLEETS:
        sent = bytes_a_step(PUBLISHED, WORDS, touched, fleet.count)
        steps = total / a_step
        compute = sum(flops.values()) * a_step / fleet.count / fleet.flops
        rounds = 2 * (fleet.count - 1) * fleet.latency * 20  # messages are buckets of 25 MB
        of_rows = (sent["network"] + sent["rows"]) / fleet.network + rounds if fleet.count > 1 else 0.0
        of_dense = (sent["network"] + sent["dense softmax"]) / fleet.network + rounds if fleet.count > 1 else 0.0
        hours, before = steps * (compute + of_rows) / 3600, steps * (compute + of_dense) / 3600
        print(
            f"{fleet.name:26} compute {1000 * compute:7.1f} ms, network {1000 * of_rows:7.1f} ms"
            f" (dense {1000 * of_dense:7.1f}); MB a step {(sent['network'] + sent['rows']) / 1e6:6.0f}"
            f" (dense {(sent['network'] + sent['dense softmax']) / 1e6:6.0f}); hours {hours:7.0f}"
            f" (dense {before:7.0f});"
            f" ${hours * fleet.dollars:9,.0f}"
        )


def embedding_on_paper() -> None:
    """Prints what it takes to embed the English sentences of a crawl with the published model."""
    flops = 2 * lstm_weights(PUBLISHED)  # the CNN reads a word once for many sentences
    vector = 2 * PUBLISHED.lstm.projection_dim
    print(f"\n{CRAWL:.3g} tokens, {CRAWL / SENTENCE:.3g} sentences; operations a token {flops / 1e6:.0f} M", end="; ")
    print(f"all {flops * CRAWL:.3g}")
    for name, size in (
        ("3 layers, float16", CRAWL * 3 * vector * 2),
        ("1 layer or a mix, float16", CRAWL * vector * 2),
        ("a sentence's mean, float16", CRAWL / SENTENCE * vector * 2),
        ("a sentence's mean, int8", CRAWL / SENTENCE * vector),
    ):
        print(
            f"{name:28} {size / 1e12:7.0f} TB; at 1 GB/s {size / 1e9 / 3600:7.0f} h; ${size / 1e9 * 0.02:9,.0f} a month"
        )
    for fleet in FLEETS[:3]:
        hours = flops * CRAWL / fleet.count / fleet.embedding_flops / 3600
        print(f"{fleet.name:28} {hours:7.0f} h of products, ${hours * fleet.dollars:7,.0f}")


def predict(compute: list[float], messages: list[float], processes: int, steps: int = 2000) -> float:
    """Returns the milliseconds of a step, in which all processes wait for the slowest, then for the messages."""
    rng = random.Random(0)
    drawn = [max(rng.choice(compute) for _ in range(processes)) + rng.choice(messages) for _ in range(steps)]
    return mean(drawn)


def check(arguments: argparse.Namespace) -> None:
    """Prints the predicted and the measured words per second, measured in turns."""
    config = MODELS[arguments.size]
    dense = (lstm_weights(config) + sum(cnn_weights(config))) // 1000
    touched = arguments.touched * (config.lstm.projection_dim + 1) // 1000
    a_step = arguments.rows * arguments.window
    print(f"{'processes':>9}{'apart ms':>10}{'wire ms':>9}{'predicted':>11}{'measured words/s':>18}")
    for processes in arguments.processes:
        compute, messages, measured = [], [], []
        for _ in range(arguments.turns):
            compute += started(arguments, "apart", processes)["times"]
            if processes > 1:
                messages += started(arguments, "wire", processes, (dense, touched))["times"]
            measured += started(arguments, "rows", processes)["times"]
        predicted = predict(compute, messages or [0.0], processes)
        print(
            f"{processes:9}{median(compute):10.0f}{median(messages or [0]):9.0f}{1000 * a_step / predicted:11,.0f}"
            f"{1000 * a_step / mean(measured):18,.0f}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add_numbers(parser)
    parser.add_argument("--check", action="store_true", help="measure here what is predicted")
    parser.add_argument("--touched", type=int, default=5_200, help="rows of the softmax that a step touches")
    arguments = parser.parse_args()
    if arguments.check:
        check(arguments)
    else:
        on_paper()
        embedding_on_paper()


if __name__ == "__main__":
    main()
