"""`elmo` and `python -m elmo`, which answer Ctrl-C also while the command line is imported."""

import os
import signal
import sys
import threading
from _thread import interrupt_main
from functools import partial
from typing import Any, NoReturn

SOON = 0.01
"""The seconds after which a signal comes again."""


def main() -> NoReturn:
    """Runs the command line and exits."""
    sys.unraisablehook = _repeat_signal
    try:
        from elmo.cli import main as run

        run()
    except KeyboardInterrupt:
        print("elmo: error: interrupted", file=sys.stderr)
        sys.exit(130)


def _repeat_signal(raised: Any) -> None:
    """Repeats a signal that came in a callback, as of the garbage collector, whose exceptions Python only prints."""
    number: int | None = None
    if raised.exc_type is KeyboardInterrupt:
        number = signal.SIGINT
    elif isinstance(raised.exc_value, SystemExit) and isinstance(raised.exc_value.code, int):
        number = raised.exc_value.code - 128  # see `elmo.cli`
    if number is None:
        sys.__unraisablehook__(raised)
        return
    repeat = interrupt_main if sys.platform == "win32" else partial(os.kill, os.getpid())
    again = threading.Timer(SOON, repeat, [number])
    again.daemon = True
    again.start()


if __name__ == "__main__":
    main()
