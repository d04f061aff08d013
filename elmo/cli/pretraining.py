"""`elmo train`, `elmo perplexity`, `elmo score` and `elmo substitutes`, the commands of the language model."""

import argparse
import os
import shlex
import sys
from typing import Any

from elmo import config
from elmo.cli.arguments import add_options, add_verb, is_first_process, print_json, text_for, tokenizer_of
from elmo.cli.settings import add_settings, only_shows, recipe_and_overrides, require, resumed_folder, show
from elmo.errors import InputError
from elmo.terminal import Counter, print_table

GROUP = "a language model"


def add_verbs(verbs: Any) -> None:
    """Adds the verbs of this file."""
    about = "pretrain a biLM on plain text, from raw files to a model"
    example = "elmo train --train 'corpus/*.txt' --heldout held.txt --output run/ epochs=3"
    train = add_verb(verbs, "train", train_verb, about, example)
    add_settings(train, lambda: ("elmo.pretraining.settings", "TrainConfig"), example="optim.lr=1e-3")
    add_options(
        train,
        ("--train TEXT...", "text files or a pattern; may be repeated"),
        ("--heldout TEXT...", "text to measure perplexity on"),
        ("--output FOLDER", "folder of the run; the model is FOLDER/model"),
        ("--init-from MODEL", "start from a model's weights (fine-tuning)"),
        ("--vocab keep|replace|extend", "what to do with that model's vocabulary (default: keep)"),
        "--strict",
        "--lines|--pretokenized",
        ("--resume", "continue the run in FOLDER exactly; under torchrun, start it if there is none"),
        ("--dry-run", "only print parameters, steps, memory and hours"),
        "--quiet",
    )

    about = "measure full-softmax perplexity, in both directions"
    perplexity = add_verb(verbs, "perplexity", perplexity_verb, about, "elmo perplexity text.txt --model run/model")
    perplexity.add_argument("text", nargs="+", help="text files or patterns")
    add_options(
        perplexity,
        "--model",
        "--strict",
        "--lines|--pretokenized",
        ("--max-words N", "read only about N words, from the start of the first documents"),
        "--device",
        "--json",
        "--quiet",
    )

    about = "print each token's log-probability, forward and backward"
    score = add_verb(verbs, "score", score_verb, about, "elmo score text.txt")
    score.add_argument("text", help="text (.txt, .gz, .xz, .bz2), or - for standard input")
    add_options(score, "--model", "--strict", "--lines|--pretokenized", ("--json", "print JSON lines"), "--quiet")

    about, example = "list the most probable words at a position", 'elmo substitutes "She wrote a play." --word play'
    substitutes = add_verb(verbs, "substitutes", substitutes_verb, about, example)
    substitutes.add_argument("sentence", help="a sentence, or a text")
    add_options(
        substitutes,
        ("--word WORD", "word to replace: its first occurrence"),
        ("--position N", "or its position among the tokens, from 0"),
        "--model",
        "--lines|--pretokenized",
        ("--side both|forward|backward", "context to use (default: both)", "both"),
        ("-k N", "number of words (default: 10)", 10),
        "--json",
    )


def train_verb(arguments: argparse.Namespace) -> None:
    # After the loss of a process, torchrun starts this command again.
    resume = arguments.resume or int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0
    values, source = _train_values(arguments, resume)
    from elmo.pretraining import train
    from elmo.pretraining.settings import TrainConfig

    made = config.from_dict(TrainConfig, values)
    if only_shows(arguments):
        show(arguments, made)
        return
    numbers = train.pretrain(made, resume, arguments.dry_run, arguments.quiet, source=source)
    if not is_first_process():
        return
    for name, value in numbers.items():
        print(f"{name:20} {value:,}" if isinstance(value, int) else f"{name:20} {value}")
    if not arguments.dry_run:
        print(f"{'next':20} elmo embed TEXT.txt vectors.hdf5 --model {shlex.quote(str(made.output))}")


def _train_values(arguments: argparse.Namespace, resume: bool) -> tuple[dict[str, Any], Any]:
    """Returns the settings of a run and, if it is opened, the description of the model that the run starts from."""
    recipe, overrides = recipe_and_overrides(arguments)
    names = ("train", "heldout", "output", "init_from")
    flags: dict[str, Any] = {name: getattr(arguments, name) or None for name in names} | {"init_vocab": arguments.vocab}
    if arguments.pretokenized:
        flags["text"] = {"tokens": "whitespace", "sentences": "line"}
    if arguments.lines:
        flags["text"] = {"sentences": "line"}
    given = config.combined({} if recipe is None else config.load_toml(config.find_recipe(recipe)), flags, overrides)
    record = None
    if resume:
        output = None if "output" not in given else str(given["output"])
        needed = None if "TORCHELASTIC_RUN_ID" in os.environ else "train.json"
        record = resumed_folder(output, needed) / "train.json"
    from elmo.pretraining.settings import on_its_base

    values, source = on_its_base(given, record)
    placeholders = {"train": ["TRAIN"], "output": "OUTPUT"}
    require(values, placeholders, only_shows(arguments), "elmo train --train 'corpus/*.txt' --output run/")
    return values, source


def perplexity_verb(arguments: argparse.Namespace) -> None:
    from elmo import formats
    from elmo.formats.opened import OpenedModel
    from elmo.machine import usable_device
    from elmo.pretraining import perplexity
    from elmo.text import corpus
    from elmo.text.records import check_text

    device = usable_device(arguments.device)  # a missing GPU is reported before the weights are read
    model = formats.load(arguments.model)
    perplexity.check_softmax(model)  # an error comes before any warning
    text = text_for(model.text, arguments)
    paths = corpus.expand_patterns(arguments.text)
    for path in paths:
        check_text(path)
    tokenized = Counter("MB", arguments.quiet, "tokenizing", 1e6)
    with tokenized, Counter("words", arguments.quiet, "measuring") as measured:

        def reading(done: int, total: int) -> None:
            tokenized.update(done, total)
            measured.begin(0)  # words are measured only after the last text is read

        report = perplexity.perplexity_report(model, paths, text, arguments.max_words, measured.update, reading, device)
    if arguments.json:
        source = OpenedModel(formats.recorded_name(arguments.model), model, formats.content_hash(model))
        print_json(report | {"bilm": source.card()}, indent=2)
        return
    rows = [
        [policy, which, *(f"{numbers[d + suffix]:,.2f}" for d in ("forward", "backward", "mean"))]
        for policy, numbers in report["perplexity"].items()
        for which, suffix in (("all words", ""), ("without unknown words", "_known"))
    ]
    print_table(["state", "over", "forward", "backward", "mean"], rows)
    numbers = report["perplexity"]["carry"]
    print(f"{numbers['tokens']:,} words and sentence ends, {numbers['unknown_rate']:.2%} not in the vocabulary")
    print(f"vocabulary: {report['vocabulary']['size']:,} words, sha256 {report['vocabulary']['sha256']}")


def score_verb(arguments: argparse.Namespace) -> None:
    from elmo import formats
    from elmo.embedding.job import FileLines
    from elmo.pretraining.scoring import Scorer
    from elmo.text.batching import pair_results
    from elmo.text.records import check_text, read_records

    check_text(arguments.text)
    model = formats.load(arguments.model)
    scorer = Scorer(model)
    lines = FileLines(arguments.text)
    records = read_records(lines, "text", tokenizer_of(model.text, arguments))
    number = 0
    # On a terminal, the scores themselves show the progress.
    with Counter("sentences", arguments.quiet or sys.stdout.isatty()) as counter:
        scored = pair_results(records, lambda record: record.tokens, scorer.score)
        for number, (record, scores) in enumerate(scored, 1):
            _print_scores(record, scores, arguments.json)
            counter.update(number, lines.total(number))
    if not number:
        raise InputError(f"{arguments.text}: has no sentences; text is expected")


def _print_scores(record: Any, scores: Any, as_json: bool) -> None:
    """Prints the scores of a sentence as JSON, or as a line for each token and an empty line."""
    columns = {"forward": scores.forward.tolist(), "backward": scores.backward.tolist()}
    if as_json:
        rest = {"known": scores.known.tolist(), "end": scores.end, "begin": scores.begin}
        print_json({"line": record.line, "start": record.start, "tokens": scores.tokens, **columns, **rest})
        return
    for token, forward, backward, known in zip(scores.tokens, *columns.values(), scores.known, strict=True):
        print("\t".join([token, f"{forward:.4f}", f"{backward:.4f}", *([] if known else ["unknown"])]))
    print()


def substitutes_verb(arguments: argparse.Namespace) -> None:
    from elmo import formats
    from elmo.embedding.texts import SplitText
    from elmo.pretraining.scoring import substitutes
    from elmo.search.nearest import find_in_text
    from elmo.text.tokenizer import WHITESPACE

    if (arguments.word is None) == (arguments.position is None):
        raise InputError("give one of --word and --position")
    model = formats.load(arguments.model)
    tokenizer = tokenizer_of(model.text or WHITESPACE, arguments)
    if arguments.word is None:
        tokens, place = SplitText.of(arguments.sentence, tokenizer).part(arguments.position)
    else:
        tokens, place = find_in_text(arguments.sentence, arguments.word, tokenizer)
    found = substitutes(model, tokens, place, arguments.k, arguments.side)
    if arguments.json:
        print_json([vars(each) for each in found], indent=2)
        return
    rows = [[each.word, *(f"{p:.3f}" for p in (each.log_probability, each.forward, each.backward))] for each in found]
    print_table(["word", f"log p ({arguments.side})", "forward", "backward"], rows)
