"""Errors that the command line prints as one line."""

from collections.abc import Iterable
from difflib import get_close_matches


class InputError(ValueError):
    """An input cannot be used; the message names it, what was expected, and the remedy. Exit code 2."""


class Failure(RuntimeError):
    """A job failed though its inputs could be used, as when a network diverges. Exit code 1.

    Of several processes that train together only one prints it: that for which `is_reported` is true, or the first if
    it is None.
    """

    def __init__(self, message: str, is_reported: bool | None = None) -> None:
        super().__init__(message)
        self.is_reported = is_reported


class IrregularInput(InputError, UserWarning):
    """A file breaks its format in places that can still be read: a warning, or an error where warnings are errors."""


def did_you_mean(name: str, known: Iterable[str], least: float = 0.6, where: str = "") -> str:
    """A question for the end of an error: the known name that is most like `name`; empty if none is like it.

    `where` is shown before it, such as the section of a key.
    """
    close = get_close_matches(name.lower(), list(known), 1, least)
    return f"; did you mean {where}{close[0]}?" if close else ""


def in_one_line(error: BaseException) -> str:
    """The message of an error; for one of the system, the file and the reason."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error)
