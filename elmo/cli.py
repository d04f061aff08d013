"""The command line: `elmo VERB [recipe.toml] [--flag value ...] [section.key=value ...]`.

Every verb is a function of its parsed arguments that imports what it needs when it runs, so `elmo --help` loads no
torch. Errors of the user are one line and exit code 2.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import elmo
from elmo import config
from elmo.errors import InputError
from elmo.terminal import Counter, print_table

HERE = Path(__file__).parent
RECIPES = HERE / "recipes"
DEMO_TEXT = HERE / "assets" / "demo.txt"
SENSES = HERE / "assets" / "senses.tsv"
DEMO_QUERIES = 4


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs one verb and exits: 0 done, 1 training could not go on, 2 something that was given cannot be used."""
    parsed = _parse(arguments)
    try:
        parsed.run(parsed)
    except (InputError, OSError) as error:
        _fail(error, 2)
    except KeyboardInterrupt:
        _fail("interrupted", 130)
    except RuntimeError as error:
        if type(error).__name__ != "TrainingError":
            raise
        _fail(error, 1)
    sys.exit(0)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = build_parser()
    parsed, rest = parser.parse_known_args(arguments)
    # argparse takes positionals from one place only; settings may stand between flags and after them.
    unknown = [argument for argument in rest if argument.startswith("-") or "=" not in argument]
    if unknown or (rest and not hasattr(parsed, "overrides")):
        parser.error(f"unrecognized arguments: {' '.join(unknown or rest)}")
    if rest:
        parsed.overrides = [*parsed.overrides, *rest]
    return parsed


def _fail(error: BaseException | str, code: int) -> NoReturn:
    if not _is_first_process() and not isinstance(error, OSError):
        sys.exit(code)  # all processes find the same errors, but for those of a machine
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        error = f"{error.filename}: {error.strerror}"
    print(f"elmo: error: {' '.join(str(error).split())}", file=sys.stderr)
    sys.exit(code)


def _is_first_process() -> bool:
    """Of those that train together: the variables are torchrun's and lightning's."""
    return int(os.environ.get("RANK") or os.environ.get("LOCAL_RANK") or 0) == 0


def build_parser() -> argparse.ArgumentParser:
    """The whole command line."""
    parser = argparse.ArgumentParser(
        prog="elmo", description="Deep contextualized word representations: pretrain, embed, probe."
    )
    parser.add_argument("--version", action="version", version=f"elmo-torch {elmo.__version__}")
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)

    train = _verb(verbs, "train", train_verb, "pretrain a biLM on plain text: one command from raw text to a model")
    train.add_argument("recipe", nargs="?", help="a TOML file, or the name of a recipe in the package")
    train.add_argument("overrides", nargs="*", metavar="section.key=value", help="settings, e.g. optim.lr=1e-3")
    train.add_argument("--train", action="append", metavar="TEXT", help="text files or a pattern; may be repeated")
    train.add_argument("--heldout", action="append", metavar="TEXT", help="text for the perplexities")
    train.add_argument("--output", metavar="FOLDER", help="where the run goes: its model is in FOLDER/model")
    train.add_argument("--init-from", metavar="MODEL", help="go on from a model's weights (fine-tuning)")
    train.add_argument(
        "--vocab", choices=["keep", "replace", "extend"], help="what becomes of that model's vocabulary (default: keep)"
    )
    train.add_argument("--pretokenized", action="store_true", help="one sentence a line, tokens between white space")
    train.add_argument("--resume", action="store_true", help="go on with the run in FOLDER, exactly")
    train.add_argument("--dry-run", action="store_true", help="only tell parameters, steps, memory and hours")
    train.add_argument("--print-config", action="store_true", help="only print the configuration, as JSON")
    train.add_argument("--quiet", action="store_true", help="show no progress")

    embed = _verb(verbs, "embed", embed_verb, "write the vectors of a text, one sentence a line")
    embed.add_argument("input", help="text (.txt, .gz, .xz), or - for standard input")
    embed.add_argument("output", help=".hdf5, .npz or .parquet")
    _model(embed)
    _weights(embed)
    embed.add_argument("--layers", default="all", help="all, average, top, a number, or weights as 0.2,0.3,0.5")
    embed.add_argument("--pretokenized", action="store_true", help="tokens are separated by white space")
    embed.add_argument("--dtype", choices=["float32", "float16"], default="float32")
    embed.add_argument("--state", choices=["reset", "carry", "warm"], default="reset", help="LSTM state of a sentence")
    embed.add_argument("--batch-size", type=int, default=32, metavar="N", help="sentences of a batch, for carry")
    embed.add_argument("--memory", default="256MB", metavar="SIZE", help="for the vectors in work, beside the model")
    embed.add_argument("--batch-tokens", type=int, metavar="N", help="tokens read at once (default: from --memory)")
    embed.add_argument("--device", help="cpu, cuda, cuda:1 ...")
    embed.add_argument(
        "--precision", choices=["float32", "bfloat16", "int8"], default="float32", help="of the products"
    )
    embed.add_argument("--overwrite", action="store_true", help="replace the output if it exists")
    embed.add_argument("--quiet", action="store_true", help="show no progress")

    _language_model_verbs(verbs)

    info = _verb(verbs, "info", info_verb, "what a model is, from its headers alone")
    info.add_argument("model", nargs="?", default="default")
    _weights(info)
    info.add_argument("--json", action="store_true", help="print JSON")

    convert = _verb(verbs, "convert", convert_verb, "write a model in another format")
    convert.add_argument("source", help="a model")
    convert.add_argument("target", help="the folder to write")
    _weights(convert)
    convert.add_argument("--to", choices=["native", "allennlp"], help="by default the format that the source has not")
    convert.add_argument("--dtype", choices=["float32", "float16"], default="float32", help="of native weights")
    convert.add_argument("--softmax-dtype", choices=["float32", "float16"], help="of the softmax, if another")
    convert.add_argument("--overwrite", action="store_true", help="replace the target if it exists")

    models = _verb(verbs, "models", models_verb, "the published models that are known by name, and which are here")
    models.add_argument("--json", action="store_true", help="print JSON: addresses, licences, and where they were read")

    pull = _verb(verbs, "pull", pull_verb, "download a published model into the cache, or go on with it")
    pull.add_argument("names", nargs="+", metavar="NAME", help="as elmo models lists them")
    pull.add_argument("--quiet", action="store_true", help="show no progress")

    verify = _verb(verbs, "verify", verify_verb, "compare files with the hashes of the published models")
    verify.add_argument("models", nargs="+", metavar="NAME|PATH", help="a pulled model, a file, or a folder of files")
    verify.add_argument("--json", action="store_true", help="print JSON")

    neighbors = _verb(verbs, "neighbors", neighbors_verb, "occurrences of a word that are used alike, by layer")
    neighbors.add_argument("word", help="a word, or a sentence (tokens between spaces) that holds --word")
    neighbors.add_argument("--word", dest="query", metavar="WORD", help="the word of the sentence that is meant")
    neighbors.add_argument("--text", help="where to look: a text, one sentence a line (default: the demo's)")
    _model(neighbors)
    neighbors.add_argument("--layer", type=int, default=-1, help="0 is the word without context, -1 the top")
    neighbors.add_argument("-k", type=int, default=3, metavar="N", help="how many")
    neighbors.add_argument("--queries", type=int, default=20, metavar="N", help="occurrences to begin from, at most")
    neighbors.add_argument("--pretokenized", action="store_true", help="tokens are separated by white space")

    probe = _verb(verbs, "probe", None, "what each layer knows")
    probes = probe.add_subparsers(title="probes", metavar="PROBE", required=True)
    senses = _verb(probes, "senses", senses_verb, "nearest-neighbour sense accuracy of each layer on labelled words")
    senses.add_argument("--data", default=str(SENSES), help="word, sense, index, sentence between tabs")
    _model(senses)
    senses.add_argument("--json", action="store_true", help="print JSON lines")

    bench = _verb(verbs, "bench", bench_verb, "how fast a model is here, beside what the machine could do")
    bench.add_argument("model", nargs="?", default="default")
    bench.add_argument("--text", default=str(DEMO_TEXT), help="what is read (default: the demo's text)")
    bench.add_argument("--pretokenized", action="store_true", help="one sentence a line, tokens between white space")
    bench.add_argument("--tokens", type=int, default=4000, metavar="N", help="how much of it, at most")
    bench.add_argument("--device", default="cpu", help="cpu, cuda, cuda:1 ...")
    bench.add_argument("--json", action="store_true", help="print JSON")

    demo = _verb(verbs, "demo", demo_verb, "a tour of a model on a small text")
    demo.add_argument("--output", default="demo.hdf5", help="where the vectors go")
    _model(demo)
    return parser


def _language_model_verbs(verbs: Any) -> None:
    """Those that need a model's softmax."""
    perplexity = _verb(verbs, "perplexity", perplexity_verb, "full-softmax perplexity of a text, both directions")
    perplexity.add_argument("text", nargs="+", help="text files or patterns")
    _model(perplexity)
    perplexity.add_argument("--pretokenized", action="store_true", help="one sentence a line, tokens between spaces")
    perplexity.add_argument("--max-words", type=int, metavar="N", help="only the beginning of the text")
    perplexity.add_argument("--json", action="store_true", help="print JSON")

    score = _verb(verbs, "score", score_verb, "log-probability of each token of a text, forward and backward")
    score.add_argument("text", help="text (.txt, .gz, .xz), one sentence a line, or - for standard input")
    _model(score)
    score.add_argument("--pretokenized", action="store_true", help="tokens are separated by white space")
    score.add_argument("--json", action="store_true", help="print JSON lines")

    substitutes = _verb(verbs, "substitutes", substitutes_verb, "the most probable words at a place of a sentence")
    substitutes.add_argument("sentence", help="its tokens, between spaces")
    substitutes.add_argument("--word", metavar="WORD", help="the token to be replaced, where it stands first")
    substitutes.add_argument("--position", type=int, metavar="N", help="or its place, the first is 0")
    _model(substitutes)
    substitutes.add_argument(
        "--side", choices=["both", "forward", "backward"], default="both", help="what is looked at"
    )
    substitutes.add_argument("-k", type=int, default=10, metavar="N", help="how many")
    substitutes.add_argument("--json", action="store_true", help="print JSON")


def _verb(verbs: Any, name: str, run: Callable[..., None] | None, text: str) -> argparse.ArgumentParser:
    parser = verbs.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
    if run is not None:
        parser.set_defaults(run=run)
    return parser


def _model(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", default="default", help="a model's folder, file or name (default: the packaged one)")


def _weights(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--weights", metavar="FILE", help="where the model is an options file: its weights")


# The verbs


def train_verb(arguments: argparse.Namespace) -> None:
    values = _train_values(arguments)
    from elmo.pretraining import train

    made = config.from_dict(train.TrainConfig, values)
    if arguments.print_config:
        print(config.to_json(made), end="")
        return
    numbers = train.main(made, arguments.resume, arguments.dry_run, arguments.quiet)
    if not _is_first_process():
        return
    for name, value in numbers.items():
        print(f"{name:20} {value:,}" if isinstance(value, int) else f"{name:20} {value}")


def _train_values(arguments: argparse.Namespace) -> dict[str, Any]:
    """Recipe, then flags, then overrides: the later wins. A resumed run begins with its own configuration."""
    recipe, overrides = arguments.recipe, list(arguments.overrides)
    if recipe is not None and "=" in recipe:  # no recipe was given, and the first override stands in its place
        recipe, overrides = None, [recipe, *overrides]
    values: dict[str, Any] = {}
    if arguments.resume:
        if arguments.output is None:
            raise InputError("--resume needs --output, the folder of the run to go on with")
        record = Path(arguments.output) / "train.json"
        if not record.is_file():
            raise InputError(f"{record}: no such file, so there is no run to resume; leave --resume out to begin one")
        from elmo.pretraining import train

        values = config.to_dict(train.read_record(record))
    if recipe is not None:
        values = config.merge(values, config.load_toml(find_recipe(recipe)))
    given = {name: getattr(arguments, name) for name in ("train", "heldout", "output", "init_from")}
    flags = {name: value for name, value in (given | {"init_vocab": arguments.vocab}).items() if value}
    if arguments.pretokenized:
        flags["text"] = {"tokens": "whitespace", "sentences": "line"}
    values = config.merge(config.merge(values, flags), config.parse_overrides(overrides))
    for name in ("train", "output"):
        if name not in values:
            raise InputError(f"--{name} is missing; for example: elmo train --train 'corpus/*.txt' --output run/")
    if values.get("init_from") and not arguments.resume:
        from elmo.pretraining import initial

        values = config.merge(initial.settings_of(values["init_from"]), values)
    return values


def find_recipe(name: str) -> Path:
    """The file of a recipe: a path, or a name in the package."""
    path = Path(name)
    if path.is_file():
        return path
    packaged = RECIPES / f"{name.removesuffix('.toml')}.toml"
    if packaged.is_file():
        return packaged
    names = ", ".join(sorted(recipe.stem for recipe in RECIPES.glob("*.toml")))
    raise FileNotFoundError(f"{name}: no such file, nor a recipe of the package (these are: {names})")


def embed_verb(arguments: argparse.Namespace) -> None:
    from elmo.embedding.embedder import Embedder, parse_bytes
    from elmo.embedding.job import embed_file
    from elmo.embedding.layers import parse_layers
    from elmo.embedding.store import check_vectors_path

    check_vectors_path(Path(arguments.output), arguments.overwrite)
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
            _tokenizer(embedder.text, arguments.pretokenized),
            arguments.dtype,
            arguments.overwrite,
            counter.update,
        )
    print(f"{done.path}: {done.rows:,} sentences, {done.tokens:,} tokens")


def _tokenizer(text: Any, pretokenized: bool) -> Any:
    from elmo.text.tokenizer import TextConfig, Tokenizer

    return Tokenizer(TextConfig("whitespace", "line") if pretokenized else text or TextConfig(sentences="line"))


def perplexity_verb(arguments: argparse.Namespace) -> None:
    from elmo import formats
    from elmo.pretraining import perplexity
    from elmo.text import corpus
    from elmo.text.tokenizer import TextConfig

    model = formats.load(arguments.model)
    text = TextConfig("whitespace", "line") if arguments.pretokenized else model.text or TextConfig()
    paths = corpus.expand(arguments.text)
    with Counter("words", quiet=False) as counter:
        report = perplexity.report(model, paths, text, arguments.max_words, counter.update)
    if arguments.json:
        print(json.dumps(report, indent=2))
        return
    rows = [
        [policy, which, *(f"{numbers[d + suffix]:,.2f}" for d in ("forward", "backward", "mean"))]
        for policy, numbers in report["perplexity"].items()
        for which, suffix in (("all words", ""), ("unknown words left out", "_known"))
    ]
    print_table(["state", "over", "forward", "backward", "mean"], rows)
    numbers = report["perplexity"]["carry"]
    print(f"{numbers['tokens']:,} words and sentence ends, {numbers['unknown_rate']:.2%} unknown to the vocabulary")
    print(f"vocabulary: {report['vocabulary']['size']:,} words, sha256 {report['vocabulary']['sha256']}")


def score_verb(arguments: argparse.Namespace) -> None:
    from elmo import formats
    from elmo.embedding.job import read_lines
    from elmo.pretraining.scoring import Scorer

    model = formats.load(arguments.model)
    tokenizer = _tokenizer(model.text, arguments.pretokenized)
    for scores in Scorer(model).score(tokenizer.tokens(line) for line in read_lines(arguments.text)):
        columns = {"forward": scores.forward.tolist(), "backward": scores.backward.tolist()}
        if arguments.json:
            rest = {"known": scores.known.tolist(), "end": scores.end, "begin": scores.begin}
            print(json.dumps({"tokens": scores.tokens, **columns, **rest}, ensure_ascii=False))
            continue
        for token, forward, backward, known in zip(scores.tokens, *columns.values(), scores.known, strict=True):
            print("\t".join([token, f"{forward:.4f}", f"{backward:.4f}", *([] if known else ["unknown"])]))
        print()


def substitutes_verb(arguments: argparse.Namespace) -> None:
    from elmo import formats
    from elmo.pretraining.scoring import substitutes

    tokens = arguments.sentence.split()
    if (arguments.word is None) == (arguments.position is None):
        raise InputError("which token? give one of --word and --position")
    if arguments.word is not None and arguments.word not in tokens:
        raise InputError(f"--word {arguments.word!r} is not a token of {arguments.sentence!r}")
    place = arguments.position if arguments.word is None else tokens.index(arguments.word)
    found = substitutes(formats.load(arguments.model), tokens, place, arguments.k, arguments.side)
    if arguments.json:
        print(json.dumps([vars(each) for each in found], indent=2, ensure_ascii=False))
        return
    rows = [[each.word, *(f"{p:.3f}" for p in (each.log_probability, each.forward, each.backward))] for each in found]
    print_table(["word", f"log p ({arguments.side})", "forward", "backward"], rows)


def info_verb(arguments: argparse.Namespace) -> None:
    from elmo import formats, ops

    found = formats.describe(arguments.model, arguments.weights)
    values = {
        "path": str(found.path),
        "format": found.format,
        "reads": found.config.reads,
        "parameters": found.parameters,
        "stored as": found.dtype,
        "bytes on disk": found.bytes_on_disk,
        "bytes in memory": found.bytes_in_memory,
        "vector size": 2 * found.config.lstm.projection_dim,
        "layers of vectors": found.config.lstm.n_layers + 1,
        "vocabulary": None if found.vocabulary is None else len(found.vocabulary),
        "CPU products": ops.default_library(),
        "model": config.to_dict(found.config),
        "text": None if found.text is None else config.to_dict(found.text),
        "learned mixes": ", ".join(found.mixes) or None,
        "card": found.card,
    }
    if arguments.json:
        print(json.dumps(values, indent=2, ensure_ascii=False))
        return
    for name, value in values.items():
        if isinstance(value, dict):
            for key, part in value.items():
                print(f"{name + ' ' + key:28} {f'{part:,}' if isinstance(part, int) else part}")
        else:
            print(f"{name:28} {f'{value:,}' if isinstance(value, int) else value}")


def convert_verb(arguments: argparse.Namespace) -> None:
    from elmo import formats

    target = Path(arguments.target)
    found = formats.describe(arguments.source, arguments.weights)
    wanted = arguments.to or ("allennlp" if found.format == formats.native.FORMAT else "native")
    model = formats.load(arguments.source, arguments.weights)
    if wanted == "native":
        formats.native.save(model, target, arguments.overwrite, arguments.dtype, arguments.softmax_dtype)
    else:
        formats.allennlp.save(model, target, arguments.overwrite)
    parts = {"the softmax and the vocabulary": model.lm_head, "the learned mixes": model.mixes}
    lost = " and ".join(part for part, there in parts.items() if there) if wanted == "allennlp" else ""
    print(f"{target}: written as {wanted}" + (f" (this format has no place for {lost})" if lost else ""))


def models_verb(arguments: argparse.Namespace) -> None:
    from elmo.formats import cache, published

    if arguments.json:
        rows = [config.to_dict(model) | {"pulled": cache.is_pulled(model)} for model in published.models()]
        print(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    rows = [
        [model.name, "yes" if cache.is_pulled(model) else "", model.language, model.layout, model.about]
        for model in published.models()
    ]
    print_table(["name", "here", "language", "layout", "about"], rows)
    print(f"cache: {cache.cache_folder()}; elmo pull NAME brings one here, and then elmo.load(NAME) opens it")


def pull_verb(arguments: argparse.Namespace) -> None:
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    from elmo import formats
    from elmo.formats.pull import pull

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    for name in arguments.names:
        with Counter(name, arguments.quiet, *columns) as counter:
            pulled = pull(name, lambda file, done, total: counter.update(done, total))
        model = pulled.model
        print(f"{pulled.path}: {model.name}, {'downloaded' if pulled.new else 'here already'}")
        for file in pulled.new:
            known = any(row.sha256 for row in model.files if row.name == file)
            said = "as published" if known else "none is published to compare it with"
            print(f"    {file}: sha256 {pulled.sha256[file]}, {said}")
        print(f"    licence: {model.license or 'not stated at the source'}; please cite: {model.citation}")
        try:
            formats.describe(pulled.path)
        except InputError as error:
            raise InputError(f"{model.name} was downloaded, but cannot be opened: {error}") from error


def verify_verb(arguments: argparse.Namespace) -> None:
    from elmo.formats import cache

    found = [file for reference in arguments.models for file in cache.verify(reference)]
    if arguments.json:
        print(json.dumps([vars(file) | {"path": str(file.path)} for file in found], indent=2))
    else:
        for file in found:
            print(f"{file.path}: {file.verdict}{f' ({file.about})' if file.about else ''}; sha256 {file.sha256 or '-'}")
    wrong = [str(file.path) for file in found if file.verdict in ("differs", "missing")]
    if wrong:
        raise InputError(f"{', '.join(wrong)}: not what was published or pulled; remove and pull again: elmo pull NAME")


def neighbors_verb(arguments: argparse.Namespace) -> None:
    from elmo.embedding.embedder import Embedder
    from elmo.embedding.job import read_lines
    from elmo.probes import neighbors

    embedder = Embedder.load(arguments.model)
    tokenizer = _tokenizer(embedder.text, arguments.pretokenized or arguments.text is None)
    text = arguments.text or str(DEMO_TEXT)
    sentences = [tokens for line in read_lines(text) if (tokens := tokenizer.tokens(line))]
    if arguments.query is not None:
        given = arguments.word.split()
        if arguments.query not in given:
            raise InputError(f"--word {arguments.query!r} is not a token of {arguments.word!r}")
        queries: list[tuple[Sequence[str], int]] = [(given, given.index(arguments.query))]
    else:
        queries = [(sentences[s], t) for s, t in neighbors.occurrences(sentences, arguments.word)]
    if not queries:
        raise InputError(f"{text}: {arguments.word!r} does not occur in it; a word is looked up as it is spelled")
    shown = queries[: arguments.queries]
    _print_neighbors(shown, neighbors.run_many(embedder, sentences, shown, arguments.layer, arguments.k))
    if len(shown) < len(queries):
        print(f"{len(queries) - len(shown)} more occurrences of {arguments.word!r} are not shown (--queries)")


def _print_neighbors(queries: Sequence[tuple[Sequence[str], int]], found: Sequence[Sequence[Any]]) -> None:
    for (sentence, index), nearest in zip(queries, found, strict=True):
        print(_marked(sentence, index))
        for neighbor in nearest:
            print(f"    {neighbor.similarity:.3f}  {_marked(neighbor.sentence, neighbor.token_index)}")


def _marked(sentence: Sequence[str], index: int) -> str:
    return " ".join(f"[{token}]" if place == index else token for place, token in enumerate(sentence))


def senses_verb(arguments: argparse.Namespace) -> None:
    from elmo.embedding.embedder import Embedder
    from elmo.probes import senses

    rows = senses.run(Embedder.load(arguments.model), senses.read_occurrences(Path(arguments.data)))
    if not arguments.json:
        _print_senses(rows)
        return
    for row in rows:
        print(json.dumps(vars(row)))


def _print_senses(rows: Sequence[Any]) -> None:
    print(
        f"How often the nearest other occurrence of a word has its sense ({rows[0].occurrences} labelled occurrences):"
    )
    words = list(rows[0].by_word)
    print_table(
        ["layer", "all", *words],
        [[str(row.layer), f"{row.accuracy:.1%}", *(f"{row.by_word[word]:.0%}" for word in words)] for row in rows],
    )


def bench_verb(arguments: argparse.Namespace) -> None:
    import dataclasses

    from elmo import formats
    from elmo.bench import job

    text = formats.describe(arguments.model).text
    tokenizer = _tokenizer(text, arguments.pretokenized or arguments.text == str(DEMO_TEXT))
    sentences = job.beginning(Path(arguments.text), tokenizer, arguments.tokens)
    measured = job.run(
        arguments.model,
        (arguments.text, sentences),
        arguments.device,
        progress=lambda what: print(f"measuring {what} ...", file=sys.stderr),
    )
    if arguments.json:
        print(json.dumps(dataclasses.asdict(measured), indent=2))
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
            f"{row.peak_bytes / 1e6:,.0f}",
            "" if row.smallest_cosine is None else f"{row.smallest_cosine:.6f}",
        ]
        for row in measured.rows
    ]
    head = ["precision", "tokens/s", "20 tokens, ms", "LSTM GFLOP/s", "of the most", "memory, MB", "smallest cosine"]
    print_table(head, rows)


def demo_verb(arguments: argparse.Namespace) -> None:
    from elmo.embedding.embedder import Embedder
    from elmo.embedding.job import embed_file, read_lines
    from elmo.probes import neighbors, senses

    embedder = Embedder.load(arguments.model)
    tokenizer = _tokenizer(embedder.text, pretokenized=True)
    done = embed_file(embedder, DEMO_TEXT, arguments.output, tokenizer=tokenizer, overwrite=True)
    shape = f"{embedder.n_layers} layers of {embedder.dim} numbers for each of {done.tokens:,} tokens"
    print(f"Vectors of {done.rows} sentences are in {done.path}: {shape}.\n")
    sentences = [tokenizer.tokens(line) for line in read_lines(DEMO_TEXT)]
    print("A word in its sentence, then the occurrences that the top layer takes for the most alike:\n")
    for word in ("play", "bank", "spring"):
        queries = [(sentences[s], t) for s, t in neighbors.occurrences(sentences, word)[:DEMO_QUERIES]]
        _print_neighbors(queries, neighbors.run_many(embedder, sentences, queries, k=2))
        print()
    _print_senses(senses.run(embedder, senses.read_occurrences(SENSES)))
