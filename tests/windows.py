"""Windows, as far as it can be had on Linux: what is missing there is missing, and what is open stays where it is.

- `fcntl`, `resource` and functions of `os` are not there, and a folder is not opened
- what this process has open or mapped to memory is neither removed nor moved nor replaced, nor is a folder around it
- the platform that elmo's own modules see is "win32"

pyright checks the rest, since it knows what each system has: `make test-systems`.
"""

import errno
import importlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

ROOT = Path(__file__).parents[1]
ASKING = [path for path in (ROOT / "elmo").rglob("*.py") if "sys.platform" in path.read_text(encoding="utf-8")]
"""The modules that ask which platform it is."""
MISSING = ("pread", "preadv", "pwrite", "pwritev", "wait4", "register_at_fork", "getuid", "fork")
"""Of `os`."""


class Sys:
    """The module `sys` of another platform."""

    def __init__(self, platform: str) -> None:
        self.platform = platform

    def __getattr__(self, name: str) -> Any:
        return getattr(sys, name)


class Key:
    """Of the registry."""

    def __enter__(self) -> "Key":
        return self

    def __exit__(self, *exception: object) -> None:
        """Closed."""


def changes() -> Iterator[tuple[object, str, Any]]:
    """What is other there, as (object, attribute, value)."""
    for path in ASKING:
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        yield importlib.import_module(name), "sys", Sys("win32")
    yield os, "open", _opening(os.open)
    for name in ("replace", "rename", "unlink", "remove", "rmdir"):
        yield os, name, _refusing(getattr(os, name))
    yield shutil, "_use_fd_functions", False  # else rmtree opens folders
    yield tempfile, "TemporaryFile", tempfile.NamedTemporaryFile  # a file with a name as long as it is open


def modules() -> dict[str, Any]:
    """What is other there in `sys.modules`."""
    winreg = SimpleNamespace(HKEY_LOCAL_MACHINE=0, OpenKey=lambda root, path: Key(), QueryValueEx=_value)
    return {"fcntl": None, "resource": None, "winreg": winreg}


def _value(key: Key, name: str) -> tuple[str, int]:
    assert name == "ProcessorNameString"
    return "A Processor 5  ", 1


def _opening(really: Callable[..., int]) -> Callable[..., int]:
    def opened(path: Any, *arguments: Any, **named: Any) -> int:
        if Path(path).is_dir():
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return really(path, *arguments, **named)

    return opened


def _refusing(really: Callable[..., None]) -> Callable[..., None]:
    def done(*paths: Any, **named: Any) -> None:
        for place in map(_place, paths):
            for file in _open_files():
                if f"{file}/".startswith(f"{place}/"):
                    raise PermissionError(errno.EACCES, f"{file} is used by another process", str(paths[0]))
        really(*paths, **named)

    return done


def _place(path: Any) -> Path:
    """A path with all links on the way to it, and not its own, resolved."""
    path = Path(os.fsdecode(path))
    return path.parent.resolve() / path.name


def _open_files() -> set[str]:
    """What this process has open or mapped to memory."""
    lines = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    files = {line.split(maxsplit=5)[-1] for line in lines}
    for number in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # the list's own
            files.add(str(number.readlink()))
    return files
