"""The highway layer (Srivastava et al. 2015), as in bilm-tf.

`c = sigmoid(W_carry x + b_carry);  y = c * relu(W_transform x + b_transform) + (1 - c) * x`

The gate called `carry` in the published files passes the transformed input, not the input.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from elmo.model.affine import Affine


class Highway(nn.Module):
    """A highway layer, whose output has the size of its input."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.transform = Affine(size, size)
        self.carry = Affine(size, size)
        draw_weights(self.transform.weight)
        draw_weights(self.carry.weight)
        nn.init.zeros_(self.transform.bias)
        # At the start of training, the input passes mostly unchanged.
        nn.init.constant_(self.carry.bias, -2.0)

    def forward(self, x: Float[Tensor, "W F"]) -> Float[Tensor, "W F"]:
        """Returns the gated sum of the input and its transformation."""
        carry = torch.sigmoid(self.carry(x))
        transformed = torch.relu(self.transform(x))
        return x + carry * (transformed - x)


def draw_weights(weight: Float[Tensor, "F K"]) -> None:
    """Draws random weights of standard deviation 1 / sqrt(K) in place.

    On the device "meta" it does nothing, since torch would import its compiler, which costs 70 MB and a second.
    """
    if not weight.is_meta:
        nn.init.normal_(weight, std=weight.shape[1] ** -0.5)
