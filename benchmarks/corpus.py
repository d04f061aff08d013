"""Embeds a corpus on two raylets of this machine; checks that lost work is redone, each row once, or measures speed.

    python benchmarks/corpus.py --rows 200000 --folder /tmp/corpus     # a worker, a raylet and the driver are killed
    python benchmarks/corpus.py --speed --rows 20000 --folder /tmp/speed     # beside the bare Embedder, in turns

- The output is the packaged model's top layer in float16. Each worker has one thread; a row has `--words` words.
- `--speed` compares words per second: those of Ray from the first receipts to the last, and those of two processes of
  one thread that embed the same rows and write nothing. On a shared machine, that depends on which process the system
  favours, so words per second of processor time are compared, too. All of Ray's processes count for that time.

It needs the extra `ray`. The result is printed, and `--output` stores it as JSON.
"""

import argparse
import hashlib
import itertools
import json
import lzma
import multiprocessing
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from elmo.cli.arguments import DEMO_TEXT
from elmo.embedding.corpus import CorpusProgress, Settings, embed_corpus
from elmo.embedding.embedder import Embedder
from elmo.machine import card

WORKERS = 2
BAD = b"\xff\xfe no UTF-8", b"long " * 2_000_000
OPTIONS = ("--layers", "top", "--dtype", "float16", "--pretokenized")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--words", type=int, default=3, help="of a row")
    parser.add_argument("--part-rows", type=int, default=2000)
    parser.add_argument("--folder", type=Path, required=True, help="for the corpus and its vectors; made")
    parser.add_argument("--speed", action="store_true", help="measure beside the bare Embedder; nothing is killed")
    parser.add_argument("--rounds", type=int, default=3, help="of --speed")
    parser.add_argument("--output", type=Path, help="a JSON file for the result")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True)
    os.chdir(arguments.folder)
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_BACKEND_LOG_LEVEL": "fatal", "OMP_NUM_THREADS": "1"}
    measure = speed if arguments.speed else loss
    result = {"rows": arguments.rows, "words of a row": arguments.words, **measure(arguments), "machine": card()}
    text = json.dumps(result, indent=2)
    print(text)
    if arguments.output:
        arguments.output.write_text(text + "\n", encoding="utf-8")


def sentences(rows: int, words: int) -> Iterator[str]:
    """Yields rows of `words` words of prose, which begins again at its end."""
    shared = os.environ.get("ELMO_SHARED")
    file = Path(shared, "lm", "wiki.test.txt.xz") if shared else DEMO_TEXT
    data = file.read_bytes()
    text = (lzma.decompress(data) if shared else data).decode()
    every = itertools.cycle(text.split())
    return (" ".join(itertools.islice(every, words)) for _ in range(rows))


def loss(arguments: argparse.Namespace) -> dict[str, Any]:
    """Kills a worker, a raylet and the driver in the middle, and checks the output at the end."""
    from ray.cluster_utils import Cluster  # type: ignore[import-not-found]

    lines = [line.encode() for line in sentences(arguments.rows - len(BAD), arguments.words)]
    lines[7:7] = BAD
    third = len(lines) // 3
    for number in range(3):
        part = lines[number * third : (number + 1) * third if number < 2 else len(lines)]
        Path(f"{number}.txt").write_bytes(b"\n".join(part) + b"\n")
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    node = cluster.add_node(num_cpus=1)
    command = [sys.executable, "-m", "elmo", "embed", "*.txt", "out", "--engine", "ray", *OPTIONS]
    command += ["--part-rows", str(arguments.part_rows)]
    environment = {**os.environ, "RAY_ADDRESS": cluster.address}

    def start() -> "subprocess.Popen[bytes]":
        return subprocess.Popen(command, env=environment)

    begun, driver, events = time.monotonic(), start(), []
    total = sum(-(-count // arguments.part_rows) for count in (third, third, len(lines) - 2 * third))

    def killed(what: str, share: float) -> None:
        while len(done()) < share * total and driver.poll() is None:
            time.sleep(0.2)
        events.append({"killed": what, "parts done": len(done()), "second": round(time.monotonic() - begun)})
        print(events[-1], file=sys.stderr, flush=True)

    killed("worker", 0.15)
    while not (writing := writers(Path("out/vectors").resolve())):
        time.sleep(0.05)
    os.kill(writing[0], 9)
    killed("raylet", 0.35)
    cluster.remove_node(node, allow_graceful=False)
    cluster.add_node(num_cpus=1)
    killed("driver", 0.6)
    driver.kill()
    driver.wait()
    time.sleep(10)  # Ray needs time to end the driver's processes
    before = {path: path.stat().st_mtime_ns for path in (*Path("out/vectors").glob("0*"), *Path("out/done").glob("0*"))}
    driver = start()
    code = driver.wait()
    seconds = time.monotonic() - begun
    cluster.shutdown()
    again = [str(path) for path, at in before.items() if is_receipted(path) and path.stat().st_mtime_ns != at]
    return {"exit code": code, "seconds": round(seconds), "events": events, "parts": total} | checked(lines, again)


def writers(folder: Path) -> list[int]:
    """Returns the processes that have a temporary file of the folder open."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # the process has ended, or is another user's
            if any(fnmatch(str(link.readlink()), f"{folder}/.*.partial") for link in (process / "fd").iterdir()):
                found.append(int(process.name))
    return found


def done() -> list[Path]:
    return list(Path("out/done").glob("0*.json"))


def is_receipted(path: Path) -> bool:
    return (Path("out/done") / f"{path.stem}.json").exists()


def checked(lines: list[bytes], again: list[str]) -> dict[str, Any]:
    """Checks the rows, ids and hashes of the output, and the numbers of every tenth part."""
    from pyarrow import parquet

    manifest = json.loads(Path("out/manifest.json").read_text(encoding="utf-8"))
    third = len(lines) // 3
    expected = [f"{min(row // third, 2)}.txt:{row - third * min(row // third, 2)}" for row in range(len(lines))]
    ids = [
        name
        for folder in ("vectors", "errors")
        for name in parquet.read_table(f"out/{folder}", columns=["id"])["id"].to_pylist()
    ]
    embedder, worst, compared = Embedder.load(), 0.0, 0
    for part in manifest["parts"]:
        path = Path("out/vectors") / f"{part['number']:08}.parquet"
        with path.open("rb") as file:
            assert hashlib.file_digest(file, "sha256").hexdigest() == part["sha256"], path
        if part["number"] % 10:
            continue
        table = parquet.read_table(path)
        vectors = embedder.embed(table["tokens"].to_pylist(), "top")
        for found, wanted in zip(table["vectors"], vectors, strict=True):
            difference = np.abs(found.values.to_numpy() - wanted.reshape(-1).astype(np.float16))
            worst, compared = max(worst, float(difference.max(initial=0))), compared + 1
    return {
        "each row once": sorted(ids) == sorted(expected),
        "counts": manifest["counts"],
        "hashes are those of the manifest": True,
        "receipted files written again": len(again),
        "largest difference from Embedder (float16)": worst,
        "rows compared": compared,
    }


def speed(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measures the words per second of Ray and of bare Embedders, in turns."""
    import ray  # type: ignore[import-not-found]

    from elmo.integrations.ray import run_parts

    lines = list(sentences(arguments.rows, arguments.words))
    Path("corpus.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    ray.init(num_cpus=WORKERS, include_dashboard=False, log_to_driver=False)
    settings = Settings(layers="top", dtype="float16", pretokenized=True, part_rows=arguments.part_rows)
    rates: dict[str, list[float]] = {"ray": [], "bare": [], "ray, of processor time": [], "bare, of processor time": []}
    for number in range(arguments.rounds):
        seen: list[tuple[float, float, int]] = []
        engine = partial(run_parts, workers=WORKERS)

        def follow(now: CorpusProgress, seen: list[tuple[float, float, int]] = seen) -> None:
            if now.fresh_tokens:
                seen.append((time.monotonic(), processor_time(), now.fresh_tokens))

        embed_corpus(["corpus.txt"], f"out{number}", settings, engine, follow)
        # Both workers finish their first parts at about the same time, so the second receipt begins the measurement.
        (begin, used, words), (end, used_last, last) = seen[WORKERS - 1], seen[-1]
        rates["ray"].append((last - words) / (end - begin))
        rates["ray, of processor time"].append((last - words) / (used_last - used))
        with multiprocessing.get_context("spawn").Pool(WORKERS) as pool:
            done = pool.map(bare, [lines[worker::WORKERS] for worker in range(WORKERS)])
        rates["bare"].append(sum(words / seconds for words, seconds, _ in done))
        rates["bare, of processor time"].append(sum(words for words, _, _ in done) / sum(used for _, _, used in done))
        print({name: round(values[-1]) for name, values in rates.items()}, file=sys.stderr, flush=True)
    ray.shutdown()
    ratios = {}
    for kind in ("", ", of processor time"):
        pairs = zip(rates[f"ray{kind}"], rates[f"bare{kind}"], strict=True)
        ratios[f"ray / bare{kind}"] = statistics.median(ours / theirs for ours, theirs in pairs)
    return {"words/s": rates, "median ratios": ratios}


def processor_time() -> float:
    """Returns the processor seconds of this process and of those that it has started and that still run."""
    import psutil

    me = psutil.Process()
    times = [process.cpu_times() for process in [me, *me.children(recursive=True)]]
    return sum(each.user + each.system for each in times)


def bare(lines: list[str]) -> tuple[int, float, float]:
    """Returns the words, the seconds and the processor seconds of an Embedder with one thread."""
    import torch

    torch.set_num_threads(1)
    embedder = Embedder.load()
    split = [line.split() for line in lines]
    embedder.embed(split[:200], "top")
    begun, used = time.monotonic(), time.process_time()
    for vectors in embedder.embed_stream(split, "top"):
        del vectors
    return sum(map(len, split)), time.monotonic() - begun, time.process_time() - used


if __name__ == "__main__":
    main()
