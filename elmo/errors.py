"""Errors that the command line prints as one line."""

from collections.abc import Iterable
from difflib import get_close_matches


class InputError(ValueError):
    """An input cannot be used; the message names it, what was expected, and the remedy. The exit code is 2."""


class Failure(RuntimeError):
    """A job failed though its inputs could be used, as when a network diverges. The exit code is 1.

    Of several processes that train together, only one prints it: the one for which `is_reported` is true, or the first
    one if it is None.
    """

    def __init__(self, message: str, is_reported: bool | None = None) -> None:
        super().__init__(message)
        self.is_reported = is_reported


class IrregularInput(InputError, UserWarning):
    """A file breaks its format in places that can still be read. It is a warning, which `--strict` makes an error."""


def did_you_mean(name: str, known: Iterable[str], least: float = 0.6, where: str = "") -> str:
    """Returns the end of an error, which asks for the known name most like `name`; empty if none is like it.

    `where`, such as the section of a key, is shown before the name.
    """
    close = get_close_matches(name.lower(), list(known), 1, least)
    return f"; did you mean {where}{close[0]}?" if close else ""


def in_one_line(error: BaseException) -> str:
    """Returns the message of an error; for an error of the system, that is the file and the reason."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error)
