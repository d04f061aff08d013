"""Reads models from disk and writes them. The format of a model is detected from its content.

Each format is a module with the same functions: `recognizes`, `describe`, `load`, and `save` in two of them. It is
imported when the formats before it do not recognize a path: the native one needs neither h5py nor numpy.
"""

import os
import re
from importlib import import_module
from pathlib import Path
from types import ModuleType

from elmo.errors import InputError, path_of, pip_line, shown
from elmo.forking import settle_child
from elmo.formats import cache, native, packages, published
from elmo.formats.files import SourceFile, file_on_disk, is_archive, list_files, refuse_known
from elmo.formats.stored import Description as Description
from elmo.formats.stored import Mix as Mix
from elmo.formats.stored import Model as Model
from elmo.formats.stored import check_finite
from elmo.formats.stored import content_hash as content_hash

FORMATS = ("native", "many_langs", "allennlp_archive", "allennlp", "tensorflow")
"""The modules, in the order in which they are asked."""
REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)
"""The form of a name on the Hugging Face Hub: user/name."""
TRAINED = "model"
"""The model's folder inside a training run."""
DEFAULT_MODEL = "english-base"
PART_OF_A_MODEL = re.compile(r"\.(json|hdf5|h5|safetensors|pkl|index|meta|data-\d+-of-\d+)$|vocab")
"""Matches the names of files that hold a model together with others beside them."""
MOST_SEEN = 8
"""The most names that an error shows of what is at a path."""
LONGEST_NAME = 255
"""The most bytes of a file's name on common systems."""


def load(path: str | Path | None = None, weights: str | Path | None = None) -> Model:
    """Reads a model: a folder, an archive, one of its files, or a name ("default" or None for the default model).

    A name is that of a packaged model, of a published one in `elmo pull`'s cache, of one in an installed model package,
    or user/name for one in the cache of the Hugging Face Hub. `weights` names the weights of an options file if they
    are elsewhere.
    Raises FileNotFoundError if nothing is there, and InputError if it is not a model, is damaged, or holds values that
    are not finite.
    """
    settle_child()
    format_, paths = _which(path, weights)
    model = format_.load(*paths)
    check_finite(paths[-1], model)
    return model


def describe(path: str | Path | None = None, weights: str | Path | None = None) -> Description:
    """Describes what `load` would read, from the headers only. Raises the errors of `load`."""
    format_, paths = _which(path, weights)
    return format_.describe(*paths)


def find(path: str | Path | None = None) -> Path:
    """Resolves the name of a packaged, pulled or installed model, or the folder of a training run, to a path.

    Installing a model package never changes what another name means.
    """
    if _is_default(path):  # the name wins over a file or folder of that name in the working directory
        return packages.ASSETS / DEFAULT_MODEL
    given = path_of("the model", path)
    name = path if isinstance(path, str) else str(given)  # a Path would make one slash of the two in an address
    if len(os.fsencode(Path(name).name)) > LONGEST_NAME:
        raise FileNotFoundError(f"{shown(name)}: no file has so long a name; give the path or the name of a model")
    if native.recognizes(Path(name) / TRAINED):
        return Path(name) / TRAINED
    if Path(name).exists():
        return Path(name)
    if (index := Path(f"{name}.index")).is_file():  # TensorFlow names a checkpoint by the common prefix of its files
        return index
    if name in packages.packaged_names():
        return packages.ASSETS / name
    found = cache.local(name) or packages.folder_of(name)
    if found is not None:
        return found
    if name in packages.OWN:
        raise FileNotFoundError(f"{name}: a model package that is not installed; {packages.how_to_install(name)}")
    if REPOSITORY.fullmatch(name):
        return _on_the_hub(name)
    here = [*packages.packaged_names(), *packages.installed_packages()]
    names = ", ".join(here) or "none"
    meant = published.did_you_mean(name, ["default", *here, *packages.OWN])
    name = name if name.isprintable() else shown(name)
    raise FileNotFoundError(
        f"{name}: no such file or folder, and not a packaged model ({names}) or a published one (elmo models){meant}"
    )


def _on_the_hub(repository: str) -> Path:
    """The folder of a Hugging Face Hub repository in the Hub's cache. Nothing is downloaded."""
    try:
        from elmo.formats import hub_files
    except ImportError as error:
        raise FileNotFoundError(
            f"{repository}: no such folder; for a model of the Hugging Face Hub: {pip_line('hub')}"
        ) from error
    found = hub_files.cached_folder(repository)
    if found is None:
        raise FileNotFoundError(
            f"{repository}: no such folder, and no such model in the cache of the Hugging Face Hub; get it from there:"
            f" elmo pull {repository}"
        )
    return found


def files_of(path: str | Path | None, weights: str | Path | None = None) -> list[Path]:
    """Returns the files or the folder that hold a model, so that no output replaces one of them.

    If one file names a model of several, the others lie beside it. Raises the errors of `find`.
    """
    found = find(path)
    if weights is not None:
        return [found, find(weights)]
    if found.is_dir() or is_archive(found):
        return [found]
    return [found, *(file for file in found.parent.iterdir() if PART_OF_A_MODEL.search(file.name))]


def recorded_name(path: str | Path | None) -> str:
    """Returns a model's path or name for a record.

    The default model has its own name there, since another version may have another default.
    """
    return DEFAULT_MODEL if _is_default(path) else str(path)


def _is_default(path: str | Path | None) -> bool:
    return path is None or str(path) == "default"


def local_names() -> list[str]:
    """Returns the names of all models on this machine: in the package, in installed packages, and in the cache."""
    pulled = (model.name for model in published.published_models() if cache.is_pulled(model))
    return [*packages.packaged_names(), *packages.installed_packages(), *pulled]


def _which(path: str | Path | None, weights: str | Path | None) -> tuple[ModuleType, tuple[Path, ...]]:
    """The format, and the path or the two paths to read."""
    if weights is None:
        found = find(path)
        return _format_of(found), (found,)
    if path is None:
        raise InputError(f"{weights}: the options file is missing; give it as well")
    options, found = find(path), find(weights)
    from elmo.formats import allennlp, allennlp_archive

    return allennlp_archive if allennlp_archive.recognizes(found) else allennlp, (options, found)


def _format_of(path: Path) -> ModuleType:
    for format_ in (import_module(f"elmo.formats.{name}") for name in FORMATS):
        if format_.recognizes(path):
            return format_
    native.check_json(path)
    native.check_json(path / TRAINED)
    files = list_files(path) if path.is_dir() or is_archive(path) else [file_on_disk(path)]
    refuse_known(files)
    if is_archive(path) and {native.CONFIG, native.WEIGHTS} <= {file.name for file in files}:
        raise InputError(f"{path}: an archive of {native.CONFIG} and {native.WEIGHTS}; unpack it, and give the folder")
    raise InputError(
        f"{path}: not a known model; expected a folder of {native.CONFIG} and {native.WEIGHTS}, a folder or an archive"
        f" of an options file (JSON) with an HDF5 file of weights, one of token_embedder.pkl and"
        f" encoder.pkl, a TensorFlow checkpoint with its options file, or AllenNLP's model.tar.gz;"
        f" seen: {_seen(path, files)}"
    )


def _seen(path: Path, files: list[SourceFile]) -> str:
    """The first names at `path`, and the number of the others."""
    folders = sorted(f"{file.name}/" for file in path.iterdir() if file.is_dir()) if path.is_dir() else []
    names = folders + [f"{file.name} ({file.size:,} bytes)" for file in files]
    more = [f"and {len(names) - MOST_SEEN} more"] if len(names) > MOST_SEEN else []
    return ", ".join(names[:MOST_SEEN] + more) or "nothing"
