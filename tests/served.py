"""A server in a process of its own, for tests."""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import httpx


@dataclass
class Served:
    """A server process."""

    url: str
    process: subprocess.Popen

    def post(self, path: str, content: object, **options) -> httpx.Response:
        return httpx.post(self.url + path, json=content, timeout=30, **options)

    @property
    def address(self) -> tuple[str, int]:
        host, port = self.url.removeprefix("http://").split(":")
        return host, int(port)


def start(log: Path, *flags: str, **variables: str) -> Served:
    """`elmo serve` at a free port, when it is ready; its log goes to a file."""
    command = [sys.executable, "-m", "elmo", "serve", "--port", "0", *flags]
    with log.open("w", encoding="utf-8") as file:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=file, text=True, env=os.environ | variables)
    assert process.stdout is not None
    line = process.stdout.readline()
    found = re.search(r"http://\S+", line)
    assert found, log.read_text(encoding="utf-8")
    return Served(found[0], process)


def stop(served: Served) -> None:
    """SIGTERM, and the end."""
    served.process.terminate()
    assert served.process.wait(15) == 0
    assert served.process.stdout is not None
    served.process.stdout.close()
