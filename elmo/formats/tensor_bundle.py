"""Reads the files of a TensorFlow checkpoint ("V2", a tensor bundle) without TensorFlow.

- `PREFIX.index`: a sorted table in LevelDB's layout: blocks of entries, each key without the prefix that it shares with
  the key before; an index block with the places of the others; a footer of 48 bytes with the place of the index block
- the values are protocol buffers: the header for the empty key, else the variable of this name
- `PREFIX.data-SSSSS-of-NNNNN`: the values, at the places given in the index
- each block and each variable has a checksum (crc32c), which is verified where the extra `tensorflow` is installed

(tensorflow/core/protobuf/tensor_bundle.proto; tensorflow/core/lib/io/table_format.txt)
"""

import io
import struct
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar

import numpy as np

from elmo.config import read_regular
from elmo.errors import InputError, pip_line

MAGIC = 0xDB4775248B80FB57
FOOTER = 48
TRAILER = 5
"""The bytes after a block: its compression and its checksum."""
DTYPES = {1: "<f4", 2: "<f8", 3: "<i4", 9: "<i8", 19: "<f2"}
"""The supported data types, by TensorFlow's codes."""
MOST_INDEX = 1 << 20
"""The most bytes of an index; a variable takes about a hundred, and a biLM has some hundreds with its optimizer's."""
MOST_KEY = 10_000
"""The most bytes of a variable's name. Keys share prefixes with the key before, so a small file can have huge names."""
DAMAGED = "fetch or copy it again"
MASK = 0xA282EAD8
"""The number that LevelDB and TensorFlow add to a checksum that they store."""

Value = int | bytes
T = TypeVar("T", int, bytes)


@dataclass(frozen=True)
class Variable:
    """The place of a variable's values."""

    dtype: int
    shape: tuple[int, ...]
    shard: int
    offset: int
    size: int
    checksum: int
    partitioned: bool


@dataclass(frozen=True)
class Bundle:
    """The index of a checkpoint."""

    prefix: Path
    """The common prefix of its files, which TensorFlow calls the checkpoint."""
    n_shards: int
    variables: dict[str, Variable]

    @property
    def index(self) -> Path:
        return index_of(self.prefix)

    def shard(self, number: int) -> Path:
        """Returns the data file with this number."""
        return self.prefix.with_name(f"{self.prefix.name}.data-{number:05d}-of-{self.n_shards:05d}")

    def read(self, name: str) -> np.ndarray:
        """Returns the values of a variable. Raises InputError if they are missing or damaged."""
        variable = self.variables[name]
        if variable.partitioned:
            raise InputError(f"{self.index}: {name} is stored in slices; save it again from a run on one machine")
        if variable.dtype not in DTYPES:
            raise InputError(f"{self.index}: {name} has TensorFlow's type {variable.dtype}; a numeric type is expected")
        dtype = np.dtype(DTYPES[variable.dtype])
        count = int(np.prod(variable.shape, dtype=object))
        if count * dtype.itemsize != variable.size:
            raise InputError(f"{self.index}: {name} {variable.shape} takes {variable.size} bytes; {DAMAGED}")
        if not 0 <= variable.shard < self.n_shards:
            raise InputError(f"{self.index}: {name} is in file {variable.shard} of {self.n_shards}; {DAMAGED}")
        shard = self.shard(variable.shard)
        if not shard.is_file():
            raise FileNotFoundError(f"{shard}: no such file; {self.index.name} needs it for {name}")
        end, size = variable.offset + variable.size, shard.stat().st_size
        if not 0 <= variable.offset <= end <= size:
            raise InputError(f"{shard}: has {size:,} bytes; {name} ends at {end:,}; {DAMAGED}")
        numbers = np.fromfile(shard, dtype, count, offset=variable.offset)
        if not _matches(numbers, variable.checksum):
            raise InputError(f"{shard}: {name} does not match its checksum; {DAMAGED}")
        return numbers.reshape(variable.shape)


def index_of(prefix: Path) -> Path:
    """Returns the index file of a checkpoint."""
    return prefix.with_name(f"{prefix.name}.index")


def is_index(path: Path) -> bool:
    """Returns whether the file ends like an index; a pipe, which would be waited for, does not."""
    if not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            return path.stat().st_size >= FOOTER and file.seek(-8, 2) > 0 and file.read() == struct.pack("<Q", MAGIC)
    except OSError:
        return False


def read_index(index: Path) -> Bundle:
    """Returns the variables of a checkpoint, from its `PREFIX.index`; raises InputError if it is damaged.

    Warns if checksums cannot be verified, since google-crc32c is not installed.
    """
    if find_spec("google_crc32c") is None:
        warnings.warn(
            f"{index}: its checksums are not verified, since google-crc32c is missing: {pip_line('tensorflow')}",
            stacklevel=2,
        )
    try:
        return _read_index(index)
    except (IndexError, struct.error, UnicodeDecodeError, OverflowError) as error:
        raise InputError(f"{index}: damaged or incomplete checkpoint index ({error}); {DAMAGED}") from error


def _read_index(index: Path) -> Bundle:
    entries = dict(_entries(index, read_regular(index, MOST_INDEX)))
    if b"" not in entries:
        raise InputError(f"{index}: has no header; a checkpoint of TensorFlow's version 2 is expected")
    header = _fields(entries.pop(b""))
    if _last(header, 2, 0):
        raise InputError(
            f"{index}: was written on a big-endian machine; save the checkpoint again on a little-endian one"
        )
    variables = {key.decode(): _variable(value) for key, value in entries.items()}
    prefix = index.with_name(index.name.removesuffix(".index"))
    return Bundle(prefix, _last(header, 1, 0), variables)


def _matches(data: bytes | np.ndarray, stored: int) -> bool:
    """Whether `data`, or the bytes of an array, has the stored checksum; True where no checksum can be computed."""
    try:
        from google_crc32c import value
    except ImportError:
        return True
    checksum = value(data)  # type: ignore[arg-type]  # any contiguous buffer; its annotation says bytes
    return ((checksum >> 15 | checksum << 17) + MASK) & 0xFFFFFFFF == stored


def _variable(value: bytes) -> Variable:
    """Parses a BundleEntryProto."""
    fields = _fields(value)
    shape = _fields(_last(fields, 2, b""))
    sizes = tuple(_last(_fields(size), 1, 0) for size in shape.get(2, []) if isinstance(size, bytes))
    numbers = (_last(fields, number, 0) for number in (3, 4, 5, 6))
    return Variable(_last(fields, 1, 0), sizes, *numbers, partitioned=7 in fields)


# The table


def _entries(path: Path, data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The keys and values of a table."""
    if len(data) < FOOTER or struct.unpack("<Q", data[-8:])[0] != MAGIC:
        raise InputError(f"{path}: does not end like a checkpoint index ({len(data):,} bytes); {DAMAGED}")
    footer = io.BytesIO(data[-FOOTER:])
    _handle(footer)  # that of the metaindex block, which is always empty
    left = len(data)
    for _, handle in _block(path, data, *_handle(footer)):
        offset, size = _handle(io.BytesIO(handle))
        left -= size + TRAILER
        if left < 0:  # otherwise a small file could have endless entries
            raise InputError(f"{path}: its blocks have more bytes than the file ({len(data):,}); {DAMAGED}")
        yield from _block(path, data, offset, size)


def _block(path: Path, data: bytes, offset: int, size: int) -> Iterator[tuple[bytes, bytes]]:
    """The entries of a block; the restart array at its end is only needed to search."""
    end = offset + size
    if end + TRAILER > len(data):
        raise InputError(f"{path}: has {len(data):,} bytes; one of its blocks ends at {end + TRAILER:,}; {DAMAGED}")
    kind, checksum = struct.unpack("<BI", data[end : end + TRAILER])
    if not _matches(data[offset : end + 1], checksum):
        raise InputError(f"{path}: the block at {offset:,} does not match its checksum; {DAMAGED}")
    if kind:
        raise InputError(f"{path}: is compressed (kind {kind}); save it uncompressed, with tf.train.Saver")
    (restarts,) = struct.unpack("<I", data[offset:end][-4:])
    block, key = io.BytesIO(data[offset:end]), b""
    while block.tell() < size - 4 * (restarts + 1):
        shared, own, length = _varint(block), _varint(block), _varint(block)
        if shared + own > MOST_KEY:
            raise InputError(f"{path}: has a name of {shared + own:,} bytes; no variable has such a name; {DAMAGED}")
        key = key[:shared] + block.read(own)
        yield key, block.read(length)


def _handle(stream: io.BytesIO) -> tuple[int, int]:
    """A block's offset and size."""
    return _varint(stream), _varint(stream)


# Protocol buffers


def _fields(data: bytes) -> dict[int, list[Value]]:
    """The fields of a message by number."""
    fields: dict[int, list[Value]] = {}
    stream = io.BytesIO(data)
    while stream.tell() < len(data):
        number, kind = divmod(_varint(stream), 8)
        if kind == 0:
            value: Value = _varint(stream)
        elif kind in (1, 2, 5):
            size = _varint(stream) if kind == 2 else {1: 8, 5: 4}[kind]
            content = stream.read(size)
            if len(content) < size:
                raise IndexError("a message is cut short")
            value = content if kind == 2 else int.from_bytes(content, "little")
        else:
            raise IndexError(f"a field of kind {kind}")
        fields.setdefault(number, []).append(value)
    return fields


def _last(fields: dict[int, list[Value]], number: int, absent: T) -> T:
    """The value of a field that occurs once."""
    value = fields.get(number, [absent])[-1]
    return value if isinstance(value, type(absent)) else absent


def _varint(stream: io.BytesIO) -> int:
    """A varint: seven bits per byte, lowest first."""
    value = 0
    for shift in range(0, 70, 7):
        byte = stream.read(1)[0]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value
    raise IndexError("a number of more than ten bytes")
