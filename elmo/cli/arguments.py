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


def add_model(parser: argparse.ArgumentParser) -> None:
    """Adds --model."""
    parser.add_argument("--model", default="default", help=MODEL_HELP)


def add_device(parser: argparse.ArgumentParser, default: str | None = "cpu") -> None:
    """Adds --device; the default None is a GPU if there is one."""
    named = "a GPU if there is one" if default is None else default
    parser.add_argument("--device", default=default, help=f"cpu, cuda, cuda:1 ... (default: {named})")


def add_overwrite(parser: argparse.ArgumentParser, what: str = "output") -> None:
    """Adds --overwrite, for verbs that write `what`."""
    parser.add_argument("--overwrite", action="store_true", help=f"replace the {what} if it exists")


def add_quiet(parser: argparse.ArgumentParser) -> None:
    """Adds --quiet, for verbs that show progress."""
    parser.add_argument("--quiet", action="store_true", help="show no progress")


def add_strict(parser: argparse.ArgumentParser) -> None:
    """Adds --strict, for verbs that read other people's files."""
    parser.add_argument(
        "--strict", action="store_true", help="refuse files that break their format, instead of warning"
    )


def add_weights(parser: argparse.ArgumentParser) -> None:
    """Adds --weights, for models given as an options file and a weights file."""
    parser.add_argument("--weights", metavar="FILE", help="the weights, if the model is an options file")


def add_input(parser: argparse.ArgumentParser) -> None:
    """Adds the inputs and the flags that say how to read them; the last of the inputs may be the output."""
    parser.add_argument(
        "input",
        nargs="+",
        metavar="FILE",
        help="text, .conllu or .fasta (also .gz, .xz, .bz2), or - for standard input; last, the output",
    )
    parser.add_argument(
        "--kind", choices=["text", "conllu", "fasta"], help="format of the input (default: by its name)"
    )
    add_reading(parser)


def add_reading(parser: argparse.ArgumentParser) -> None:
    """Adds the flags that say how a file of text is read."""
    add_strict(parser)
    add_splitting(parser)


def add_splitting(parser: argparse.ArgumentParser) -> None:
    """Adds the flags that say what a sentence is; without them, the model's own settings say it."""
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--lines", action="store_true", help="a line of text is one sentence, with the model's tokens")
    which.add_argument(
        "--pretokenized", action="store_true", help="a line of text is one sentence, its tokens separated by whitespace"
    )


def add_output(parser: argparse.ArgumentParser, text: str) -> None:
    """Adds --output, which may also be the last of the positional arguments."""
    parser.add_argument("--output", metavar="PATH", help=f"{text} (or name it last, without --output)")


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
        raise InputError(
            f"{flag} says how text is split; {' and '.join(sorted(found))} has sentences and tokens; omit it"
        )


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


def add_jobs(parser: argparse.ArgumentParser) -> None:
    """Adds --jobs, for verbs that run a queue."""
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="runs in parallel; they share the cores")


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
