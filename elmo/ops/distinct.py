"""Finds the distinct words of a batch."""

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor


def distinct_rows(ids: Int[Tensor, "M C"]) -> tuple[Int[Tensor, "W C"], Int[Tensor, " M"]]:
    """Returns `ids.unique(dim=0, return_inverse=True)` for numbers from 0 to 2**31 - 1; on a CPU several times faster.

    In a program of torch.export every row stands for itself, since the number of distinct rows is not known beforehand.
    """
    if torch.compiler.is_exporting():
        return ids, torch.arange(ids.shape[0], device=ids.device)
    if ids.device.type != "cpu" or not ids.numel():
        return ids.unique(dim=0, return_inverse=True)
    big_endian = ids.numpy().astype(">i4")  # as bytes, such rows sort like their numbers
    rows = big_endian.view(np.dtype((np.void, 4 * ids.shape[1])))[:, 0]
    _, first, place = np.unique(rows, return_index=True, return_inverse=True)
    return ids[torch.from_numpy(first)], torch.from_numpy(place)
