"""elmo's own format: a folder of `config.json`, `model.safetensors` and, if the model has words, `vocab.txt`.

- `config.json`: `{"format": "elmo-torch", "version": 1, "model": BiLMConfig, "text": TextConfig or null, "card": {}}`,
  and `"mixes": [Mix]` if a task's model learned some. `"model_type": "elmo"` lets transformers open the folder
  (`elmo.integrations.transformers`), and add keys of its own when it saves one
- `lexicon.json` has the ids of words and code points, for a model that reads both.
- `model.safetensors` has `bilm.*` and, with a softmax, `lm_head.*`, in float32, in float16 for half the size, or as
  8-bit rows (`int8_rows`) with `scales.*` for a quarter. bfloat16 and float64 are read, too.
  `native_weights` reads and writes this file.

torch is imported only where weights are, since a description needs none.
"""

import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from elmo.config import ConfigError, from_dict, load_json, to_dict, without_nonfinite
from elmo.disk.files import atomic_path
from elmo.errors import InputError
from elmo.formats.files import MOST_JSON, file_on_disk
from elmo.formats.safetensors_header import Stored, read_header
from elmo.formats.stored import Description, Mix, Model, check_counts, check_shapes, check_words
from elmo.model.config import BiLMConfig, Shape, WordCnnConfig, weight_shapes
from elmo.text.lexicon import Lexicon
from elmo.text.tokenizer import TextConfig, text_values
from elmo.text.vocabulary import Vocabulary

if TYPE_CHECKING:
    from torch import Tensor

Store = Literal["float32", "float16", "int8"]
"""How weights are stored. With "int8" the large ones are 8-bit rows, the others float16."""

FORMAT = "elmo-torch"
VERSION = 1
MOST_TRIES = 5
"""The most attempts to load a model that is replaced while it is read."""
SCALES = "scales."
"""The scales of 8-bit rows of the weight `name` are called `scales.name`."""
MODEL_TYPE = "elmo"  # transformers chooses the class that opens the folder by this name
DTYPES = {"I8": "int8", "F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64"}
"""The usual names of data types, by their names in safetensors."""
FILES = CONFIG, WEIGHTS, VOCABULARY, LEXICON = "config.json", "model.safetensors", "vocab.txt", "lexicon.json"


def recognizes(path: Path) -> bool:
    """Returns whether `path` is such a folder, or one of its files."""
    if path.is_file() and path.name not in FILES:
        return False
    config = _folder(path) / CONFIG
    try:
        return config.is_file() and json.loads(file_on_disk(config).read(MOST_JSON))["format"] == FORMAT
    except (OSError, ValueError, KeyError, TypeError, RecursionError):  # InputError, a ValueError, for too many bytes
        return False


def check_json(path: Path) -> None:
    """Raises InputError if such a folder has a configuration that is not valid JSON, so that it is not recognized."""
    folder = _folder(path)
    is_ours = path == folder or path.name in FILES
    if is_ours and (folder / CONFIG).is_file() and (folder / WEIGHTS).is_file():
        file_on_disk(folder / CONFIG).json()


def check_version(file: Path | str, version: object) -> None:
    """Raises InputError if the `version` in a `config.json` is not that of this format."""
    if version != VERSION:
        raise InputError(
            f"{file}: version is {version!r}; {VERSION} is expected; the model is from another version of elmo-torch;"
            " install the latest"
        )


@dataclass(frozen=True)
class _Config:
    """The content of `config.json`."""

    format: str
    version: int
    model: BiLMConfig
    model_type: str = MODEL_TYPE
    text: TextConfig | None = None
    card: dict = field(default_factory=dict)
    mixes: tuple[Mix, ...] = ()


def describe(path: Path) -> Description:
    """Reads the configuration, the vocabulary and the header of the weights."""
    return _described(path, _read_config(_folder(path) / CONFIG))


def _described(path: Path, config: _Config) -> Description:
    folder = _folder(path)
    bilm, lm_head, dtype = _read_header(folder / WEIGHTS)
    vocabulary = _read_vocabulary(folder)
    _check(folder, config.model, bilm, lm_head, vocabulary)
    size = sum(file.stat().st_size for file in folder.iterdir() if file.is_file())
    mixes = tuple(mix.name for mix in config.mixes)
    return Description(
        path, FORMAT, config.model, bilm, dtype, size, lm_head, vocabulary, config.text, config.card, mixes
    )


def load(path: Path) -> Model:
    """Reads a model. Raises InputError or ConfigError if its files do not match.

    If the folder is replaced while it is read, as by a run that continues, the new model is read.
    """
    file = _folder(path) / WEIGHTS
    for _ in range(MOST_TRIES):
        before = _version(file)
        try:
            model = _load(path)
        except (InputError, OSError):
            if _version(file) == before:
                raise
            continue  # some files were those of the old model, the others those of the new one
        if _version(file) == before:
            return model
    raise InputError(f"{path}: is replaced again and again; load a copy of it")


def _load(path: Path) -> Model:
    from elmo.formats import native_weights

    config = _read_config(_folder(path) / CONFIG)
    found = _described(path, config)
    names = [f"bilm.{name}" for name in found.shapes] + [f"lm_head.{name}" for name in found.lm_head or ()]
    bilm, lm_head = parts_of({name: native_weights.read_weight(_folder(path) / WEIGHTS, name) for name in names})
    lexicon = None if found.config.word_cnn is None else _read_lexicon(_folder(path) / LEXICON, found.config.word_cnn)
    return Model(found.config, bilm, lm_head, found.vocabulary, found.text, found.card, config.mixes, lexicon)


def read_int8(file: Path) -> "dict[str, Tensor] | None":
    """Reads the biLM's weights in float32 from a file with 8-bit rows; returns None if the file has no such rows."""
    from elmo.formats.native_weights import read_weight

    bilm, _, dtype = _read_header(file)
    return {name: read_weight(file, f"bilm.{name}") for name in bilm} if "int8" in dtype else None


def _version(file: Path) -> tuple[int, int, int] | None:
    """The numbers of a file that change if it is replaced."""
    try:
        status = file.stat()
        return status.st_ino, status.st_mtime_ns, status.st_size
    except FileNotFoundError:
        return None


def save(
    model: Model,
    path: str | Path,
    overwrite: bool = False,
    store: Store = "float32",
    progress: Callable[[int, int], object] = lambda done, total: None,
    step: Callable[[str], AbstractContextManager[object]] = nullcontext,
) -> None:
    """Writes the folder `path` atomically, with its weights stored as `store` says.

    Calls `progress` with the bytes of weights that are converted, and of all; then `step`, with a name for the writing,
    gives its context. Raises InputError if the model lacks the ids of its words or a weight is too large for
    float16, and OSError as `atomic_path` does.
    """
    from elmo.disk.tensors import write_tensors
    from elmo.formats import native_weights

    path = Path(path)
    check_words(path, model)
    _check_path(path)
    config = config_values(model)
    arrays = native_weights.to_arrays(model, path, store, progress)
    with atomic_path(path, overwrite, FILES) as folder, step(f"writing {path}"):
        folder.mkdir()
        _write_json(folder / CONFIG, json.dumps(config, indent=2, ensure_ascii=False))
        write_tensors(arrays, folder / WEIGHTS)
        if model.vocabulary is not None:
            model.vocabulary.save(folder / VOCABULARY)
        if model.lexicon is not None:
            _write_json(folder / LEXICON, json.dumps(vars(model.lexicon), ensure_ascii=False))


def to_files(model: Model) -> dict[str, bytes]:
    """Returns the content of the files that `save` writes, by name, for programs that store them elsewhere."""
    with tempfile.TemporaryDirectory() as folder:
        save(model, Path(folder) / "model")
        return {file.name: file.read_bytes() for file in (Path(folder) / "model").iterdir()}


@contextmanager
def folder_of(files: Mapping[str, bytes]) -> Iterator[Path]:
    """Yields a temporary folder with the files of `to_files`."""
    with tempfile.TemporaryDirectory() as folder:
        for name in set(FILES) & files.keys():
            (Path(folder) / name).write_bytes(files[name])
        yield Path(folder)


def config_values(model: Model) -> dict[str, Any]:
    """Returns the content of `config.json`."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "model_type": MODEL_TYPE,
        "model": _model_values(model.config),
        "text": None if model.text is None else text_values(model.text),
        "card": without_nonfinite(model.card),
    } | ({"mixes": [to_dict(mix) for mix in model.mixes]} if model.mixes else {})


def load_inputs(folder: Path) -> tuple[BiLMConfig, TextConfig | None, Vocabulary | Lexicon | None]:
    """Reads the parts of a `Model` that turn text into ids, without its weights."""
    config = _read_config(folder / CONFIG)
    if config.model.word_cnn is not None:
        return config.model, config.text, _read_lexicon(folder / LEXICON, config.model.word_cnn)
    vocabulary = _read_vocabulary(folder)
    if config.model.n_tokens_vocab is not None:
        _check_words(folder, config.model.n_tokens_vocab, vocabulary)
    return config.model, config.text, vocabulary


def _model_values(config: BiLMConfig) -> dict[str, Any]:
    """The configuration as JSON values. Only word models have fields of words."""
    values = to_dict(config)
    if not config.lstm.always_project:
        del values["lstm"]["always_project"]
    return {key: value for key, value in values.items() if value is not None or key == "char_cnn"}


def _folder(path: Path) -> Path:
    return path.parent if path.is_file() else path


def _read_config(file: Path) -> _Config:
    values = file_on_disk(file).json()
    check_version(file, values.get("version"))
    if "transformers_version" in values:  # saved by transformers, with more keys of its own
        values = {name: values[name] for name in _Config.__dataclass_fields__ if name in values}
    try:
        config = from_dict(_Config, values)
    except ConfigError as error:
        raise ConfigError(f"{file}: {error}") from error
    for mix in config.mixes:
        if len(mix.scalars) != (layers := config.model.lstm.n_layers + 1):
            raise InputError(f"{file}: mix {mix.name!r} has {len(mix.scalars)} weights; {layers} are expected")
    return config


def _check_path(path: Path) -> None:
    """Raises InputError for a path that safetensors cannot open."""
    try:
        str(path).encode()
    except UnicodeEncodeError as error:
        name = os.fsencode(path).decode(errors="replace")
        raise InputError(f"{name}: the path is not UTF-8, which safetensors needs; rename the folder") from error


def _read_header(file: Path) -> tuple[dict[str, Shape], dict[str, Shape] | None, str]:
    """The shapes of the biLM and of the softmax, and the data types, with a slash between them."""
    if not file.is_file():
        raise FileNotFoundError(f"{file}: no such file; the folder of a model holds {CONFIG} and {WEIGHTS}")
    _check_path(file)
    found = read_header(file)
    weights = {name: array for name, array in found.items() if name.startswith(("bilm.", "lm_head."))}
    for name, array in weights.items():
        if array.kind not in DTYPES:
            raise InputError(
                f"{file}: {name} holds {array.kind}; one of {', '.join(DTYPES)} is expected; copy it again"
            )
    _check_scales(file, found)
    dtypes = sorted({DTYPES[array.kind] for array in weights.values()})
    return *parts_of({name: array.shape for name, array in weights.items()}), "/".join(dtypes)


def _check_scales(file: Path, found: Mapping[str, Stored]) -> None:
    """Raises InputError if 8-bit rows and scales do not belong together."""
    for name, array in found.items():
        if name.startswith(SCALES):
            weight = name.removeprefix(SCALES)
            if weight not in found or found[weight].kind != "I8":
                raise InputError(f"{file}: {name} has no weight of 8-bit integers named {weight}; copy it again")
        elif array.kind == "I8":
            scales, seen = SCALES + name, found.get(SCALES + name)
            if seen is None:
                raise InputError(
                    f"{file}: {name} holds 8-bit integers, and their scales ({scales}) are missing; copy it again"
                )
            if seen != Stored("F32", array.shape[:-1]):
                raise InputError(
                    f"{file}: {scales} has shape {seen.shape} of {seen.kind}; one scale (F32) for each row of {name},"
                    f" {array.shape[:-1]}, is expected; copy it again"
                )


def parts_of(named: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Divides named values of a file of weights into those of the biLM and those of the softmax, if there is one."""
    bilm = {name.removeprefix("bilm."): value for name, value in named.items() if name.startswith("bilm.")}
    lm_head = {name.removeprefix("lm_head."): value for name, value in named.items() if name.startswith("lm_head.")}
    return bilm, lm_head or None


def _read_vocabulary(folder: Path) -> Vocabulary | None:
    return Vocabulary.load(folder / VOCABULARY) if (folder / VOCABULARY).is_file() else None


def _read_lexicon(file: Path, config: WordCnnConfig) -> Lexicon:
    """Reads the lexicon; each id must be a row of its table."""
    characters = 1 if config.char_cnn is None else config.char_cnn.n_characters
    try:
        values = load_json(file)
        for part, rows in (("words", config.n_words), ("characters", characters)):
            if not all(type(index) is int and 0 <= index < rows - 1 for index in (values[part] or {}).values()):
                raise InputError(f"{part} has an id that is not a number below {rows - 1}")
        lexicon = Lexicon(values["words"], values["characters"], values["max_characters"])
        longest = None if config.char_cnn is None else config.char_cnn.max_characters_per_token
        if longest not in (None, lexicon.max_characters):
            raise InputError(f"max_characters is {lexicon.max_characters}; the model has {longest}")
        return lexicon
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{file}: no such file; the model needs these ids of words and characters") from error
    except InputError as error:
        raise InputError(f"{file}: {error}; copy it again") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"{file}: not the ids of words and characters ({error}); copy it again") from error


def _check(
    folder: Path,
    config: BiLMConfig,
    bilm: dict[str, Shape],
    lm_head: dict[str, Shape] | None,
    vocabulary: Vocabulary | None,
) -> None:
    file, remedy = folder / WEIGHTS, f"the file does not match the {CONFIG} beside it"
    try:
        check_counts(config, len(bilm), remedy)
        expected = weight_shapes(config)
    except ConfigError as error:
        raise ConfigError(f"{folder / CONFIG}: {error}") from error
    check_shapes(file, bilm, expected, remedy, exact=True)
    if config.n_tokens_vocab is not None:
        _check_words(folder, config.n_tokens_vocab, vocabulary)
    if lm_head is None:
        return
    if vocabulary is None:
        raise FileNotFoundError(f"{folder / VOCABULARY}: no such file; the softmax in {WEIGHTS} needs this word list")
    words = len(vocabulary)
    remedy = f"{VOCABULARY} has {words} words and does not match it"
    check_shapes(file, lm_head, {"weight": (words, config.lstm.projection_dim), "bias": (words,)}, remedy)


def _check_words(folder: Path, expected: int, vocabulary: Vocabulary | None) -> None:
    if vocabulary is None:
        raise FileNotFoundError(f"{folder / VOCABULARY}: no such file; the model reads words and needs this word list")
    if len(vocabulary) != expected:
        raise InputError(
            f"{folder / VOCABULARY}: has {len(vocabulary):,} words; the model has {expected:,}; copy the model's own"
        )


def _write_json(file: Path, text: str) -> None:
    """Writes JSON; a lone surrogate, which UTF-8 cannot express, is escaped."""
    file.write_text(f"{text}\n", encoding="utf-8", errors="backslashreplace", newline="\n")
