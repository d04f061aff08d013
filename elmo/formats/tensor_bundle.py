"""Reads the files of a TensorFlow checkpoint ("V2", a tensor bundle) without TensorFlow.

- `PREFIX.index`: a sorted table in LevelDB's layout: blocks of entries, each key without the prefix that it shares with
  the key before; an index block with the places of the others; a footer of 48 bytes with the place of the index block
- the values are protocol buffers: the header for the empty key, else the variable of this name
- `PREFIX.data-SSSSS-of-NNNNN`: the values, at the places given in the index
- each block and each variable has a checksum (crc32c), which is verified where the extra `tensorflow` is installed

(tensorflow/core/protobuf/tensor_bundle.proto; tensorflow/core/lib/io/table_format.txt)
"""

import struct
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

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
    if _number(header, 2):
        raise InputError(
            f"{index}: was written on a big-endian machine; save the checkpoint again on a little-endian one"
        )
    variables = {key.decode(): _variable(value) for key, value in entries.items()}
    prefix = index.with_name(index.name.removesuffix(".index"))
    return Bundle(prefix, _number(header, 1), variables)


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
    shape = _fields(_bytes(fields, 2))
    sizes = tuple(_number(_fields(bytes_), 1) for bytes_ in shape.get(2, []) if isinstance(bytes_, bytes))
    numbers = (_number(fields, number) for number in (3, 4, 5, 6))
    return Variable(_number(fields, 1), sizes, *numbers, partitioned=7 in fields)


# The table


def _entries(path: Path, data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The keys and values of a table."""
    if len(data) < FOOTER or struct.unpack("<Q", data[-8:])[0] != MAGIC:
        raise InputError(f"{path}: does not end like a checkpoint index ({len(data):,} bytes); {DAMAGED}")
    footer = data[-FOOTER:]
    _, place = _handle(footer, 0)  # the first handle is that of the metaindex block, which is always empty
    (offset, size), _ = _handle(footer, place)
    left = len(data)
    for _, handle in _block(path, data, offset, size):
        (offset, size), _ = _handle(handle, 0)
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
    block = data[offset:end]
    (restarts,) = struct.unpack("<I", block[-4:])
    place, end = 0, len(block) - 4 * (restarts + 1)
    key = b""
    while place < end:
        shared, place = _varint(block, place)
        own, place = _varint(block, place)
        length, place = _varint(block, place)
        if shared + own > MOST_KEY:
            raise InputError(f"{path}: has a name of {shared + own:,} bytes; no variable has such a name; {DAMAGED}")
        key = key[:shared] + block[place : place + own]
        place += own
        yield key, block[place : place + length]
        place += length


def _handle(data: bytes, place: int) -> tuple[tuple[int, int], int]:
    """A block's offset and size, and the place after both."""
    offset, place = _varint(data, place)
    size, place = _varint(data, place)
    return (offset, size), place


# Protocol buffers


def _fields(data: bytes) -> dict[int, list[Value]]:
    """The fields of a message by number."""
    fields: dict[int, list[Value]] = {}
    place = 0
    while place < len(data):
        tag, place = _varint(data, place)
        number, kind = tag >> 3, tag & 7
        value: Value
        if kind == 0:
            value, place = _varint(data, place)
        elif kind == 2:
            length, place = _varint(data, place)
            if place + length > len(data):
                raise IndexError("a message is cut short")
            value, place = data[place : place + length], place + length
        elif kind in (1, 5):
            length = 8 if kind == 1 else 4
            value, place = struct.unpack_from("<Q" if kind == 1 else "<I", data, place)[0], place + length
        else:
            raise IndexError(f"a field of kind {kind}")
        fields.setdefault(number, []).append(value)
    return fields


def _number(fields: dict[int, list[Value]], number: int) -> int:
    """A field with one number; 0 if absent."""
    value = fields.get(number, [0])[-1]
    return value if isinstance(value, int) else 0


def _bytes(fields: dict[int, list[Value]], number: int) -> bytes:
    value = fields.get(number, [b""])[-1]
    return value if isinstance(value, bytes) else b""


def _varint(data: bytes, place: int) -> tuple[int, int]:
    """A varint (seven bits per byte, lowest first), and the place after it."""
    value = 0
    for shift in range(0, 70, 7):
        byte = data[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
    raise IndexError("a number of more than ten bytes")
