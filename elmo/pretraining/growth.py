"""A wider biLM that computes what a narrower one does, so a larger run starts where a smaller one ended.

The idea of Net2Net (Chen et al. 2016), with new units instead of copies: weights into a new cell or dimension are
random, weights from it to old ones are zero. The outputs equal the narrow model's to the last bits, and every zero has
a gradient from the first step.
"""

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from elmo.model.bilm import BiLM, BiLMConfig


def can_grow(narrow: BiLMConfig, wide: BiLMConfig) -> bool:
    """Whether they differ only in more cells or a wider projection, and both have a projection."""
    lstm = replace(wide.lstm, dim=narrow.lstm.dim, projection_dim=narrow.lstm.projection_dim)
    is_wider = wide.lstm.dim >= narrow.lstm.dim and wide.lstm.projection_dim >= narrow.lstm.projection_dim
    return replace(wide, lstm=lstm) == narrow and is_wider and wide.lstm.has_projection and narrow.lstm.has_projection


@torch.no_grad()
def grow_into(bilm: BiLM, weights: Mapping[str, Tensor]) -> None:
    """Copies the weights of a biLM that is at most as wide into a new one, in place; see `can_grow`."""
    for name, wide in bilm.state_dict().items():
        narrow = weights[name].to(wide.dtype)
        if name.endswith((".weight_input", ".weight_state", ".bias")) and name.startswith("layers."):
            # The four gates are stacked: each grows separately.
            wide, narrow = (t.view(2, 4, -1, *t.shape[2:]) for t in (wide, narrow))
        wide[tuple(slice(size) for size in narrow.shape[:-1])] = widened(narrow, wide.shape[-1])


def widened(narrow: Tensor, size: int) -> Tensor:
    """`narrow`, with its last dimension zero-padded to `size`."""
    return torch.nn.functional.pad(narrow, (0, size - narrow.shape[-1]))
