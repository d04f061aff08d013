"""The format of ELMoForManyLangs (Che et al. 2018; NLPL repository, numbers 136 to 179), read only.

- a folder or an archive of `config.json`, `token_embedder.pkl`, `encoder.pkl`, `word.dic` and, for a model that reads
  characters, `char.dic`
- `config.json` names a second file with the sizes, often by a path on the author's machine. Then the file of that name
  beside it is used, or, without one, one of the two samples of the original program (they have the same content)
- `.dic`: a form, a tab, its id; a line with one field means U+3000
- `.pkl`: torch state dicts, read with `weights_only=True`: only tensors are unpickled. Their headers are torch's, so a
  description needs torch, too
"""

from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from elmo.config import ConfigError, from_dict
from elmo.errors import InputError, is_number, is_whole
from elmo.formats.allennlp_state import Part, highway_parts, layer_parts, lstm_parts, shapes_of, to_ours
from elmo.formats.files import SourceFile, is_archive, list_files
from elmo.formats.stored import Description, Model, check_counts, check_shapes
from elmo.model.config import BiLMConfig, Shape, weight_shapes
from elmo.text.lexicon import LEAST, Lexicon, is_length

if TYPE_CHECKING:
    from torch import Tensor

FORMAT = "many_langs"
CONFIG, EMBEDDER, ENCODER = "config.json", "token_embedder.pkl", "encoder.pkl"
WORDS, CHARACTERS = "word.dic", "char.dic"
WORD_TABLE, CHAR_TABLE = "word_emb_layer.embedding.weight", "char_emb_layer.embedding.weight"
SAMPLES = ("cnn_50_100_512_4096_sample.json", "cnn_0_100_512_4096_sample.json")
SAMPLE: dict[str, Any] = {
    "encoder": {"name": "elmo", "projection_dim": 512, "cell_clip": 3, "proj_clip": 3, "dim": 4096, "n_layers": 2},
    "token_embedder": {
        "name": "cnn",
        "activation": "relu",
        "filters": [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]],
        "n_highway": 2,
        "word_dim": 100,
        "char_dim": 50,
        "max_characters_per_token": 50,
    },
}
MOST_DICTIONARY = 50_000_000
"""The most bytes of a dictionary; those of published models have about three million."""
REMEDY = "the weights do not belong to these sizes"


def recognizes(path: Path) -> bool:
    """Returns whether there is such a model at `path`: a folder, an archive, or one of the two files of weights."""
    if path.is_file() and path.name in (EMBEDDER, ENCODER):
        return True
    return (path.is_dir() or is_archive(path)) and {EMBEDDER, ENCODER} <= {source.name for source in list_files(path)}


def describe(path: Path) -> Description:
    """Reads the sizes, the dictionaries and the shapes of the weights."""
    return _examine(path)[0]


def load(path: Path) -> Model:
    """Reads a model; raises InputError if its files do not match."""
    from elmo.formats.torch_file import read_state_dict

    found, lexicon, files = _examine(path)
    weights = {}
    for source, parts in zip(files, _parts(found.config), strict=True):
        weights |= to_ours(parts, read_state_dict(source))
    return Model(found.config, weights, lexicon=lexicon, card=found.card)


def _examine(path: Path) -> tuple[Description, Lexicon, tuple[SourceFile, SourceFile]]:
    """The description, the ids of words and characters, and the two files of weights, of which it reads no values."""
    place = path.parent if path.name in (EMBEDDER, ENCODER) else path
    listed = list_files(place)
    files = {source.name: source for source in listed}
    for name in (CONFIG, EMBEDDER, ENCODER, WORDS, CHARACTERS):
        if len(found := [source.label for source in listed if source.name == name]) > 1:
            raise InputError(
                f"{path}: holds several models ({', '.join(found)}); unpack it, and give the folder of one"
            )
    for name in (CONFIG, EMBEDDER, ENCODER):
        if name not in files:
            raise FileNotFoundError(
                f"{path}: no {name}; a model of ELMoForManyLangs is a folder with {CONFIG}, {EMBEDDER}, {ENCODER}"
            )
    sizes, label = _sizes(files)
    sources = files[EMBEDDER], files[ENCODER]
    headers = [_headers(source) for source in sources]
    seen = [{name: tuple(tensor.shape) for name, tensor in tensors.items()} for tensors in headers]
    config, shapes, lexicon = _config(sizes, label, files, seen[0], sum(map(len, seen)))
    for source, own, parts in zip(sources, seen, _parts(config), strict=True):
        check_shapes(source.label, own, shapes_of(parts, shapes), f"{REMEDY} in {label}", exact=True)
    dtypes = sorted({str(tensor.dtype).removeprefix("torch.") for tensors in headers for tensor in tensors.values()})
    size = sum(file.stat().st_size for file in {files[name].path for name in (CONFIG, EMBEDDER, ENCODER)})
    card = {"sizes": sizes}
    return Description(path, FORMAT, config, shapes, "/".join(dtypes), size, card=card), lexicon, sources


# Sizes


def _sizes(files: Mapping[str, SourceFile]) -> tuple[dict[str, Any], str]:
    """The table of sizes, and its name for errors."""
    source = files[CONFIG]
    config = source.json()
    named = config.get("config_path") if isinstance(config, dict) else None
    if not isinstance(named, str):
        raise InputError(f"{source.label}: config_path is {named!r}; the name of the file with the sizes is expected")
    name = PurePosixPath(named.replace("\\", "/")).name
    if name in files and name != CONFIG:
        sizes = files[name].json()
        label = files[name].label
    elif name in SAMPLES:
        sizes, label = SAMPLE, f"{source.label} (the published {name})"
    else:
        raise FileNotFoundError(
            f"{source.label}: config_path is {named!r}, but there is no {name} beside it; put it there"
        )
    for key in ("encoder", "token_embedder"):
        if not isinstance(sizes, dict) or not isinstance(sizes.get(key), dict):
            raise InputError(f"{label}: no table {key!r}; the sizes of an ELMoForManyLangs model are expected")
    return {key: sizes[key] for key in ("encoder", "token_embedder")}, label


def _config(
    sizes: dict[str, Any], label: str, files: Mapping[str, SourceFile], shapes: Mapping[str, Shape], arrays: int
) -> tuple[BiLMConfig, dict[str, Shape], Lexicon]:
    """The configuration, the shapes of its weights, and the dictionaries; the tables give the numbers of their rows.

    `shapes` are those in the file of the tables, and `arrays` are counted in both files.
    """
    encoder, embedder = sizes["encoder"], sizes["token_embedder"]
    try:
        _check_kinds(encoder, embedder, label)
        tables = {
            file: _dictionary(files, file, shapes, table, embedder[dim])
            for file, table, dim in ((WORDS, WORD_TABLE, "word_dim"), (CHARACTERS, CHAR_TABLE, "char_dim"))
        }
        cut = None if str(embedder["name"]).lower() == "lstm" else embedder["max_characters_per_token"]
        if not is_length(cut, may_be_none=tables[CHARACTERS] is None):
            raise InputError(f"{label}: max_characters_per_token is {cut!r}; at least {LEAST} is expected")
        lexicon = _lexicon(files[EMBEDDER], tables[WORDS], tables[CHARACTERS], cut)
        config = from_dict(BiLMConfig, _values(encoder, embedder, lexicon, shapes))
        check_counts(config, arrays, REMEDY)
        return config, weight_shapes(config), lexicon
    except KeyError as error:
        raise InputError(f"{label}: no key {error}; the sizes of an ELMoForManyLangs model are expected") from error
    except ConfigError as error:
        raise InputError(f"{label}: {error}") from error


def _lexicon(
    embedder: SourceFile, words: dict[str, int] | None, characters: dict[str, int] | None, cut: int | None
) -> Lexicon:
    try:
        return Lexicon(words, characters, cut)
    except InputError as error:
        raise InputError(f"{WORDS} and {CHARACTERS} beside {embedder.label}: {error}; fetch them again") from error


def _values(
    encoder: dict[str, Any], embedder: dict[str, Any], lexicon: Lexicon, shapes: Mapping[str, Shape]
) -> dict[str, Any]:
    char_cnn = None
    if lexicon.characters is not None:
        same = ("filters", "n_highway", "max_characters_per_token", "activation")
        char_cnn = {name: embedder[name] for name in same}
        char_cnn |= {"embedding_dim": embedder["char_dim"], "n_characters": shapes[CHAR_TABLE][0] + 1}
    lstm = {name: encoder[name] for name in ("dim", "projection_dim", "n_layers")}
    lstm |= {name: encoder[name] or None for name in ("cell_clip", "proj_clip")}
    lstm |= {"use_skip_connections": True, "forget_bias": 0.0, "always_project": True}
    words = {"n_words": 0, "word_dim": 0}
    if lexicon.words is not None:
        words = {"n_words": shapes[WORD_TABLE][0] + 1, "word_dim": embedder["word_dim"]}
    return {"lstm": lstm, "char_cnn": None, "word_cnn": words | {"char_cnn": char_cnn}}


def _check_kinds(encoder: dict[str, Any], embedder: dict[str, Any], label: str) -> None:
    """Refuses kinds of model that the original program names but cannot run, or does not run consistently."""
    if str(encoder["name"]).lower() != "elmo":
        raise InputError(
            f"{label}: encoder.name is {encoder['name']!r}; only 'elmo' is read: the vectors of 'lstm' depend on the"
            " rest of their batch"
        )
    for name in ("char_dim", "word_dim"):
        size = embedder[name]
        if not is_whole(size) or size < 0:
            raise InputError(f"{label}: token_embedder.{name} is {size!r}; a whole number of at least 0 is expected")
    kind = str(embedder["name"]).lower()
    if kind not in ("cnn", "lstm"):
        raise InputError(f"{label}: token_embedder.name is {embedder['name']!r}; 'cnn' is expected")
    if kind == "lstm" and embedder["char_dim"]:
        raise InputError(
            f"{label}: token_embedder.name is 'lstm' and char_dim {embedder['char_dim']}; only 'cnn' can read"
            " characters; the original program rejects such a model, too"
        )
    if not embedder["char_dim"] and not embedder["word_dim"]:
        raise InputError(
            f"{label}: word_dim and char_dim are 0, so the model has no input; at least one must be positive"
        )


def _dictionary(
    files: Mapping[str, SourceFile], name: str, shapes: Mapping[str, Shape], table: str, dim: int
) -> dict[str, int] | None:
    """The ids of the forms in a dictionary, each a row of its table; None if the model has no such table."""
    if not dim:
        return None
    embedder = files[EMBEDDER].label
    if name not in files:
        raise FileNotFoundError(f"{embedder}: no {name} beside it, the ids of its table {table}; put it there")
    if table not in shapes or len(shapes[table]) != 2:
        raise InputError(f"{embedder}: {table} is missing; shape (lines of {name}, {dim}) is expected; {REMEDY}")
    ids = _read_dictionary(files[name])
    rows = shapes[table][0]
    for form, index in ids.items():
        if not 0 <= index < rows:
            raise InputError(
                f"{files[name].label}: {form!r} has id {index}; {table} has {rows} rows; the two files do not match"
            )
    if len(ids) != rows:  # the original program refuses such weights
        raise InputError(
            f"{files[name].label}: has {len(ids):,} forms, but {table} of {embedder} has {rows:,} rows: it is the"
            f" dictionary of another model; put the {name} of these weights there"
        )
    return ids


def _read_dictionary(source: SourceFile) -> dict[str, int]:
    try:
        text = source.read(MOST_DICTIONARY).decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{source.label}: is not UTF-8 ({error.reason} at byte {error.start}); fetch it again"
        ) from error
    # A byte-order mark is dropped, unless it is the form of the first line.
    text = text if text.startswith("\ufeff\t") else text.removeprefix("\ufeff")
    ids: dict[str, int] = {}
    for number, line in enumerate(text.removesuffix("\n").split("\n"), start=1):
        fields = line.strip().split("\t")
        form, index = ("\u3000", fields[0]) if len(fields) == 1 else fields if len(fields) == 2 else ("", "")
        if not index.isascii() or not is_number(index):
            raise InputError(f"{source.label}: line {number} is {line[:40]!r}; a form, a tab and its id are expected")
        ids[form] = int(index)
    return ids


# Weights


def _parts(config: BiLMConfig) -> tuple[dict[str, Part], dict[str, Part]]:
    """Returns the content of both files; highways and LSTMs are AllenNLP's, but for the 1 of the forget gate."""
    embedder = config.word_cnn
    assert embedder is not None
    encoder, cnn = "token_encoder", embedder.char_cnn
    parts = layer_parts("projection", f"{encoder}.projection")
    if embedder.n_words:
        parts[WORD_TABLE] = Part(f"{encoder}.words", "unpadded")
    if cnn is not None:
        encoder += ".char_cnn"
        parts[CHAR_TABLE] = Part(f"{encoder}.embedding", "unpadded")
        for i in range(len(cnn.filters)):
            parts |= layer_parts(f"convolutions.{i}", f"{encoder}.convolutions.{i}")
        parts |= highway_parts(cnn, "highways._layers", encoder)
    return parts, lstm_parts(config.lstm, "")


def _headers(source: SourceFile) -> "dict[str, Tensor]":
    """The tensors of a file without their values."""
    from elmo.formats.torch_file import read_state_headers

    tensors = read_state_headers(source)
    for name, tensor in tensors.items():
        if not tensor.is_floating_point():
            raise InputError(f"{source.label}: {name} holds {tensor.dtype}; floating-point numbers are expected")
    return tensors
