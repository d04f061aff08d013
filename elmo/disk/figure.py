"""A matplotlib figure -> a file: the same bytes for the same figure, whatever the user's settings."""

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elmo.disk.files import atomic_path
from elmo.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DOTS = 144
"""Pixels per inch of a PNG."""
UNDATED: dict[str, dict[str, Any]] = {
    "svg": {"Date": None, "Creator": None},
    "png": {"Software": None},
    "pdf": {"CreationDate": None},
}
"""Metadata, by format, that leave out when and by what a figure was written."""


@contextmanager
def plot_defaults() -> Iterator[None]:
    """Sets matplotlib's defaults and ours for the block. Raises InputError without matplotlib."""
    try:
        import matplotlib
    except ImportError as error:
        raise InputError(f"a figure needs matplotlib ({error}): pip install 'elmo-torch[probes]'") from error
    settings: dict[Any, Any] = {
        name: value for name, value in matplotlib.rcParamsDefault.items() if not name.startswith("backend")
    }
    settings |= {"font.family": ["DejaVu Sans"], "font.size": 9.5, "hatch.linewidth": 0.6}
    settings |= {"svg.hashsalt": "elmo", "svg.fonttype": "path"}
    settings["text.parse_math"] = False  # a name may hold dollar signs
    with matplotlib.rc_context(settings):
        yield


def as_bytes(figure: "Figure", kind: str, transparent: bool = False) -> bytes:
    """The content of a file; `kind` is its suffix without the dot, one of `UNDATED`."""
    buffer = io.BytesIO()
    with plot_defaults():
        figure.savefig(buffer, format=kind, dpi=DOTS, transparent=transparent, metadata=UNDATED[kind])
    return buffer.getvalue()


def check_path(path: Path, suffixes: Sequence[str]) -> None:
    """Raises InputError for a name that no figure can have."""
    if path.suffix.lower() not in suffixes:
        raise InputError(f"{path}: its suffix is {path.suffix!r}; one of {', '.join(suffixes)} is expected")


def save_figure(figure: "Figure", path: Path, suffixes: Sequence[str], overwrite: bool = False) -> None:
    """Writes a figure, by its name. Raises InputError as `check_path` does, OSError if the file exists."""
    check_path(path, suffixes)
    with atomic_path(path, overwrite) as temporary:
        temporary.write_bytes(as_bytes(figure, path.suffix[1:].lower()))
