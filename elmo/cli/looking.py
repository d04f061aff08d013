"""`elmo bench` and `elmo demo`, which show the speed of a model and what it does."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from elmo.cli.arguments import DEMO_TEXT, MODEL_HELP, add_options, add_verb, print_json, tokenizer_of
from elmo.cli.neighbors import print_neighbors
from elmo.terminal import print_line, print_table

GROUP = "models"

DEMO_QUERIES = 4
SENSES = DEMO_TEXT.with_name("senses.tsv")


def add_verbs(verbs: Any) -> None:
    """Adds the verbs of this file."""
    about = "measure a model's speed on this machine, next to the machine's limit"
    bench = add_verb(verbs, "bench", bench_verb, about, "elmo bench run/model")
    bench.add_argument("model", nargs="?", default="default", help=MODEL_HELP)
    add_options(
        bench,
        ("--text TEXT", "the text to embed (default: the demo's text)", str(DEMO_TEXT)),
        "--strict",
        "--lines|--pretokenized",
        ("--max-words N", "words to read, at most (default: 4000)", 4000),
        "--device",
        "--json",
    )
    demo = add_verb(verbs, "demo", demo_verb, "show a model at work on a small text", "elmo demo")
    output = "--output FILE", "also write the vectors (.hdf5, .npz, .parquet or .safetensors)"
    add_options(demo, output, "--overwrite", "--model")


def bench_verb(arguments: argparse.Namespace) -> None:
    import dataclasses

    from elmo import formats
    from elmo.bench import job
    from elmo.text.records import check_text

    check_text(arguments.text)
    text = formats.describe(arguments.model).text
    tokenizer = tokenizer_of(text, arguments, pretokenized=arguments.text == str(DEMO_TEXT))
    sentences = job.first_sentences(Path(arguments.text), tokenizer, arguments.max_words)
    measured = job.measure_model(
        arguments.model,
        (arguments.text, sentences),
        arguments.device,
        progress=lambda what: print_line(f"measuring {what} ..."),
    )
    if arguments.json:
        print_json(dataclasses.asdict(measured), indent=2)
    else:
        _print_bench(measured)


def _print_bench(measured: Any) -> None:
    limits = measured.limits
    print(f"{limits.processor}, {limits.threads} threads, torch {limits.torch}, {limits.device}, {limits.date}")
    peaks = {peak.precision: limits.peak(peak.precision) for peak in limits.peaks}
    print("products, at most:", ", ".join(f"{name} {speed:,.0f} GFLOP/s" for name, speed in peaks.items()))
    print(f"memory: {limits.bandwidth / 1e9:.1f} GB/s")
    print(f"text: {measured.tokens:,} tokens in {measured.sentences:,} sentences, {measured.distinct_words:,} words")
    print(f"from the start to the first vector: {measured.first_vector_seconds:.2f} s")
    rows = [
        [
            row.precision,
            f"{row.tokens_per_second:,.0f}",
            f"{row.sentence_new_ms:.1f}",
            f"{row.lstm_gflops:,.0f}",
            f"{row.lstm_of_peak:.0%}",
            f"{row.peak_bytes / 1e6:,.0f}" if row.peak_bytes else "unknown",
            "" if row.smallest_cosine is None else f"{row.smallest_cosine:.6f}",
        ]
        for row in measured.rows
    ]
    head = ["precision", "tokens/s", "20 tokens, ms", "LSTM GFLOP/s", "of the most", "memory, MB", "smallest cosine"]
    print_table(head, rows)
    for precision, problem in measured.not_measured.items():
        print(f"{precision}: not measured, {problem}")


def demo_verb(arguments: argparse.Namespace) -> None:
    from elmo import formats
    from elmo.embedding.embedder import Embedder
    from elmo.embedding.job import embed_file, read_lines
    from elmo.embedding.store import check_vectors_path
    from elmo.search import nearest, senses
    from elmo.text.tokenizer import WHITESPACE, Tokenizer

    if arguments.output is not None:
        check_vectors_path(Path(arguments.output), arguments.overwrite, formats.files_of(arguments.model))
    embedder = Embedder.load(arguments.model)
    tokenizer = Tokenizer(WHITESPACE)
    sentences = [tokenizer.tokens(line) for line in read_lines(DEMO_TEXT)]
    shape = f"{embedder.n_layers} layers of {embedder.dim} numbers for each of {sum(map(len, sentences)):,} tokens"
    if arguments.output is None:
        print(f"{len(sentences)} sentences: {shape} (--output FILE keeps them).\n")
    else:
        done = embed_file(embedder, DEMO_TEXT, arguments.output, tokenizer=tokenizer, overwrite=arguments.overwrite)
        print(f"Vectors of {done.rows} sentences are in {done.path}: {shape}.\n")
    print("A word in its sentence, then its most similar occurrences by the top layer:\n")
    for word in ("play", "bank", "spring"):
        queries = [(sentences[s], t) for s, t in nearest.find_occurrences(sentences, word)[:DEMO_QUERIES]]
        (found,) = nearest.search(embedder, sentences, queries, k=2)
        print_neighbors(queries, [each.neighbors for each in found])
        print()
    occurrences = senses.read_occurrences(SENSES)
    print_senses(senses.score_layers(embedder, occurrences))
    print("\nThe same with every sentence read twice, so each direction knows all of it (--state echo):")
    twice = Embedder(embedder.bilm, text=embedder.text, vocabulary=embedder.vocabulary, state="echo")
    print_senses(senses.score_layers(twice, occurrences))


def print_senses(rows: Sequence[Any]) -> None:
    """Prints the table of `elmo probe senses`, with one column per word."""
    print(
        f"How often the nearest other occurrence of a word has its sense ({rows[0].occurrences} labelled occurrences):"
    )
    words = list(rows[0].by_word)
    print_table(
        ["layer", "all", *words],
        [[str(row.layer), f"{row.accuracy:.1%}", *(f"{row.by_word[word]:.0%}" for word in words)] for row in rows],
    )
