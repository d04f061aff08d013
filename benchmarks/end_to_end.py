"""Measures `elmo embed` from file to HDF5 beside the bare `Embedder`, and how long it takes to start.

    python benchmarks/end_to_end.py --text prose.txt            # the packaged model
    python benchmarks/end_to_end.py --text prose.txt --model run/ --rounds 5

- `elmo embed` runs as a process on the text and on its first sentence. The difference is the time of the text, without
  the start. Between two such runs, the bare embedder gets the same tokens in one call, and all words are new to it.
- The median over the rounds is shown, and the shares of each round, since the speed of a machine drifts.
"""

import argparse
import lzma
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import elmo
from elmo.text.tokenizer import Tokenizer


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--text", required=True, help="prose, .txt or .xz")
    parser.add_argument("--model", default="default")
    parser.add_argument("--tokens", type=int, default=40_000, help="of the text, at least")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measure(arguments, Path(folder))


def measure(arguments: argparse.Namespace, folder: Path) -> None:
    text = elmo.load(arguments.model, device="cpu").text
    assert text is not None, "the model has no tokenizer of its own"
    tokenizer = Tokenizer(text)
    sentences: list[list[str]] = []
    lines: list[str] = []
    for paragraph in read(Path(arguments.text)).splitlines():
        lines += [" ".join(sentence) for sentence in tokenizer.sentences(paragraph)]
        sentences += [tokenizer.tokens(line) for line in lines[len(sentences) :]]
        if sum(map(len, sentences)) >= arguments.tokens:
            break
    tokens = sum(map(len, sentences))
    (folder / "raw.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "tokens.txt").write_text("".join(" ".join(each) + "\n" for each in sentences), encoding="utf-8")
    (folder / "one.txt").write_text(" ".join(sentences[0]) + "\n", encoding="utf-8")
    bare: list[float] = []
    starts: dict[str, list[float]] = {"raw": [], "tokens": []}
    shares: dict[str, list[float]] = {"raw": [], "tokens": []}
    for _ in range(arguments.rounds):
        for name, seen in shares.items():
            options = ["--pretokenized"] if name == "tokens" else []
            starts[name].append(command(arguments.model, folder / "one.txt", *options))
            seconds = command(arguments.model, folder / f"{name}.txt", *options) - starts[name][-1]
            bare.append(embedder_seconds(arguments.model, sentences))
            seen.append(bare[-1] / seconds)
    speed = tokens / statistics.median(bare)
    print(f"{tokens:,} tokens in {len(sentences):,} sentences; bare embedder {speed:,.0f} tokens/s\n")
    print("| input of `elmo embed` | one sentence, s | of the bare embedder's tokens/s | in each round |")
    print("|---|---|---|---|")
    for name, seen in shares.items():
        start = statistics.median(starts[name])
        print(f"| {name} | {start:.2f} | {statistics.median(seen):.2f} | {', '.join(f'{each:.2f}' for each in seen)} |")


def read(path: Path) -> str:
    data = path.read_bytes()
    return (lzma.decompress(data) if path.suffix == ".xz" else data).decode()


def command(model: str, file: Path, *options: str) -> float:
    """Returns the seconds of `elmo embed` as a process that writes all layers to HDF5."""
    output = file.with_suffix(".hdf5")
    output.unlink(missing_ok=True)
    began = time.perf_counter()
    line = [sys.executable, "-m", "elmo", "embed", str(file), str(output), "--model", model, "--device", "cpu"]
    subprocess.run([*line, *options], check=True, capture_output=True)
    return time.perf_counter() - began


def embedder_seconds(model: str, sentences: list[list[str]]) -> float:
    embedder = elmo.load(model, device="cpu")
    embedder.embed(sentences[:1])
    began = time.perf_counter()
    embedder.embed(sentences)
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
