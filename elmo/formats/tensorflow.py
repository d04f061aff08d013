"""Reads the checkpoints that bilm-tf trained: `options.json` and the files of a TensorFlow checkpoint.

- A model is given as a folder, one of the checkpoint's files, or their common prefix (`model.ckpt-935588`).
- Its variables are those of the published HDF5 file under other names, plus the softmax of both directions, which that
  file lacks: `lm/softmax/W` and `lm/softmax/b`. With `share_embedding_softmax`, the word table is the matrix.
- The softmax needs its words, a vocabulary beside the files; without one it is omitted.
- The files also hold the optimizer's state, which is not read.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from elmo.config import read_regular
from elmo.errors import InputError
from elmo.formats.allennlp import only_file, options_in, read_options, vocabulary_beside
from elmo.formats.bilm_layout import REMEDY, dataset_names, to_config, to_weights
from elmo.formats.files import list_files
from elmo.formats.stored import Description, Model, check_shapes
from elmo.formats.tensor_bundle import index_of, is_index, read_index
from elmo.model.config import BiLMConfig, Shape, weight_shapes

if TYPE_CHECKING:
    from torch import Tensor

FORMAT = "tensorflow"
SCOPE = "lm/"
SOFTMAX, BIAS, TABLE = "softmax/W", "softmax/b", "embedding"
LSTM = re.compile(r"(RNN_[01])/rnn/(?:multi_rnn_cell/cell_(\d+)/)?lstm_cell/(kernel|bias|projection/kernel)")
PARTS = {"kernel": "W_0", "bias": "B", "projection/kernel": "W_P_0"}
SLOTS = re.compile(r"/(Adagrad|Adam(_\d)?|Momentum|RMSProp(_\d)?|ExponentialMovingAverage)$")
NO_WORDS = "omitted: no vocab.txt beside the checkpoint"


def recognizes(path: Path) -> bool:
    """Returns whether there is a checkpoint at `path`: a folder that has one, or one of its files."""
    if path.is_dir():
        return any(is_index(file) for file in path.glob("?*.index"))
    return path.is_file() and is_index(_index_beside(path))


def describe(path: Path) -> Description:
    """Reads the options, the index of the checkpoint, and the vocabulary."""
    return _examine(path)[0]


def load(path: Path) -> Model:
    """Reads a model; raises InputError if its files are damaged or do not match."""
    import torch

    found, names, softmax, read = _examine(path)
    weights = to_weights(found.config, lambda name: read(names[name]))
    lm_head: "dict[str, Tensor] | None" = None
    if found.lm_head is not None:
        lm_head = {part: torch.from_numpy(read(name)) for part, name in softmax.items()}
    return Model(found.config, weights, lm_head, found.vocabulary, card=found.card)


def _examine(path: Path) -> tuple[Description, dict[str, str], dict[str, str], Callable[[str], np.ndarray]]:
    """The description; the variables of the published file's datasets and of the softmax; what reads a variable."""
    index = _index_in(path) if path.is_dir() else _index_beside(path)
    bundle = read_index(index)
    files = list_files(index.parent)
    options_file = only_file(index.parent, options_in(files), "options", "leave only the checkpoint's there")
    options = read_options(options_file)
    known = {_dataset(name): name for name in bundle.variables if name.startswith(SCOPE) and not SLOTS.search(name)}
    if any(name.startswith("rnn/") for name in known):
        raise InputError(f"{index}: the model has one direction (no variables {SCOPE}RNN_0, RNN_1); both are expected")
    shapes = {name: bundle.variables[known[name]].shape for name in known}
    label = str(index)
    config = to_config(options, options_file.label, shapes, label)
    names = {name: known[there] for name, there in dataset_names(label, config, shapes).items()}
    softmax = _softmax(label, config, known, shapes)
    rows = config.n_tokens_vocab or (shapes[BIAS][0] if softmax else 0)
    vocabulary = vocabulary_beside(files, rows, label) if rows else None
    if vocabulary is None and config.n_tokens_vocab is not None:
        raise FileNotFoundError(
            f"{index.parent}: no vocab.txt; {index.name} has a table of {rows:,} words; put its word list there, one"
            " word per line"
        )
    shards = {bundle.shard(variable.shard) for variable in bundle.variables.values()}
    size = options_file.size + sum(file.stat().st_size for file in (index, *shards) if file.is_file())
    lm_head: dict[str, Shape] | None = None
    card: dict[str, Any] = {"options": options}
    if softmax and vocabulary is None:
        card["softmax"] = NO_WORDS
    elif softmax:
        lm_head = {part: bundle.variables[name].shape for part, name in softmax.items()}
    shapes = weight_shapes(config)
    found = Description(path, FORMAT, config, shapes, "float32", size, lm_head, vocabulary, card=card)
    return found, names, softmax, lambda name: bundle.read(name).astype(np.float32, copy=False)


def _softmax(label: str, config: BiLMConfig, known: dict[str, str], shapes: dict[str, Shape]) -> dict[str, str]:
    """The variables of the softmax; none if the checkpoint was stripped of it."""
    if BIAS not in known:
        return {}
    matrix = SOFTMAX if SOFTMAX in known or TABLE not in known else TABLE
    words = (shapes[BIAS] or (0,))[0]
    expected = {matrix: (words, config.lstm.projection_dim), BIAS: (words,)}
    check_shapes(label, shapes, expected, REMEDY)
    return {"weight": known[matrix], "bias": known[BIAS]}


def _dataset(variable: str) -> str:
    """The name in the published HDF5 file of a checkpoint's variable."""
    name = variable.removeprefix(SCOPE)
    lstm = LSTM.fullmatch(name)
    if lstm is None:
        return name
    direction, layer, part = lstm.groups()
    group = "" if layer is None else f"MultiRNNCell/Cell{layer}/"
    return f"{direction}/RNN/{group}LSTMCell/{PARTS[part]}"


# Finding the files


def _index_in(folder: Path) -> Path:
    """The index of a folder's only checkpoint, or of the one that its file `checkpoint` names as the latest."""
    found = [file for file in sorted(folder.glob("?*.index")) if is_index(file)]
    last = folder / "checkpoint"
    if len(found) > 1 and last.is_file():
        text = read_regular(last).decode("utf-8", "replace")
        named = re.search(r'^model_checkpoint_path: "(?:.*[/\\])?([^"/\\]+)"', text, re.M)
        chosen = index_of(folder / named[1]) if named else None
        found = [chosen] if chosen in found else found
    if len(found) == 1:
        return found[0]
    names = ", ".join(file.name for file in found)
    raise InputError(f"{folder}: {len(found)} checkpoints ({names}); give the path of one .index file")


def _index_beside(file: Path) -> Path:
    """The index that belongs to any file of a checkpoint: their names are equal up to the point."""
    return index_of(file.with_name(re.sub(r"(?<=.)\.(index|meta|data-\d+-of-\d+)$", "", file.name)))
