"""`elmo info`, `elmo convert`, `elmo models`, `elmo pull` and `elmo push`, which handle the files of models."""

import argparse
import sys
import tempfile
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

from elmo import config
from elmo.cli.arguments import MODEL_HELP, add_options, add_output, add_verb, print_json, take_output
from elmo.errors import InputError, did_you_mean, in_one_line
from elmo.terminal import Counter, print_settings, print_table

GROUP = "models"


def add_verbs(verbs: Any) -> None:
    """Adds the verbs of this file."""
    info = add_verb(verbs, "info", info_verb, "describe a model from its headers alone", "elmo info run/model")
    info.add_argument("model", nargs="?", default="default", help=MODEL_HELP)
    add_options(
        info,
        "--weights",
        ("--check", "also check that all weights are finite, and try out the products of this CPU"),
        "--json",
    )

    about, example = "write a model in another format", "elmo convert options_folder/ native_folder/"
    convert = add_verb(verbs, "convert", convert_verb, about, example)
    convert.add_argument("input", nargs="+", metavar="MODEL", help="a model's folder, file or name; last, the output")
    add_output(convert, "the folder to write")
    add_options(
        convert,
        "--weights",
        ("--to native|allennlp", "format to write (default: native; allennlp for a native source without --store)"),
        ("--store float32|float16|int8", "how native weights are stored (default: float32)"),
        ("--card FILE", "a JSON object to add to the model's card: license, name, examples of its page"),
        "--overwrite",
        "--quiet",
    )

    about = "list the packaged, installed and published models"
    models = add_verb(verbs, "models", models_verb, about, "elmo models norwegian")
    models.add_argument("words", nargs="*", metavar="WORD", help="list only models whose row has all of these words")
    add_options(models, ("--json", "print JSON, with addresses, licences and their sources"))

    about = "download a published model to the cache, or resume the download"
    pull = add_verb(verbs, "pull", pull_verb, about, "elmo pull original")
    names = "a name from elmo models, or user/name on the Hugging Face Hub"
    pull.add_argument("names", nargs="+", metavar="NAME", help=names)
    add_options(pull, "--quiet")

    about = "upload a model to the Hugging Face Hub, with a card from its own record"
    push = add_verb(verbs, "push", push_verb, about, "elmo push run/ user/name --dry-run")
    push.add_argument("model", help="a model's folder, file or name")
    push.add_argument("repository", metavar="USER/NAME", help="created if it does not exist")
    add_options(
        push,
        ("--dry-run", "show what would be uploaded; needs no network"),
        ("--license ID", "the Hub's name for the licence, such as cc-by-sa-4.0"),
        ("--language CODE", "ISO code (default: the tokenizer's language)"),
        ("--private", "make a new repository private"),
        ("--message TEXT", "commit message"),
        "--quiet",
    )


def info_verb(arguments: argparse.Namespace) -> None:
    from elmo import formats
    from elmo.formats.examples import KEY

    found = formats.describe(arguments.model, arguments.weights)
    if arguments.check:
        formats.load(arguments.model, arguments.weights)
    values = {
        "path": str(found.path),
        "format": found.format,
        "license": found.card.get("license", "not stated in the card"),
        "reads": found.config.reads,
        "parameters": found.parameters,
        "stored as": found.dtype,
        "bytes on disk": found.bytes_on_disk,
        "bytes in memory": found.bytes_in_memory,
        "numbers": "all finite" if arguments.check else "not read (--check reads them)",
        "vector size": 2 * found.config.lstm.projection_dim,
        "layers of vectors": found.config.lstm.n_layers + 1,
        "vocabulary": None if found.vocabulary is None else len(found.vocabulary),
        "CPU products": _products() if arguments.check else "not tried (--check tries them)",
        "model": config.to_dict(found.config),
        "text": None if found.text is None else config.to_dict(found.text),
        "learned mixes": ", ".join(found.mixes) or None,
        # The page's examples are many sentences, which only a program reads.
        "card": {name: value for name, value in found.card.items() if arguments.json or name != KEY},
    }
    if arguments.json:
        print_json(values, indent=2)
        return
    print_settings(values)


def _products() -> dict[str, str]:
    """Returns the library that multiplies in each precision on this CPU, or the reason why none does."""
    from elmo import ops

    supports = {name: ops.find_support(name) for name in get_args(ops.Precision)}
    return {
        name: f"not used: {found.problem}" if found.problem else found.libraries[0] for name, found in supports.items()
    }


def convert_verb(arguments: argparse.Namespace) -> None:
    from elmo import formats
    from elmo.disk.files import check_output

    take_output(arguments, most=1)
    (source,), target = arguments.input, Path(arguments.output)
    found = formats.describe(source, arguments.weights)
    is_other = found.format != formats.native.FORMAT or arguments.store is not None or arguments.card is not None
    wanted = arguments.to or ("native" if is_other else "allennlp")
    if wanted == "allennlp" and arguments.store is not None:
        raise InputError("--store is for the native format; AllenNLP's is float32: omit one of --store and --to")
    check_output(target, arguments.overwrite, ("*",), inputs=(formats.find(source), arguments.weights, arguments.card))
    if wanted == "allennlp" and arguments.card is not None:
        raise InputError("--card is for the native format, since AllenNLP's has no card: omit --card or --to")
    added = {} if arguments.card is None else _read_card(Path(arguments.card))
    with Counter("MB", arguments.quiet, scale=1e6) as counter:
        with counter.waiting(f"reading {source}"):
            model = formats.load(source, arguments.weights)
        model = replace(model, card=model.card | added)
        counter.begin(0)
        if wanted == "native":
            store = arguments.store or "float32"
            formats.native.save(model, target, arguments.overwrite, store, counter.update, counter.waiting)
        else:
            from elmo.formats import allennlp

            allennlp.save(model, target, arguments.overwrite, counter.update)
    softmax = "the softmax" if model.config.n_tokens_vocab else "the softmax and the vocabulary"
    parts = {softmax: model.lm_head, "the learned mixes": model.mixes, "the tokenizer's settings": model.text}
    parts |= {"the card": model.card.keys() - {"options"}}
    lost = " and ".join(part for part, there in parts.items() if there) if wanted == "allennlp" else ""
    print(f"{target}: written as {wanted}" + (f" (without {lost}, which this format cannot store)" if lost else ""))


def _read_card(file: Path) -> dict[str, Any]:
    """Reads facts for a model's card. Raises InputError if they are no JSON object, or have examples that are none."""
    from elmo.formats.examples import page_examples
    from elmo.formats.files import file_on_disk

    found = file_on_disk(file).json()
    if not isinstance(found, dict):
        raise InputError(f'{file}: is not a JSON object; write one, such as {{"license": "CC0-1.0"}}')
    page_examples(found)
    return found


def models_verb(arguments: argparse.Namespace) -> None:
    from elmo.formats import cache, packages, published

    own = [_own_row(*found) for found in packages.describe_all()]
    rows = own + [
        config.to_dict(model) | {"package": None, "pulled": cache.is_pulled(model)}
        for model in published.published_models()
    ]
    found = [row for row in rows if _has(row, arguments.words)]
    if not found:
        words = " ".join(arguments.words)
        known = {str(word).lower() for row in rows for word in (row["name"], row["language"])}
        raise InputError(f"no model matches {words!r}; elmo models lists all{did_you_mean(words, known)}")
    if arguments.json:
        print_json(found, indent=2)
        return
    shown = [
        [row["name"], row["package"] or ("pulled" if row["pulled"] else ""), row["language"], row["about"]]
        for row in found
    ]
    print_table(["name", "here", "language", "about"], shown)
    print(f"cache: {cache.cache_folder()}; elmo pull NAME downloads a model, elmo.load(NAME) opens it")


def _own_row(name: str, package: str, found: Any) -> dict[str, Any]:
    """Returns the row of a packaged or installed model, with those fields of published models that it has."""
    lstm, (encoder, lstms, *_) = found.config.lstm, found.parameters.values()
    about = f"{(encoder + lstms) / 1e6:.1f}M parameters, {lstm.dim} cells, {lstm.n_layers} x {lstm.projection_dim}"
    if isinstance(words := found.card.get("words_read"), int):
        about += f"; {words / 1e6:.0f}M words read"
    language = "" if found.text is None else found.text.language
    row = {"name": name, "aliases": [], "language": language, "about": about, "layout": found.format}
    row |= {"license": found.card.get("license", ""), "path": str(found.path), "package": package}
    return row | {"pulled": False}


def _has(row: dict[str, Any], words: list[str]) -> bool:
    """Whether the row of a model has all of these words, ignoring case."""
    text = " ".join((row["name"], *row["aliases"], row["language"], row["about"], row["layout"])).casefold()
    return all(word.casefold() in text for word in words)


def pull_verb(arguments: argparse.Namespace) -> None:
    from elmo import formats
    from elmo.formats.pull import discard_pages, pull

    for name in arguments.names:
        if formats.REPOSITORY.fullmatch(name):
            print(f"{_hub_files(arguments.quiet).fetch(name)}: {name}, from the Hugging Face Hub")
            continue
        with Counter("MB", arguments.quiet, name, 1e6) as counter:
            pulled = pull(name, lambda file, done, total: counter.update(done, total, [file]))
        model = pulled.model
        print(f"{pulled.path}: {model.name}, {'downloaded' if pulled.new else 'already here'}")
        for file in pulled.new:
            known = any(row.sha256 for row in model.files if row.name == file)
            said = "as published" if known else "no published hash to compare with"
            print(f"    {file}: sha256 {pulled.sha256[file]}, {said}")
        print(f"    licence: {model.license or 'not stated at the source'}; please cite: {model.citation}")
        try:
            formats.describe(pulled.path)
        except (InputError, OSError) as error:
            pages = " and ".join(discard_pages(pulled))
            remedy = f"the web page that came as {pages} is removed" if pages else f"remove {pulled.path}"
            raise InputError(
                f"{model.name} was downloaded, but cannot be opened: {in_one_line(error)}; {remedy}: pull it again,"
                f" or get it at {model.page}"
            ) from error


def _hub_files(quiet: bool) -> Any:
    """Imports the module that speaks to the Hugging Face Hub. Raises InputError if the Hub's library is missing."""
    try:
        from elmo.formats import hub_files
    except ImportError as error:
        raise InputError(str(error)) from error
    if quiet:
        hub_files.hide_progress()
    return hub_files


def push_verb(arguments: argparse.Namespace) -> None:
    hub_files = _hub_files(arguments.quiet)
    hub_files.check_name(arguments.repository)
    from elmo.formats import hub

    with tempfile.TemporaryDirectory(prefix="elmo-") as made, Counter("MB", arguments.quiet) as counter:
        folder = Path(made)
        with counter.waiting(f"preparing {arguments.model}"):
            hub.prepare(arguments.model, arguments.repository, folder, arguments.license, arguments.language)
        if arguments.dry_run:
            print(f"{arguments.repository} would get:")
        else:
            size = sum(file.stat().st_size for file in folder.iterdir()) / 1e6
            # On a terminal, the Hub's library shows the bytes that are sent. It tells no one else, and no log.
            with nullcontext() if sys.stderr.isatty() else counter.waiting(f"uploading {size:,.1f} MB"):
                address = hub_files.push(folder, arguments.repository, arguments.private, arguments.message)
            print(address)
        for file in sorted(folder.iterdir()):
            print(f"    {file.name:20} {file.stat().st_size:>13,} bytes")
        if arguments.dry_run:
            print(f"\nREADME.md:\n\n{(folder / 'README.md').read_text(encoding='utf-8')}")
