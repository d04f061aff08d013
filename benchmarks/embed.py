"""Measures the tokens per second of `elmo`, of a plain loop and of peers, and the machine's limits, in one run.

    python benchmarks/embed.py --text prose.txt                 # random weights of the original published size
    python benchmarks/embed.py --text prose.txt --size small --threads 1
    python benchmarks/embed.py --text prose.txt --peer simple_elmo='python embed_with_simple_elmo.py'

- Weights are random, at the published shapes. They are stored, and every row loads them in a process of its own.
- The text is prose. Its words are new in every round, and boundaries of sentences do not count as tokens.
- `elmo` chooses its batches; the plain loop (`plain.py`) takes batches in the order of the text.
- `--peer NAME='COMMAND'` adds a row. The command gets a file as its last argument, with a sentence per line and spaces
  between tokens, and is timed from start to end. If it prints a line `tokens/s NUMBER`, that is its speed instead.

The result is printed, and stored as JSON and as the printed page in `benchmarks/results/` by date and hardware.
"""

import argparse
import dataclasses
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import peers
import plain
import torch

from elmo.bench import job, process
from elmo.cli.arguments import DEMO_TEXT
from elmo.formats import Model, native
from elmo.model.bilm import BiLM, BiLMConfig
from elmo.model.char_cnn import CharCnnConfig
from elmo.model.lstm import LstmConfig
from elmo.text.tokenizer import TextConfig, Tokenizer

RESULTS = Path(__file__).parent / "results"
SIZES = {
    "original": BiLMConfig(),
    "small": BiLMConfig(LstmConfig(1024, 128), CharCnnConfig(n_highway=1)),
}
"""The sizes of the published models."""


def main() -> None:
    arguments = parse()
    if arguments.threads:
        os.environ["OMP_NUM_THREADS"] = str(arguments.threads)  # every process that measures reads it
    sentences = job.first_sentences(arguments.text, tokenizer(arguments), arguments.tokens)
    with tempfile.TemporaryDirectory() as folder:
        tell("random weights")
        model = str(Path(folder, arguments.size))
        process.in_fresh_process(store_weights, SIZES[arguments.size], model)
        measured = job.measure_model(
            model,
            (arguments.text.name, sentences),
            arguments.device,
            arguments.precision,
            arguments.rounds,
            seconds=0.0,
            progress=tell,
        )
        loops = []
        for batch in arguments.batch if arguments.device == "cpu" else []:
            tell(f"plain loop, batch {batch}")
            loops.append(process.in_fresh_process(plain.measure, model, sentences, batch, arguments.plain_rounds))
        rows = []
        for option in arguments.peer:
            tell(option)
            rows.append(peers.run(option, sentences, Path(folder, "sentences.txt")))
    tell("the packaged model")
    shipped = process.first_vector_seconds("default", arguments.device)
    result = {
        "benchmark": f"embed, {arguments.size} size",
        **dataclasses.asdict(dataclasses.replace(measured, model=f"random weights, {arguments.size} size")),
        "plain": [dataclasses.asdict(loop) for loop in loops],
        "peers": [dataclasses.asdict(peer) for peer in rows],
        "first_vector_of_packaged_model_seconds": shipped,
    }
    text = page(result, arguments.size)
    print(text)
    path = arguments.output or RESULTS / file_name(result["limits"], arguments.size)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_suffix(".json").write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    path.with_suffix(".md").write_text(text + "\n", encoding="utf-8")
    tell(f"stored in {path.with_suffix('.json')} and .md", "")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--size", choices=list(SIZES), default="original")
    parser.add_argument(
        "--text", type=Path, help="prose, .txt, .gz or .xz (default: a part of ELMO_SHARED, or the demo)"
    )
    parser.add_argument(
        "--pretokenized", action="store_true", help="one sentence per line, tokens separated by whitespace"
    )
    parser.add_argument("--tokens", type=int, default=20_000, help="how much of the text, at least")
    parser.add_argument("--precision", nargs="+", choices=job.PRECISIONS, default=list(job.PRECISIONS))
    parser.add_argument("--batch", type=int, nargs="*", default=[32, 64], help="of the plain loop; none: leave it out")
    parser.add_argument("--rounds", type=int, default=3, help="of elmo's rows; the median is shown")
    parser.add_argument("--plain-rounds", type=int, default=1)
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=COMMAND", help="see above")
    parser.add_argument("--device", default="cpu", help="cpu, cuda, ...")
    parser.add_argument("--threads", type=int, help="CPU threads (default: torch's choice)")
    parser.add_argument("--output", type=Path, help="where the results go (default: by date and hardware)")
    arguments = parser.parse_args()
    if arguments.text is None:
        shared = os.environ.get("ELMO_SHARED")
        arguments.text = Path(shared, "lm", "wiki.test.txt.xz") if shared else DEMO_TEXT
        arguments.pretokenized |= not shared
    return arguments


def tell(what: str, more: str = " ...") -> None:
    print(what + more, file=sys.stderr, flush=True)


def tokenizer(arguments: argparse.Namespace) -> Tokenizer:
    return Tokenizer(TextConfig("whitespace", "line") if arguments.pretokenized else TextConfig())


def random_weights(config: BiLMConfig) -> BiLM:
    """Returns a biLM with larger weights than at the start of training: the gates' sums deviate by 0.3 to 0.7."""
    torch.manual_seed(20180216)
    bilm = BiLM(config)
    for name, weight in bilm.state_dict().items():
        if "layers." in name and "bias" not in name:
            weight *= 4 if "weight_input" in name else 2
    return bilm


def store_weights(config: BiLMConfig, path: str) -> None:
    native.save(Model(config, random_weights(config).state_dict()), Path(path))


def file_name(limits: dict[str, Any], size: str) -> str:
    words = f"{limits['date']} {limits['processor']} {limits['threads']} threads embed {size}".lower()
    return re.sub(r"[^a-z0-9]+", "-", words) + ".json"


# The page


def page(result: dict[str, Any], size: str) -> str:
    """Returns the result as a page in Markdown."""
    limits = result["limits"]
    parts = [
        f"{limits['processor']}, {limits['threads']} threads, torch {limits['torch']}, {limits['device']}, "
        f"{limits['date']}. {result['text']}: {result['tokens']:,} tokens in {result['sentences']:,} sentences, "
        f"{result['distinct_words']:,} distinct words. {result['model'].capitalize()}.",
        table(("products, at most", "library", "GFLOP/s", "rows, inputs, outputs"), map(peak_cells, limits["peaks"])),
        f"Memory is read at {limits['bandwidth'] / 1e9:.1f} GB/s.",
        table(
            ("", "batch", "tokens/s", "LSTM GFLOP/s", "of the most", "LSTM, CNN share", "peak memory"),
            [*map(elmo_cells, result["rows"]), *map(plain_cells, result["plain"]), *map(peer_cells, result["peers"])],
        ),
        table(
            ("one sentence of 20 tokens", "new words", "known words", "weights read", "of the bandwidth"),
            map(sentence_cells, result["rows"]),
        ),
        table(("vectors beside float32", "smallest cosine", "mean"), filter(None, map(cosine_cells, result["rows"]))),
        table(
            ("from the start of a process", "seconds"),
            (
                ("`import elmo`", f"{result['import_seconds']:.3f}"),
                ("first vector, packaged model", f"{result['first_vector_of_packaged_model_seconds']:.2f}"),
                ("first vector, this size", f"{result['first_vector_seconds']:.2f}"),
            ),
        ),
    ]
    if size == "original":
        parts.append(table(("goal", "", "reached"), goals(result)))
    return "\n\n".join(parts)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def peak_cells(peak: dict[str, Any]) -> Sequence[str]:
    return peak["precision"], peak["library"], f"{peak['gflops']:,.0f}", " x ".join(map(str, peak["shape"]))


def elmo_cells(row: dict[str, Any]) -> Sequence[str]:
    return (
        f"**elmo, {row['precision']}**",
        "its own",
        f"{row['tokens_per_second']:,.0f}",
        f"{row['lstm_gflops']:,.0f}",
        f"{row['lstm_of_peak']:.0%}",
        f"{row['lstm_share']:.0%}, {row['encoder_share']:.0%}",
        gigabytes(row["peak_bytes"]),
    )


def plain_cells(row: dict[str, Any]) -> Sequence[str]:
    return "plain loop", str(row["batch"]), f"{row['tokens_per_second']:,.0f}", "", "", "", gigabytes(row["peak_bytes"])


def peer_cells(row: dict[str, Any]) -> Sequence[str]:
    return row["name"], "", f"{row['tokens_per_second']:,.0f}", "", "", "", gigabytes(row["peak_bytes"])


def sentence_cells(row: dict[str, Any]) -> Sequence[str]:
    return (
        row["precision"],
        f"{row['sentence_new_ms']:.1f} ms",
        f"{row['sentence_known_ms']:.1f} ms",
        f"{row['sentence_bandwidth'] / 1e9:.1f} GB/s",
        f"{row['sentence_of_bandwidth']:.0%}",
    )


def cosine_cells(row: dict[str, Any]) -> Sequence[str] | None:
    if row["smallest_cosine"] is None:
        return None
    return row["precision"], f"{row['smallest_cosine']:.6f}", f"{row['mean_cosine']:.6f}"


def goals(result: dict[str, Any]) -> Iterator[Sequence[str]]:
    """Yields the goals at the original size and what is reached, beside the peers of this run."""
    rows = {row["precision"]: row for row in result["rows"]}
    fastest = max((row["tokens_per_second"] for row in result["peers"]), default=None)
    for precision, wanted in (("float32", 4.5), ("bfloat16", 8.0)):
        if precision in rows and fastest is not None:
            times = rows[precision]["tokens_per_second"] / fastest
            yield f"{precision}, times the fastest peer", f"at least {wanted}", f"{times:.1f}"
    for precision, share in (("float32", "85 %"), ("bfloat16", "70 %")):
        if row := rows.get(precision):
            yield f"{precision}, LSTMs, of the fastest product", f"at least {share}", f"{row['lstm_of_peak']:.0%}"
    if row := rows.get("float32"):
        yield "float32, one sentence, of the bandwidth", "at least 75 %", f"{row['sentence_of_bandwidth']:.0%}"
        if result["peers"]:
            smallest = min(row["peak_bytes"] for row in result["peers"])
            yield "float32, of the smallest peer's memory", "at most 50 %", f"{row['peak_bytes'] / smallest:.0%}"
    yield "`import elmo`", "under 0.1 s", f"{result['import_seconds']:.3f} s"
    yield "first vector, packaged model", "under 2.5 s", f"{result['first_vector_of_packaged_model_seconds']:.2f} s"


def gigabytes(number: float | None) -> str:
    return "" if number is None else f"{number / 1e9:.2f} GB"


if __name__ == "__main__":
    main()
