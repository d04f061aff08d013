"""`elmo embed`, `elmo allennlp` and `elmo types`, which turn a text into vectors."""

import argparse
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from elmo.cli.arguments import (
    LAYERS_HELP,
    add_input,
    add_options,
    add_output,
    add_verb,
    check_processes,
    check_splitting,
    take_output,
    tokenizer_of,
)
from elmo.errors import InputError, check_whole
from elmo.terminal import Counter

GROUP = "text to vectors"
ANY_DEVICE = "--device DEVICE", "cpu, cuda, cuda:1 ... (default: a GPU if there is one)"
STATES_HELP = (
    "LSTM state before a sentence: reset is zero; echo, carry and warm have read the same sentence, the previous ones,"
    " or a neutral text"
)


def add_verbs(verbs: Any) -> None:
    """Adds the verbs of this file."""
    _add_embed(verbs)
    _add_allennlp(verbs)
    _add_types(verbs)


def _add_embed(verbs: Any) -> None:
    about = "write the vectors of a text, sentence by sentence, or of a corpus"
    embed = add_verb(verbs, "embed", embed_verb, about, "elmo embed text.txt vectors.hdf5 --layers average")
    add_input(embed)
    add_output(embed, "a .hdf5, .npz, .parquet or .safetensors file; with --engine, a folder")
    precisions = "--precision float32|bfloat16|int8|int8-weights"
    add_options(
        embed,
        "--model",
        "--weights",
        ("--layers LAYERS", f"{LAYERS_HELP} (default: all)", "all"),
        ("--pool mean|max|sum", "pool the tokens of a row into one vector"),
        ("--rows FILE", "also write each row's line, text, tokens and characters as JSON lines"),
        ("--resume", "keep finished rows, and continue an interrupted run"),
        ("--dtype float32|float16", "type of the numbers (default: float32)", "float32"),
        ("--state reset|echo|carry|warm", STATES_HELP, "reset"),
        ("--batch-size N", "sentences per batch with --state carry (default: 32)"),
        ("--memory SIZE", "limit for vectors in progress, without the model (default: 160MB, on a GPU 1GB)"),
        ("--batch-tokens N", "tokens read at once (default: from --memory)"),
        ANY_DEVICE,
        (precisions, "precision of matrix products; int8-weights is the fastest for one sentence", "float32"),
        "--overwrite",
        "--quiet",
    )
    add_options(
        embed.add_argument_group(
            "corpora", "Text and Parquet files into a folder, part by part; repeat the command to resume."
        ),
        ("--engine local|ray", "this process, or workers on a Ray cluster"),
        ("--workers N", "workers of ray (default: as many as fit)"),
        ("--threads N", "processors per worker (default: 1; local: all)"),
        ("--part-rows N", "rows per part (default: 10000)"),
        ("--column NAME", "Parquet column of texts or tokens (default: text, else tokens)"),
        ("--id-column NAME", "Parquet column of ids (default: file and row number)"),
    )


def _add_allennlp(verbs: Any) -> None:
    about = "embed with the flags and the output layout of `allennlp elmo`"
    allennlp = add_verb(verbs, "allennlp", allennlp_verb, about, "elmo allennlp sentences.txt vectors.hdf5 --all")
    allennlp.add_argument("input", help="text, one sentence per line, tokens separated by whitespace")
    allennlp.add_argument("output", help="the HDF5 file to write")
    which = allennlp.add_mutually_exclusive_group(required=True)
    for choice, said in (("all", "all layers"), ("top", "the top layer"), ("average", "the mean of all layers")):
        which.add_argument(f"--{choice}", dest="layers", action="store_const", const=choice, help=said)
    add_options(
        allennlp,
        ("--options-file FILE", "the model's options (default: the pulled original model's)"),
        ("--weight-file FILE", "the model's weights (default: the pulled original model's)"),
        ("--batch-size N", "sentences read ahead", 64),
        ("--cuda-device N", "GPU number (default: the CPU)", -1),
        ("--forget-sentences", "write no sentence_to_index"),
        ("--use-sentence-keys", "name datasets by line, not number"),
        ("--state reset|carry", "carry does what AllenNLP did", "reset"),
        # These flags are accepted because scripts pass them; they have no effect.
        ("--vocab-path PATH", argparse.SUPPRESS),
        ("--include-package NAME", argparse.SUPPRESS),
        ("--file-friendly-logging", argparse.SUPPRESS),
        "--overwrite",
        "--quiet",
    )


def _add_types(verbs: Any) -> None:
    about = "write one vector per distinct word, the mean of its occurrences"
    types = add_verb(verbs, "types", types_verb, about, "elmo types text.txt words.txt")
    add_input(types)
    add_output(types, "a text file in word2vec's format")
    add_options(
        types,
        "--model",
        ("--layers LAYERS", LAYERS_HELP.replace("all, ", "") + " (default: average)", "average"),
        ("--min-count N", "omit words that occur less often", 1),
        ("--lowercase", "merge words that differ only in case"),
        ANY_DEVICE,
        "--overwrite",
        "--quiet",
    )


def embed_verb(arguments: argparse.Namespace) -> None:
    take_output(arguments)
    if arguments.state != "carry":
        _refuse(arguments, ("batch_size",), "is for --state carry; use --batch-tokens or --memory")
    if arguments.engine is not None:
        _embed_corpus(arguments)
        return
    if len(arguments.input) > 1:
        raise InputError(f"{len(arguments.input)} inputs need --engine local, and a folder as output")
    of_corpora = ("workers", "threads", "part_rows", "column", "id_column")
    _refuse(arguments, of_corpora, "is for corpora; add --engine local, and a folder as output")
    (arguments.input,) = arguments.input
    if any(mark in arguments.input for mark in "*?[") and not Path(arguments.input).exists():
        raise InputError(f"{arguments.input}: a pattern needs --engine local, and a folder as output")
    _embed_file(arguments)


def _refuse(arguments: argparse.Namespace, names: Sequence[str], why: str) -> None:
    """Raises InputError if a flag is given that has no effect here."""
    for name in names:
        value = getattr(arguments, name)
        if value is not None and value is not False:
            raise InputError(f"--{name.replace('_', '-')} {why}")


def _embed_file(arguments: argparse.Namespace) -> None:
    from elmo import formats
    from elmo.disk.files import check_distinct, check_output
    from elmo.embedding.embedder import Embedder
    from elmo.embedding.job import embed_file
    from elmo.embedding.layers import parse_layers
    from elmo.embedding.store import check_vectors_path
    from elmo.text.records import kind_of

    inputs = (arguments.input, *formats.files_of(arguments.model, arguments.weights))
    check_vectors_path(Path(arguments.output), arguments.overwrite, inputs)
    if arguments.rows is not None:
        check_output(Path(arguments.rows), arguments.overwrite, inputs=inputs)
    check_distinct(arguments.output, arguments.rows)
    kind = arguments.kind or kind_of(arguments.input)
    check_splitting(arguments, [kind])
    options = {name: getattr(arguments, name) for name in ("state", "memory", "batch_tokens", "device", "precision")}
    if arguments.batch_size is not None:
        options["batch_size"] = arguments.batch_size
    embedder = Embedder.load(arguments.model, weights=arguments.weights, **options)
    with Counter("sentences", arguments.quiet) as counter:
        done = embed_file(
            embedder,
            arguments.input,
            arguments.output,
            parse_layers(arguments.layers),
            tokenizer_of(embedder.text, arguments) if kind == "text" else None,
            arguments.dtype,
            arguments.overwrite,
            counter.update,
            pool=arguments.pool,
            kind=kind,
            index=arguments.rows,
            resume=arguments.resume,
        )
    of = "" if done.lines is None else f" of {done.lines:,} lines (--lines: a row per line)"
    print(f"{done.path}: {done.rows:,} sentences{of}, {done.tokens:,} tokens")


def _embed_corpus(arguments: argparse.Namespace) -> None:
    from elmo.embedding.budget import parse_bytes
    from elmo.embedding.corpus import PART_ROWS, Settings, embed_corpus
    from elmo.embedding.corpus_rows import Columns
    from elmo.embedding.layers import parse_layers

    of_a_file = ("rows", "overwrite", "kind")
    _refuse(arguments, of_a_file, f"is for one file; omit it with --engine {arguments.engine}")
    names = "model", "weights", "pool", "dtype", "state", "precision", "pretokenized", "lines", "batch_tokens"
    settings = Settings(
        layers=parse_layers(arguments.layers),
        columns=Columns(arguments.column, arguments.id_column),
        memory=None if arguments.memory is None else parse_bytes(arguments.memory),
        part_rows=PART_ROWS if arguments.part_rows is None else arguments.part_rows,
        **{name: getattr(arguments, name) for name in names},
    )
    with Counter("rows", arguments.quiet) as counter:
        done = embed_corpus(arguments.input, arguments.output, settings, _engine(arguments), _follower(counter))
    print(
        f"{done.path}: {done.vectors:,} rows of vectors and {done.errors:,} of errors, {done.tokens:,} tokens,"
        f" {done.parts:,} parts"
    )


def _follower(counter: Counter) -> Callable[[Any], None]:
    """Returns a function that shows the progress and the speed of all workers."""
    begun = 0.0

    def follow(done: Any) -> None:
        nonlocal begun
        if not done.fresh_rows:
            begun = time.monotonic()
            counter.begin(done.rows)
        words = f"{done.fresh_tokens / max(time.monotonic() - begun, 1e-9):,.0f} words/s"
        counter.update(done.rows, done.total, [words])
        if done.rows == done.total:
            counter.show()

    return follow


def _engine(arguments: argparse.Namespace) -> Any:
    if arguments.workers is not None:
        check_whole("--workers", arguments.workers)
    if arguments.threads is not None:
        check_processes("--threads", arguments.threads)
    if arguments.engine == "ray":
        from elmo.integrations import ray

        if arguments.device is not None:
            raise InputError("--device is for one process; a worker of ray uses what the cluster gives it")
        return partial(ray.run_parts, workers=arguments.workers, threads=arguments.threads or 1)
    from elmo.embedding.corpus import run_here

    if arguments.workers is not None:
        raise InputError("--workers is for --engine ray; local is one process (--threads sets its processors)")
    return partial(run_here, device=arguments.device, threads=arguments.threads)


def allennlp_verb(arguments: argparse.Namespace) -> None:
    from elmo.disk.files import check_output
    from elmo.embedding.job import read_lines
    from elmo.integrations import allennlp

    inputs = (arguments.input, arguments.options_file, arguments.weight_file)
    check_output(Path(arguments.output), arguments.overwrite, inputs=inputs)
    embedder = allennlp.ElmoEmbedder(
        arguments.options_file or allennlp.DEFAULT_OPTIONS_FILE,
        arguments.weight_file or allennlp.DEFAULT_WEIGHT_FILE,
        arguments.cuda_device,
        state=arguments.state,
    )
    with Counter("sentences", arguments.quiet) as counter:
        embedder.embed_file(
            read_lines(arguments.input),
            arguments.output,
            arguments.layers,
            arguments.batch_size,
            arguments.forget_sentences,
            arguments.use_sentence_keys,
            progress=counter.update,
        )
    print(f"{arguments.output}: written")


def types_verb(arguments: argparse.Namespace) -> None:
    from elmo import formats
    from elmo.disk.files import check_output
    from elmo.embedding.embedder import Embedder
    from elmo.embedding.job import FileLines
    from elmo.embedding.layers import parse_layers
    from elmo.embedding.store import FORMATS
    from elmo.embedding.type_vectors import average_types, write_word2vec
    from elmo.text.opening import COMPRESSED
    from elmo.text.records import kind_of, read_records

    take_output(arguments, most=1)
    (arguments.input,), output = arguments.input, Path(arguments.output)
    if output.suffix.lower() in (*FORMATS, *COMPRESSED):
        raise InputError(f"{output}: elmo types writes text in word2vec's format; name a file such as words.txt")
    check_output(output, arguments.overwrite, inputs=(arguments.input, *formats.files_of(arguments.model)))
    check_whole("--min-count", arguments.min_count)
    kind = arguments.kind or kind_of(arguments.input)
    check_splitting(arguments, [kind])
    embedder = Embedder.load(arguments.model, device=arguments.device)
    tokenizer = tokenizer_of(embedder.text, arguments) if kind == "text" else None
    lines = FileLines(arguments.input)
    records = read_records(lines, kind, tokenizer, arguments.input)
    with Counter("sentences", arguments.quiet) as counter:
        types = average_types(
            embedder,
            records,
            parse_layers(arguments.layers),
            arguments.lowercase,
            lambda done: counter.update(done, lines.total(done)),
            arguments.input,
        )
    written = write_word2vec(types, output, arguments.min_count, arguments.overwrite)
    print(f"{output}: {written:,} words of {types.dim} numbers, from {sum(types.counts):,} tokens")
