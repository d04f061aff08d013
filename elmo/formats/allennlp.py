"""The published format of bilm-tf, AllenNLP, NLPL and SeqVec: `options.json` and one HDF5 file of weights.

- A model is given as a folder, a zip or a tar of the two files (with any names, which are detected by content), as
  either file with the other beside it, or as the paths of both.
- It reads characters or has a word table. Word ids are then the line numbers of a vocabulary file beside the two; the
  table is in the weights file or in an HDF5 file of its own (bilm-tf's token embeddings).
- The options say whether there are highway layers, projections and clips.
- The layout has no softmax and no tokenizer, so `save` omits them.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import numpy as np

from elmo.config import merge_tables
from elmo.disk.files import atomic_path
from elmo.errors import InputError
from elmo.formats.bilm_layout import dataset_names, to_config, to_datasets, to_options, to_weights
from elmo.formats.files import SourceFile, file_on_disk, is_archive, list_files, refuse_known
from elmo.formats.hdf5 import Hdf5Output, check_dataset, datasets, is_hdf5, read_hdf5
from elmo.formats.stored import Description, Model, check_words
from elmo.model.config import EMBEDDING, BiLMConfig, weight_shapes
from elmo.text.vocabulary import Vocabulary

if TYPE_CHECKING:
    import h5py

FORMAT = "allennlp"
OPTIONS, WEIGHTS, VOCABULARY = "options.json", "weights.hdf5", "vocab.txt"
MOST_OPTIONS = 1_000_000
"""The most bytes of an options file; larger JSON files are ignored."""
MOST_WORD_BYTES = 1000


@dataclass(frozen=True)
class ModelFiles:
    """The files of a model."""

    options: SourceFile
    weights: SourceFile
    table: SourceFile | None
    """The file of token embeddings, if they have their own."""
    beside: list[SourceFile]
    """All files beside the weights, the vocabulary among them."""


def recognizes(path: Path) -> bool:
    """Returns whether there are options and weights of this kind at `path`, or one of them without the other."""
    if path.is_dir() or is_archive(path):
        files = list_files(path)
        return any(map(_is_options, files)) and bool(_hdf5_in(files))
    return path.is_file() and (is_hdf5(file_on_disk(path)) or _is_options(file_on_disk(path)))


def describe(path: Path, weights: Path | None = None) -> Description:
    """Reads the options, the shapes of the weights and, for a word model, its vocabulary.

    `weights` names the weights if `path` is an options file and its weights are elsewhere.
    """
    parts = _locate(path, weights)
    options = read_options(parts.options)
    with _opened(parts) as found:
        config, names = _examine(parts, options, found)
        dtype = "/".join(sorted({str(found[name].dtype) for name in names.values()}))
    files = {source.path for source in (parts.options, parts.weights, parts.table) if source is not None}
    size = sum(file.stat().st_size for file in files)
    vocabulary, card = _vocabulary(parts, config), {"options": options}
    return Description(path, FORMAT, config, weight_shapes(config), dtype, size, vocabulary=vocabulary, card=card)


def load(path: Path, weights: Path | None = None) -> Model:
    """Reads a model. Raises InputError if weights and options do not match. `weights` is that of `describe`."""
    parts = _locate(path, weights)
    options = read_options(parts.options)
    with _opened(parts) as found:
        config, names = _examine(parts, options, found)
        arrays = to_weights(config, lambda name: np.asarray(found[names[name]], dtype=np.float32))
    return Model(config, arrays, vocabulary=_vocabulary(parts, config), card={"options": options})


def save(
    model: Model,
    path: str | Path,
    overwrite: bool = False,
    progress: Callable[[int, int], object] = lambda done, total: None,
) -> None:
    """Writes the folder `path` atomically: the two files, and the vocabulary of a word model.

    Options that only the published programs use (`card["options"]` of a loaded model) are kept. Calls `progress` with
    the bytes of weights that are written, and of all. Raises InputError if the format cannot store the model, or if the
    model reads words and has no vocabulary, and OSError as `atomic_path` does.
    """
    path = Path(path)
    lstm, problem = model.config.lstm, None
    if model.config.word_cnn is not None or lstm.has_projection != (lstm.dim != lstm.projection_dim):
        problem = "reads words and code points, or has a projection that keeps the size"
    elif model.text is not None and model.text.normalize:
        problem = f"reads words in another spelling ({', '.join(model.text.normalize)})"
    elif model.weights[EMBEDDING][0].any():
        problem = "has a vector for padding"
    if problem is not None:
        raise InputError(f"{path}: the model {problem}, which this format cannot store; write it as native")
    check_words(path, replace(model, lm_head=None))
    own = to_options(model.config)
    # A word table computed from characters comes with the options of the characters, and replaces them.
    published = model.card.get("options")
    published = published if isinstance(published, dict) else {}
    known = {key: value for key, value in published.items() if key != "char_cnn" or key in own}
    options = merge_tables(known, own)
    with atomic_path(path, overwrite, (OPTIONS, WEIGHTS, VOCABULARY)) as folder:
        folder.mkdir()
        (folder / OPTIONS).write_text(json.dumps(options, indent=2) + "\n", encoding="utf-8", newline="\n")
        if model.config.char_cnn is None and model.vocabulary is not None:
            model.vocabulary.save(folder / VOCABULARY)
        with Hdf5Output(folder / WEIGHTS) as output:
            datasets = to_datasets(model.config, model.weights)
            done, total = 0, sum(data.nbytes for data in datasets.values())
            for name, data in datasets.items():
                progress(done, total)
                output.file.create_dataset(name, data=data)
                output.check()
                done += data.nbytes


# Finding the files


def _locate(path: Path, weights: Path | None) -> ModelFiles:
    """The files at `path`, or at the two paths."""
    place, options, table = path, None, None
    if weights is not None:
        if path.is_dir() or not _is_options(file_on_disk(path)):
            problem = "not an options file (JSON with a table 'lstm'); give it, then the weights (HDF5)"
            raise InputError(f"{path}: {problem}")
        place, options = weights, file_on_disk(path)
    if place.is_dir() or is_archive(place):
        found, beside = None, list_files(place)
    else:
        found, beside = file_on_disk(place), list_files(place.parent)
    if found is not None and not is_hdf5(found):
        if options is not None:
            raise InputError(f"{place}: not an HDF5 file ({found.size:,} bytes); give the weights file")
        found, options = None, found
    if found is not None and options is None and _tops(found) in ({"embedding"}, {"embedding", "char_embed"}):
        found, table = None, found
    found = found or _weights_in(place, [file for file in beside if file != table])
    options = options or _options_of(found, path, beside)
    if table is None and _tops(found) == {"RNN_0"}:  # the token embeddings have a file of their own
        tables = [file for file in _hdf5_in(beside) if file != found and "embedding" in _tops(file)]
        table = tables[0] if len(tables) == 1 else None
    return ModelFiles(options, found, table, beside)


def _is_options(source: SourceFile) -> bool:
    if not (source.name.endswith(".json") or "options" in source.name) or source.size > MOST_OPTIONS:
        return False
    try:
        options = json.loads(source.read(MOST_OPTIONS))
    except InputError:
        raise
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(options, dict) and isinstance(options.get("lstm"), dict)


def options_in(files: list[SourceFile]) -> list[SourceFile]:
    """Returns those of the files that are the options of a biLM."""
    return [file for file in files if _is_options(file)]


def _options_of(weights: SourceFile, place: Path, beside: list[SourceFile]) -> SourceFile:
    """The options file of the folder or archive; of several, the one whose name fits that of the weights."""
    found = options_in(beside)
    stem, start = PurePath(weights.name).stem, weights.name.split("weights")[0]
    twins = [file for file in found if PurePath(file.name).stem == stem or file.name.split("options")[0] == start]
    both = "give both paths: elmo.load(OPTIONS, weights=WEIGHTS), or --weights on the command line"
    if not found:
        refuse_known([file for file in beside if file.name.endswith(".json") or "options" in file.name])
    return only_file(place, twins if len(twins) == 1 else found, "options", both)


def _weights_in(place: Path, files: list[SourceFile]) -> SourceFile:
    """The only HDF5 file of the folder or archive that holds weights; other HDF5 files may hold vectors."""
    found = _hdf5_in(files)
    if len(found) > 1:
        found = [file for file in found if "RNN_0" in _tops(file)]
    if not found:
        refuse_known([file for file in files if not file.name.endswith((".json", ".txt", ".gz", ".md"))])
    return only_file(place, found, "weights", "give the path of one weights file")


def _hdf5_in(files: list[SourceFile]) -> list[SourceFile]:
    """The HDF5 files among them. Raises OSError only if there is none, and one of the files cannot be opened."""
    found, problem = list[SourceFile](), None
    for file in files:
        try:
            found += [file] if is_hdf5(file) else []
        except OSError as error:
            problem = error
    if problem is not None and not found:
        raise problem
    return found


def _tops(source: SourceFile) -> set[str]:
    """Those of the top-level names of biLM weights that an HDF5 file has."""
    with read_hdf5(source) as file:
        return {name for name in ("RNN_0", "char_embed", "embedding") if name in file}


def only_file(place: Path, found: list[SourceFile], what: str, remedy: str) -> SourceFile:
    """Returns the only file of `found`.

    Raises FileNotFoundError if there is none, and InputError with the remedy if there are several.
    """
    if len(found) == 1:
        return found[0]
    if not found:
        where = " beside it" if place.is_file() and not is_archive(place) else ""
        raise FileNotFoundError(f"{place}: no {what} file{where}; a model is an options file (JSON) and an HDF5 file")
    names = ", ".join(file.name for file in found)
    remedy = f"unpack it, and {remedy}" if is_archive(place) else remedy
    raise InputError(f"{place}: {len(found)} {what} files ({names}); {remedy}")


# Reading them


def read_options(source: SourceFile) -> dict[str, Any]:
    """Reads an options file. Raises InputError if it has no table `lstm`."""
    options = source.json()
    if not isinstance(options, dict) or not isinstance(options.get("lstm"), dict):
        raise InputError(f"{source.label}: no table 'lstm'; not the options of a biLM; give its options file")
    return options


@contextmanager
def _opened(parts: ModelFiles) -> "Iterator[dict[str, h5py.Dataset]]":
    """The datasets of the weights, and those of separate token embeddings."""
    with read_hdf5(parts.weights) as file:
        found = datasets(parts.weights.label, file)
        if parts.table is None:
            yield found
            return
        lstms = {name: dataset for name, dataset in found.items() if name.startswith("RNN_")}
        with read_hdf5(parts.table) as table:
            apart = datasets(parts.table.label, table)
            yield lstms | {name: dataset for name, dataset in apart.items() if name == "embedding"}


def _examine(
    parts: ModelFiles, options: dict[str, Any], found: "dict[str, h5py.Dataset]"
) -> tuple[BiLMConfig, dict[str, str]]:
    """The configuration, and the name of each dataset in the file. Raises InputError if something does not match."""
    shapes = {name: dataset.shape for name, dataset in found.items()}
    config = to_config(options, parts.options.label, shapes, parts.weights.label)
    names = dataset_names(parts.weights.label, config, shapes)
    for name in names.values():
        source = parts.table if parts.table is not None and name == "embedding" else parts.weights
        check_dataset(source.label, found[name])
    return config, names


def _vocabulary(parts: ModelFiles, config: BiLMConfig) -> Vocabulary | None:
    """The vocabulary of a word model: of several, the one with as many words as the table."""
    if config.n_tokens_vocab is None:
        return None
    table = (parts.table or parts.weights).label
    found = vocabulary_beside(parts.beside, config.n_tokens_vocab, table)
    if found is None:
        raise FileNotFoundError(
            f"{parts.weights.path.parent}: no {VOCABULARY} beside {parts.weights.name}; {table} has a table of"
            f" {config.n_tokens_vocab:,} words; put its word list there, one word per line"
        )
    return found


def vocabulary_beside(files: list[SourceFile], rows: int, table: str) -> Vocabulary | None:
    """Returns the vocabulary of `rows` words among the files, or None if there is no vocabulary.

    Raises InputError if none of them matches `table`, which has `rows` rows.
    """
    usual = (VOCABULARY, f"{VOCABULARY}.gz")
    found = [file for file in files if "vocab" in file.name and file.name.endswith((".txt", ".gz"))]
    found.sort(key=lambda file: (file.name not in usual, file.name))
    if not found:
        return None
    seen: list[str] = []
    for file in found:
        try:
            vocabulary = Vocabulary.parse(file.read(MOST_WORD_BYTES * (rows + 8)), file.label)
        except InputError as error:
            if len(found) == 1:
                raise
            seen.append(str(error))
            continue
        if len(vocabulary) == rows:
            return vocabulary
        seen.append(f"{file.name} has {len(vocabulary):,} words")
    raise InputError(
        f"{found[0].label}: {', '.join(seen)}; the table in {table} has {rows:,}; give the vocabulary of the model"
    )
