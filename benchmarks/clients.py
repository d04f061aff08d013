"""Clients of `elmo serve` for serve.py: one thread keeps their connections open and counts what they get."""

import argparse
import json
import os
import re
import selectors
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

BUFFER = bytearray(1 << 18)
"""The memory into which all clients receive; new memory would cost more than the rest of a client."""


@dataclass
class Client:
    """A connection, and the answer for which it waits."""

    connection: socket.socket
    next: int
    began: float = 0.0
    missing: int = -1
    head: bytes = b""
    is_refused: bool = False


@dataclass
class Load:
    """The answers that clients got in the measured time."""

    tokens: int = 0
    seconds: float = 0.0
    refused: int = 0
    """The number of answers with another status than 200; their times count, too."""
    latencies: list[float] = field(default_factory=list)

    def percentile(self, part: float) -> float:
        """Returns the percentile of the time to the whole answer, in milliseconds."""
        return 1000 * sorted(self.latencies)[int(part * (len(self.latencies) - 1))]


@contextmanager
def served(arguments: argparse.Namespace, **variables: str) -> Iterator[tuple[tuple[str, int], int]]:
    """Starts a server with these environment variables added; yields its address and its process id."""
    command = [sys.executable, "-m", "elmo", "serve", "--port", "0", "--model", arguments.model]
    if arguments.precision != "float32":
        command += ["--precision", arguments.precision]
    environment = os.environ | variables
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)
    try:
        assert process.stdout is not None
        found = re.search(r"http://\S+", process.stdout.readline())
        assert found, "the server did not start"
        url = urlsplit(found[0])
        yield (url.hostname or "", url.port or 0), process.pid
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def load(
    addresses: Sequence[tuple[str, int]], asked: Sequence[tuple[bytes, int]], clients: int, seconds: float
) -> Load:
    """Lets every client send one request after another to one of the addresses; finishes those under way at the end."""
    done = Load()
    with selectors.DefaultSelector() as ready:
        began = time.perf_counter()
        for number in range(clients):
            client = Client(socket.create_connection(addresses[number % len(addresses)]), number * 7)
            ready.register(client.connection, selectors.EVENT_READ, client)
            send(client, asked)
        while ready.get_map():
            for key, _ in ready.select():
                client: Client = key.data
                if not whole(client):
                    continue
                now = time.perf_counter()
                done.latencies.append(now - client.began)
                done.refused += client.is_refused
                done.tokens += 0 if client.is_refused else asked[client.next % len(asked)][1]
                client.next += 1
                if now - began < seconds:
                    send(client, asked)
                else:
                    ready.unregister(client.connection)
                    client.connection.close()
        done.seconds = time.perf_counter() - began
    return done


def send(client: Client, asked: Sequence[tuple[bytes, int]]) -> None:
    client.began, client.missing, client.head = time.perf_counter(), -1, b""
    client.connection.sendall(asked[client.next % len(asked)][0])


def whole(client: Client) -> bool:
    """Receives what has arrived; returns whether that was the end of an answer."""
    got = client.connection.recv_into(BUFFER)
    assert got, "the server closed the connection"
    if client.missing < 0:
        client.head += BUFFER[:got]
        head, end, body = client.head.partition(b"\r\n\r\n")
        if not end:
            return False
        client.is_refused = not head.startswith(b"HTTP/1.1 200")
        client.missing = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0]) - len(body)
    else:
        client.missing -= got
    return client.missing == 0


def requests(sentences: list[list[str]], count: int, layers: Any, pool: Any, accept: str) -> list[tuple[bytes, int]]:
    """Returns the requests to /vectors as bytes, each with its number of tokens."""
    return posts(sentences, count, "/vectors", accept, lambda part: {"sentences": part, "layers": layers, "pool": pool})


def openai_requests(sentences: list[list[str]], count: int, path: str, model: str) -> list[tuple[bytes, int]]:
    """Returns the requests to OpenAI's route as bytes, each with its number of tokens."""
    return posts(sentences, count, path, "*/*", lambda part: {"model": model, "input": list(map(" ".join, part))})


def posts(
    sentences: list[list[str]], count: int, path: str, accept: str, content: Callable[[list[list[str]]], object]
) -> list[tuple[bytes, int]]:
    """Returns a request for every `count` sentences, whose JSON `content` gives."""
    made = []
    for first in range(0, len(sentences), count):
        part = sentences[first : first + count]
        body = json.dumps(content(part)).encode()
        head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\naccept: {accept}\r\ncontent-type: application/json\r\n"
        made.append((head.encode() + b"content-length: %d\r\n\r\n" % len(body) + body, sum(map(len, part))))
    return made


def megabytes(pid: int) -> float:
    """Returns the memory that a process has now. It works on Linux only."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(encoding="utf-8"))
    assert found
    return int(found[1]) / 1000


def cpu_seconds(pid: int) -> float:
    """Returns the processor time of a process until now. It works on Linux only."""
    if sys.platform == "win32":
        raise OSError("there is no /proc")
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
