"""The filters of a character CNN by sums instead of products, in C compiled on this machine (`char_windows.c`).

A filter's value at a window is a sum over its characters, and a character always has the same vector. So the product of
each filter, place in the window and character is computed once. A window then adds `width` of these products, where the
convolution multiplies `width x E` numbers. All windows of only padding are equal, so one of them is enough.
"""

import ctypes
from collections.abc import Sequence
from functools import cache

import torch
from jaxtyping import Float, Int
from torch import Tensor

from elmo.ops.compiler import compiled, shared

LARGEST_TABLE = 2**22
"""The most products that are kept (16 MB). Published models have 3.2M; an alphabet of thousands has many times more."""
WORDS_OF_A_THREAD = 32


class _Windows(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_ssize_t) for name in ("columns", "characters", "filters", "widths")),
        *((name, ctypes.c_void_p) for name in ("ids", "width", "count", "sums", "out")),
    )


class CompiledWindows:
    """`pack_windows` by sums; the results are float32."""

    def __init__(self, embedding: Float[Tensor, "K E"], weights: Sequence[Float[Tensor, "_ E _"]]) -> None:
        self._library = compile_windows()
        assert self._library is not None
        self._characters = len(embedding)
        self._widths = torch.tensor([weight.shape[2] for weight in weights], dtype=torch.int64, device="cpu")
        self._counts = torch.tensor([len(weight) for weight in weights], dtype=torch.int64, device="cpu")
        self._widest = int(self._widths.max())
        self.size = int(self._counts.sum())
        self._sums = torch.cat([_products(embedding, weight) for weight in weights])

    def __call__(self, char_ids: Int[Tensor, "W C"]) -> Float[Tensor, "W size"]:
        """Returns each filter's largest value, without its bias. `C` is at least the widest filter.

        Raises IndexError for an id that is not in the alphabet.
        """
        assert self._library is not None
        ids = char_ids.long().contiguous()
        words, columns = ids.shape
        assert columns >= self._widest
        if words and not 0 <= ids.min() <= ids.max() < self._characters:
            raise IndexError(f"the ids of characters are from 0 to {self._characters - 1}")
        result = self._sums.new_empty(words, self.size)
        arrays = (ids, self._widths, self._counts, self._sums, result)
        step = _Windows(
            *(columns, self._characters, self.size, len(self._widths)), *(array.data_ptr() for array in arrays)
        )
        threads = min(torch.get_num_threads(), -(-words // WORDS_OF_A_THREAD))
        shared(self._library, self._library.largest_windows, step, words, 1, threads)
        return result


def can_compile_windows(embedding: Float[Tensor, "K E"], weights: Sequence[Float[Tensor, "_ E _"]]) -> bool:
    """Returns whether the products of these filters are few enough to keep and finite, and there is a compiler.

    A maximum in C passes over NaN, so a model with such weights needs the products of torch, which show it.
    """
    needed = len(embedding) * sum(len(weight) * weight.shape[2] for weight in weights)
    finite = all(bool(part.isfinite().all()) for part in (embedding, *weights))
    return needed <= LARGEST_TABLE and finite and compile_windows() is not None


def _products(embedding: Float[Tensor, "K E"], weight: Float[Tensor, "n E width"]) -> Float[Tensor, " width*K*n"]:
    """The products as the C code reads them. Sums are in float64, so no order of theirs changes what is kept."""
    return torch.einsum("ke,neo->okn", embedding.double(), weight.double()).float().flatten()


@cache
def compile_windows() -> ctypes.CDLL | None:
    """Returns the library of `char_windows.c`, or None without a C compiler."""
    return compiled("char_windows.c")
