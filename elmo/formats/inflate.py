"""Random access to a compressed stream, without unpacking it to disk or into memory.

Marks (the decompressor's state, about 100 kB each) are kept on the way; seeking back restarts from the mark before.
A decompression bomb, which grows as no weights do, is refused while it is read, whatever sizes it declares.
"""

import io
import zlib
from typing import Any

from elmo.errors import InputError

RAW_DEFLATE, GZIP = -15, 31
"""zlib's codes for the two kinds of stream: a zip member's, and a .gz file's."""
BLOCK = 1 << 18
BLOCKS_KEPT = 16
MARK_EVERY = 1 << 22
BOMB_RATIO = 200
BOMB_FROM = 1 << 26


class Section(io.RawIOBase):
    """`size` bytes of a file from `begin` on, as a file. Closing it closes the underlying file."""

    def __init__(self, file: io.RawIOBase | io.BufferedIOBase, begin: int, size: int) -> None:
        self._file, self._begin, self._size, self._position = file, begin, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._position = offset + {io.SEEK_CUR: self._position, io.SEEK_END: self._size}.get(whence, 0)
        return self._position

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer)[: max(0, self._size - self._position)]
        if not view:
            return 0
        self._file.seek(self._begin + self._position)
        done = self._file.readinto(view) or 0  # type: ignore[union-attr]
        self._position += done
        return done

    def close(self) -> None:
        self._file.close()
        super().close()


class Inflated(io.RawIOBase):
    """The content of the deflate or gzip stream in `file`. `name` is for errors; closing it closes `file`."""

    def __init__(self, file: io.RawIOBase | io.BufferedIOBase, kind: int, name: str) -> None:
        self._file, self._kind, self._name = file, kind, name
        self._position = 0
        self._size: int | None = None
        self._inflater = zlib.decompressobj(kind)
        self._produced = self._consumed = 0
        self._marks = [(0, 0, self._inflater.copy())]
        self._blocks: dict[int, bytes] = {}
        """The last blocks by their start, newest last."""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence == io.SEEK_END:
            while self._size is None:
                self._inflate()
        self._position = offset + {io.SEEK_CUR: self._position, io.SEEK_END: self._size or 0}.get(whence, 0)
        return self._position

    def readinto(self, buffer: Any) -> int:
        view, done = memoryview(buffer), 0
        while done < len(view):
            begin, block = self._block_at(self._position)
            part = block[self._position - begin :][: len(view) - done]
            if not part:
                break
            view[done : done + len(part)] = part
            done += len(part)
            self._position += len(part)
        return done

    def close(self) -> None:
        self._file.close()
        super().close()

    def _block_at(self, position: int) -> tuple[int, bytes]:
        """The block that contains `position`, and its start; empty after the end."""
        for begin in reversed(self._blocks):
            if begin <= position < begin + len(self._blocks[begin]):
                return begin, self._blocks[begin]
        if self._size is not None and position >= self._size:
            return position, b""
        mark = max((mark for mark in self._marks if mark[0] <= position), key=lambda mark: mark[0])
        if position < self._produced or mark[0] > self._produced:
            self._produced, self._consumed = mark[0], mark[1]
            self._inflater = mark[2].copy()
        while True:
            begin = self._produced
            block = self._inflate()
            if not block and self._size is not None:
                return position, b""
            if begin <= position < begin + len(block):
                return begin, block

    def _inflate(self) -> bytes:
        """The next block. The decompressor keeps unused input."""
        if self._inflater.eof and not self._next_stream():
            self._size = self._produced
            return b""
        waiting = self._inflater.unconsumed_tail
        data = waiting or self._read()
        try:
            block = self._inflater.decompress(data, BLOCK)
        except zlib.error as error:
            raise InputError(
                f"{self._name}: the compressed data is damaged after {self._produced:,} bytes ({error}); fetch it again"
            ) from error
        if not data and not block and not self._inflater.eof:
            raise InputError(f"{self._name}: cut off after {self._produced:,} bytes; fetch or copy it again")
        self._keep(block)
        return block

    def _next_stream(self) -> bool:
        """Continues with the next gzip stream in the file, if there is one."""
        rest = self._inflater.unused_data or (self._read() if self._kind == GZIP else b"")
        if self._kind != GZIP or not rest.strip(b"\0"):
            return False
        self._inflater = zlib.decompressobj(self._kind)
        self._consumed -= len(rest)
        return True

    def _read(self) -> bytes:
        self._file.seek(self._consumed)
        data = self._file.read(1 << 16) or b""
        self._consumed += len(data)
        return data

    def _keep(self, block: bytes) -> None:
        begin = self._produced
        self._produced += len(block)
        if self._produced > BOMB_FROM and self._produced > BOMB_RATIO * self._consumed:
            raise InputError(
                f"{self._name}: {self._consumed:,} bytes unpack to more than {self._produced:,}; weights do not"
                " compress so well: this is not a model, do not use it"
            )
        if block:
            self._blocks[begin] = block
            if len(self._blocks) > BLOCKS_KEPT:
                del self._blocks[next(iter(self._blocks))]
        if self._produced >= self._marks[-1][0] + MARK_EVERY:
            self._marks.append((self._produced, self._consumed, self._inflater.copy()))
