"""Errors that the user can fix. The command line prints them as one line and exits with code 2."""


class InputError(ValueError):
    """An input cannot be used; the message names it, what was expected, and the remedy."""


def in_one_line(error: BaseException) -> str:
    """The message of an error; for one of the system, the file and the reason."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error)
