"""How the models in this folder were made: random weights, stored and read by ELMoForManyLangs's own program.

    python -m venv venv && venv/bin/pip install torch elmoformanylangs==0.0.4.post2
    venv/bin/python tests/data/many_langs/make.py

`expected.npz` holds what the program gives for each sentence of `sentences.json`, alone and on a fresh model, since it
keeps its state. Its import stops at a decorator of the package `overrides`, which is replaced by one that does nothing.
"""

import json
import logging
import sys
import types
from pathlib import Path

import numpy as np
import torch

sys.modules["overrides"] = types.ModuleType("overrides")
sys.modules["overrides"].overrides = lambda function: function  # type: ignore[attr-defined]

from elmoformanylangs import Embedder  # noqa: E402
from elmoformanylangs.frontend import Model  # noqa: E402
from elmoformanylangs.modules.embedding_layer import EmbeddingLayer  # noqa: E402

HERE = Path(__file__).parent
KNOWN = ["ein", "Test", "fährt", ".", "水", "Straße", "Straßenbah"]
SENTENCES = [
    ["ein", "kleiner", "Test", "mit", "Ünïcödé", "."],
    ["Straßenbahnhaltestellenschild", "fährt"],
    [],
    ["水", "火", "<bos>", "", "a\u3000b", "x y"],
    ["unbekannt"] * 3,
]
LSTM = {"name": "elmo", "projection_dim": 4, "cell_clip": 0.7, "proj_clip": 0.5, "dim": 5, "n_layers": 2}
EMBEDDER = {
    "name": "cnn",
    "activation": "relu",
    "filters": [[1, 2], [2, 3]],
    "n_highway": 2,
    "word_dim": 3,
    "char_dim": 3,
    "max_characters_per_token": 12,
}
MODELS = {
    "both": (LSTM, EMBEDDER, "/Users/someone/configs/sizes.json"),
    "characters": (
        LSTM | {"n_layers": 1, "dim": 4},
        EMBEDDER | {"word_dim": 0, "activation": "tanh", "n_highway": 1, "max_characters_per_token": 9},
        "sizes.json",
    ),
    "words": (LSTM | {"n_layers": 3, "cell_clip": None, "proj_clip": 0}, EMBEDDER | {"char_dim": 0}, "sizes.json"),
}


def make(name: str, lstm: dict, embedder: dict, config_path: str) -> None:
    torch.manual_seed(1)
    sizes = {"encoder": lstm, "token_embedder": embedder, "dropout": 0.1, "classifier": {"name": "sampled_softmax"}}
    marks = ["<oov>", "<bos>", "<eos>", "<pad>"]
    words = {form: number for number, form in enumerate([*marks, *KNOWN])}
    letters = [*dict.fromkeys("".join(KNOWN)), "\u3000", "<bos>", "<eos>", "<oov>", "<pad>", "<bow>", "<eow>"]
    characters = {form: number for number, form in enumerate(letters)}
    layers = [
        EmbeddingLayer(embedder[dim], table, fix_emb=False) if embedder[dim] else None
        for dim, table in (("word_dim", words), ("char_dim", characters))
    ]
    model = Model(sizes, *layers)
    for parameter in model.parameters():
        parameter.data = torch.randn_like(parameter) * 0.8
    folder = HERE / name
    folder.mkdir(exist_ok=True)
    (folder / "sizes.json").write_text(json.dumps(sizes))
    (folder / "config.json").write_text(json.dumps({"seed": 1, "config_path": config_path}))
    for file, table, dim in (("word.dic", words, 1), ("char.dic", characters, embedder["char_dim"])):
        if dim:
            (folder / file).write_text("".join(f"{form}\t{number}\n" for form, number in table.items()), "utf-8")
    for part in ("token_embedder", "encoder"):  # in the layout of the torch of those days, but for one model
        weights = getattr(model, part).state_dict()
        torch.save(weights, folder / f"{part}.pkl", _use_new_zipfile_serialization=name == "words")
    found = [Embedder(str(folder)).sents2elmo([sentence], output_layer=-2)[0] for sentence in SENTENCES]
    np.savez_compressed(folder / "expected.npz", *found)


if __name__ == "__main__":
    logging.disable()
    (HERE / "sentences.json").write_text(json.dumps(SENTENCES, ensure_ascii=False) + "\n", "utf-8")
    for name, parts in MODELS.items():
        make(name, *parts)
