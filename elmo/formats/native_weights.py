"""Reads and writes the weights of the native format, `model.safetensors`."""

from collections.abc import Callable
from pathlib import Path

import safetensors
import torch
from torch import Tensor

from elmo.errors import InputError
from elmo.formats import int8_rows
from elmo.formats.native import SCALES, Store
from elmo.formats.safetensors_header import damaged
from elmo.formats.stored import Model


def read_weight(file: Path, name: str) -> Tensor:
    """Reads a weight as a float32 copy.

    The file is opened for one tensor only, since an open file keeps a second copy of all it has read. Raises
    InputError if the file is damaged.
    """
    try:
        with safetensors.safe_open(file, framework="pt") as weights:
            weight = weights.get_tensor(name)
            if weight.dtype != torch.int8:
                return weight.to(torch.float32, copy=True)
            return int8_rows.decode(weight, weights.get_tensor(SCALES + name))
    except safetensors.SafetensorError as error:
        raise damaged(file, error) from error
    except InputError as error:
        raise InputError(f"{file}: {name} {error}; copy it again") from error


def to_arrays(model: Model, path: Path, store: Store, progress: Callable[[int, int], object]) -> dict[str, Tensor]:
    """Returns the arrays of the file; `path` is for errors. Raises InputError for a weight that cannot be stored so.

    Weights on a GPU are converted there, which is many times faster.

    Calls `progress` with the bytes of the weights that are done, and of all.
    """
    arrays: dict[str, Tensor] = {}
    parts = (("bilm", model.weights), ("lm_head", model.lm_head or {}))
    done, total = 0, sum(weight.nbytes for _, weights in parts for weight in weights.values())
    for part, weights in parts:
        for key, weight in weights.items():
            progress(done, total)
            done += weight.nbytes
            name, weight = f"{part}.{key}", weight.detach().float().contiguous()
            if store == "int8" and int8_rows.fits(weight):
                if not weight.isfinite().all():
                    raise InputError(f"{path}: {name} has values that are not finite; 8-bit rows cannot hold them")
                arrays[name], arrays[SCALES + name] = (part.cpu() for part in int8_rows.encode(weight))
                continue
            arrays[name] = (weight if store == "float32" else weight.half()).cpu()
            if arrays[name].isinf().any() and not weight.isinf().any():
                most = f"{torch.finfo(torch.float16).max:,.0f}"
                raise InputError(f"{path}: {name} has values beyond {most}, the largest of float16; store float32")
    return arrays
