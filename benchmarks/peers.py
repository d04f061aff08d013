"""Runs and times other programs that compute the same vectors."""

import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

SPEED = re.compile(r"^tokens/s ([0-9.]+)$", re.MULTILINE)


@dataclass(frozen=True)
class Peer:
    """The row of another program."""

    name: str
    tokens_per_second: float
    peak_bytes: float


@dataclass(frozen=True)
class FinishedCommand:
    """The output of a finished command, its time and its memory."""

    seconds: float
    peak_bytes: int
    """The peak memory of the command or of the largest process that it started; 0 on Windows.

    The system counts from the parent's size, so a smaller command seems as large as the parent.
    """
    output: str


def run(option: str, sentences: Sequence[Sequence[str]], file: Path) -> Peer:
    """Runs `NAME=COMMAND` on the sentences, which are written to `file`.

    The speed is that of a line `tokens/s NUMBER` if the command prints one, and else that of its whole time.
    """
    name, equals, command = option.partition("=")
    if not equals or not command.strip():
        raise SystemExit(f"--peer {option!r}: NAME=COMMAND is expected")
    file.write_text("".join(" ".join(sentence) + "\n" for sentence in sentences), encoding="utf-8")
    done = run_measured([*shlex.split(command), str(file)])
    printed = SPEED.findall(done.output)
    speed = float(printed[-1]) if printed else sum(map(len, sentences)) / done.seconds
    return Peer(name, speed, done.peak_bytes)


def run_measured(command: Sequence[str]) -> FinishedCommand:
    """Runs a command and returns its time, memory and output. It shares stderr with this process.

    Raises subprocess.CalledProcessError if it fails.
    """
    began = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        output = process.stdout.read()
        most = _wait(process)
        seconds = time.perf_counter() - began
    if process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, list(command), output)
    return FinishedCommand(seconds, most, output)


def _wait(process: "subprocess.Popen[str]") -> int:
    """Waits for a process to end and returns its peak memory; 0 if the system does not say."""
    if sys.platform == "win32":
        process.wait()
        return 0
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_maxrss if sys.platform == "darwin" else 1024 * usage.ru_maxrss
