"""Runs a program that was written for older ELMo packages, unchanged: `python -m elmo.shims program.py arguments`."""

from argparse import REMAINDER

from elmo.cli.arguments import add_options
from elmo.cli.parser import Parser


def main() -> None:
    """Parses the options before the program's name, and passes the rest to the program."""
    parser = Parser(
        "python -m elmo.shims",
        description="Run a program that imports allennlp, bilm, elmoformanylangs or simple_elmo; elmo-torch stands in"
        " for those that are not installed.",
    )
    state = "carry: LSTM states go on from batch to batch, as in the originals (default: reset)"
    allennlp = "the version that the program was written for; since 1, masks are bool (default: 0.9)"
    add_options(parser, ("--state reset|carry", state, "reset"), ("--allennlp VERSION", allennlp, "0.9"))
    parser.add_argument("-m", dest="is_module", action="store_true", help="the program is a module, as in python -m")
    parser.add_argument("program", nargs=REMAINDER, help="the program and its arguments")
    given = parser.parse_args()
    if not given.program:
        parser.error("no program is given")
    from elmo.errors import InputError
    from elmo.integrations.shims import run_program

    try:
        run_program(given.program, given.is_module, given.state, given.allennlp)
    except InputError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
