"""The command line: `elmo VERB [recipe.toml] [--flag value ...] [section.key=value ...]`.

Every verb is a function of its parsed arguments and imports what it needs when it runs, so `elmo --help` loads no
torch. A user's error is one line and exit code 2.
"""

import argparse
import errno
import os
import signal
import sys
import threading
import warnings
from collections.abc import Sequence
from io import TextIOWrapper
from itertools import chain
from pathlib import Path
from typing import Any, NoReturn

import elmo
from elmo.cli import completion, embedding, looking, models, neighbors, pretraining, serving, texts
from elmo.cli.arguments import is_first_process
from elmo.cli.parser import Parser, meant_option
from elmo.errors import Failure, InputError, IrregularInput, in_one_line, lack_of_memory
from elmo.terminal import escape_controls, print_line

VERBS = "elmo.verbs"
"""The group of entry points by which other packages add verbs.

Each names a module with `add_verbs` and `GROUP`, the heading of its verbs in `elmo --help`.
"""
LONGEST_LINE = 2000
"""The most characters of an error or a warning."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs one verb and exits: 0 for success, 1 if training or memory failed, 2 if an input cannot be used."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # the shell has closed it: >&-
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8", newline="\n"))  # noqa: SIM115
        make_printable(getattr(sys, name))
    is_one_of_several = False
    try:
        parsed = parse(arguments)
        # Processes that train together hit the same errors, except a machine's own; only the first reports them.
        is_one_of_several = parsed.run is pretraining.train_verb and not is_first_process()
        _end_by_exit()
        warnings.showwarning = lambda message, *_: print_line(f"elmo: warning: {_in_short(str(message))}")
        if getattr(parsed, "strict", False):
            warnings.simplefilter("error", IrregularInput)
        _check_current_folder()
        parsed.run(parsed)
        sys.stdout.flush()
    except (InputError, OSError) as error:
        is_full = _is_output_full(error)
        if is_full or is_broken_pipe(error):  # keep Python silent when it closes stdout
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if is_broken_pipe(error):  # the reader is done
            sys.exit(141)
        if is_full:
            error = InputError("standard output: the disk is full; free some space, or send the output elsewhere")
        _fail(error, 2, is_one_of_several and not isinstance(error, OSError))
    except KeyboardInterrupt as error:
        _fail(str(error) or "interrupted", 130, is_one_of_several)
    except Failure as error:
        _fail(error, 1, is_one_of_several if error.is_reported is None else not error.is_reported)
    except RecursionError:
        _fail("a file or a setting is nested too deeply; give a simpler one", 2, is_one_of_several)
    except (RuntimeError, MemoryError, ValueError, TypeError) as error:
        if (lack := lack_of_memory(error)) is None:
            raise
        _fail(lack, 1, silently=False)
    sys.exit(0)


def _check_current_folder() -> None:
    """Raises InputError if the current folder is removed, which libraries end the program for without a word."""
    try:
        Path.cwd()
    except OSError as error:
        raise InputError("the current folder no longer exists; change to another: cd FOLDER") from error


def _is_output_full(error: Exception) -> bool:
    """Returns whether an error that names no file comes from a full standard output, which then takes no line end."""
    from elmo.disk.files import DISK_FULL

    if not isinstance(error, OSError) or error.errno not in DISK_FULL or error.filename is not None:
        return False
    try:
        print(flush=True)
    except OSError:
        return True
    return False


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Parses the arguments of one verb, by default those of the process; exits with code 2 if they are wrong."""
    parser = build_parser()
    parsed, rest = parser.parse_known_args(arguments)
    # argparse takes positionals from one place only; files and settings may also follow flags.
    if isinstance(getattr(parsed, "input", None), list):
        files = [argument for argument in rest if argument == "-" or not argument.startswith("-")]
        rest = [argument for argument in rest if argument not in files]
        parsed.input += files
    unknown = [argument for argument in rest if argument.startswith("-") or "=" not in argument]
    if unknown or (rest and not hasattr(parsed, "overrides")):
        wrong = (unknown or rest)[0]
        given = list(sys.argv[1:] if arguments is None else arguments)
        following = next(iter(given[given.index(wrong) + 1 :]), None) if wrong in given else None
        settings = parsed.settings_of(parsed) if hasattr(parsed, "overrides") else []
        meant = meant_option(parsed.parser, wrong, following, [setting.name for setting in settings])
        parser.error(f"unrecognized arguments: {' '.join(unknown or rest)}{meant}")
    if rest:
        parsed.overrides = [*parsed.overrides, *rest]
    return parsed


def _end_by_exit() -> None:
    """Lets SIGTERM and SIGHUP end the program as an exception does, which removes unfinished files."""
    if threading.current_thread() is not threading.main_thread():
        return
    for number in (getattr(signal, name, None) for name in ("SIGTERM", "SIGHUP")):
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, lambda number, _: sys.exit(128 + number))


def _in_short(text: str) -> str:
    """Returns a text as one printable line; of a long one, as from a hostile file, the ends, with file and remedy."""
    line = escape_controls(" ".join(text.split()))
    return line if len(line) <= LONGEST_LINE else f"{line[: LONGEST_LINE // 2]} ... {line[-LONGEST_LINE // 2 :]}"


def make_printable(stream: Any) -> None:
    """Makes any token printable: the stream escapes the characters that it cannot encode.

    On Windows, files and pipes have a regional encoding and other line ends; here they get UTF-8 and "\n", like other
    systems, unless the user sets PYTHONIOENCODING.
    """
    if not isinstance(stream, TextIOWrapper):
        return
    if sys.platform == "win32" and not stream.isatty() and "PYTHONIOENCODING" not in os.environ:
        stream.reconfigure(encoding="utf-8", newline="\n")
    if stream.errors == "strict" or stream.encoding.lower() != "utf-8":  # the C locale has "surrogateescape"
        stream.reconfigure(errors="backslashreplace")


def is_broken_pipe(error: Exception) -> bool:
    """Returns whether the reader of stdout is gone, which Windows calls an invalid argument."""
    if sys.platform == "win32" and isinstance(error, OSError) and error.errno == errno.EINVAL:
        return error.filename is None
    return isinstance(error, BrokenPipeError)


def _fail(error: BaseException | str, code: int, silently: bool) -> NoReturn:
    if silently:
        sys.exit(code)
    said = error if isinstance(error, str) else in_one_line(error)
    print_line(f"elmo: error: {_in_short(said)}")
    sys.exit(code)


def build_parser() -> argparse.ArgumentParser:
    """Builds the parser of the whole command line."""
    parser = Parser(prog="elmo", description="Deep contextualized word representations: pretrain, embed, probe.")
    parser.add_argument("--version", action="version", version=f"elmo-torch {elmo.__version__}")
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    modules = [texts, pretraining, embedding, models, neighbors, looking, serving, completion]
    from importlib.metadata import entry_points

    points = sorted(entry_points(group=VERBS), key=lambda point: point.name)
    for module in chain(modules, (point.load() for point in points)):
        known = set(verbs.choices)
        module.add_verbs(verbs)
        for name in verbs.choices.keys() - known:
            verbs.choices[name].group = getattr(module, "GROUP", "of other packages")
    return parser
