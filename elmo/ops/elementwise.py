"""A sigmoid whose result for a number depends on the number alone, and not on its place in a tensor.

torch divides a large tensor among threads, and each part into vectors. The numbers that fill no vector at the end of a
part go through another implementation, whose last bit may differ. So a sentence would have other vectors in another
batch, where other numbers of it lie there. Here parts end where vectors do, and the tensor's last numbers are padded.
torch's tanh and exp have one implementation for all numbers.
"""

import torch
from torch import Tensor

LANES = 32
"""The numbers that torch computes at once: two vectors of the widest instructions, AVX-512."""
GRAIN = 32_768
"""The fewest numbers for which torch takes another thread."""


def sigmoid_(x: Tensor) -> Tensor:
    """Computes the sigmoid in place, and returns it."""
    count = x.numel()
    if (count <= GRAIN and count % LANES == 0) or x.device.type != "cpu" or not x.is_contiguous():
        return x.sigmoid_()
    flat, begin = x.view(-1), 0
    for end in (_in_equal_parts(count), count - count % LANES):
        flat[begin:end].sigmoid_()
        begin = end
    if begin < count:
        last = torch.nn.functional.pad(flat[begin:], (0, LANES - (count - begin)))
        flat[begin:] = last.sigmoid_()[: count - begin]
    return x


def _in_equal_parts(count: int) -> int:
    """Returns the most numbers, of `count`, that torch divides among its threads at multiples of `LANES`."""
    while count > GRAIN:
        threads = min(torch.get_num_threads(), -(-count // GRAIN))
        if (rest := count % (LANES * threads)) == 0:
            return count
        count -= rest
    return count - count % LANES
