"""Measures how fast `elmo serve` answers over loopback, beside the bare `Embedder` on the same sentences.

    python benchmarks/serve.py                        # under a minute; requests of 8 sentences
    python benchmarks/serve.py --sentences 1
    python benchmarks/serve.py --minutes 10           # whether memory stays flat
    python benchmarks/serve.py --beside               # 64 small clients beside one that sends the largest requests
    python benchmarks/serve.py --processes 2          # one server with all threads, and two with one thread each
    python benchmarks/serve.py --precision int8-weights
    python benchmarks/serve.py --peer http://127.0.0.1:7997/v1/embeddings=NAME

- The sentences are those of the packaged text, as tokens. The bare embedder gets all of them in one call, before and
  after every row; a row's share is its tokens a second by the mean of these two.
- The clients are connections that one thread keeps open. Requests are made in advance, and answers are counted, not
  read. The clients share the processors with the server, so the server lacks what they take.
- `--peer` is another server that runs already. Its rows use OpenAI's route, in turns with those of `elmo serve`. It has
  a model of its own, so only the way it serves many clients can be compared.
- `vector` asks for one vector a sentence (as .npy or JSON), `all` for every layer of every token (safetensors or JSON).

The result is printed as a table in Markdown.
"""

import argparse
import http.client
import json
import os
import statistics
import threading
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import torch
from clients import cpu_seconds, load, megabytes, openai_requests, requests, served

import elmo
from elmo.cli.arguments import DEMO_TEXT

ROUNDS = 5
"""The number of rounds in which two arrangements are measured in turns."""
MOST_SECONDS = 60.0
"""The most seconds of the table; rows that do not fit are left out."""
WHAT: dict[str, tuple[Any, Any, str]] = {
    "vector": ("average", "mean", "application/x-npy"),
    "all": ("all", None, "application/x-safetensors"),
}
"""The layers, the pooling and the binary type of each kind of request."""


def main() -> None:
    began = time.monotonic()
    arguments = parse()
    lines = Path(str(DEMO_TEXT)).read_text(encoding="utf-8").splitlines()
    sentences = [line.split() for line in lines if line.strip()]
    if arguments.processes:
        return processes(sentences, arguments)
    if arguments.beside:
        return beside(sentences, arguments)
    with served(arguments) as (address, pid):
        if arguments.minutes:
            watch(address, pid, sentences, arguments.minutes)
        elif arguments.peer:
            peers(address, arguments.peer, sentences, arguments)
        else:
            table(address, pid, sentences, arguments, began)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--model", default="default")
    parser.add_argument("--precision", default="float32", help="of elmo serve and of the bare embedder")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--sentences", type=int, default=8, help="of a request")
    parser.add_argument("--what", nargs="+", choices=list(WHAT), default=list(WHAT))
    parser.add_argument("--seconds", type=float, default=2.0, help="of a row")
    parser.add_argument("--peer", metavar="URL=MODEL", help="a server with OpenAI's route, and its model's name")
    parser.add_argument("--beside", action="store_true", help="small requests beside the largest ones")
    parser.add_argument("--processes", type=int, metavar="N", help="one server, and N with one thread each, in turns")
    parser.add_argument("--minutes", type=float, help="64 clients for so long, and the server's memory meanwhile")
    return parser.parse_args()


# The rows


def table(
    address: tuple[str, int], pid: int, sentences: list[list[str]], arguments: argparse.Namespace, began: float
) -> None:
    """Prints one row for every kind of answer and number of clients."""
    embedder = elmo.load(arguments.model, device="cpu", precision=arguments.precision)
    memory = megabytes(pid)
    print(f"\n{os.cpu_count()} processors, {torch.get_num_threads()} threads, torch {torch.__version__}\n")
    print("| answer | clients | tokens/s | of the bare embedder | p50, ms | p99, ms |")
    print("|---|---|---|---|---|---|")
    for what in arguments.what:
        layers, pool, binary = WHAT[what]
        for kind in (binary, "application/json"):
            asked = requests(sentences, arguments.sentences, layers, pool, kind)
            for clients in arguments.clients:
                if time.monotonic() - began > MOST_SECONDS - 4 * arguments.seconds:
                    break
                before = bare(embedder, sentences, layers, pool)
                load([address], asked, clients, 0.2)
                row = load([address], asked, clients, arguments.seconds)
                assert not row.refused
                speed = row.tokens / row.seconds
                share = speed / ((before + bare(embedder, sentences, layers, pool)) / 2)
                name = f"{what}, {kind.rpartition('/')[2].removeprefix('x-')}"
                times = f"{row.percentile(0.5):.0f} | {row.percentile(0.99):.0f}"
                print(f"| {name} | {clients} | {speed:,.0f} | {share:.2f} | {times} |", flush=True)
    print(f"\nThe server's memory: {memory:.0f} MB before, {megabytes(pid):.0f} MB after.")


def peers(address: tuple[str, int], peer: str, sentences: list[list[str]], arguments: argparse.Namespace) -> None:
    """Prints rows of both servers, measured in turns by OpenAI's route."""
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
            load([where], asked, clients, 0.2)
            row = load([where], asked, clients, arguments.seconds)
            times = f"{row.percentile(0.5):.0f} | {row.percentile(0.99):.0f}"
            print(f"| {name} | {clients} | {row.tokens / row.seconds:,.0f} | {times} |", flush=True)


def beside(sentences: list[list[str]], arguments: argparse.Namespace) -> None:
    """Prints rows of 64 clients with one sentence per request, alone and beside a client with the largest requests.

    Every row has a server of its own, since a server may be busy for long after a row.
    """
    small = requests(sentences, 1, "average", "mean", "application/x-npy")
    words = [word for sentence in sentences for word in sentence] * 100
    largest = {
        "nothing": None,
        "one sentence of 32,760 tokens": ("/vectors", {"sentences": [words[:32_760]], "layers": "top", "pool": "mean"}),
        "1,024 sentences of 30 tokens to /score": ("/score", {"sentences": [words[i : i + 30] for i in range(1024)]}),
        "900,000 numbers to /v1/embeddings": ("/v1/embeddings", {"input": [1.5] * 900_000}),
    }
    print("| beside | large requests answered | small ones refused | tokens/s | p50, ms | p99, ms |")
    print("|---|---|---|---|---|---|")
    for name, large in largest.items():
        ended, answers = threading.Event(), Counter[int]()
        with served(arguments) as (address, _):
            asking = threading.Thread(target=asks, args=(address, large, ended, answers))
            asking.start()
            load([address], small, 64, 0.5)
            row = load([address], small, 64, arguments.seconds)
            ended.set()
            asking.join()
        done = ", ".join(f"{count} ({status})" for status, count in answers.items())
        times = f"{row.percentile(0.5):.0f} | {row.percentile(0.99):.0f}"
        print(f"| {name} | {done} | {row.refused} | {row.tokens / row.seconds:,.0f} | {times} |", flush=True)


def asks(
    address: tuple[str, int], large: tuple[str, object] | None, ended: threading.Event, answers: Counter[int]
) -> None:
    """Sends one large request after another, and counts the statuses of the answers."""
    body = json.dumps(large and large[1], separators=(",", ":"))  # made once, since it would hold up the other clients
    while large is not None and not ended.is_set():
        connection = http.client.HTTPConnection(*address, timeout=300)
        connection.request("POST", large[0], body, {"content-type": "application/json"})
        answers[connection.getresponse().status] += 1
        connection.close()


def processes(sentences: list[list[str]], arguments: argparse.Namespace) -> None:
    """Prints medians of rounds, in turns, for one server with all threads and for several with one thread each."""
    asked = requests(sentences, arguments.sentences, *WHAT["vector"])
    with ExitStack() as stack:
        one = stack.enter_context(served(arguments))
        several = [stack.enter_context(served(arguments, OMP_NUM_THREADS="1")) for _ in range(arguments.processes)]
        print("| clients | processes | tokens/s | tokens/CPU s | p50, ms | p99, ms | memory, MB |")
        print("|---|---|---|---|---|---|---|")
        for clients in arguments.clients:
            rows: dict[int, list[tuple[float, ...]]] = {1: [], len(several): []}
            for _ in range(ROUNDS):
                for servers in ([one], several):
                    before = sum(cpu_seconds(pid) for _, pid in servers)
                    row = load([each for each, _ in servers], asked, clients, arguments.seconds)
                    used = sum(cpu_seconds(pid) for _, pid in servers) - before
                    times = row.percentile(0.5), row.percentile(0.99)
                    rows[len(servers)].append((row.tokens / row.seconds, row.tokens / used, *times))
            for servers in ([one], several):
                columns = zip(*rows[len(servers)], strict=True)
                medians = " | ".join(f"{statistics.median(each):,.0f}" for each in columns)
                memory = sum(megabytes(pid) for _, pid in servers)
                print(f"| {clients} | {len(servers)} | {medians} | {memory:,.0f} |", flush=True)


def bare(embedder: elmo.Embedder, sentences: list[list[str]], layers: Any, pool: Any) -> float:
    """Returns the tokens per second of calls with the whole text, repeated for a third of a second."""
    began, tokens = time.perf_counter(), 0
    while (seconds := time.perf_counter() - began) < 0.3:
        embedder.embed(sentences, layers, pool)
        tokens += sum(map(len, sentences))
    return tokens / seconds


def watch(address: tuple[str, int], pid: int, sentences: list[list[str]], minutes: float) -> None:
    """Prints the server's memory ten times under a load of all kinds of answers."""
    parts = [
        requests(sentences, 4, layers, pool, kind)
        for layers, pool, binary in WHAT.values()
        for kind in (binary, "application/json")
    ]
    mixed = [request for same in zip(*parts, strict=True) for request in same]
    print("| minutes | memory, MB | tokens/s |\n|---|---|---|")
    for tenth in range(1, 11):
        row = load([address], mixed, 64, 6 * minutes)
        print(f"| {tenth * minutes / 10:.1f} | {megabytes(pid):.0f} | {row.tokens / row.seconds:,.0f} |", flush=True)


if __name__ == "__main__":
    main()
