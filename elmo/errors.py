"""Errors that a user can mend. The command line prints them as one line and ends with exit code 2."""


class InputError(ValueError):
    """Something that was given cannot be used; the message names it, what was expected, and the remedy."""
