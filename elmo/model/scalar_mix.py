"""ScalarMix: one vector a token out of all layers (Peters et al. 2018, eq. 1).

`ELMo = gamma * sum_j softmax(w)_j * h_j`, optionally with layer normalization of every `h_j` before it is weighted.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn


class ScalarMix(nn.Module):
    """A learned mix of `n_layers` layers."""

    def __init__(self, n_layers: int, layer_norm: bool = False) -> None:
        super().__init__()
        self.layer_norm = layer_norm
        self.scalars = nn.Parameter(torch.zeros(n_layers))
        self.gamma = nn.Parameter(torch.ones(()))

    def weights(self) -> Float[Tensor, " N"]:
        """`softmax(w)`: how much of every layer is in the mix; sums to 1."""
        return torch.softmax(self.scalars, dim=0)

    def penalty(self, coefficient: float) -> Float[Tensor, ""]:
        """`lambda * ||w||^2` (sec. 3.3), to be added to the loss of the task: pulls the mix towards an average."""
        return coefficient * self.scalars.square().sum()

    def forward(self, layers: Float[Tensor, "N B T D"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        if self.layer_norm:
            layers = normalize_layers(layers, mask)
        return self.gamma * torch.einsum("n,nbtd->btd", self.weights(), layers)


def normalize_layers(layers: Float[Tensor, "N B T D"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, "N B T D"]:
    """Zero mean and unit variance of every layer over all real tokens of the batch and all dimensions.

    The statistics are the batch's (as in the published systems), so a vector then depends on its batch mates.
    """
    real = mask[None, :, :, None].to(layers.dtype)
    count = (real.sum() * layers.shape[-1]).clamp(min=1)
    mean = (layers * real).sum(dim=(1, 2, 3), keepdim=True) / count
    variance = ((layers - mean) * real).square().sum(dim=(1, 2, 3), keepdim=True) / count
    return (layers - mean) * torch.rsqrt(variance + 1e-12) * real
