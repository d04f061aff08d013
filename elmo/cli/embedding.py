"""`elmo embed`, `elmo allennlp` and `elmo types`: a text -> vectors."""

import argparse
from pathlib import Path
from typing import Any

from elmo.cli.arguments import (
    LAYERS_HELP,
    add_input,
    add_model,
    add_verb,
    add_weights,
    tokenizer_of,
)
from elmo.terminal import Counter


def add_verbs(verbs: Any) -> None:
    """Those of this file."""
    _add_embed(verbs)
    _add_allennlp(verbs)
    _add_types(verbs)


def _add_embed(verbs: Any) -> None:
    embed = add_verb(verbs, "embed", embed_verb, "write the vectors of a text, one sentence a line")
    add_input(embed)
    embed.add_argument("output", help=".hdf5, .npz, .parquet or .safetensors")
    add_model(embed)
    add_weights(embed)
    embed.add_argument("--layers", default="all", help=LAYERS_HELP)
    embed.add_argument("--pool", choices=["mean", "max", "sum"], help="one vector a row, over its tokens")
    embed.add_argument("--index", metavar="FILE", help="also write each row's text, tokens and their offsets, as JSON")
    embed.add_argument("--resume", action="store_true", help="keep finished rows and go on with those of a broken run")
    embed.add_argument("--dtype", choices=["float32", "float16"], default="float32")
    embed.add_argument(
        "--state",
        choices=["reset", "echo", "carry", "warm"],
        default="reset",
        help="LSTM state of a sentence: nothing, itself read before, the sentences before it, a neutral text",
    )
    embed.add_argument("--batch-size", type=int, default=32, metavar="N", help="sentences of a batch, for carry")
    embed.add_argument("--memory", default="160MB", metavar="SIZE", help="for the vectors in work, beside the model")
    embed.add_argument("--batch-tokens", type=int, metavar="N", help="tokens read at once (default: from --memory)")
    embed.add_argument("--device", help="cpu, cuda, cuda:1 ...")
    embed.add_argument(
        "--precision", choices=["float32", "bfloat16", "int8"], default="float32", help="of the products"
    )
    embed.add_argument("--overwrite", action="store_true", help="replace the output if it exists")
    embed.add_argument("--quiet", action="store_true", help="show no progress")


def _add_allennlp(verbs: Any) -> None:
    allennlp = add_verb(verbs, "allennlp", allennlp_verb, "embed with the flags of `allennlp elmo`, and its layout")
    allennlp.add_argument("input", help="text, one sentence a line, tokens between white space")
    allennlp.add_argument("output", help="the HDF5 file to write")
    which = allennlp.add_mutually_exclusive_group(required=True)
    for choice in ("all", "top", "average"):
        which.add_argument(f"--{choice}", dest="layers", action="store_const", const=choice)
    allennlp.add_argument("--options-file", metavar="FILE", help="default: that of the original model, as pulled")
    allennlp.add_argument("--weight-file", metavar="FILE", help="default: that of the original model, as pulled")
    allennlp.add_argument("--batch-size", type=int, default=64, metavar="N", help="sentences read ahead")
    allennlp.add_argument("--cuda-device", type=int, default=-1, metavar="N", help="number of a GPU (default: the CPU)")
    allennlp.add_argument("--forget-sentences", action="store_true", help="write no sentence_to_index")
    allennlp.add_argument("--use-sentence-keys", action="store_true", help="call a dataset by its line, not its number")
    allennlp.add_argument("--state", choices=["reset", "carry"], default="reset", help="carry: what AllenNLP did")
    # Taken because scripts give them; they have no effect.
    for flag in ("--vocab-path", "--include-package"):
        allennlp.add_argument(flag, help=argparse.SUPPRESS)
    allennlp.add_argument("--file-friendly-logging", action="store_true", help=argparse.SUPPRESS)
    allennlp.add_argument("--overwrite", action="store_true", help="replace the output if it exists")
    allennlp.add_argument("--quiet", action="store_true", help="show no progress")


def _add_types(verbs: Any) -> None:
    types = add_verb(verbs, "types", types_verb, "write a vector for each distinct word, the mean of its occurrences")
    add_input(types)
    types.add_argument("output", help="a text file in the format of word2vec")
    add_model(types)
    types.add_argument("--layers", default="average", help=LAYERS_HELP.replace("all, ", ""))
    types.add_argument("--min-count", type=int, default=1, metavar="N", help="leave out words that occur less often")
    types.add_argument("--lowercase", action="store_true", help="count words as one that differ in capitals alone")
    types.add_argument("--device", help="cpu, cuda, cuda:1 ...")
    types.add_argument("--overwrite", action="store_true", help="replace the output if it exists")
    types.add_argument("--quiet", action="store_true", help="show no progress")


def embed_verb(arguments: argparse.Namespace) -> None:
    from elmo.embedding.embedder import Embedder, parse_bytes
    from elmo.embedding.job import embed_file
    from elmo.embedding.layers import parse_layers
    from elmo.embedding.store import check_vectors_path
    from elmo.text.records import kind_of

    check_vectors_path(Path(arguments.output), arguments.overwrite)
    kind = arguments.kind or kind_of(arguments.input)
    options = {
        name: getattr(arguments, name) for name in ("state", "batch_size", "batch_tokens", "device", "precision")
    }
    embedder = Embedder.load(
        arguments.model, weights=arguments.weights, memory=parse_bytes(arguments.memory), **options
    )
    with Counter("sentences", arguments.quiet) as counter:
        done = embed_file(
            embedder,
            arguments.input,
            arguments.output,
            parse_layers(arguments.layers),
            tokenizer_of(embedder.text, arguments.pretokenized) if kind == "text" else None,
            arguments.dtype,
            arguments.overwrite,
            counter.update,
            pool=arguments.pool,
            kind=kind,
            index=arguments.index,
            resume=arguments.resume,
        )
    print(f"{done.path}: {done.rows:,} sentences, {done.tokens:,} tokens")


def allennlp_verb(arguments: argparse.Namespace) -> None:
    from elmo.embedding.job import read_lines
    from elmo.formats.whole import check_output
    from elmo.integrations import allennlp

    check_output(Path(arguments.output), arguments.overwrite)
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
    from elmo.embedding.embedder import Embedder
    from elmo.embedding.job import read_lines
    from elmo.embedding.layers import parse_layers
    from elmo.embedding.type_vectors import average_types, write_word2vec
    from elmo.formats.whole import check_output
    from elmo.text.records import kind_of, read_records

    output = Path(arguments.output)
    check_output(output, arguments.overwrite)
    embedder = Embedder.load(arguments.model, device=arguments.device)
    kind = arguments.kind or kind_of(arguments.input)
    tokenizer = tokenizer_of(embedder.text, arguments.pretokenized) if kind == "text" else None
    records = read_records(read_lines(arguments.input), kind, tokenizer, arguments.input)
    with Counter("sentences", arguments.quiet) as counter:
        types = average_types(
            embedder,
            (record.tokens for record in records),
            parse_layers(arguments.layers),
            arguments.lowercase,
            counter.update,
        )
    written = write_word2vec(types, output, arguments.min_count, arguments.overwrite)
    print(f"{output}: {written:,} words of {types.dim} numbers, from {sum(types.counts):,} tokens")
