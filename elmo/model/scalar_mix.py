"""The learned mix of layers, which gives one vector per token (Peters et al. 2018, eq. 1).

`ELMo = gamma * sum_j softmax(w)_j * h_j`, optionally with layer normalization of every `h_j` before weighting.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from elmo.errors import InputError, check_whole


class ScalarMix(nn.Module):
    """A learned mix of `n_layers` layers."""

    def __init__(self, n_layers: int, layer_norm: bool = False) -> None:
        check_whole("n_layers", n_layers)
        super().__init__()
        self.layer_norm = layer_norm
        self.scalars = nn.Parameter(torch.zeros(n_layers))
        self.gamma = nn.Parameter(torch.ones(()))

    def weights(self) -> Float[Tensor, " N"]:
        """Returns the share of every layer in the mix, `softmax(w)`; the shares sum to 1."""
        return torch.softmax(self.scalars, dim=0)

    def penalty(self, coefficient: float) -> Float[Tensor, ""]:
        """Returns `lambda * ||w||^2` (sec. 3.3) for the task's loss, which pulls the mix towards an average."""
        return coefficient * self.scalars.square().sum()

    def forward(
        self, layers: Float[Tensor, "N B T D"], mask: Bool[Tensor, "B T"] | None = None
    ) -> Float[Tensor, "B T D"]:
        """Computes equation 1 for every token; only layer normalization needs the mask.

        Raises InputError for another number of layers, and if layer normalization has no mask.
        """
        if len(layers) != len(self.scalars):
            raise InputError(
                f"{len(layers)} layers are given; the mix has {len(self.scalars)}, the token layer included"
            )
        if self.layer_norm:
            if mask is None:
                raise InputError("layer normalization needs the mask of the real tokens: mix(layers, mask)")
            layers = normalize_layers(layers, mask)
        return self.gamma * torch.einsum("n,nbtd->btd", self.weights(), layers)


def normalize_layers(layers: Float[Tensor, "N B T D"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, "N B T D"]:
    """Normalizes every layer to zero mean and unit variance over all real tokens of the batch and all dimensions.

    The statistics are the batch's (as in the published systems), so a vector depends on the rest of the batch.
    """
    dtype = layers.dtype
    layers = layers.to(torch.promote_types(dtype, torch.float32))  # sums exceed the range of float16
    real = mask[None, :, :, None].to(layers.dtype)
    count = (real.sum() * layers.shape[-1]).clamp(min=1)
    mean = (layers * real).sum(dim=(1, 2, 3), keepdim=True) / count
    variance = ((layers - mean) * real).square().sum(dim=(1, 2, 3), keepdim=True) / count
    return ((layers - mean) * torch.rsqrt(variance + 1e-12) * real).to(dtype)
