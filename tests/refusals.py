"""What every refusal has: its type or exit code, one line, and in it the file or value and the remedy's key word."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from elmo.errors import InputError

Errors = type[Exception] | tuple[type[Exception], ...]

ADAPTER_OPTIONS = [
    ({"layers": "middle"}, "layers is 'middle'"),
    ({"layers": 7}, "layers is 7"),
    ({"layers": "all"}, "'average'; 'concat'"),
    ({"frozen": False, "precision": "int8"}, "float32"),
    ({"model": "no-such-model"}, "no-such-model"),
]
"""Options of an adapter that it refuses, and what the error says of each."""


@contextmanager
def refused(*words: object, error: Errors = InputError) -> "Iterator[pytest.ExceptionInfo[Exception]]":
    """The block raises `error` with one line, in which all `words` occur."""
    with pytest.raises(error) as caught:
        yield caught
    names(str(caught.value), *words)
    del caught  # a cycle with the traceback, which has this frame, would keep a file open that a reader did not finish


def refusal(done: "subprocess.CompletedProcess[str]", *words: object) -> None:
    """Exit code 2, one line on standard error in which all `words` occur, nothing on standard output."""
    assert done.returncode == 2, (done.returncode, done.stderr)
    assert done.stderr.startswith("elmo: error: ")
    assert done.stdout == ""
    names(done.stderr.removesuffix("\n"), *words)


def names(line: str, *words: object) -> None:
    """All `words` occur in this one line."""
    assert line
    assert "\n" not in line, line
    for word in words:
        assert str(word) in line, line
