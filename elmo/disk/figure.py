"""Writes a matplotlib figure to a file: the same figure gives the same bytes, whatever the user's settings are."""

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elmo.disk.files import atomic_path
from elmo.errors import InputError, pip_line

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DOTS = 144
"""Pixels per inch of a PNG."""
UNDATED: dict[str, dict[str, Any]] = {
    "svg": {"Date": None, "Creator": None},
    "png": {"Software": None},
    "pdf": {"CreationDate": None},
}
"""Metadata of each format that omit the date and the program, so that the bytes depend on the figure alone."""


@contextmanager
def plot_defaults() -> Iterator[None]:
    """Sets matplotlib's defaults and elmo's for the block. Raises InputError if matplotlib is not installed."""
    try:
        import matplotlib
    except ImportError as error:
        raise InputError(f"a figure needs matplotlib ({error}): {pip_line('probes')}") from error
    settings: dict[Any, Any] = {
        name: value for name, value in matplotlib.rcParamsDefault.items() if not name.startswith("backend")
    }
    settings |= {"font.family": ["DejaVu Sans"], "font.size": 9.5, "hatch.linewidth": 0.6}
    settings |= {"svg.hashsalt": "elmo", "svg.fonttype": "path"}
    settings["text.parse_math"] = False  # a name may hold dollar signs
    with matplotlib.rc_context(settings):
        yield


def as_bytes(figure: "Figure", kind: str, transparent: bool = False) -> bytes:
    """Returns the content of a file; `kind` is the file's suffix without the dot, one of `UNDATED`."""
    buffer = io.BytesIO()
    with plot_defaults():
        figure.savefig(buffer, format=kind, dpi=DOTS, transparent=transparent, metadata=UNDATED[kind])
    return buffer.getvalue()


def check_path(path: Path, suffixes: Sequence[str]) -> None:
    """Raises InputError if `path` has none of the `suffixes`."""
    if path.suffix.lower() not in suffixes:
        raise InputError(f"{path}: its suffix is {path.suffix!r}; one of {', '.join(suffixes)} is expected")


def save_figure(figure: "Figure", path: Path, suffixes: Sequence[str], overwrite: bool = False) -> None:
    """Writes a figure in the format of the file's suffix.

    Raises InputError as `check_path` does, and OSError if the file exists.
    """
    check_path(path, suffixes)
    with atomic_path(path, overwrite) as temporary:
        temporary.write_bytes(as_bytes(figure, path.suffix[1:].lower()))
