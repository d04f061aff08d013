"""Writes a matplotlib figure to a file: the same figure gives the same bytes, whatever the user's settings are."""

import io
import unicodedata
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elmo.disk.files import atomic_path
from elmo.errors import InputError, pip_line

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FONT = "DejaVu Sans"
"""The font of all text whose characters it has. It comes with matplotlib, so it is the same everywhere."""
DOTS = 144
"""Pixels per inch of a PNG."""
MATPLOTLIBS = "mpl-data"
"""The folder of matplotlib's own fonts: apart from `FONT`, they are for formulas, and one has a box for everything."""
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
    settings |= {"font.family": [FONT], "font.size": 9.5, "hatch.linewidth": 0.6}
    settings |= {"svg.hashsalt": "elmo", "svg.fonttype": "path"}
    settings["text.parse_math"] = False  # a name may hold dollar signs
    with matplotlib.rc_context(settings):
        yield


def as_bytes(figure: "Figure", kind: str, transparent: bool = False) -> bytes:
    """Returns the content of a file; `kind` is the file's suffix without the dot, one of `UNDATED`."""
    buffer = io.BytesIO()
    with plot_defaults(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)  # `choose_fonts` says it once
        figure.savefig(buffer, format=kind, dpi=DOTS, transparent=transparent, metadata=UNDATED[kind])
    return buffer.getvalue()


def choose_fonts(figure: "Figure") -> None:
    """Lets texts use installed fonts for the characters that `FONT` lacks; warns of characters that no font has."""
    from matplotlib.font_manager import findfont, fontManager
    from matplotlib.text import Text

    texts: list[Any] = figure.findobj(Text)
    seen = {character for text in texts for character in text.get_text() if _is_drawn(character)}
    missing = {ord(character) for character in seen} - _characters(findfont(FONT))
    family = [FONT]
    fonts = sorted(fontManager.ttflist, key=lambda entry: (entry.name, entry.fname)) if missing else []
    for entry in fonts:
        is_plain = entry.style == "normal" and entry.weight in (400, "normal", "regular")
        if not missing or not is_plain or MATPLOTLIBS in Path(entry.fname).parts:
            continue
        if has := missing & _characters(entry.fname):
            family.append(entry.name)
            missing -= has
    for text in texts if len(family) > 1 else ():
        text.set_fontfamily(family)
    if missing:
        some = " ".join(map(chr, sorted(missing)[:10]))
        warnings.warn(
            f"no installed font has {some}; install one with these characters, such as Noto Sans", stacklevel=2
        )


def _is_drawn(character: str) -> bool:
    return not character.isspace() and unicodedata.category(character)[0] != "C"


def _characters(font: str) -> set[int]:
    """Returns the code points that a font file has; none if it cannot be read."""
    from matplotlib.ft2font import FT2Font

    try:
        return set(FT2Font(font).get_charmap())
    except (OSError, RuntimeError):
        return set()


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
