"""Other programs that compute the same vectors: commands run here, and numbers that were measured elsewhere."""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from elmo.bench import process

ELSEWHERE = 450.0
"""GFLOP/s of float32 products (oneDNN, 2 threads) on the machine of the rows below: AMD Zen 5 with AVX-512, 2 cores."""
MEASURED = {
    "original": {
        "AllenNLP 2.10.1 (torch 1.12)": (126, 167, 1.9),
        "bilm-tf (TensorFlow 1.15)": (313, 370, 2.1),
        "simple_elmo 0.9.2 (TensorFlow 2.15)": (479, 525, 4.8),
        "ELMoForManyLangs (torch 2.13)": (200, 222, 2.9),
    },
    "small": {
        "AllenNLP 2.10.1 (torch 1.12)": (589, 478, None),
        "bilm-tf (TensorFlow 1.15)": (1426, 1166, None),
        "simple_elmo 0.9.2 (TensorFlow 2.15)": (2702, 2202, None),
        "ELMoForManyLangs (torch 2.13)": (745, 581, None),
    },
}
"""Tokens a second of all layers in batches of 32 and of 64, and peak memory in GB at 32; 2026-11-21, 2 threads."""
SPEED = re.compile(r"^tokens/s ([0-9.]+)$", re.MULTILINE)


@dataclass(frozen=True)
class Peer:
    """One row."""

    name: str
    batch: int | None
    tokens_per_second: float
    peak_bytes: float | None
    scaled: bool
    """Measured elsewhere: the speed is multiplied by how much faster this machine's float32 products are."""


def elsewhere(size: str, gflops: float) -> list[Peer]:
    """What was measured elsewhere, scaled to a machine with so fast float32 products."""
    return [
        Peer(name, batch, speed * gflops / ELSEWHERE, None if peak is None or batch != 32 else 1e9 * peak, True)
        for name, (at_32, at_64, peak) in MEASURED[size].items()
        for batch, speed in ((32, at_32), (64, at_64))
    ]


def run(option: str, sentences: Sequence[Sequence[str]], file: Path) -> Peer:
    """Runs `NAME=COMMAND` on the sentences, which are written to `file`.

    The speed is that of a line `tokens/s NUMBER` where the command prints one, else of its whole time.
    """
    name, equals, command = option.partition("=")
    if not equals or not command.strip():
        raise SystemExit(f"--peer {option!r}: NAME=COMMAND is expected")
    file.write_text("".join(" ".join(sentence) + "\n" for sentence in sentences), encoding="utf-8")
    done = process.run([*shlex.split(command), str(file)])
    printed = SPEED.findall(done.output)
    speed = float(printed[-1]) if printed else sum(map(len, sentences)) / done.seconds
    return Peer(name, None, speed, done.peak_bytes, scaled=False)
