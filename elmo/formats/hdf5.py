"""HDF5 files with one-line errors.

- `read_hdf5`: a truncated or foreign file is an InputError
- `datasets`, `check_dataset`: what an untrusted file holds, and whether it may be read
- `Hdf5Output`: a full disk is an ordinary OSError. HDF5 itself reports a failed write late, from a destructor, and may
  crash when the file is closed (seen with HDF5 2.0). So it writes through an object that never fails towards HDF5, but
  keeps the error and the unwritten data until `check`.

h5py is imported where a file is opened: other formats do not need it.
"""

import io
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elmo.errors import InputError, in_one_line
from elmo.formats.files import SourceFile

if TYPE_CHECKING:
    import h5py

MOST_UNPACKED = 200
"""The largest ratio of a dataset's size to its stored size; compressed weights shrink by less than half."""
MOST_NAMES, DEEPEST = 10_000, 8
"""The most names in a file of weights, and the most groups inside one another; published models have 33 and 5."""
SIGNATURE = b"\x89HDF\r\n\x1a\n"


def is_hdf5(source: SourceFile) -> bool:
    """Returns whether the file begins like an HDF5 file."""
    return source.begins_with(SIGNATURE)


@contextmanager
def read_hdf5(source: SourceFile) -> "Iterator[h5py.File]":
    """Opens a file for reading. Raises InputError if the file is incomplete, also later, inside the block."""
    import h5py

    try:
        place = nullcontext(source.path) if source.is_on_disk else source.open()
        with place as opened, h5py.File(opened, "r") as file:
            yield file
    except InputError:
        raise
    except (OSError, RuntimeError, KeyError, ValueError) as error:
        # HDF5 may wrap errors of reading an archive in its own.
        if isinstance(error.__context__, InputError):
            raise error.__context__ from error
        reason = in_one_line(error)
        raise InputError(
            f"{source.label}: damaged or incomplete HDF5 file ({source.size:,} bytes: {reason}); fetch or copy it again"
        ) from error


def datasets(label: str, file: "h5py.File") -> "dict[str, h5py.Dataset]":
    """Returns every dataset in the file itself, without links to other files or places.

    Raises InputError if there are more names, or groups inside groups, than weights have.
    """
    import h5py

    found: dict[str, h5py.Dataset] = {}
    waiting: list[tuple[str, h5py.Group]] = [("", file)]
    names = 0
    while waiting:
        prefix, group = waiting.pop()
        names += len(group)
        if names > MOST_NAMES or prefix.count("/") > DEEPEST:
            what = f"{MOST_NAMES:,} names" if names > MOST_NAMES else f"{DEEPEST} groups in one another"
            raise InputError(f"{label}: has more than {what}; weights have fewer: give the weights of a model")
        for name in group:
            # A name that is not UTF-8 is bytes; a null dataset has no shape.
            if not isinstance(name, str) or not isinstance(group.get(name, getlink=True), h5py.HardLink):
                continue
            item = group[name]
            if isinstance(item, h5py.Group):
                waiting.append((f"{prefix}{name}/", item))
            elif isinstance(item, h5py.Dataset) and item.shape is not None:
                found[prefix + name] = item
    return dict(sorted(found.items()))


def check_dataset(label: str, dataset: "h5py.Dataset") -> None:
    """Raises InputError if a dataset has no floating-point numbers of its own, or far fewer than its shape."""
    name = str(dataset.name).lstrip("/")
    if dataset.dtype.kind != "f":
        raise InputError(f"{label}: {name} holds {dataset.dtype}; floating-point numbers are expected; check the file")
    if dataset.is_virtual or dataset.external is not None:
        raise InputError(f"{label}: {name} is stored in another file; copy it into this one")
    stored = dataset.id.get_storage_size()
    if dataset.nbytes > MOST_UNPACKED * max(stored, 1 << 12):
        raise InputError(
            f"{label}: {name} has {dataset.nbytes:,} bytes by its shape, but {stored:,} are stored; it was never"
            " written, or is meant to fill the memory: fetch or make the file again"
        )


class Hdf5Output:
    """A new HDF5 file. `check` raises the first error of writing, and so does the end of the `with` block."""

    def __init__(self, path: Path) -> None:
        import h5py

        self._sink = _Sink(path)
        # "v108" keeps the links of a large group in a tree on disk; the older default layout keeps all names of a group
        # in memory. Every HDF5 since 1.8 (2008) reads it.
        self.file = h5py.File(self._sink, "w", libver=("v108", "v108"))

    def check(self) -> None:
        """Raises the first error of the operating system so far."""
        if self._sink.error is not None:
            raise self._sink.error

    def __enter__(self) -> "Hdf5Output":
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.file.close()
        self._sink.close()
        if error is None:
            self.check()


class _Sink(io.FileIO):
    """The file that h5py writes to. After the first error, all writes go to memory."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "wb+")
        self._unwritten: list[tuple[int, bytes]] = []
        self.error: BaseException | None = None

    def write(self, data: Any) -> int:  # any buffer: h5py's are Cython's
        begin, size, left = self.tell(), len(data), memoryview(data)
        try:
            while left and self.error is None:
                left = left[super().write(left) :]
        except BaseException as error:  # not even an interrupt may pass through HDF5
            self.error = error
        if self.error is not None:
            self._unwritten.append((begin, bytes(data)))
            self.seek(begin + size)
        return size

    def readinto(self, buffer: Any) -> int:
        view, begin = memoryview(buffer), self.tell()
        end = begin + len(view)
        read = super().readinto(view)
        if self._unwritten:
            view[read:] = bytes(len(view) - read)
            read = len(view)
        for offset, data in self._unwritten:
            low, high = max(begin, offset), min(end, offset + len(data))
            if low < high:
                view[low - begin : high - begin] = data[low - offset : high - offset]
        self.seek(begin + read)
        return read

    def truncate(self, size: int | None = None) -> int:
        end = self.tell() if size is None else size
        try:
            super().truncate(end)
        except OSError as error:
            self.error = self.error or error
        return end
