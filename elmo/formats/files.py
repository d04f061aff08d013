"""The files of a model in a folder, or in a zip or tar archive, which is read in place.

Nothing is unpacked to disk. An archive with a path outside its folder is refused as a whole.
"""

import io
import json
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from elmo.errors import InputError
from elmo.formats.inflate import BLOCK, GZIP, RAW_DEFLATE, Inflated, Section

MOST_JSON = 10_000_000
"""Most bytes of a JSON file; those of published models have less than a thousand."""
MOST_MEMBERS = 10_000
"""Most files of an archive; listing more takes long, and published models have less than a hundred."""
MOST_MEMBER = 1 << 40
"""Bytes of a file in a tar; systems refuse to go to places far beyond, without a file's name."""
ZIP_START, GZIP_START = (b"PK\x03\x04", b"PK\x05\x06"), b"\x1f\x8b"
ZIP_END = 22 + (1 << 16)
"""Bytes at the end of a zip among which its record with the number of members is."""
TAR_MARK, TAR_MARK_AT = b"ustar", 257


@dataclass(frozen=True)
class Source:
    """A file to read."""

    name: str
    """The file's name, without folders."""
    label: str
    """The name in errors: its path, or `archive.zip/member`."""
    size: int
    path: Path
    """The file or archive on disk."""
    opener: Callable[[], io.BufferedReader] = field(repr=False, compare=False)
    crc: int | None = None
    """The checksum of a zip's member."""

    @property
    def is_on_disk(self) -> bool:
        """Whether it is a plain file, not in an archive."""
        return self.label == str(self.path)

    def open(self) -> io.BufferedReader:
        """Opens it for reading with random access. Raises OSError or InputError if that fails."""
        return self.opener()

    def begins_with(self, start: bytes) -> bool:
        """Whether these are its first bytes."""
        with self.open() as file:
            return file.read(len(start)) == start

    def read(self, most: int) -> bytes:
        """All bytes; raises InputError if there are more than `most`, or if they are damaged in a zip."""
        with self.open() as file:
            data = file.read(min(most, self.size) + 1)  # `most` may come from a damaged file
        if len(data) > most:
            raise InputError(f"{self.label}: has more than {most:,} bytes, too many for such a file; check it")
        if self.crc is not None:
            self._compare(zlib.crc32(data))
        return data

    def check(self) -> None:
        """Raises InputError if a member of a zip is not what was packed, which takes reading all of it."""
        if self.crc is None:
            return
        found = 0
        with self.open() as file:
            while chunk := file.read(BLOCK):
                found = zlib.crc32(chunk, found)
        self._compare(found)

    def _compare(self, found: int) -> None:
        if found != self.crc:
            raise InputError(
                f"{self.label}: damaged archive (checksum {found:08x}, {self.crc:08x} is expected);"
                " fetch or copy it again"
            )

    def json(self) -> Any:
        """Its content as JSON; raises InputError if it is not valid JSON."""
        try:
            return json.loads(self.read(MOST_JSON))
        except InputError:
            raise
        except (ValueError, RecursionError) as error:
            raise InputError(f"{self.label}: not valid JSON ({error}); fix it, or fetch it again") from error


def on_disk(path: Path) -> Source:
    """A file of the file system. Raises InputError for a pipe or a device, whose end may never come."""
    if path.exists() and not path.is_file():
        raise InputError(f"{path}: is not a regular file; copy what it gives into one")
    return Source(path.name, str(path), path.stat().st_size, path, lambda: path.open("rb"))


KNOWN = (
    (b"version https://git-lfs.github.com/spec/", "a pointer of Git LFS, which stands for the file: run git lfs pull"),
    (b"<!doctype html", "a web page: download the file itself"),
    (b"<html", "a web page: download the file itself"),
    (GZIP_START, "compressed with gzip: unpack it (gunzip)"),
    (b"\xfd7zXZ\0", "compressed with xz: unpack it (unxz)"),
    (b"BZh", "compressed with bzip2: unpack it (bunzip2)"),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd: unpack it (unzstd)"),
)
"""How files begin that lie where weights or options should, and what to do."""


def refuse_known(files: Sequence[Source]) -> None:
    """Raises InputError, with the remedy, for the first of these files that begins like something else than a model's.

    JSON that is not valid is refused, too; a compressed vocabulary is in place.
    """
    for file in files:
        with file.open() as opened:
            start = opened.read(64).lower().lstrip()
        if not file.size:
            continue
        for mark, what in KNOWN:
            is_packed_text = what.startswith("compressed") and (".txt" in file.name or ".tar" in file.name)
            if start.startswith(mark.lower()) and not is_packed_text:
                raise InputError(f"{file.label}: is {what}, and give the model again")
    for file in files:
        if file.name.endswith(".json") and file.size <= MOST_JSON:
            file.json()


def is_archive(path: Path) -> bool:
    """Whether the file is a zip, a tar or a tar.gz, by its first bytes."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        start = file.read(TAR_MARK_AT + len(TAR_MARK))
    return start.startswith((*ZIP_START, GZIP_START)) or start[TAR_MARK_AT:] == TAR_MARK


def listed(path: Path) -> list[Source]:
    """The files in a folder (not in its subfolders), or all files of an archive.

    Raises InputError if an archive is damaged, or contains a path outside it.
    """
    if path.is_dir():
        return [on_disk(file) for file in sorted(path.iterdir()) if file.is_file()]
    stat = path.stat()
    return list(_members(path, stat.st_mtime_ns, stat.st_size))


@lru_cache(maxsize=8)
def _members(path: Path, changed: int, size: int) -> tuple[Source, ...]:
    """Cached, since listing a compressed tar reads all of it."""
    with path.open("rb") as file:
        zipped = file.read(4) in ZIP_START
    try:
        found = _zip_members(path) if zipped else _tar_members(path)
    except InputError:
        raise
    except (zipfile.BadZipFile, tarfile.TarError, NotImplementedError, ValueError, MemoryError, OverflowError) as error:
        if not zipped and not path.name.endswith((".tar", ".tar.gz", ".tgz")):
            refuse_known([on_disk(path)])
        raise InputError(
            f"{path}: damaged or incomplete archive ({size:,} bytes: {str(error) or 'a size beyond the memory'});"
            " fetch or copy it again"
        ) from error
    for name, *_ in found:
        if (
            PurePosixPath(name).is_absolute()
            or PureWindowsPath(name).drive
            or ".." in name.replace("\\", "/").split("/")
        ):
            raise InputError(
                f"{path}: contains {name!r}, a path outside the archive; do not use it, get the archive elsewhere"
            )
    return tuple(
        Source(PurePosixPath(name).name, f"{path}/{name}", size, path, opener, crc)
        for name, size, opener, crc in sorted(found, key=lambda member: member[0])
        if not name.startswith("__MACOSX/") and not PurePosixPath(name).name.startswith("._")
    )


Member = tuple[str, int, Callable[[], io.BufferedReader], int | None]


def _refuse_many(path: Path) -> InputError:
    return InputError(
        f"{path}: has more than {MOST_MEMBERS:,} files, too many for a model; unpack it, and give the model's folder"
    )


def _zip_members(path: Path) -> list[Member]:
    with path.open("rb") as file:  # the number is at the end; zipfile reads all members before it can be asked
        file.seek(max(0, path.stat().st_size - ZIP_END))
        _, mark, end = file.read().rpartition(b"PK\5\6")
    if mark and int.from_bytes(end[6:8], "little") > MOST_MEMBERS:
        raise _refuse_many(path)
    with zipfile.ZipFile(path) as archive:
        infos = [info for info in archive.infolist() if not info.is_dir()]

    def opener(info: zipfile.ZipInfo) -> Callable[[], io.BufferedReader]:
        return lambda: _open_zipped(path, info)

    return [(info.filename, info.file_size, opener(info), info.CRC) for info in infos]


def _open_zipped(path: Path, info: zipfile.ZipInfo) -> io.BufferedReader:
    label = f"{path}/{info.filename}"
    if info.flag_bits & 1:
        raise InputError(f"{label}: is encrypted; unpack the archive with its password, and give the folder")
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        kind = zipfile.compressor_names.get(info.compress_type, info.compress_type)  # type: ignore[attr-defined]
        raise InputError(
            f"{label}: is compressed with {kind}; only deflate can be read: unpack it, and give the folder"
        )
    file = path.open("rb")
    try:
        file.seek(info.header_offset)
        header = file.read(30)
        if header[:4] != ZIP_START[0] or len(header) < 30:
            raise InputError(f"{label}: is not at its place in the archive, which is damaged; fetch or copy it again")
        lengths = int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little")
        raw = Section(file, info.header_offset + 30 + lengths, info.compress_size)
    except BaseException:
        file.close()
        raise
    if info.compress_type == zipfile.ZIP_STORED:
        return io.BufferedReader(raw, 1 << 16)
    return io.BufferedReader(Section(Inflated(raw, RAW_DEFLATE, label), 0, info.file_size), 1 << 16)


def _tar_members(path: Path) -> list[Member]:
    with _unpacked_tar(path) as file, tarfile.open(fileobj=file, mode="r:") as archive:
        infos = []
        for number, info in enumerate(
            archive
        ):  # one by one: after a negative size, tarfile would go back and read for ever
            if not 0 <= info.size < MOST_MEMBER:
                raise tarfile.ReadError(f"{info.name} has {info.size} bytes")
            if info.isreg():
                infos.append(info)
            if number >= MOST_MEMBERS:
                raise _refuse_many(path)
    for info in infos:
        if info.issparse():
            raise InputError(f"{path}/{info.name}: is stored with holes; pack the archive without tar's --sparse")

    def opener(begin: int, size: int) -> Callable[[], io.BufferedReader]:
        return lambda: io.BufferedReader(Section(_unpacked_tar(path), begin, size), 1 << 16)

    return [(info.name, info.size, opener(info.offset_data, info.size), None) for info in infos]


def _unpacked_tar(path: Path) -> io.BufferedReader:
    file = path.open("rb")
    compressed = file.read(len(GZIP_START)) == GZIP_START
    file.seek(0)
    return io.BufferedReader(Inflated(file, GZIP, str(path)), 1 << 16) if compressed else file
