"""A device that is not the CPU, where there is no other: its tensors hold real numbers, and do not mix with the CPU's.

Within `Lists()` and `OtherDevice()` tensors on `DEVICE` are computed by the CPU. What a GPU refuses is refused:
operations on tensors of both devices (numbers, and indices that look up, may come from the CPU), the CPU's random
generators, numpy. Torch lets a program have tensors on the device "meta" without any library for it, hence its name.
"""

from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

DEVICE = torch.device("meta")
MOVES = {"copy_", "_to_copy"}
LOOKS_UP = {"index", "index_put", "index_put_", "_index_put_impl_"}


class Elsewhere(Tensor):
    """A tensor on `DEVICE`."""

    numbers: Tensor
    """On the CPU."""

    @staticmethod
    def __new__(cls, numbers: Tensor) -> "Elsewhere":
        with torch.inference_mode(False):  # a view of a weight is none of the tensors that inference makes
            made = Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
                cls, numbers.shape, numbers.stride(), numbers.storage_offset(), dtype=numbers.dtype, device=DEVICE
            )
        made.numbers = numbers
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise AssertionError(f"{func} outside of the mode")


class OtherDevice(TorchDispatchMode):
    """While it is entered, there is another device."""

    def __init__(self) -> None:
        super().__init__()
        self.operations = 0
        """How many the device has had."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        with self:  # under inference mode what is made of other operations comes here whole
            parts = func.decompose(*args, **kwargs)
        if parts is not NotImplemented:
            return parts
        name = func._schema.name.removeprefix("aten::")
        there = [each for each in tree_leaves((args, kwargs)) if isinstance(each, Elsewhere)]
        goes_there = bool(there)
        if kwargs.get("device") is not None:
            goes_there = torch.device(kwargs["device"]).type == DEVICE.type
            kwargs["device"] = torch.device("cpu")
        elif name == "copy_":
            goes_there = isinstance(args[0], Elsewhere)
        if there and name not in MOVES:
            _check(name, args, kwargs)
        generator = kwargs.get("generator")
        if goes_there and generator is not None and generator.device.type != DEVICE.type:
            raise RuntimeError(f"{name}: a generator of {generator.device} for numbers on {DEVICE}")
        found = func(*tree_map(_numbers, args), **tree_map(_numbers, kwargs))
        self.operations += goes_there
        if not goes_there:
            return found
        known = {id(each.numbers): each for each in there}  # what is changed in place is the same tensor afterwards
        return tree_map(lambda each: known[id(each)] if id(each) in known else _moved(each), found)


def _check(name: str, args: Any, kwargs: Any) -> None:
    """Of what a GPU takes from the CPU there are single numbers, and indices."""
    rest = (args[0], *args[2:]) if name in LOOKS_UP else args
    here = [
        each for each in tree_leaves((rest, kwargs)) if isinstance(each, Tensor) and not isinstance(each, Elsewhere)
    ]
    if any(each.dim() for each in here):
        raise RuntimeError(f"{name}: tensors of {DEVICE} and of the CPU")


def _numbers(value: Any) -> Any:
    return value.numbers if isinstance(value, Elsewhere) else value


def _moved(value: Any) -> Any:
    return Elsewhere(value) if isinstance(value, Tensor) else value


class Lists(TorchFunctionMode):
    """Lists become tensors on the CPU, as they do before a GPU gets them; torch thinks that "meta" needs no numbers."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func is torch.tensor and kwargs.get("device") is not None:
            device = kwargs.pop("device")
            return torch.tensor(*args, **kwargs).to(device)
        if func is Tensor.tolist:
            return args[0].cpu().numpy().tolist()
        if func in (Tensor.__getitem__, Tensor.__setitem__):
            whole, index, *rest = args
            index = index if isinstance(index, tuple) else (index,)
            args = whole, tuple(torch.tensor(part) if isinstance(part, list) else part for part in index), *rest
        return func(*args, **kwargs)
