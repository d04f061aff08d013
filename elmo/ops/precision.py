"""The data type of a matrix product."""

import torch
from torch import Tensor


def product_dtype(like: Tensor) -> torch.dtype:
    """The data type that autocast uses on `like`'s device, else `like`'s own."""
    device = like.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else like.dtype
