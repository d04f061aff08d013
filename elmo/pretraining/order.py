"""Orders the documents that training reads: as the files have them, or anew every epoch.

A document longer than `max_characters` is cut into pieces at line ends. An order depends on the files and `(seed,
epoch)` alone.
"""

import heapq
import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeVar

from elmo.pretraining.ids import Ids

T = TypeVar("T")

MAX_CHARACTERS = 65_536
"""The most characters of a piece of a document."""
BUFFER_CHARACTERS = 16_000_000
"""The characters in the buffer that shuffles."""
OPEN_FILES = 16
"""The number of files that are read side by side for shuffling."""
ORDER = 3
"""The version of the order; positions of different versions are not comparable."""


class Piece(NamedTuple):
    """A document, or a piece of a long one."""

    file: int
    """The number of its file."""
    number: int
    """Its position in the file."""
    begin: int
    """The place of its first word in `Ids.tokens`."""
    end: int
    characters: int
    is_continuation: bool
    """Whether it continues the document of the piece before it in the file."""

    def follows(self, other: "Piece | None") -> bool:
        """Returns whether a reader that has just read `other` is still in the same document."""
        return self.is_continuation and other is not None and (other.file, other.number) == (self.file, self.number - 1)


def document_pieces(ids: Ids, max_characters: int = MAX_CHARACTERS) -> list[list[Piece]]:
    """Returns the documents of every file as pieces, in order; a paragraph is never cut."""
    found: list[list[Piece]] = []
    for file, (first, last) in enumerate(ids.files):
        ends, sizes, starts = (column[first:last].tolist() for column in (ids.ends, ids.characters, ids.starts))
        own: list[Piece] = []
        begin = end = int(ids.ends[first - 1]) if first else 0
        held = lines = 0
        is_continuation = False
        for paragraph_end, size, starts_document in zip(ends, sizes, starts, strict=True):
            if lines and (starts_document or held + size > max_characters):
                own.append(Piece(file, len(own), begin, end, held + lines - 1, is_continuation))
                is_continuation = not starts_document
                begin, held, lines = end, 0, 0
            held, lines, end = held + size, lines + 1, paragraph_end
        if lines:
            own.append(Piece(file, len(own), begin, end, held + lines - 1, is_continuation))
        found.append(own)
    return found


def shuffled_pieces(
    files: Sequence[Sequence[Piece]],
    sizes: Sequence[int],
    seed: int,
    epoch: int,
    buffer_characters: int = BUFFER_CHARACTERS,
) -> Iterator[Piece]:
    """Yields the pieces of all files, each once, in an order that depends only on them and `(seed, epoch)`.

    Files, of about `sizes` characters, are read in random order, several side by side, each at a rate proportional to
    its size. So the kinds of text in a corpus are mixed evenly from beginning to end, whether their documents are long
    or short. A buffer of about `buffer_characters` shuffles the pieces.
    """
    rng = random.Random(f"{seed} {epoch}")
    buffer: list[Piece] = []
    held = 0
    for piece in _interleaved(files, sizes, rng):
        buffer.append(piece)
        held += piece.characters
        while held > buffer_characters:
            chosen = _pop(buffer, rng)
            held -= chosen.characters
            yield chosen
    while buffer:
        yield _pop(buffer, rng)


def _interleaved(files: Sequence[Sequence[Piece]], sizes: Sequence[int], rng: random.Random) -> Iterator[Piece]:
    """The pieces of a few files, always from the one with the smallest part read since it was opened."""
    waiting = list(range(len(files)))
    is_open: list[tuple[float, int, Iterator[Piece]]] = []  # a heap by time: the part of a file that was read
    now = 0.0
    while waiting or is_open:
        while waiting and len(is_open) < OPEN_FILES:
            file = _pop(waiting, rng)
            heapq.heappush(is_open, (now, file, iter(files[file])))
        now, file, left = is_open[0]
        piece = next(left, None)
        if piece is None:
            heapq.heappop(is_open)
        else:
            heapq.heapreplace(is_open, (now + piece.characters / sizes[file], file, left))
            yield piece


def _pop(items: list[T], rng: random.Random) -> T:
    """Removes a random item; the last one takes its place."""
    # Python guarantees the same numbers in every version only for `random()`.
    chosen = int(rng.random() * len(items))
    items[chosen], items[-1] = items[-1], items[chosen]
    return items.pop()
