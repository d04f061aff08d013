"""Highway layer (Srivastava et al. 2015), as in bilm-tf.

`c = sigmoid(W_carry x + b_carry);  y = c * relu(W_transform x + b_transform) + (1 - c) * x`

The gate that the published files call `carry` lets the transformed input through, not the input.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from elmo import ops


class Highway(nn.Module):
    """One highway layer; keeps the size of its input."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.transform = nn.Linear(size, size)
        self.carry = nn.Linear(size, size)
        draw(self.transform.weight)
        draw(self.carry.weight)
        nn.init.zeros_(self.transform.bias)
        # The input passes mostly unchanged at the start of training.
        nn.init.constant_(self.carry.bias, -2.0)

    def forward(self, x: Float[Tensor, "W F"]) -> Float[Tensor, "W F"]:
        carry = torch.sigmoid(ops.linear(x, self.carry.weight, self.carry.bias))
        transformed = torch.relu(ops.linear(x, self.transform.weight, self.transform.bias))
        return x + carry * (transformed - x)


def draw(weight: Float[Tensor, "F K"]) -> None:
    """Random weights of standard deviation 1 / sqrt(K), in place.

    None on the device "meta", where torch would import its compiler for them: 70 MB, and a second of every start.
    """
    if not weight.is_meta:
        nn.init.normal_(weight, std=weight.shape[1] ** -0.5)
