"""Weights on disk <-> `Model`: what a path holds is told by its content.

Every format is a module with the same four verbs: `recognizes`, `describe`, `load`, `save`.
"""

from pathlib import Path
from types import ModuleType

from elmo.errors import InputError
from elmo.formats import allennlp, cache, native
from elmo.formats.stored import Description as Description
from elmo.formats.stored import Model as Model

FORMATS = (native, allennlp)
ASSETS = Path(__file__).parent.parent / "assets"
TRAINED = "model"
"""Where the folder of a training run has its model."""
DEFAULT_MODEL = "english-small"


def load(path: str | Path | None = None) -> Model:
    """Reads a model: a folder, one of its files, or a name ("default" or None for the usual packaged model).

    A name is that of a packaged model, or of a published one that `elmo pull` has brought here.
    Raises FileNotFoundError where there is nothing, InputError where it is not a model or is damaged; one line each.
    """
    found = find(path)
    return _format_of(found).load(found)


def describe(path: str | Path | None = None) -> Description:
    """What `load` would read, from the headers alone: no weight is read. Raises as `load` does."""
    found = find(path)
    return _format_of(found).describe(found)


def find(path: str | Path | None = None) -> Path:
    """The path that `path` means: a model by its name, packaged or pulled; a training run by its folder."""
    name = DEFAULT_MODEL if path is None or str(path) == "default" else str(path)
    if native.recognizes(Path(name) / TRAINED):
        return Path(name) / TRAINED
    if Path(name).exists():
        return Path(name)
    if name in packaged():
        return ASSETS / name
    pulled = cache.local(name)
    if pulled is not None:
        return pulled
    names = ", ".join(packaged()) or "none"
    raise FileNotFoundError(
        f"{name}: no such file or folder, nor a packaged model (these are: {names}), nor a published one (elmo models)"
    )


def packaged() -> list[str]:
    """The names of the models that come with the package."""
    return sorted(folder.name for folder in ASSETS.glob("*/") if native.recognizes(folder))


def _format_of(path: Path) -> ModuleType:
    for format_ in FORMATS:
        if format_.recognizes(path):
            return format_
    raise InputError(
        f"{path}: not a known model; known are a folder of {native.CONFIG} and {native.WEIGHTS}, and an options file"
        f" (JSON) with an HDF5 file of weights; seen: {_seen(path)}"
    )


def _seen(path: Path, most: int = 8) -> str:
    files = [path] if path.is_file() else sorted(path.iterdir())
    names = [f"{file.name} ({file.stat().st_size:,} bytes)" if file.is_file() else f"{file.name}/" for file in files]
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "") or "nothing"
