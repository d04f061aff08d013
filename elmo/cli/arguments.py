"""Arguments and helpers that several verbs share."""

import argparse
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from elmo.cli.parser import Parser
from elmo.config import without_nonfinite
from elmo.errors import InputError, check_whole
from elmo.terminal import escape_controls

DEMO_TEXT = Path(__file__).parent.parent / "assets" / "demo.txt"
MODEL_HELP = "a model's folder, file or name (default: english-base)"
BILM_HELP = "the biLM (default: english-base)"
LAYERS_HELP = "all, concat, average, sum, top, layers such as 1 or 0,2, or a mix such as mix=0.2,0.3,0.5"


def add_verb(verbs: Any, name: str, run: Callable[..., None] | None, text: str, example: str = "") -> Parser:
    """Adds a verb and the function that runs it; `run` is None for a verb with subcommands.

    `example` is a command line.
    """
    parser = verbs.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
    parser.set_defaults(parser=parser)
    parser.example = example
    if run is not None:
        parser.set_defaults(run=run)
    return parser


Option = tuple[str, str] | tuple[str, str, Any]
SHARED: dict[str, Option | list[Option]] = {
    "--model": ("--model MODEL", MODEL_HELP, "default"),
    "--weights": ("--weights FILE", "the weights, if the model is an options file"),
    "--device": ("--device DEVICE", "cpu, cuda, cuda:1 ... (default: cpu)", "cpu"),
    "--strict": ("--strict", "refuse files that break their format, instead of warning"),
    "--lines|--pretokenized": [  # without them, the model's own settings say what a sentence is
        ("--lines", "a line of text is one sentence, with the model's tokens"),
        ("--pretokenized", "a line of text is one sentence, its tokens separated by whitespace"),
    ],
    "--json": ("--json", "print JSON"),
    "--jobs": ("--jobs N", "runs in parallel; they share the cores", 1),
    "--overwrite": ("--overwrite", "replace the output if it exists"),
    "--quiet": ("--quiet", "show no progress"),
}
"""The options that several verbs share."""


def add_options(parser: Any, *options: str | Option | list[Option]) -> None:
    """Adds options to a parser or a group: each is its form, its help and, if it has one, its default.

    A form is that of the help: "--quiet", "--to native|allennlp" or "--memory SIZE"; "..." means that it may be
    repeated. N is a whole number and S a number of seconds; other values have the type of the default, or are text. A
    name alone is one of `SHARED`. The options of a list exclude one another.
    """
    for option in (SHARED[option] if isinstance(option, str) else option for option in options):
        if isinstance(option, list):
            add_options(parser.add_mutually_exclusive_group(), *option)
            continue
        form, about, *rest = option
        flag, _, value = form.partition(" ")
        default = rest[0] if rest else None
        if not value:
            parser.add_argument(flag, action="store_true", help=about)
        elif "|" in value:
            parser.add_argument(flag, choices=value.split("|"), default=default, help=about)
        elif value.endswith("..."):
            parser.add_argument(flag, action="append", default=default, metavar=value[:-3], help=about)
        else:
            kind = {"N": int, "S": float}.get(value, type(default) if isinstance(default, int | float) else None)
            parser.add_argument(flag, type=kind, default=default, metavar=value, help=about)


def add_input(parser: Any) -> None:
    """Adds the inputs and the flags that say how to read them; the last of the inputs may be the output."""
    files = "text, .conllu or .fasta (also .gz, .xz, .bz2), or - for standard input; last, the output"
    parser.add_argument("input", nargs="+", metavar="FILE", help=files)
    kind = "--kind text|conllu|fasta", "format of the input (default: by its name)"
    add_options(parser, kind, "--strict", "--lines|--pretokenized")


def add_output(parser: Any, text: str) -> None:
    """Adds --output, which may also be the last of the positional arguments."""
    add_options(parser, ("--output PATH", f"{text} (or name it last, without --output)"))


def take_output(arguments: argparse.Namespace, most: int | None = None) -> None:
    """Moves the last of `arguments.input` to `arguments.output`, unless --output names it.

    Raises InputError if nothing is left, or more than `most` inputs.
    """
    if arguments.output is None:
        if len(arguments.input) < 2:
            raise InputError(f"the output is missing; name it after {arguments.input[0]}, or as --output")
        arguments.output = arguments.input.pop()
    if most is not None and len(arguments.input) > most:
        raise InputError(f"{' '.join(arguments.input)}: {len(arguments.input)} inputs; {most} is expected")


def check_splitting(arguments: argparse.Namespace, kinds: Iterable[str]) -> None:
    """Raises InputError for a flag that says how text is split, if no input is text."""
    flag = "--lines" if arguments.lines else "--pretokenized" if arguments.pretokenized else None
    if flag is not None and "text" not in (found := set(kinds)):
        raise InputError(f"{flag} says how text is split; {' and '.join(sorted(found))} has its tokens; omit it")


def text_for(text: Any, arguments: argparse.Namespace, pretokenized: bool = False) -> Any:
    """Returns the settings that split text for a model: `text`, those of its training, changed by the flags."""
    from elmo.text.tokenizer import text_of

    return text_of(text, arguments.pretokenized or pretokenized, arguments.lines)


def tokenizer_of(text: Any, arguments: argparse.Namespace, pretokenized: bool = False) -> Any:
    """Returns the tokenizer with the settings of `text_for`."""
    from elmo.text.tokenizer import Tokenizer

    return Tokenizer(text_for(text, arguments, pretokenized))


def print_json(value: Any, indent: int | None = None) -> None:
    """Prints JSON, in ASCII unless stdout is UTF-8. Numbers that are not finite become null, as JSON lacks them."""
    is_utf8 = (sys.stdout.encoding or "").lower().replace("_", "-") in ("utf-8", "utf8")
    for line in json.dumps(without_nonfinite(value), indent=indent, ensure_ascii=not is_utf8).split("\n"):
        print(escape_controls(line))


def is_first_process() -> bool:
    """Returns whether this is the first process of a training; torchrun and lightning number them in variables."""
    rank = os.environ.get("RANK") or os.environ.get("LOCAL_RANK") or ""
    return not rank.isdecimal() or int(rank) == 0


def check_processes(flag: str, value: int) -> None:
    """Raises InputError for more processes or threads than a machine bears, as by a slip of the hand."""
    from elmo.machine import usable_cores

    most = max(64, 4 * usable_cores())
    check_whole(flag, value)
    if value > most:
        raise InputError(f"{flag} is {value}; at most {most} are started on this machine: give fewer")


def run_in(jobs: int, arguments: Sequence[str] = ("--jobs", "1"), first_prints: bool = False) -> None:
    """Runs this command with these further arguments in `jobs` processes; returns when all have ended.

    They print nothing, except that the first one prints if `first_prints` is true. They run in sessions of their own,
    and this process passes signals on: a terminal's Ctrl-C would reach them twice, and the second ends them at once.
    """
    from elmo.machine import usable_cores

    # The current folder may hold another elmo.py, which `-m` alone would prefer. It is meant only if the user ran -m.
    safe = [] if Path(sys.argv[0]).name == "__main__.py" else ["-P"]
    again = [sys.executable, *safe, "-m", "elmo", *sys.argv[1:], *arguments]
    share, given = max(1, usable_cores() // jobs), os.environ.get("OMP_NUM_THREADS", "")
    threads = min(share, int(given)) if given.isdecimal() and int(given) else share  # more would wait for each other
    environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
    running: list[subprocess.Popen[bytes]] = []
    signals: list[int] = []

    def pass_on(number: int, frame: FrameType | None) -> None:
        signals.append(number)
        for process in running:
            process.send_signal(number)

    if os.name == "posix":  # on Windows, the console signals all processes itself
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup ignores SIGHUP
                signal.signal(number, pass_on)
    try:
        while len(running) < jobs and not signals:
            stdout = None if first_prints and not running else subprocess.DEVNULL
            running.append(subprocess.Popen(again, env=environment, stdout=stdout, start_new_session=True))
            if signals:  # the signal came while the process was being started
                running[-1].send_signal(signals[-1])
        codes = [process.wait() for process in running]
    finally:
        for process in running:
            process.terminate()
    killed = [-code for code in codes if code < 0]
    if killed and not signals:
        raise InputError(
            f"signal {killed[0]} ended {len(killed)} of {jobs} processes; run the command again to continue it"
            + (", with fewer --jobs if memory ran out" if killed[0] == 9 else "")
        )
    if any(codes):
        sys.exit(max(map(abs, codes)))
