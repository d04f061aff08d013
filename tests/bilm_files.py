"""Models in the layout of bilm-tf, AllenNLP, NLPL and SeqVec, written by the tests: nothing of elmo writes them.

`options` draws what an `options.json` can say, `random_weights` the datasets that go with it, and the writers make the
files. Nothing of elmo is imported before a function needs it.
"""

import gzip
import io
import json
import tarfile
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from hypothesis import strategies as st

Options = dict[str, Any]
Datasets = dict[str, np.ndarray]
SPECIAL = ["<S>", "</S>", "<UNK>"]
CHARACTERS: dict[str, Any] = {
    "lstm": {
        "dim": 6,
        "projection_dim": 4,
        "n_layers": 2,
        "cell_clip": 3,
        "proj_clip": 3,
        "use_skip_connections": True,
    },
    "char_cnn": {
        "embedding": {"dim": 3},
        "filters": [[1, 3], [3, 4]],
        "n_highway": 1,
        "n_characters": 262,
        "max_characters_per_token": 50,
        "activation": "relu",
    },
}
READS_WORDS: dict[str, Any] = {"lstm": CHARACTERS["lstm"], "n_tokens_vocab": 6}
VOCABULARY = ["the", "<S>", "cat", "</S>", "<UNK>", "naïve"]


@st.composite
def options(draw: st.DrawFn) -> Options:
    """What the options of a model that reads characters say: sizes, depths, and which parts there are."""
    size = draw(st.integers(2, 6))
    filters = draw(st.lists(st.tuples(st.integers(1, 7), st.integers(1, 5)), min_size=1, max_size=4))
    if draw(st.booleans()):  # as wide as the LSTMs' input already: no projection of words
        size = sum(count for _, count in filters)
    return {
        "lstm": draw(lstm_options(size)),
        "char_cnn": {
            "embedding": {"dim": draw(st.integers(1, 4))},
            "filters": filters,
            "n_highway": draw(st.integers(0, 3)),
            "n_characters": 262,
            "max_characters_per_token": draw(st.sampled_from([7, 8, 16, 33, 50, 70])),
            "activation": draw(st.sampled_from(["relu", "tanh"])),
        },
    }


@st.composite
def lstm_options(draw: st.DrawFn, size: int) -> Options:
    clips = st.sampled_from([None, 0.05, 0.3, 3.0, 3])
    return {
        "dim": draw(st.one_of(st.just(size), st.integers(2, 9))),
        "projection_dim": size,
        "n_layers": draw(st.integers(1, 4)),
        "cell_clip": draw(clips),
        "proj_clip": draw(clips),
        "use_skip_connections": draw(st.booleans()),
    }


@st.composite
def word_options(draw: st.DrawFn) -> Options:
    """The options of a model that reads words, with what its training wrote into them."""
    return {
        "bidirectional": True,
        "lstm": draw(lstm_options(draw(st.integers(2, 6)))),
        "n_tokens_vocab": draw(st.integers(4, 12)),
        "n_negative_samples_batch": 16,
    }


@st.composite
def as_written(draw: st.DrawFn, options: Options) -> Options:
    """The same options as somebody may have written them: what has its default left out or null, keys in any order."""
    defaults: list[tuple[str, str, Any]] = [
        ("lstm", "n_layers", 1),
        ("lstm", "cell_clip", None),
        ("lstm", "proj_clip", None),
        ("lstm", "use_skip_connections", False),
        ("char_cnn", "n_highway", 0),
        ("char_cnn", "max_characters_per_token", 50),
    ]
    written = {key: dict(value) if isinstance(value, dict) else value for key, value in options.items()}
    for table, key, default in defaults:
        if table in written and written[table][key] == default and draw(st.booleans()):
            del written[table][key]
    if "char_cnn" in written:  # the number is never right for every program, and never used
        n_characters = draw(st.sampled_from([261, 262, 60, None]))
        written["char_cnn"]["n_characters"] = n_characters
        if n_characters is None:
            del written["char_cnn"]["n_characters"]
    return {key: written[key] for key in draw(st.permutations(list(written)))}


def random_weights(options: Options, seed: int, n_characters: int = 261) -> Datasets:
    """Weights by their published names, of a size that saturates nothing: sums of a product are of order 1."""
    rng = np.random.default_rng(seed)

    def matrix(*shape: int) -> np.ndarray:
        return rng.normal(size=shape) / np.prod(shape[:-1]) ** 0.5

    lstm = options["lstm"]
    size, hidden = lstm["projection_dim"], lstm["dim"]
    if "char_cnn" in options:
        cnn = options["char_cnn"]
        n_filters = sum(count for _, count in cnn["filters"])
        weights = {"char_embed": rng.normal(size=(n_characters, cnn["embedding"]["dim"]))}
        for i, (width, count) in enumerate(cnn["filters"]):
            weights[f"CNN/W_cnn_{i}"] = matrix(1, width, cnn["embedding"]["dim"], count)
            weights[f"CNN/b_cnn_{i}"] = rng.normal(size=count) / 2
        for k in range(cnn["n_highway"]):
            for part in ("transform", "carry"):
                weights[f"CNN_high_{k}/W_{part}"] = matrix(n_filters, n_filters)
                weights[f"CNN_high_{k}/b_{part}"] = rng.normal(size=n_filters) / 2
        if n_filters != size:
            weights["CNN_proj/W_proj"] = matrix(n_filters, size)
            weights["CNN_proj/b_proj"] = rng.normal(size=size) / 2
    else:
        weights = {"embedding": rng.normal(size=(options["n_tokens_vocab"], size))}
    for direction in range(2):
        for layer in range(lstm["n_layers"]):
            cell = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            weights[f"{cell}/W_0"] = matrix(2 * size, 4 * hidden)
            weights[f"{cell}/B"] = rng.normal(size=4 * hidden) / 2
            if hidden != size:
                weights[f"{cell}/W_P_0"] = matrix(hidden, size)
    return {name: weight.astype(np.float32) for name, weight in weights.items()}


def as_float64(weights: Mapping[str, np.ndarray]) -> Datasets:
    return {name: weight.astype(np.float64) for name, weight in weights.items()}


def as_published(options: Options, weights: Datasets) -> Any:
    """Our network of the two files that these options and weights make."""

    from elmo import formats

    with tempfile.TemporaryDirectory() as folder:
        write_folder(Path(folder), {"options.json": as_json(options), "weights.hdf5": as_hdf5(weights)})
        return formats.load(folder).bilm()


# Files


def as_json(options: Options) -> bytes:
    return json.dumps(options).encode()


def as_hdf5(weights: Mapping[str, np.ndarray]) -> bytes:
    """As bilm-tf's `dump_weights` writes: a dataset for every variable, without filters."""
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        for name, weight in weights.items():
            file.create_dataset(name, data=weight)
    return buffer.getvalue()


def as_vocabulary(words: list[str], skipped: int | None = None, zipped: bool = False) -> bytes:
    """`words`, one a line; before word number `skipped` the line that has no row."""
    lines = list(words)
    if skipped is not None:
        lines.insert(skipped, "!!!MAXTERMID")
    text = "".join(f"{line}\n" for line in lines).encode()
    return gzip.compress(text) if zipped else text


def write_folder(path: Path, files: Mapping[str, bytes]) -> Path:
    path.mkdir(exist_ok=True)
    for name, data in files.items():
        (path / name).write_bytes(data)
    return path


def write_zip(path: Path, files: Mapping[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def write_tar(path: Path, files: Mapping[str, bytes], mode: str = "w:gz") -> Path:
    with tarfile.open(path, mode) as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path
