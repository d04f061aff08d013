"""`python -m results`: makes docs/results.md from the tables, or adds runs to a table."""

import argparse
from pathlib import Path

from elmo.errors import InputError
from results import page, tables


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m results", description=__doc__)
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    make = actions.add_parser("page", help="write docs/results.md and its figures")
    make.set_defaults(run=lambda arguments: print(page.write()))
    add = actions.add_parser("add", help="put the runs of folders into a table, one line a run")
    add.add_argument("table", help="such as english-large/tasks; a new one is begun")
    add.add_argument("folders", nargs="+", type=Path, help="folders of elmo task or elmo probe")
    add.add_argument("--id", help="the line's name, for one folder that is itself a run (default: the folder's name)")
    add.set_defaults(run=_add)
    arguments = parser.parse_args()
    try:
        arguments.run(arguments)
    except InputError as error:
        parser.exit(2, f"{parser.prog}: error: {error}\n")


def _add(arguments: argparse.Namespace) -> None:
    for folder in arguments.folders:
        for name in tables.add(arguments.table, folder, arguments.id):
            print(f"{arguments.table}: {name}")


if __name__ == "__main__":
    main()
