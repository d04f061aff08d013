"""Runs and times other programs that compute the same vectors."""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from elmo.bench import process

SPEED = re.compile(r"^tokens/s ([0-9.]+)$", re.MULTILINE)


@dataclass(frozen=True)
class Peer:
    """The row of another program."""

    name: str
    tokens_per_second: float
    peak_bytes: float


def run(option: str, sentences: Sequence[Sequence[str]], file: Path) -> Peer:
    """Runs `NAME=COMMAND` on the sentences, which are written to `file`.

    The speed is that of a line `tokens/s NUMBER` if the command prints one, and else that of its whole time.
    """
    name, equals, command = option.partition("=")
    if not equals or not command.strip():
        raise SystemExit(f"--peer {option!r}: NAME=COMMAND is expected")
    file.write_text("".join(" ".join(sentence) + "\n" for sentence in sentences), encoding="utf-8")
    done = process.run_measured([*shlex.split(command), str(file)])
    printed = SPEED.findall(done.output)
    speed = float(printed[-1]) if printed else sum(map(len, sentences)) / done.seconds
    return Peer(name, speed, done.peak_bytes)
