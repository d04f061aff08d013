"""Errors that a user can mend. The command line prints them as one line and ends with exit code 2."""


class InputError(ValueError):
    """Something that was given cannot be used; the message names it, what was expected, and the remedy."""


def in_one_line(error: BaseException) -> str:
    """What is said of an error: of one that the system has raised, the file and the reason."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error)
