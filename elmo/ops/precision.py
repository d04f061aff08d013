"""Decides the data type of a matrix product."""

import torch
from torch import Tensor


def product_dtype(like: Tensor) -> torch.dtype:
    """Returns the data type that autocast uses on the device of `like`, or the type of `like` without autocast."""
    device = like.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else like.dtype
