"""How fast `elmo serve` answers, beside the bare `Embedder` on the same sentences in the same run. Loopback only.

    python benchmarks/serve.py                        # under a minute; requests of 8 sentences
    python benchmarks/serve.py --sentences 1
    python benchmarks/serve.py --minutes 10           # whether memory stays flat
    python benchmarks/serve.py --beside               # 64 small clients beside one that sends the largest requests
    python benchmarks/serve.py --peer http://127.0.0.1:7997/v1/embeddings=NAME

- The sentences are those of the packaged text, as tokens. The bare embedder gets all of them in one call, before and
  after every row; a row's share is its tokens a second by the mean of these two.
- The clients are connections of one thread that are kept open; what they send is made before, and what they get is
  counted, not read. They share the processors with the server, so what they need is missing to it.
- `--peer` is another server that runs already: rows by OpenAI's route, in turns with those of `elmo serve`. It has a
  model of its own, so what can be compared is how it serves many clients.
- `vector` asks for one vector a sentence (as .npy or JSON), `all` for every layer of every token (safetensors or JSON).

The result is printed as a table in Markdown.
"""

import argparse
import http.client
import json
import os
import re
import selectors
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import torch

import elmo
from elmo.cli.arguments import DEMO_TEXT

MOST_SECONDS = 60.0
"""Of the table; rows that do not fit are left out."""
WHAT: dict[str, tuple[Any, Any, str]] = {
    "vector": ("average", "mean", "application/x-npy"),
    "all": ("all", None, "application/x-safetensors"),
}
"""Layers, pooling, and the binary type."""
BUFFER = bytearray(1 << 18)
"""What clients get: one for all, for new memory would cost more than the rest of a client."""


@dataclass
class Client:
    """A connection with the answer that it waits for."""

    connection: socket.socket
    next: int
    began: float = 0.0
    missing: int = -1
    head: bytes = b""


@dataclass
class Load:
    """What clients got in some seconds."""

    tokens: int = 0
    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)

    def percentile(self, part: float) -> float:
        """Of the time to the whole answer, in milliseconds."""
        return 1000 * sorted(self.latencies)[int(part * (len(self.latencies) - 1))]


def main() -> None:
    began = time.monotonic()
    arguments = parse()
    lines = Path(str(DEMO_TEXT)).read_text(encoding="utf-8").splitlines()
    sentences = [line.split() for line in lines if line.strip()]
    with served(arguments.model) as (address, pid):
        if arguments.minutes:
            watch(address, pid, sentences, arguments.minutes)
        elif arguments.beside:
            beside(address, sentences, arguments.seconds)
        elif arguments.peer:
            peers(address, arguments.peer, sentences, arguments)
        else:
            table(address, pid, sentences, arguments, began)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--model", default="default")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--sentences", type=int, default=8, help="of a request")
    parser.add_argument("--what", nargs="+", choices=list(WHAT), default=list(WHAT))
    parser.add_argument("--seconds", type=float, default=2.0, help="of a row")
    parser.add_argument("--peer", metavar="URL=MODEL", help="a server with OpenAI's route, and its model's name")
    parser.add_argument("--beside", action="store_true", help="small requests beside the largest ones")
    parser.add_argument("--minutes", type=float, help="64 clients for so long, and the server's memory meanwhile")
    return parser.parse_args()


@contextmanager
def served(model: str) -> Iterator[tuple[tuple[str, int], int]]:
    """Address and number of a server process."""
    command = [sys.executable, "-m", "elmo", "serve", "--port", "0", "--model", model]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        found = re.search(r"http://\S+", process.stdout.readline())
        assert found, "the server did not start"
        url = urlsplit(found[0])
        yield (url.hostname or "", url.port or 0), process.pid
    finally:
        process.terminate()
        process.wait(20)


# The rows


def table(
    address: tuple[str, int], pid: int, sentences: list[list[str]], arguments: argparse.Namespace, began: float
) -> None:
    """One row for every answer and number of clients."""
    embedder = elmo.load(arguments.model, device="cpu")
    memory = megabytes(pid)
    print(f"\n{os.cpu_count()} processors, {torch.get_num_threads()} threads, torch {torch.__version__}\n")
    print("| answer | sentences a request | clients | tokens/s | of the bare embedder | p50, ms | p99, ms |")
    print("|---|---|---|---|---|---|")
    for what in arguments.what:
        layers, pool, binary = WHAT[what]
        for kind in (binary, "application/json"):
            asked = requests(sentences, arguments.sentences, layers, pool, kind)
            for clients in arguments.clients:
                if time.monotonic() - began > MOST_SECONDS - 4 * arguments.seconds:
                    break
                before = bare(embedder, sentences, layers, pool)
                load(address, asked, clients, 0.2)
                row = load(address, asked, clients, arguments.seconds)
                speed = row.tokens / row.seconds
                share = speed / ((before + bare(embedder, sentences, layers, pool)) / 2)
                name = f"{what}, {kind.rpartition('/')[2].removeprefix('x-')}"
                times = f"{row.percentile(0.5):.0f} | {row.percentile(0.99):.0f}"
                print(f"| {name} | {clients} | {speed:,.0f} | {share:.2f} | {times} |", flush=True)
    print(f"\nThe server's memory: {memory:.0f} MB before, {megabytes(pid):.0f} MB after.")


def peers(address: tuple[str, int], peer: str, sentences: list[list[str]], arguments: argparse.Namespace) -> None:
    """Rows of both servers in turns, by OpenAI's route."""
    link, _, model = peer.partition("=")
    url = urlsplit(link)
    servers = {
        "elmo serve": (address, openai_requests(sentences, arguments.sentences, "/v1/embeddings", arguments.model)),
        model: (
            (url.hostname or "", url.port or 80),
            openai_requests(sentences, arguments.sentences, url.path, model),
        ),
    }
    print("| server | clients | tokens/s | p50, ms | p99, ms |\n|---|---|---|---|---|")
    for clients in arguments.clients:
        for name, (where, asked) in servers.items():
            load(where, asked, clients, 0.2)
            row = load(where, asked, clients, arguments.seconds)
            times = f"{row.percentile(0.5):.0f} | {row.percentile(0.99):.0f}"
            print(f"| {name} | {clients} | {row.tokens / row.seconds:,.0f} | {times} |", flush=True)


def beside(address: tuple[str, int], sentences: list[list[str]], seconds: float) -> None:
    """Rows of 64 clients with one sentence a request: alone, and beside a client of each of the largest requests."""
    small = requests(sentences, 1, "average", "mean", "application/x-npy")
    words = [word for sentence in sentences for word in sentence] * 100
    largest = {
        "nothing": None,
        "one sentence of 32,760 tokens": ("/vectors", {"sentences": [words[:32_760]], "layers": "top", "pool": "mean"}),
        "1,024 sentences of 30 tokens to /score": ("/score", {"sentences": [words[i : i + 30] for i in range(1024)]}),
        "900,000 numbers to /v1/embeddings": ("/v1/embeddings", {"input": [1.5] * 900_000}),
    }
    print("| beside | large requests answered | tokens/s | p50, ms | p99, ms |\n|---|---|---|---|---|")
    for name, large in largest.items():
        ended, answers = threading.Event(), []

        def ask(large: Any = large, ended: threading.Event = ended, answers: list[int] = answers) -> None:
            while large is not None and not ended.is_set():
                connection = http.client.HTTPConnection(*address, timeout=300)
                connection.request("POST", large[0], json.dumps(large[1]), {"content-type": "application/json"})
                answers.append(connection.getresponse().status)
                connection.close()

        asking = threading.Thread(target=ask)
        asking.start()
        load(address, small, 64, 0.5)
        row = load(address, small, 64, seconds)
        done = len(answers)
        ended.set()
        times = f"{row.percentile(0.5):.0f} | {row.percentile(0.99):.0f}"
        print(f"| {name} | {done} | {row.tokens / row.seconds:,.0f} | {times} |", flush=True)
        asking.join()


def openai_requests(sentences: list[list[str]], count: int, path: str, model: str) -> list[tuple[bytes, int]]:
    """As `requests`, in OpenAI's shape."""
    made = []
    for first in range(0, len(sentences), count):
        part = sentences[first : first + count]
        body = json.dumps({"model": model, "input": [" ".join(sentence) for sentence in part]}).encode()
        head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        made.append((head.encode() + b"content-length: %d\r\n\r\n" % len(body) + body, sum(map(len, part))))
    return made


def bare(embedder: elmo.Embedder, sentences: list[list[str]], layers: Any, pool: Any) -> float:
    """Tokens a second, of the whole text in one call, for a third of a second."""
    began, tokens = time.perf_counter(), 0
    while (seconds := time.perf_counter() - began) < 0.3:
        embedder.embed(sentences, layers, pool)
        tokens += sum(map(len, sentences))
    return tokens / seconds


def requests(sentences: list[list[str]], count: int, layers: Any, pool: Any, accept: str) -> list[tuple[bytes, int]]:
    """What is sent, and how many tokens are in it."""
    made = []
    for first in range(0, len(sentences), count):
        part = sentences[first : first + count]
        body = json.dumps({"sentences": part, "layers": layers, "pool": pool}).encode()
        head = f"POST /vectors HTTP/1.1\r\nhost: localhost\r\naccept: {accept}\r\ncontent-type: application/json\r\n"
        made.append((head.encode() + b"content-length: %d\r\n\r\n" % len(body) + body, sum(map(len, part))))
    return made


def load(address: tuple[str, int], asked: Sequence[tuple[bytes, int]], clients: int, seconds: float) -> Load:
    """Every client sends one request after another; those under way at the end are finished, and count."""
    done = Load()
    with selectors.DefaultSelector() as ready:
        began = time.perf_counter()
        for number in range(clients):
            client = Client(socket.create_connection(address), number * 7)
            ready.register(client.connection, selectors.EVENT_READ, client)
            send(client, asked)
        while ready.get_map():
            for key, _ in ready.select():
                client: Client = key.data
                if not whole(client):
                    continue
                now = time.perf_counter()
                done.latencies.append(now - client.began)
                done.tokens += asked[client.next % len(asked)][1]
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
    """Takes what has come; whether that was the last of an answer."""
    got = client.connection.recv_into(BUFFER)
    assert got, "the server closed the connection"
    if client.missing < 0:
        client.head += BUFFER[:got]
        head, end, body = client.head.partition(b"\r\n\r\n")
        if not end:
            return False
        assert head.startswith(b"HTTP/1.1 200"), client.head
        client.missing = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0]) - len(body)
    else:
        client.missing -= got
    return client.missing == 0


# Memory


def megabytes(pid: int) -> float:
    """Of a process, now. Linux only."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(encoding="utf-8"))
    assert found
    return int(found[1]) / 1000


def watch(address: tuple[str, int], pid: int, sentences: list[list[str]], minutes: float) -> None:
    """Memory in the course of a load of all kinds of answers, ten times."""
    parts = [
        requests(sentences, 4, layers, pool, kind)
        for layers, pool, binary in WHAT.values()
        for kind in (binary, "application/json")
    ]
    mixed = [request for same in zip(*parts, strict=True) for request in same]
    print("| minutes | memory, MB | tokens/s |\n|---|---|---|")
    for tenth in range(1, 11):
        row = load(address, mixed, 64, 6 * minutes)
        print(f"| {tenth * minutes / 10:.1f} | {megabytes(pid):.0f} | {row.tokens / row.seconds:,.0f} |", flush=True)


if __name__ == "__main__":
    main()
