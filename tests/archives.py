"""What AllenNLP packs as `model.tar.gz`: names, gates and signs as its class has them, from the published behaviour."""

import io
import json
from collections import OrderedDict
from typing import Any

import numpy as np
import torch
from bilm_files import CHARACTERS, random_weights

PREFIX = "_text_field_embedder.token_embedder_elmo._elmo."
OPTIONS = {**CHARACTERS, "char_cnn": {**CHARACTERS["char_cnn"], "n_highway": 2}}
CONFIG = {
    "model": {
        "type": "simple_tagger",
        "text_field_embedder": {
            "token_embedders": {
                "elmo": {"type": "elmo_token_embedder", "options_file": "/home/x/o.json", "do_layer_norm": False}
            }
        },
    }
}


def state_dict(weights: dict[str, np.ndarray], n_mixes: int = 1) -> "OrderedDict[str, torch.Tensor]":
    """The published arrays as AllenNLP's `Elmo` keeps them, with mixes that are not those of the beginning."""
    state: dict[str, np.ndarray] = {}
    characters = weights["char_embed"]
    encoder = "_elmo_lstm._token_embedder"
    state[f"{encoder}._char_embedding_weights"] = np.concatenate([np.zeros_like(characters[:1]), characters])
    for name, weight in weights.items():
        if name.startswith("CNN/W_cnn_"):
            state[f"{encoder}.char_conv_{name.removeprefix('CNN/W_cnn_')}.weight"] = weight[0].transpose(2, 1, 0)
        elif name.startswith("CNN/b_cnn_"):
            state[f"{encoder}.char_conv_{name.removeprefix('CNN/b_cnn_')}.bias"] = weight
        elif name.endswith("/W_transform"):
            group = name.removesuffix("/W_transform")
            layer = f"{encoder}._highways._layers.{group.removeprefix('CNN_high_')}"
            state[f"{layer}.weight"] = np.concatenate([weight.T, -weights[f"{group}/W_carry"].T])
            state[f"{layer}.bias"] = np.concatenate([weights[f"{group}/b_transform"], -weights[f"{group}/b_carry"]])
        elif name.endswith("/W_0"):
            cell = name.removesuffix("/W_0")
            direction = "forward" if cell.startswith("RNN_0") else "backward"
            layer = f"_elmo_lstm._elmo_lstm.{direction}_layer_{cell.split('Cell')[2].split('/')[0]}"
            size = weights[f"{cell}/W_P_0"].shape[1]
            i, j, f, o = np.split(weight.T, 4)
            kernel = np.concatenate([i, f, j, o])
            i, j, f, o = np.split(weights[f"{cell}/B"], 4)
            state[f"{layer}.input_linearity.weight"] = kernel[:, :size]
            state[f"{layer}.state_linearity.weight"] = kernel[:, size:]
            state[f"{layer}.state_linearity.bias"] = np.concatenate([i, f + 1, j, o])
            state[f"{layer}.state_projection.weight"] = weights[f"{cell}/W_P_0"].T
    state[f"{encoder}._projection.weight"] = weights["CNN_proj/W_proj"].T
    state[f"{encoder}._projection.bias"] = weights["CNN_proj/b_proj"]
    n_layers = 1 + sum("forward_layer" in name and name.endswith("bias") for name in state)
    for k in range(n_mixes):
        for j in range(n_layers):
            state[f"scalar_mix_{k}.scalar_parameters.{j}"] = np.array([0.3 * j - 0.1 * k], np.float32)
        state[f"scalar_mix_{k}.gamma"] = np.array([1.5 - k], np.float32)
    named = OrderedDict((PREFIX + name, torch.tensor(np.ascontiguousarray(array))) for name, array in state.items())
    named["tag_projection_layer.weight"] = torch.ones(2, 3)
    named._metadata = OrderedDict({"": {"version": 1}})  # type: ignore[attr-defined]
    return named


def as_torch(state: Any, legacy: bool = False) -> bytes:
    buffer = io.BytesIO()
    torch.save(state, buffer, _use_new_zipfile_serialization=not legacy)
    return buffer.getvalue()


def archived(state: Any, legacy: bool = False, config: Any = CONFIG, **more: bytes) -> dict[str, bytes]:
    files = {"config.json": json.dumps(config).encode(), "weights.th": as_torch(state, legacy)}
    return files | {"vocabulary/tokens.txt": b"the\n"} | {f"fta/model.elmo.{name}": data for name, data in more.items()}


STATE = state_dict(random_weights(OPTIONS, 4))
