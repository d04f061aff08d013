"""The header of a safetensors file: the names, types and shapes of its arrays, read without torch and numpy.

A file is 8 bytes (the header's length, the lowest first), the header (JSON), and the numbers, without gaps
(https://github.com/huggingface/safetensors#format).
"""

import json
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

from elmo.errors import InputError
from elmo.formats.files import file_on_disk, refuse_known

MOST_HEADER = 1 << 20
"""The most bytes of a header of weights. An array takes about a hundred; the deepest biLM has thousands."""
BYTES = {"BOOL": 1, "U8": 1, "I8": 1, "F16": 2, "BF16": 2, "I16": 2, "U16": 2, "F32": 4, "I32": 4, "F64": 8, "I64": 8}
"""The bytes of a number, by the names of data types in safetensors."""


class Stored(NamedTuple):
    """An array in the file."""

    kind: str
    """The type of its numbers, as safetensors names it."""
    shape: tuple[int, ...]


def read_header(file: Path) -> dict[str, Stored]:
    """Returns every array by its name. Raises InputError if the header is too long or the file is damaged."""
    size = file.stat().st_size
    with file.open("rb") as start:
        length = int.from_bytes(start.read(8), "little")
        if MOST_HEADER < length <= size:
            raise InputError(f"{file}: its header has {length:,} bytes, too many for a biLM's weights; copy it again")
        header = start.read(length) if length <= size else b""
    try:
        return _arrays(header, size - 8 - length)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise damaged(file, error) from error


def _arrays(header: bytes, size: int) -> dict[str, Stored]:
    """The arrays whose numbers have `size` bytes in all."""
    arrays = json.loads(header)
    arrays.pop("__metadata__", None)
    found = {name: _array(values) for name, values in arrays.items()}
    places = sorted((values["data_offsets"] for values in arrays.values()), key=tuple)
    ends = [0, *(end for _, end in places)]
    if [begin for begin, _ in places] != ends[:-1] or ends[-1] != size:
        raise ValueError(f"the arrays take {max(ends):,} bytes of {size:,}, or do not follow one another")
    return found


def damaged(file: Path, error: Exception) -> InputError:
    """Returns the error for a file that is not whole. A pointer of Git LFS, or a web page, in its place is named."""
    size = file.stat().st_size
    refuse_known([file_on_disk(file)])
    return InputError(f"{file}: damaged or incomplete safetensors file ({size:,} bytes: {error}); copy it again")


def _array(values: dict[str, Any]) -> Stored:
    begin, end = values["data_offsets"]
    found = Stored(str(values["dtype"]), tuple(values["shape"]))
    if not all(type(number) is int and number >= 0 for number in found.shape):
        raise ValueError(f"{values['shape']} is no shape")
    if found.kind in BYTES and end - begin != prod(found.shape) * BYTES[found.kind]:
        raise ValueError(f"an array {found.shape} of {found.kind} has {end - begin:,} bytes")
    return found
