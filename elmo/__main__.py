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
    code = raised.exc_value.code if isinstance(raised.exc_value, SystemExit) else None
    if raised.exc_type is KeyboardInterrupt:
        code = 128 + signal.SIGINT
    if not isinstance(code, int) or code <= 128:  # no signal: see `elmo.cli`
        sys.__unraisablehook__(raised)
        return
    repeat = interrupt_main if sys.platform == "win32" else partial(os.kill, os.getpid())
    again = threading.Timer(SOON, repeat, [code - 128])
    again.daemon = True
    again.start()


if __name__ == "__main__":
    main()
