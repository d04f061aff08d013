"""Reads the rows of a corpus: text files (one row per line, also compressed) and Parquet, local or at fsspec addresses.

A corpus is divided into parts of a fixed number of rows. A row is identified by its file and its number there, so
reading a part again gives the same rows with the same ids. Text files are read once to find where parts begin; of
Parquet files only the footers are read for that.
"""

import glob
import os
import tarfile
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
from fsspec.core import OpenFile, get_compression
from fsspec.implementations.local import LocalFileSystem
from fsspec.utils import infer_compression

from elmo.embedding.arrow import RecordBatch, as_bytes
from elmo.embedding.store_parquet import import_pyarrow
from elmo.errors import InputError, in_one_line
from elmo.text.characters import is_utf8
from elmo.text.opening import HEAD, UNREAD, check_encoding, has_old_ends, naming_damage
from elmo.text.records import check_text, suffix_of

CHUNK = 1 << 20
ROWS_AT_ONCE = 256
PARQUET = (".parquet", ".pq")


@dataclass(frozen=True)
class Part:
    """Consecutive rows of one file."""

    number: int
    file: str
    first: int
    """The number of the part's first row in the file."""
    rows: int
    begin: int = 0
    """The offset of that row in a text file, in decompressed bytes."""


@dataclass(frozen=True)
class Columns:
    """The columns to read from Parquet."""

    value: str | None = None
    """The column with the texts or tokens; None means `text`, or `tokens` if there is no `text`."""
    id: str | None = None
    """The column with the ids; None means that an id is the file's name and the row's number."""


def absolute_address(name: str) -> str:
    """Returns the name as an address that is valid in any working directory."""
    return name if is_address(name) else os.path.abspath(name)  # noqa: PTH100


def is_address(name: str) -> bool:
    """Returns whether `name` is an fsspec address, such as `s3://bucket/file`, and not a path."""
    return "://" in name


def inner_address(name: str) -> str:
    """Returns the address without the archive around it: `zip://a.txt` for `zip://a.txt::s3://bucket/all.zip`."""
    first = name.partition("::")[0]
    return first if is_address(first) else name


def expand_addresses(patterns: Iterable[str]) -> dict[str, int]:
    """Returns the distinct files that names and glob patterns match, sorted, with their sizes in bytes.

    Raises InputError if a pattern matches nothing, or a file that has no rows, and FileNotFoundError if a named file
    does not exist.
    """
    files: dict[str, int] = {}
    for pattern in patterns:
        found = _remote(pattern) if is_address(pattern) else _local(pattern)
        if not found:
            raise InputError(f"{pattern}: matches no file; name text or Parquet files, or a pattern such as 'in/*.txt'")
        files |= found
    for name in files:
        _check_name(name)
    return dict(sorted(files.items()))


def _check_name(name: str) -> None:
    """Raises InputError for a kind of file that is no text but would be read as text, and for a name unfit for ids."""
    if not is_utf8(name):
        raise InputError(f"{name!r}: the name is not UTF-8, so no row's id can have it; rename the file")
    file = inner_address(name)
    for each in (file, file.rpartition(".")[0] if infer_compression(file) else file):
        check_text(each, "embed it alone, without --engine")
    suffix = suffix_of(file)
    if suffix in UNREAD.values() and infer_compression(file) is None:
        raise InputError(f"{name}: {suffix} files are not read here; decompress it, or compress it as .gz, .xz or .bz2")


def _local(pattern: str) -> dict[str, int]:
    if pattern == "-":
        raise InputError("the input is '-', but standard input cannot be read again; name files")
    if Path(pattern).is_dir():
        raise InputError(f"{pattern}: is a folder; name files, or a pattern such as '{pattern.rstrip('/')}/*.parquet'")
    names = [pattern] if Path(pattern).exists() else glob.glob(pattern, recursive=True)  # noqa: PTH207
    return {name: Path(name).stat().st_size for name in names if Path(name).is_file()}


def _remote(pattern: str) -> dict[str, int]:
    files, path = filesystem(pattern)
    names = files.glob(path) if any(mark in path for mark in "*?[") else [path]
    found = {name: files.info(name) for name in names}
    archive = pattern.removeprefix(inner_address(pattern))
    sizes = {name: info["size"] for name, info in found.items() if info["type"] == "file"}
    return {files.unstrip_protocol(name) + archive: size for name, size in sizes.items()}


def filesystem(address: str) -> tuple[Any, str]:
    """Returns the filesystem of an address or path, and the path in it. Raises InputError if fsspec knows none."""
    if not is_address(address):  # fsspec would also take "a::b" and "file:a" for addresses
        return LocalFileSystem(), Path(absolute_address(address)).as_posix()
    try:
        return fsspec.core.url_to_fs(address)
    except (ImportError, ValueError, zipfile.BadZipFile, tarfile.TarError) as error:
        raise InputError(f"{address}: cannot be reached by fsspec ({in_one_line(error)})") from error


def plan_parts(files: Sequence[str], part_rows: int, columns: Columns) -> list[Part]:
    """Returns the parts of all files, each of `part_rows` rows except the last part of a file.

    Raises InputError if a file is damaged or lacks a column, or if there is no row at all.
    """
    parts: list[Part] = []
    for file in files:
        begins = _parquet_begins if _is_parquet(file) else _text_begins
        for first, rows, begin in begins(file, part_rows, columns):
            parts.append(Part(len(parts), file, first, rows, begin))
    if not parts:
        raise InputError(f"{', '.join(files[:3])}: no rows; one sentence per line is expected")
    return parts


def read_part(part: Part, columns: Columns, row_bytes: int, base: str = "") -> Iterator[RecordBatch]:
    """Yields the part's rows as batches with the columns of `elmo.embedding.arrow`.

    Rows of text are cut after `row_bytes` + 1 bytes. `base` is the folder of relative names. Raises InputError if the
    file has fewer rows than the part.
    """
    address = part.file if is_address(part.file) else str(Path(base, part.file))
    read = _read_parquet if _is_parquet(part.file) else _read_text
    rows = 0
    for batch in read(address, part, columns, row_bytes):
        rows += len(batch)
        yield batch
    if rows != part.rows:
        raise InputError(
            f"{part.file}: has {rows:,} rows from row {part.first:,} on instead of {part.rows:,}; it has changed since"
            " the job began: restore it, or start again in another folder"
        )


def bounded_lines(file: Any, most: int) -> Iterator[bytes]:
    """Yields the lines of a binary file without line ends; those longer than `most` bytes are cut after `most` + 1."""
    rest = b""
    while chunk := file.read(CHUNK):
        first, *others = chunk.split(b"\n")
        rest = rest + first if len(rest) <= most else rest
        for line in others:
            yield _line(rest, most)
            rest = line
    if rest:
        yield _line(rest, most)


def _line(line: bytes, most: int) -> bytes:
    return line.removesuffix(b"\r") if len(line) <= most else line[: most + 1]


def _is_parquet(file: str) -> bool:
    return inner_address(file).lower().endswith(PARQUET)


def _opened(name: str, compression: str | None = None) -> OpenFile:
    files, path = filesystem(name)
    return OpenFile(files, path, "rb", get_compression(path, compression))


@contextmanager
def _text(name: str, begin: int = 0) -> Iterator[Any]:
    with naming_damage(name):
        if not begin and infer_compression(inner_address(name)) == "zip":
            with _opened(name) as file:
                members = len(zipfile.ZipFile(file).namelist())  # type: ignore[arg-type]
            if members != 1:  # fsspec would read only the first
                raise InputError(f"{name}: holds {members:,} files or folders; one text is expected: unpack it")
        with _opened(name, compression="infer") as file:
            if begin:
                file.seek(begin)  # type: ignore[union-attr]
            yield file


def _text_begins(name: str, part_rows: int, columns: Columns) -> Iterator[tuple[int, int, int]]:
    first = rows = begin = place = 0
    with _text(name) as file:
        ended = True
        while chunk := file.read(CHUNK):
            if not place:  # a text of these kinds would be a single row
                check_encoding(chunk[:HEAD], name)
                if has_old_ends(chunk[:HEAD]):
                    raise InputError(f"{name}: its lines end with carriage returns alone; convert it: `tr '\\r' '\\n'`")
            ends = np.flatnonzero(np.frombuffer(chunk, np.uint8) == ord("\n")) + place + 1
            place += len(chunk)
            ended = chunk.endswith(b"\n")
            while rows + len(ends) >= part_rows:
                yield first, part_rows, begin
                begin, ends = int(ends[part_rows - rows - 1]), ends[part_rows - rows :]
                first, rows = first + part_rows, 0
            rows += len(ends)
    rows += not ended  # the last line
    if rows:
        yield first, rows, begin


def _read_text(address: str, part: Part, columns: Columns, row_bytes: int) -> Iterator[RecordBatch]:
    pa = import_pyarrow()
    with _text(address, part.begin) as file:
        left = islice(bounded_lines(file, row_bytes), part.rows)
        row = part.first
        while texts := list(islice(left, ROWS_AT_ONCE)):
            texts[0] = texts[0] if row else texts[0].removeprefix(b"\xef\xbb\xbf")
            ids = [f"{part.file}:{number}" for number in range(row, row + len(texts))]
            yield pa.record_batch([pa.array(ids), pa.array(texts, pa.large_binary())], names=["id", "text"])
            row += len(texts)


@contextmanager
def _parquet(name: str) -> Iterator[Any]:
    pa = import_pyarrow()
    from pyarrow import parquet

    with _opened(name) as file:
        try:
            yield parquet.ParquetFile(file)
        except (pa.ArrowInvalid, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            said = in_one_line(error)[:200]
            raise InputError(f"{name}: not a complete Parquet file ({said}); fetch it again") from error


def _parquet_begins(name: str, part_rows: int, columns: Columns) -> Iterator[tuple[int, int, int]]:
    with _parquet(name) as file:
        schema = file.schema_arrow
        value = _value_column(name, schema.names, columns)
        as_bytes(import_pyarrow().nulls(0, schema.field(value).type), f"{value} of {name}")
        if columns.id is not None:
            _ids(import_pyarrow().nulls(0, schema.field(columns.id).type), f"{columns.id} of {name}")
        total = file.metadata.num_rows
    for first in range(0, total, part_rows):
        yield first, min(part_rows, total - first), 0


def _value_column(name: str, names: Sequence[str], columns: Columns) -> str:
    wanted = [columns.value] if columns.value else ["text", "tokens"]
    found = next((column for column in wanted if column in names), None)
    if found is None or (columns.id is not None and columns.id not in names):
        missing = " or ".join(wanted) if found is None else columns.id
        raise InputError(f"{name}: has no column {missing}, but {', '.join(names)}; use --column or --id-column")
    for column in (found, columns.id):
        if names.count(column) > 1:
            raise InputError(f"{name}: has {names.count(column)} columns {column}; rename all but one")
    return found


def _ids(values: Any, name: str) -> Any:
    """Converts a column of ids to strings. Raises InputError if that is impossible."""
    pa = import_pyarrow()
    try:
        ids = values.cast(pa.string())
        ids.validate(full=True)
    except pa.ArrowNotImplementedError as error:
        raise InputError(f"the column {name} is of type {values.type}; ids are strings or numbers") from error
    except pa.ArrowInvalid as error:
        raise InputError(f"the column {name} has an id that is not UTF-8; convert it, or omit --id-column") from error
    return ids


def _read_parquet(address: str, part: Part, columns: Columns, row_bytes: int) -> Iterator[RecordBatch]:
    pa = import_pyarrow()
    with _parquet(address) as file:
        value = _value_column(part.file, file.schema_arrow.names, columns)
        counts = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
        ends = np.cumsum([0, *counts])
        last = part.first + part.rows
        groups = [group for group in range(len(counts)) if ends[group] < last and ends[group + 1] > part.first]
        row = int(ends[groups[0]]) if groups else 0
        wanted = [value] if columns.id in (None, value) else [value, columns.id]
        for batch in file.iter_batches(ROWS_AT_ONCE, groups, wanted):
            begin, end = max(part.first - row, 0), min(last - row, len(batch))
            if begin < end:
                yield _named(pa, batch.slice(begin, end - begin), value, columns, part, row + begin)
            row += len(batch)


def _named(pa: Any, batch: RecordBatch, value: str, columns: Columns, part: Part, first: int) -> RecordBatch:
    ids = [f"{part.file}:{number}" for number in range(first, first + len(batch))]
    named = pa.array(ids) if columns.id is None else _ids(batch[columns.id], f"{columns.id} of {part.file}")
    values = as_bytes(batch[value], value)
    is_list = pa.types.is_large_list(values.type)
    return pa.record_batch([named, values], names=["id", "tokens" if is_list else "text"])
