"""Reads torch state dicts (`.th`, `.pt`, `.pkl`) in both of torch's layouts: tensors, but never code.

`read_state_dict` returns the tensors; `read_state_headers` only their shapes and types, without reading weights.
"""

import re
import warnings
import zipfile
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from elmo.errors import InputError
from elmo.formats.files import SourceFile


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
        _check_zip(source, file)
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
        asked = f"asks for {code[1]}" if code else "has instructions that no state dict has"
        return InputError(
            f"{source.label}: {asked}, which could run a program; only tensors are loaded: get the weights from where"
            " they were made"
        )
    return _damaged(source, str(error).strip().partition("\n")[0][:200] or type(error).__name__)


def _damaged(source: SourceFile, reason: object) -> InputError:
    return InputError(f"{source.label}: damaged or incomplete state dict of torch ({reason}); fetch or copy it again")


def _check_zip(source: SourceFile, file: Any) -> None:
    """torch does not compress what it saves; a compressed member could be a bomb."""
    if not source.begins_with(b"PK"):
        return
    try:
        with zipfile.ZipFile(file) as archive:
            packed = [info for info in archive.infolist() if info.compress_type != zipfile.ZIP_STORED]
    except (zipfile.BadZipFile, NotImplementedError, UnicodeError) as error:
        raise _damaged(source, error) from error
    if packed:
        raise InputError(
            f"{source.label}: {packed[0].filename} is compressed ({packed[0].compress_size:,} bytes for"
            f" {packed[0].file_size:,}); torch does not compress: get the original weights"
        )
