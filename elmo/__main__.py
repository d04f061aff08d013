"""`python -m elmo`."""

from elmo.cli import main

main()
