"""Errors that the command line prints as one line, and checks of single values."""

import json
import os
import re
from collections.abc import Iterable
from difflib import get_close_matches
from numbers import Integral
from pathlib import Path
from shlex import quote
from typing import Any, TypeGuard
from unicodedata import normalize

LACKS = (
    "can't allocate memory",
    "out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "Storage size calculation overflowed",
    "Overflow when unpacking long",
    "array is too big",
)
"""Parts of the errors that torch, CUDA and NumPy raise for sizes that memory or a 64-bit number cannot hold."""


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


def did_you_mean(name: str, known: Iterable[str], least: float = 0.6) -> str:
    """Returns the end of an error, which asks for the known name most like `name`; empty if none is like it.

    A name that looks the same is shown with escapes.
    """
    known = list(known)
    composed = normalize("NFC", str(name))
    same = None if composed.isascii() else next((each for each in known if normalize("NFC", each) == composed), None)
    if same is not None:
        return f"; {same!a} is there: the same characters, composed in another way (NFC or NFD)"
    close = get_close_matches(str(name).lower(), known, 1, least)
    return f"; did you mean {close[0]}?" if close else ""


def shown(value: object, most: int = 60) -> str:
    """Returns a value as an error shows it: on one line, of at most `most` characters."""
    text = re.sub(r"\s*\n\s*", " ", repr(value))
    return text if len(text) <= most else text[: most - 3] + "..."


def installer() -> str:
    """Returns the command that installs a package beside elmo: `pip install`, or that of uv where uv installed elmo."""
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        tool = distribution("elmo-torch").read_text("INSTALLER") or ""
    except PackageNotFoundError:
        tool = ""
    return "uv pip install" if tool.strip() == "uv" else "pip install"


def pip_line(extra: str) -> str:
    """Returns the command that installs an extra of elmo from where elmo itself was installed.

    An installation records its folder, wheel or address in `direct_url.json` (PEP 610); one from a package index has no
    such file.
    """
    from importlib.metadata import PackageNotFoundError, distribution

    sources = Path(__file__).parents[1]
    try:
        record = json.loads(distribution("elmo-torch").read_text("direct_url.json") or "{}")
    except PackageNotFoundError:  # Python finds the folder of the sources by its path
        record = {"url": sources.as_uri(), "dir_info": {"editable": True}}
    requirement = _requirement(record, extra)
    if requirement is None:
        return f"{installer()} {quote(f'.[{extra}]')} in a clone of the repository"
    edited = "-e " if record.get("dir_info", {}).get("editable") else ""
    return f"{installer()} {edited}{quote(requirement)}"


def _requirement(record: dict[str, Any], extra: str) -> str | None:
    """elmo with an extra, from the place in a `direct_url.json`; None if the folder or file there is gone."""
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    url, version_control = record.get("url", ""), record.get("vcs_info", {})
    if not url:
        return f"elmo-torch[{extra}]"
    if version_control:
        revision = version_control.get("requested_revision")
        url = f"{version_control['vcs']}+{url}" + (f"@{revision}" if revision else "")
    if not url.startswith("file:"):
        return f"elmo-torch[{extra}] @ {url}"
    path = url2pathname(urlsplit(url).path)
    return f"{path}[{extra}]" if Path(path).exists() else None


def check_choice(name: str, value: Any, choices: Iterable[str]) -> None:
    """Raises InputError if an option's value is none of the names that it can have."""
    names = list(choices)
    if not isinstance(value, str) or value not in names:
        meant = did_you_mean(str(value), names)
        raise InputError(f"{name} is {shown(value)}; one of {', '.join(names)} is expected{meant}")


def check_flag(name: str, value: Any) -> None:
    """Raises InputError unless a value is True or False."""
    if not isinstance(value, bool):
        raise InputError(f"{name} is {shown(value)}; True or False is expected")


def check_whole(name: str, value: Any, least: int = 1) -> None:
    """Raises InputError unless a value is a whole number from `least` on that 64 bits hold."""
    if not is_whole(value) or int(value) < least:
        raise InputError(f"{name} is {shown(value)}; a whole number of at least {least} is expected")
    if int(value) >= 2**63:
        raise InputError(f"{name} is {shown(value)}; a whole number below 2**63 is expected")


def is_whole(value: Any) -> TypeGuard[int]:
    """Returns whether a value is a whole number, which True and False are not."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_number(text: str) -> bool:
    """Returns whether a text is a whole number that 64 bits hold; Python refuses to read thousands of digits."""
    return text.isdecimal() and len(text) <= 18


def path_of(name: str, value: Any) -> Path:
    """Returns a path that is given as a string or as a path. Raises InputError for anything else."""
    if not isinstance(value, str | os.PathLike) or isinstance(os.fspath(value), bytes):
        kind = type(value).__name__
        raise InputError(f"{name} is {shown(value)}, of the type {kind}; a path is expected, as a string or Path")
    text = os.fspath(value)
    try:
        is_possible = b"\0" not in os.fsencode(text) and text != ""
    except UnicodeEncodeError:  # half of a surrogate pair
        is_possible = False
    if not is_possible:
        raise InputError(f"{name} is {text!r}, which cannot be a path; give another")
    return Path(value)


def in_one_line(error: BaseException) -> str:
    """Returns the message of an error, as one line; for an error of the system, that is the file and the reason."""
    message = str(error)
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        message = f"{error.filename}: {error.strerror}"
    return " ".join(message.split())


def lack_of_memory(error: Exception) -> str | None:
    """Returns the message for an allocation that Python, NumPy or torch refused; None for another error."""
    text = str(error)
    is_known = type(error).__name__ == "OutOfMemoryError" or any(each in text for each in LACKS)
    if not (is_known or isinstance(error, MemoryError)):
        return None
    wanted = re.search(r"allocate (\d[\d.]* \w+)", text)
    size = f": {wanted[1]} more are needed" if wanted else ""
    return f"out of memory{size}; use smaller batches, a smaller model or a larger machine"
