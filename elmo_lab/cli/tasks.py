"""`elmo task`, for the six task models of the paper, with and without ELMo."""

import argparse
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from elmo import config
from elmo.cli.arguments import (
    BILM_HELP,
    add_options,
    add_output,
    add_verb,
    check_processes,
    print_json,
    run_in,
    take_output,
)
from elmo.cli.settings import (
    Setting,
    add_settings,
    config_of,
    only_shows,
    recipe_and_overrides,
    require,
    resumed_folder,
    settings_of,
    show,
)
from elmo.errors import InputError
from elmo.terminal import Counter, print_line, print_table
from elmo_lab import RECIPES
from elmo_lab.plugins import entry_points_of

GROUP = "the paper's tasks, and what layers know"

SETTINGS = ("elmo_lab.tasks.train", "TaskConfig")
EXAMPLE = "elmo task train ner --train a.txt --dev b.txt --output run/ elmo=input"
NETWORKS = "a trained network (run/seed-1; several form an ensemble)"
DATA = "--data FOLDER", "folder of a recipe's files (default: the variable ELMO_DATA)"
OF_TRAINED = (
    ("--model MODEL", "the frozen biLM, if it has moved since training"),
    ("--vectors FILE", "the word vectors, if they have moved since training"),
    "--strict",
)


def add_verbs(verbs: Any) -> None:
    """Adds the verbs of this file."""
    about = "train and use the task models of the paper, with and without ELMo"
    task = add_verb(verbs, "task", None, about, EXAMPLE)
    tasks = task.add_subparsers(title="actions", metavar="ACTION", required=True)
    add_verb(tasks, "list", list_verb, "list the tasks, their files and their scores", "elmo task list")
    _add_train(tasks)
    _add_eval(tasks)
    _add_predict(tasks)
    _add_compare(tasks)
    about = "write the sentences of examples, to fine-tune a biLM on them"
    example = "elmo task sentences ner a.txt ner-sentences.txt"
    sentences = add_verb(tasks, "sentences", sentences_verb, about, example)
    sentences.add_argument("task", metavar="NAME", help="a name from elmo task list")
    sentences.add_argument("input", nargs="+", metavar="FILE", help="examples, in the task's format; last, the output")
    add_output(sentences, "the text file: distinct sentences, one per line, tokens separated by spaces")
    add_options(sentences, "--strict", "--overwrite")


def _add_train(tasks: Any) -> None:
    about = "train a task's network, one seed after another"
    train = add_verb(tasks, "train", train_verb, about, EXAMPLE)
    train.add_argument("task", metavar="NAME", help="a name from elmo task list")
    recipe = "a TOML file or a packaged recipe such as ner-wnut17"
    add_settings(train, lambda: SETTINGS, recipe, "elmo=input, which is short for inputs.elmo=input")
    train.set_defaults(settings_of=_settings)
    add_options(
        train,
        ("--train FILE", "training data, in the task's format"),
        ("--dev FILE", "data to choose the epoch, in the task's format"),
        ("--test FILE", "test data, in the task's format"),
        ("--output FOLDER", "folder of the run: one folder per seed, and record.json"),
        DATA,
        ("--vectors FILE", "static word vectors in GloVe's text format"),
        ("--model MODEL", BILM_HELP),
        ("--seeds N,N", "seeds to train, such as 1,2,3"),
        ("--resume", "continue the run in --output, with the same result"),
        ("--json", "print record.json"),
        "--strict",
        "--quiet",
    )


def _settings(arguments: argparse.Namespace) -> list[Setting]:
    """Returns the settings of a run; the section `model` has the settings of the task's network."""
    point = entry_points_of("elmo.tasks").get(arguments.task)
    home = None if point is None else config_of(point.value)
    network = () if home is None else settings_of(*home)
    return [*settings_of(*SETTINGS), *(replace(each, name=f"model.{each.name}") for each in network)]


def _add_eval(tasks: Any) -> None:
    about = "score trained networks on labelled examples"
    score = add_verb(tasks, "eval", eval_verb, about, "elmo task eval run/seed-1 b.txt")
    score.add_argument("folders", nargs="+", metavar="FOLDER", help=NETWORKS)
    score.add_argument("input", help="labelled examples, in the task's format")
    add_options(score, *OF_TRAINED, "--json", "--quiet")


def _add_predict(tasks: Any) -> None:
    about = "write what trained networks predict, in the task's format"
    predict = add_verb(tasks, "predict", predict_verb, about, "elmo task predict run/seed-1 b.txt predicted.txt")
    examples = "then examples with or without labels, text with --text, or - for text on stdin; last, the output"
    predict.add_argument("input", nargs="+", metavar="PATH", help=f"{NETWORKS}, {examples}")
    add_output(predict, "the file to write; .jsonl has probabilities")
    add_options(
        predict,
        *OF_TRAINED,
        ("--text", "the input is text, whose sentences and tokens are found"),
        ("--pretokenized", "of text: a line is an example, tokens are separated by spaces"),
        ("--language CODE", "of text: its language (default: that of the biLM)"),
        ("--tagger PIPELINE", "for srl: the spaCy pipeline whose verbs are the predicates"),
        "--overwrite",
        "--quiet",
    )


def _add_compare(tasks: Any) -> None:
    about = "train a queue of tasks, arms and seeds, and tabulate the scores"
    example = "elmo task compare queue --data DATA --vectors vectors.txt --output runs/ --jobs 2"
    compare = add_verb(tasks, "compare", compare_verb, about, example)
    compare.add_argument("queue", help="a TOML file or a packaged queue: queue, queue-ensemble, queue-squad")
    text = "folder of runs and tables; continues what it holds"
    compare.add_argument("--output", required=True, metavar="FOLDER", help=text)
    add_options(
        compare,
        ("--data FOLDER", "folder of the recipes' files (default: the variable ELMO_DATA)"),
        ("--vectors FILE", "static word vectors for all arms"),
        ("--model MODEL", "the biLM for arms without one of their own"),
        "--jobs",
        ("--table", "train nothing, only tabulate finished runs"),
        "--quiet",
    )


def list_verb(arguments: argparse.Namespace) -> None:
    from elmo_lab.tasks import task as tasks

    found = map(tasks.find, tasks.available())
    rows = [[task.name, task.version, task.metric, task.title] for task in found]
    print_table(["task", "version", "chosen by", "what"], rows)


def train_verb(arguments: argparse.Namespace) -> None:
    from elmo_lab.record import RECORD
    from elmo_lab.tasks import train

    made = train.with_defaults(config.from_dict(train.TaskConfig, _train_values(arguments)))
    if only_shows(arguments):
        show(arguments, made)
        return
    with Counter("tokens of the biLM", arguments.quiet) as counter:
        report = train.train_task(made, arguments.resume, arguments.quiet, counter.update)
    if arguments.json:
        print_json(asdict(report), indent=2)
        return
    print(f"task {report.name}, version {report.version}: {Path(made.output) / RECORD}")
    rows = [
        [part, name, f"{numbers['mean']:.2f}", f"{numbers['std']:.2f}", str(len(report.rows))]
        for part, scores in train.summarize(report.rows).items()
        for name, numbers in scores.items()
    ]
    print_table(["data", "score", "mean", "std", "seeds"], rows)
    for result in report.rows:
        if result["stopped"] == "minutes":
            where = f"in epoch {result['epochs']} of at most {made.training.epochs}"
            print(f"seed {result['seed']} reached its time limit {where}; training.minutes=none removes the limit")


def _train_values(arguments: argparse.Namespace) -> dict[str, Any]:
    """Combines recipe, flags and overrides, of which the last wins. A resumed run starts from its own settings."""
    from elmo_lab.tasks import train

    recipe, overrides = recipe_and_overrides(arguments)
    begun: dict[str, Any] = {}
    record = None
    if arguments.resume:
        record = resumed_folder(arguments.output, train.CONFIG) / train.CONFIG
        begun = train.read_json(record)
    found = None if recipe is None else config.find_recipe(recipe, RECIPES / "tasks")
    if found is None and not arguments.resume and (RECIPES / "tasks" / f"{arguments.task}.toml").is_file():
        found = config.packaged_recipe(arguments.task, RECIPES / "tasks")
    of_recipe: dict[str, Any] = {}
    if found is not None:
        of_recipe = config.load_toml(found) if arguments.resume else train.read_recipe(found, arguments.task)
        if arguments.train is not None:  # the recipe's other files belong to other data
            of_recipe = {key: value for key, value in of_recipe.items() if key not in ("train", "dev", "test")}
    task = of_recipe.get("task", begun.get("task", arguments.task))
    if task != arguments.task:
        raise InputError(f"{found or record}: the task is {task}, not {arguments.task}; name it, or another recipe")
    names = ("train", "dev", "test", "output", "data")
    flags: dict[str, Any] = {name: getattr(arguments, name) for name in names} | {"task": arguments.task}
    flags["inputs"] = {"vectors": arguments.vectors, "model": arguments.model}
    if arguments.seeds is not None:  # a resumed run keeps the seeds that it has
        trained = of_recipe.get("seeds", begun.get("seeds", [])) if arguments.resume else []
        try:
            flags["seeds"] = list(dict.fromkeys([*trained, *map(int, arguments.seeds.split(","))]))
        except ValueError as error:
            raise InputError(f"--seeds is {arguments.seeds!r}; expected whole numbers separated by commas") from error
    spelled_out = [f"inputs.{each}" if each.startswith("elmo=") else each for each in overrides]
    values = config.combined(of_recipe, flags, spelled_out, begun)
    placeholders = {"train": "TRAIN", "dev": "DEV", "output": "OUTPUT"}
    require(values, placeholders, only_shows(arguments), "elmo task train ner --train a --dev b --output run/")
    return values


def _members(arguments: argparse.Namespace) -> list[Any]:
    """Loads the networks in the folders. Raises InputError if they have different tasks."""
    from elmo_lab.tasks.trained import TrainedTask, check_one_task

    members = [TrainedTask.load(each, arguments.model, vectors=arguments.vectors) for each in arguments.folders]
    check_one_task(members)
    return members


def _predictions(members: list[Any], examples: list[Any], quiet: bool) -> list[Any]:
    """Returns the ensemble's predictions, and prints which vectors are missing."""
    from elmo_lab.tasks import trained

    for problem in dict.fromkeys(member.look_up(examples) for member in members):
        if problem is not None:
            print_line(f"{problem} (--vectors names their file)")
    with Counter("examples", quiet) as counter:
        return trained.predict_jointly(members, examples, counter.update)


def eval_verb(arguments: argparse.Namespace) -> None:
    from elmo_lab.tasks import task as tasks
    from elmo_lab.tasks.ensemble import joint_labels

    members, path = _members(arguments), Path(arguments.input)
    task = members[0].task
    examples = tasks.read_examples(task, path)
    task.check(examples, joint_labels([member.labels for member in members]), path)
    found = _predictions(members, examples, arguments.quiet)
    scores, labels = task.score(examples, found), task.by_label(examples, found)
    report = {"task": task.name, "version": task.version, "examples": len(examples), "members": len(members), **scores}
    if arguments.json:
        print_json(report | {"labels": labels}, indent=2)
        return
    for name, value in report.items():
        print(f"{name:12} {_shown(value)}")
    if labels:
        print()
        names = list(next(iter(labels.values())))
        rows = [[label, *(_shown(scores[name]) for name in names)] for label, scores in labels.items()]
        print_table(["label", *names], rows)


def _shown(value: Any) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def predict_verb(arguments: argparse.Namespace) -> None:
    from elmo.disk.files import check_not_input, check_output

    take_output(arguments)
    *arguments.folders, arguments.input = arguments.input
    if not arguments.folders:
        raise InputError(
            f"{arguments.input} {arguments.output}: a trained network (run/seed-1), the examples and the output are"
            " expected; name the output last, or as --output"
        )
    output = Path(arguments.output)
    check_output(output, arguments.overwrite, inputs=(arguments.input, *arguments.folders))
    members = _members(arguments)
    check_not_input(output, [file for member in members for file in member.files])
    task = members[0].task
    examples = _unlabelled(arguments, members[0])
    asked = [example for example in examples if example is not None]
    found = iter(_predictions(members, asked, arguments.quiet))
    task.write(output, examples, [None if example is None else next(found) for example in examples])
    print(f"{output}: {len(asked):,} predictions of the task {task.name}, version {task.version}")


def _unlabelled(arguments: argparse.Namespace, member: Any) -> list[Any]:
    """Reads the examples to predict for; a blank line of text gives None."""
    from elmo.text.tokenizer import Tokenizer
    from elmo_lab.tasks import tagger
    from elmo_lab.tasks import task as tasks

    task = member.task
    is_text = arguments.text or arguments.input == "-"
    for flag in ("pretokenized", "language"):
        if getattr(arguments, flag) and not is_text:
            raise InputError(f"--{flag} is about text; add --text, or omit it")
    if is_text:
        text = member.text if arguments.language is None else replace(member.text, language=arguments.language)
        tokenizer = None if arguments.pretokenized else Tokenizer(text)
        examples = tagger.read_text(task, arguments.input, tokenizer)
    else:
        examples = tasks.read_all(task, Path(arguments.input))
    if task.with_predicates is None:
        if arguments.tagger is not None:
            raise InputError(f"--tagger finds predicates, but the task {task.name} has none; omit it")
        return examples
    if arguments.tagger is not None:
        return task.with_predicates(examples, tagger.verbs_of(arguments.tagger))
    if is_text and not any(example is not None and example.predicate is not None for example in examples):
        raise InputError(
            "no line has a predicate; let a spaCy pipeline find the verbs (--tagger en_core_web_sm), write a tab and"
            " the index of the predicate's token (from 0) after each sentence, or give a .conllu file"
        )
    return examples


def sentences_verb(arguments: argparse.Namespace) -> None:
    from elmo.disk.files import check_output
    from elmo_lab.tasks import task as tasks
    from elmo_lab.tasks.readers import text_output

    take_output(arguments, most=1)
    (arguments.input,) = arguments.input
    task, output = tasks.find(arguments.task), Path(arguments.output)
    check_output(output, arguments.overwrite, inputs=(arguments.input,))
    examples = tasks.read_all(task, Path(arguments.input))
    if not examples:
        raise InputError(f"{arguments.input}: no examples; give a file in the format of the task {task.name}")
    sentences = filter(None, tasks.sentences_of(task, examples))
    lines = dict.fromkeys(" ".join(" ".join(each).split()) for each in sentences)  # tokens may contain white space
    with text_output(output, arguments.overwrite) as file:
        file.writelines(f"{line}\n" for line in lines)
    print(f"{output}: {len(lines):,} sentences of {len(examples):,} examples")


def compare_verb(arguments: argparse.Namespace) -> None:
    from elmo_lab.tasks import compare
    from elmo_lab.tasks.queue import read_queue
    from elmo_lab.tasks.table import write_tables

    path = config.find_recipe(arguments.queue, RECIPES / "tasks")
    queue = read_queue(path)
    check_processes("--jobs", arguments.jobs)
    if arguments.jobs > 1 and not arguments.table:
        run_in(arguments.jobs)
    inputs = {"vectors": arguments.vectors, "model": arguments.model}
    given = config.combined({}, {"inputs": inputs, "data": arguments.data})

    def recipe_of(name: str) -> Path:
        beside = path.parent / name
        return beside if beside.suffix == ".toml" and beside.is_file() else config.find_recipe(name, RECIPES / "tasks")

    output = Path(arguments.output)
    if arguments.table and not output.is_dir():
        raise InputError(f"{output}: no such folder; name the --output of a queue that has run")
    if not arguments.table:
        show = (lambda line: None) if arguments.quiet else print_line
        compare.train_queue(queue, output, recipe_of, given, arguments.quiet, show)
    with compare.lock_output(output):
        print(write_tables(queue, output), end="")
