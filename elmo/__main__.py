"""`elmo` and `python -m elmo`, which answer Ctrl-C also while the command line is imported."""

import sys
from typing import NoReturn


def main() -> NoReturn:
    """Runs the command line and exits."""
    try:
        from elmo.cli import main as run

        run()
    except KeyboardInterrupt:
        print("elmo: error: interrupted", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
