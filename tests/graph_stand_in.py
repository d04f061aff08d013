"""A stand-in for a CUDA graph on the CPU: it runs the same function, and refuses what a capture would refuse.

`put_in_place` makes `ops.capture` return it.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from elmo import ops

READS_BACK = {
    "_local_scalar_dense", "nonzero", "nonzero_numpy", "unique", "unique2", "_unique", "_unique2", "unique_dim",
    "unique_consecutive", "unique_dim_consecutive", "masked_select", "equal", "is_nonzero", "argwhere", "bincount",
    "repeat_interleave", "coalesce", "_coalesce", "tensor_split", "item",
}  # fmt: skip
"""The operations whose result, or its size, the CPU needs to know."""


class CaptureError(RuntimeError):
    """A function does what a CUDA graph cannot repeat."""


def put_in_place(set_attribute: Callable[..., None] = setattr) -> None:
    """Replaces `ops.capture`; `set_attribute` may be that of pytest's `monkeypatch`."""
    capture = ops.capture
    set_attribute(ops, "capture", lambda *arguments: Recorded(capture(*arguments)))


class Recorded:
    """The stand-in for a graph. It records the first run, and every later run has to be the same."""

    def __init__(self, function: Callable[[], None]) -> None:
        self._function = function
        self._operations: list[tuple[str, ...]] | None = None

    def __call__(self) -> None:
        with Refusals() as mode:
            self._function()
        if self._operations is None:
            self._operations = mode.operations
        for first, now in zip(self._operations, mode.operations, strict=False):
            if first != now:
                raise CaptureError(f"the first run had {first}, this one {now}: a CUDA graph would repeat the first")
        if len(self._operations) != len(mode.operations):
            raise CaptureError(f"{len(mode.operations)} operations instead of {len(self._operations)}")


class Refusals(TorchDispatchMode):
    """Refuses operations that copy to or from the CPU; notes the others with the shapes of their results."""

    def __init__(self) -> None:
        super().__init__()
        self.operations: list[tuple[str, ...]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name.removeprefix("aten::")
        if name in READS_BACK or (
            name in ("index", "index_put_", "index_put", "_index_put_impl_") and _has_mask(args[1])
        ):
            raise CaptureError(f"{name} reads numbers back from the GPU, which a CUDA graph cannot do")
        found = func(*args, **(kwargs or {}))
        devices = {str(part.device) for part in tree_leaves((args, kwargs, found)) if isinstance(part, Tensor)}
        if len(devices) > 1:
            raise CaptureError(
                f"{name} has tensors on {' and '.join(sorted(devices))}: a CUDA graph cannot repeat that"
            )
        shapes = [str(tuple(part.shape)) for part in tree_leaves(found) if isinstance(part, Tensor)]
        self.operations.append((name, *shapes))
        return found


def _has_mask(indices: Iterable[Tensor | None]) -> bool:
    return any(index is not None and index.dtype in (torch.bool, torch.uint8) for index in indices)
