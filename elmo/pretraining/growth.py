"""A wider biLM that computes what a narrower one does, so a larger run starts where a smaller one ended.

The idea of Net2Net (Chen et al. 2016), with new units instead of copies: weights into a new cell or dimension are
random, weights from it to old ones are zero. The outputs equal the narrow model's to the last bits, and every zero has
a gradient from the first step.
"""

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from elmo.model.bilm import BiLM
from elmo.model.config import BiLMConfig


def growth_obstacle(narrow: BiLMConfig, wide: BiLMConfig) -> str:
    """Returns why a model of `narrow` cannot become one of `wide`, with the remedy, or an empty text if it can."""
    lstm = replace(wide.lstm, dim=narrow.lstm.dim, projection_dim=narrow.lstm.projection_dim)
    is_wider = wide.lstm.dim >= narrow.lstm.dim and wide.lstm.projection_dim >= narrow.lstm.projection_dim
    if replace(wide, lstm=lstm) != narrow or not is_wider:
        return "only model.lstm.dim and model.lstm.projection_dim may be larger: omit the others"
    if not narrow.lstm.has_projection:
        return "a model without a projection, its dim equal to its projection_dim, does not grow: omit both"
    if not wide.lstm.has_projection:
        return "a dim equal to projection_dim leaves no room for the model's projection: give another dim"
    filters = None if wide.char_cnn is None else wide.char_cnn.n_filters
    if wide.lstm.projection_dim == filters != narrow.lstm.projection_dim:
        return (
            f"a projection_dim of {filters}, the number of character filters, leaves no room for the model's"
            " projection of its tokens: give another"
        )
    return ""


@torch.no_grad()
def grow_into(bilm: BiLM, weights: Mapping[str, Tensor]) -> None:
    """Copies the weights of a biLM that is at most as wide into a new one, in place; see `growth_obstacle`."""
    weights = _identity(bilm.config) | dict(weights)
    for name, wide in bilm.state_dict().items():
        narrow = weights[name].to(wide.dtype)
        if name.endswith((".weight_input", ".weight_state", ".bias")) and name.startswith("layers."):
            # The four gates are stacked, and each of them grows separately.
            wide, narrow = (t.view(2, 4, -1, *t.shape[2:]) for t in (wide, narrow))
        wide[tuple(slice(size) for size in narrow.shape[:-1])] = widen_last(narrow, wide.shape[-1])


def _identity(config: BiLMConfig) -> dict[str, Tensor]:
    """The token projection of a model that has none, since it is as wide as its filters."""
    if config.char_cnn is None:
        return {}
    filters = config.char_cnn.n_filters
    parts = {"weight": torch.eye(filters), "bias": torch.zeros(filters)}
    return {f"token_encoder.projection.{name}": part for name, part in parts.items()}


def widen_last(narrow: Tensor, size: int) -> Tensor:
    """Pads the last dimension of `narrow` with zeros to `size`."""
    return torch.nn.functional.pad(narrow, (0, size - narrow.shape[-1]))
