"""Reads the files of a model in a folder, or in a zip or tar archive.

A member that is read is copied to a temporary file without a name, which is gone when it is closed. An archive is
refused if it has a path outside its folder, or unpacks to far more than weights do, whatever sizes it declares.
"""

import gzip
import io
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from elmo.config import check_regular, parse_json
from elmo.errors import InputError, in_one_line

MOST_JSON = 10_000_000
"""The most bytes of a JSON file; those of published models have less than a thousand."""
MOST_MEMBERS = 10_000
"""The most files of an archive or folder; published models have less than a hundred, and listing more takes long."""
MOST_MEMBER = 1 << 40
"""The most bytes of a file in a tar: seeking far beyond fails with an error of the system that names no file."""
BOMB_RATIO, BOMB_FROM = 200, 1 << 26
"""The largest ratio of unpacked to packed bytes, which weights never reach, and the size from which it is checked."""
BLOCK = 1 << 18
IN_MEMORY = 1 << 20
"""A member of at most as many bytes is kept in memory instead of in a temporary file."""
ZIP_START, GZIP_START = (b"PK\x03\x04", b"PK\x05\x06"), b"\x1f\x8b"
MOST_DIRECTORY = 256 * MOST_MEMBERS
"""The most bytes of a zip's directory, which has 46 and a name for each member; their announced number may be a lie."""
TAR_MARK, TAR_MARK_AT = b"ustar", 257


@dataclass(frozen=True)
class SourceFile:
    """A file for reading, in a folder or in an archive."""

    name: str
    """The file's name, without folders."""
    label: str
    """The name in errors: its path, or `archive.zip/member`."""
    size: int
    path: Path
    """The file or archive on disk."""
    opener: Callable[[int], Any] = field(repr=False, compare=False)
    """A function that opens at least as many of the file's first bytes, for reading with random access."""

    @property
    def is_on_disk(self) -> bool:
        """Whether this is a plain file, and not a member of an archive."""
        return self.label == str(self.path)

    def open(self) -> Any:
        """Opens the file for reading with random access. Raises OSError or InputError if that fails."""
        return self.opener(self.size)

    def begins_with(self, start: bytes) -> bool:
        """Returns whether the file begins with these bytes."""
        return self.first(len(start)) == start

    def first(self, count: int) -> bytes:
        """Reads the first `count` bytes, or the whole file if it is shorter."""
        with self.opener(count) as file:
            return file.read(count)

    def read(self, most: int) -> bytes:
        """Reads all bytes. Raises InputError if there are more than `most`, or if they are damaged in a zip."""
        data = self.first(min(most, self.size) + 1)  # `most` may come from a damaged file
        if len(data) > most:
            raise InputError(f"{self.label}: has more than {most:,} bytes, too many for such a file; check it")
        return data

    def json(self) -> Any:
        """Reads the file as JSON. Raises InputError if it is not valid JSON."""
        try:
            return parse_json(self.read(MOST_JSON))
        except InputError:
            raise
        except ValueError as error:
            raise InputError(f"{self.label}: not valid JSON ({error}); fix it, or fetch it again") from error


def file_on_disk(path: Path) -> SourceFile:
    """Returns a file of the file system. Raises InputError for a pipe or a device, which may never end."""
    check_regular(path)
    return SourceFile(path.name, str(path), path.stat().st_size, path, lambda _: path.open("rb"))


KNOWN = (
    (b"version https://git-lfs.github.com/spec/", "a pointer of Git LFS, which stands for the file: run git lfs pull"),
    (b"<!doctype html", "a web page: download the file itself"),
    (b"<html", "a web page: download the file itself"),
    (GZIP_START, "compressed with gzip: unpack it (gunzip)"),
    (b"\xfd7zXZ\0", "compressed with xz: unpack it (unxz)"),
    (b"BZh", "compressed with bzip2: unpack it (bunzip2)"),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd: unpack it (unzstd)"),
)
"""The first bytes of files that often lie where weights or options should, with what they are and the remedy."""


def refuse_known(files: Sequence[SourceFile]) -> None:
    """Raises InputError, with the remedy, for the first of these files whose first bytes are not those of a model.

    Invalid JSON is refused, too. A compressed text, such as a vocabulary, a tar.gz, and a page by its name, such as a
    report among models, are accepted.
    """
    for file in files:
        if file.name.endswith((".html", ".htm")):
            continue
        start = file.first(64).lower().lstrip()
        for mark, what in KNOWN:
            is_text = what.startswith("compressed") and ".txt" in file.name
            is_tar = mark == GZIP_START and ".tar" in file.name
            if start.startswith(mark.lower()) and not is_text and not is_tar:
                raise InputError(f"{file.label}: is {what}, and give the model again")
    for file in files:
        if file.name.endswith(".json") and file.size <= MOST_JSON:
            file.json()


def is_archive(path: Path) -> bool:
    """Returns whether the first bytes of the file are those of a zip, a tar or a tar.gz."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        start = file.read(TAR_MARK_AT + len(TAR_MARK))
    return start.startswith((*ZIP_START, GZIP_START)) or start[TAR_MARK_AT:] == TAR_MARK


def list_files(path: Path) -> list[SourceFile]:
    """Returns the files in a folder (not in its subfolders), or all files of an archive.

    Raises InputError if an archive is damaged, or contains a path outside it.
    """
    if path.is_dir():
        files = list(islice((file for file in path.iterdir() if file.is_file()), MOST_MEMBERS + 1))
        if len(files) > MOST_MEMBERS:
            raise _refuse_many(path, "name")
        return [file_on_disk(file) for file in sorted(files)]
    stat = path.stat()
    return list(_members(path, stat.st_mtime_ns, stat.st_size))


@lru_cache(maxsize=8)
def _members(path: Path, changed: int, size: int) -> tuple[SourceFile, ...]:
    """The files of an archive. They are cached, since listing a compressed tar reads all of it."""
    with path.open("rb") as file:
        zipped = file.read(4) in ZIP_START
    try:
        found = _zip_members(path) if zipped else _tar_members(path)
    except InputError:
        raise
    except (zipfile.BadZipFile, tarfile.TarError, RuntimeError, ValueError, MemoryError, OverflowError) as error:
        if not zipped and not path.name.endswith((".tar", ".tar.gz", ".tgz")):
            refuse_known([file_on_disk(path)])
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
        SourceFile(PurePosixPath(name).name, f"{path}/{name}", size, path, opener)
        for name, size, opener in sorted(found, key=lambda member: member[0])
        if not name.startswith("__MACOSX/") and not PurePosixPath(name).name.startswith("._")
    )


Member = tuple[str, int, Callable[[int], Any]]


def _refuse_many(path: str | Path, remedy: str = "unpack it, and give") -> InputError:
    return InputError(
        f"{path}: has more than {MOST_MEMBERS:,} files, too many for a model; {remedy} the model's folder"
    )


def _zip_members(path: Path) -> list[Member]:
    with path.open("rb") as file:
        infos = [info for info in zip_directory(file, path) if not info.is_dir()]
    return [(info.filename, info.file_size, partial(_copy_of_zipped, path, info)) for info in infos]


def zip_directory(file: Any, label: str | Path) -> list[zipfile.ZipInfo]:
    """Returns what a zip says of its members. Raises InputError if there are too many, and the errors of zipfile."""
    with zipfile.ZipFile(_SmallReads(file, label)) as archive:  # type: ignore[arg-type]
        infos = archive.infolist()
    if len(infos) > MOST_MEMBERS:
        raise _refuse_many(label)
    return infos


class _SmallReads:
    """A file of which zipfile reads no directory that is too large: it reads all of one before it can be asked."""

    def __init__(self, file: Any, label: str | Path) -> None:
        self._label = label
        self.seek, self.tell, self._read = file.seek, file.tell, file.read

    def read(self, size: int = -1) -> bytes:
        if size > MOST_DIRECTORY:
            raise _refuse_many(self._label)
        return self._read(size)


def _copy_of_zipped(path: Path, info: zipfile.ZipInfo, count: int) -> Any:
    label = f"{path}/{info.filename}"
    if info.flag_bits & 1:
        raise InputError(f"{label}: is encrypted; unpack the archive with its password, and give the folder")
    packed = min(info.compress_size, path.stat().st_size)
    if info.file_size > max(BOMB_FROM, BOMB_RATIO * packed):
        raise _bomb(label, packed)
    with _readable(label), zipfile.ZipFile(path) as archive, archive.open(info) as file:
        return _copy(file, count, label)


def _tar_members(path: Path) -> list[Member]:
    with _unpacked_tar(path) as file, tarfile.open(fileobj=file, mode="r:" if file.seekable() else "r|") as archive:
        infos = []
        # Members are read one by one, since tarfile goes back after a negative size and would read for ever.
        for number, info in enumerate(archive):
            if not 0 <= info.size < MOST_MEMBER:
                raise tarfile.ReadError(f"{info.name} has {info.size} bytes")
            if info.isreg():
                infos.append(info)
            if number >= MOST_MEMBERS:
                raise _refuse_many(path)
    for info in infos:
        if info.issparse():
            raise InputError(f"{path}/{info.name}: is stored with holes; pack the archive without tar's --sparse")
    return [(info.name, info.size, partial(_copy_of_tarred, path, info)) for info in infos]


def _copy_of_tarred(path: Path, info: tarfile.TarInfo, count: int) -> Any:
    begin = info.offset_data
    with _unpacked_tar(path) as file:
        if file.seekable():
            file.seek(begin)
        else:
            while begin and (passed := len(file.read(min(begin, BLOCK)))):
                begin -= passed
        return _copy(file, min(info.size, count), f"{path}/{info.name}")


def _unpacked_tar(path: Path) -> io.BufferedReader:
    """The tar, or what its gzip file unpacks to, forwards only."""
    with path.open("rb") as file:
        compressed = file.read(len(GZIP_START)) == GZIP_START
    return io.BufferedReader(_Unpacked(path), BLOCK) if compressed else path.open("rb")  # type: ignore[arg-type]


class _Unpacked(gzip.GzipFile):
    """The unpacked content of a gzip file, forwards only."""

    def seekable(self) -> bool:
        return False

    def readinto(self, b: Any) -> int:  # its name in Python 3.14
        with _readable(self.name):
            count = super().readinto(b)
        packed = self.fileobj.tell()  # type: ignore[attr-defined]
        if self.tell() > max(BOMB_FROM, BOMB_RATIO * packed):
            raise _bomb(self.name, packed)
        return count


def _copy(file: Any, count: int, label: str) -> Any:
    """A temporary file of the first bytes of `file`."""
    copy = tempfile.SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115
    try:
        while count and (block := file.read(min(count, BLOCK))):
            try:
                copy.write(block)
            except OSError as error:
                raise InputError(
                    f"{label}: cannot be unpacked in {tempfile.gettempdir()} ({error.strerror}); free some space there,"
                    " or name another folder in the variable TMPDIR"
                ) from error
            count -= len(block)
        copy.seek(0)
    except BaseException:
        copy.close()
        raise
    return copy


@contextmanager
def _readable(label: str) -> Iterator[None]:
    """Turns errors of damaged archives into InputError."""
    try:
        yield
    except NotImplementedError as error:
        raise InputError(f"{label}: {error}; unpack the archive, and give the folder") from error
    except (EOFError, zlib.error, gzip.BadGzipFile, zipfile.BadZipFile, RuntimeError) as error:
        reason = in_one_line(error)
        raise InputError(f"{label}: the archive is damaged or cut off ({reason}); fetch or copy it again") from error


def _bomb(label: str, packed: int) -> InputError:
    most = max(BOMB_FROM, BOMB_RATIO * packed)
    return InputError(
        f"{label}: {packed:,} bytes unpack to more than {most:,}; weights do not compress so well: this is not a model,"
        " do not use it"
    )
