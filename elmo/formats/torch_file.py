"""Reads torch state dicts (`.th`, `.pt`, `.pkl`) in both of torch's layouts: tensors, but never code.

`read_state_dict` returns the tensors; `read_state_headers` only their shapes and types, without reading weights.
"""

import pickletools
import re
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from elmo.errors import InputError
from elmo.formats.files import SourceFile, zip_directory

ORDERED_DICT = "collections OrderedDict"
PARTS = re.compile(
    rf"{ORDERED_DICT}|torch\._utils _rebuild_(?!device_|wrapper_)\w+|torch\.nn\.parameter Parameter"
    r"|torch(\.storage)? \w+Storage|torch\.serialization _get_layout|torch [a-z]\w+"
)
"""The names that tensors are made of. Others that torch allows, such as bytearray, make much memory of a few bytes."""
TEXTS = {"BINUNICODE", "SHORT_BINSTRING"}
KEEPS, REPEATS = {"BINPUT", "LONG_BINPUT"}, {"BINGET", "LONG_BINGET"}
"""The instructions of a pickle that push a text, keep what was pushed last, and push it again; torch has no others."""
NEXT = {"class": {"EMPTY_TUPLE", "EMPTY_LIST"}, "no arguments": {"REDUCE"}}
"""The instructions that follow the class of an ordered dictionary: it is called without arguments, and filled later.
Python 2 called it with a new list of its items."""
ARGUMENTS = ("no arguments", "one argument")
"""The arguments that may make an ordered dictionary. A tensor is made with more."""
LEGACY_PICKLES = 5
"""The number of pickles in a file of torch's older layout."""


def read_state_dict(source: SourceFile) -> dict[str, Tensor]:
    """Reads the tensors by name, on the CPU. Raises InputError if the file holds anything else or is damaged."""
    found = _read(source, nullcontext())
    for name, tensor in found.items():
        if tensor.is_meta:
            raise InputError(f"{source.label}: {name} has a shape but no numbers; save it with them")
    return found


def read_state_headers(source: SourceFile) -> dict[str, Tensor]:
    """Reads what `read_state_dict` reads, but the tensors have only shapes and types."""
    found = _read(source, FakeTensorMode())
    stored = {part._cdata: part.nbytes() for part in (tensor.untyped_storage() for tensor in found.values())}
    if sum(stored.values()) > source.size:
        raise _damaged(source, f"{sum(stored.values()):,} bytes of numbers are announced in {source.size:,}")
    return found


def _read(source: SourceFile, mode: AbstractContextManager) -> dict[str, Tensor]:
    with source.open() as file:
        try:
            for pickled in _pickles(source, file):
                _check_instructions(source, pickled)
        except InputError:
            raise
        except Exception as error:  # a zip from strangers can make zipfile raise anything
            raise _damaged(source, error) from error
        file.seek(0)
        try:
            with mode, warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a warning about the older layout
                found = torch.load(file, map_location="cpu", weights_only=True)
        except (InputError, OSError, KeyboardInterrupt):
            raise
        except Exception as error:  # a file from strangers can make the reader raise anything
            raise _refusal(source, error) from error
    if not isinstance(found, Mapping) or not all(
        isinstance(name, str) and isinstance(tensor, Tensor) for name, tensor in found.items()
    ):
        raise InputError(
            f"{source.label}: holds {type(found).__name__}, not tensors by name; give a model's state dict"
        )
    for name, tensor in found.items():
        if tensor.layout is not torch.strided or tensor.is_nested or tensor.is_quantized:
            raise InputError(
                f"{source.label}: {name} is a sparse, nested or quantized tensor; dense ones are expected: save"
                " it dense"
            )
        if tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes():
            raise InputError(
                f"{source.label}: {name} has fewer values than its shape {tuple(tensor.shape)} needs; save it with"
                " all of them"
            )
    return dict(found)


def _refusal(source: SourceFile, error: Exception) -> InputError:
    code = re.search(r"GLOBAL ([\w.]+)", str(error))
    if code or "weights_only" in str(error):  # torch's advice to load the file anyway is omitted
        return _foreign(source, f"asks for {code[1]}" if code else "has instructions that no state dict has")
    return _damaged(source, str(error).strip().partition("\n")[0][:200] or type(error).__name__)


def _foreign(source: SourceFile, problem: str) -> InputError:
    return InputError(
        f"{source.label}: {problem}, which could run a program or fill the memory; only tensors are loaded: give a"
        " model's state dict, from where it was made, and no whole checkpoint of a training"
    )


def _damaged(source: SourceFile, reason: object) -> InputError:
    return InputError(f"{source.label}: damaged or incomplete state dict of torch ({reason}); fetch or copy it again")


def _pickles(source: SourceFile, file: Any) -> Iterator[Any]:
    """The pickles of a file, to be read one after another.

    torch does not compress what it saves; a compressed member could be a bomb.
    """
    if not source.begins_with(b"PK"):
        for _ in range(LEGACY_PICKLES):
            yield file
        return
    infos = zip_directory(file, source.label)
    packed = [info for info in infos if info.compress_type != zipfile.ZIP_STORED]
    if packed:
        raise InputError(
            f"{source.label}: {packed[0].filename} is compressed ({packed[0].compress_size:,} bytes for"
            f" {packed[0].file_size:,}); torch does not compress: get the original weights"
        )
    with zipfile.ZipFile(file) as archive:
        for info in infos:
            if ".pkl" in info.orig_filename.lower():  # torch reads archive/DATA.PKL, too
                with archive.open(info) as pickled:
                    yield pickled


def _check_instructions(source: SourceFile, pickled: Any) -> None:
    """Raises InputError for the first instruction of a pickle that no state dict has; torch refuses damaged pickles.

    A dictionary, list or tuple is used once where it was made. If it could be pushed again, each of many copies would
    take a few bytes of the file and the memory of the whole.
    """
    pushed, kept = "", dict[Any, str]()  # what the last instruction pushed
    for code, value in _instructions(pickled):
        if code in KEEPS:
            kept[value] = "" if pushed in ARGUMENTS else pushed
        elif code not in NEXT.get(pushed, {code}):
            raise _foreign(source, "makes a dictionary from another")
        elif code == "GLOBAL":
            name = str(value)
            if not PARTS.fullmatch(name):
                raise _foreign(source, f"asks for {name.replace(' ', '.')}")
            pushed = "class" if name == ORDERED_DICT else "part"
        elif code in REPEATS:
            pushed = kept.get(value, "")
            if not pushed:
                raise _foreign(source, "repeats a dictionary, list or tuple")
        elif pushed == "class" and code == "EMPTY_TUPLE":
            pushed = "no arguments"
        elif code == "TUPLE1":
            pushed = "one argument"
        else:
            is_tensor = code == "REDUCE" and pushed not in ARGUMENTS
            pushed = "part" if is_tensor or code in TEXTS else ""


def _instructions(pickled: Any) -> Iterator[tuple[str, Any]]:
    """The instructions of a pickle up to the first damage."""
    with suppress(ValueError):
        for code, value, _ in pickletools.genops(pickled):
            yield code.name, value
