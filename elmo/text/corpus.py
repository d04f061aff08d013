"""Corpus: many text files -> documents, streamed at constant memory.

- plain text, `.gz`, `.xz` and `.bz2`; UTF-8; one paragraph (or sentence) per line, a blank line between documents
- a document longer than `max_characters` is split into pieces at line ends; only a huge line is split itself
- file order, or an order that depends only on the files and `(seed, epoch)`
"""

import glob
import gzip
import hashlib
import heapq
import lzma
import random
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import TypeVar

from elmo.errors import InputError
from elmo.text.irregular import Irregular
from elmo.text.opening import COMPRESSED, MARK, not_utf8, open_text
from elmo.text.tokenizer import Tokenizer

T = TypeVar("T")

MAX_CHARACTERS = 65_536  # per piece of a document, and per line
BUFFER_CHARACTERS = 16_000_000  # in the shuffle's buffer
OPEN_FILES = 16  # read side by side when shuffling; a compressed one takes a few MB
RATIO = 4  # approximate characters per byte of a compressed file
HASH = 16  # hexadecimal digits of a hash
BLOCK = 4096  # bytes of a sample
MOST_BLOCKS, ALL_BLOCKS = 16, 4096  # of a file, and of all, but one of each
ORDER = 2  # version of the shuffled order: positions of different versions are not comparable


@dataclass(frozen=True)
class Document:
    """A document, or a piece of a long one."""

    text: str
    """Paragraphs, one per line; none is blank."""
    file: int
    """The number of its file in the corpus."""
    number: int
    """Its position in the file."""
    is_continuation: bool
    """Whether it continues the document of the piece before it in the file."""

    def follows(self, other: "Document | None") -> bool:
        """Whether a reader that has just read `other` is still in the same document."""
        return self.is_continuation and other is not None and (other.file, other.number) == (self.file, self.number - 1)


def expand(patterns: Iterable[str | Path]) -> list[Path]:
    """The files that match the names and glob patterns, sorted, each once."""
    paths: set[Path] = set()
    for pattern in patterns:
        name = str(pattern)
        found = [name] if Path(name).exists() else glob.glob(name, recursive=True)  # noqa: PTH207
        files = [Path(path) for path in found if not Path(path).is_dir()]
        if not files:
            kind = "is a folder" if Path(name).is_dir() else "matches no file"
            raise InputError(f"{name}: {kind}; name a text file (.txt, .gz, .xz) or a pattern such as 'corpus/*.txt'")
        paths.update(files)
    if not paths:
        raise InputError("no text files; name one (.txt, .gz, .xz) or a pattern such as 'corpus/*.txt'")
    return sorted(paths, key=attrgetter("parts"))  # Windows paths compare case-insensitively


def lines(path: Path, max_characters: int = MAX_CHARACTERS) -> Iterator[str]:
    """The lines of a file, without line ends; one of `max_characters` or more is split, at white space if possible.

    Carriage returns within lines are counted in a warning. Raises InputError with the file and the line if the text is
    not UTF-8 or the compressed file is damaged.
    """
    irregular = Irregular(path)
    try:
        with open_text(path) as file:
            text = file.readline(max_characters)
            is_remainder, number = False, 1
            while text:
                line, rest = _cut(text, max_characters)
                if "\r" in line:
                    irregular.note("a carriage return within a line", number)
                if line.strip() or not is_remainder:  # the blank rest of a split line is not a blank line
                    yield line if is_remainder else line.removeprefix(MARK)
                is_remainder = not text.endswith("\n")
                number += not is_remainder
                text = rest + file.readline(max_characters)
    except UnicodeDecodeError as error:
        raise not_utf8(path) from error
    except (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{path}: the compressed file is damaged or incomplete ({error}); fetch it again") from error
    irregular.tell()


def documents(paths: Sequence[Path], max_characters: int = MAX_CHARACTERS) -> Iterator[Document]:
    """The documents of all files, in file order."""
    for file, path in enumerate(paths):
        yield from _documents_of(path, file, max_characters)


def shuffled(
    paths: Sequence[Path],
    seed: int,
    epoch: int,
    max_characters: int = MAX_CHARACTERS,
    buffer_characters: int = BUFFER_CHARACTERS,
) -> Iterator[Document]:
    """The documents of all files, each once, in an order that depends only on the files and `(seed, epoch)`.

    Files are read in random order, several side by side, each at a rate proportional to its size. So the kinds of text
    in a corpus are mixed evenly from beginning to end, whether their documents are long or short. A buffer of about
    `buffer_characters` shuffles the documents.
    """
    rng = random.Random(f"{seed} {epoch}")
    buffer: list[Document] = []
    held = 0
    for document in _interleaved(paths, rng, max_characters):
        buffer.append(document)
        held += len(document.text)
        while held > buffer_characters:
            chosen = _pop(buffer, rng)
            held -= len(chosen.text)
            yield chosen
    while buffer:
        yield _pop(buffer, rng)


def sentences(paths: Sequence[Path], tokenizer: Tokenizer) -> Iterator[list[str]]:
    """The tokens of every sentence of the corpus, in file order."""
    for path in paths:
        for line in lines(path):
            yield from tokenizer.sentences(line)


def deal(paths: Sequence[Path], shares: int) -> list[list[Path]]:
    """The files in `shares` parts of about the same size, each in the order of `paths`: the largest are dealt first."""
    sizes = [size_of(path) for path in paths]
    lightest = [(0, share) for share in range(shares)]
    chosen: list[list[int]] = [[] for _ in range(shares)]
    for number in sorted(range(len(paths)), key=lambda number: (-sizes[number], number)):
        held, share = lightest[0]
        chosen[share].append(number)
        heapq.heapreplace(lightest, (held + sizes[number], share))
    return [[paths[number] for number in sorted(numbers)] for numbers in chosen]


def size_of(path: Path) -> int:
    """The approximate number of characters in a file, at least 1."""
    size = max(1, path.stat().st_size)
    return size * RATIO if path.suffix.lower() in COMPRESSED else size


def fingerprint(paths: Sequence[Path]) -> str:
    """Short hashes of the files' names and sizes, and of a sample of their bytes, to detect a corpus that changed."""
    listing = "\n".join(f"{path.name} {path.stat().st_size}" for path in paths)
    names = hashlib.sha256(listing.encode("utf-8", errors="surrogateescape")).hexdigest()[:HASH]
    return names + sample(paths)


def is_fingerprint(known: object, now: str) -> bool:
    """Whether a stored fingerprint is that of `now`; older ones are without a sample."""
    return known in (now, now[:HASH])


def sample(paths: Sequence[Path]) -> str:
    """A short hash of blocks of the files' raw bytes: of each the first and, unless there are many, some to the last.

    A pipe is not read.
    """
    digest = hashlib.sha256()
    gaps = min(MOST_BLOCKS, ALL_BLOCKS // max(1, len(paths))) - 1
    for path in paths:
        if size := path.stat().st_size:
            last = max(0, size - BLOCK)
            with path.open("rb") as file:
                for place in sorted({0} | {last * number // gaps for number in range(1, gaps + 1)}):
                    file.seek(place)
                    digest.update(file.read(BLOCK))
    return digest.hexdigest()[:HASH]


def _cut(text: str, max_characters: int) -> tuple[str, str]:
    """The first line of `text`, and the rest to continue with: `text` may be the beginning of a very long line."""
    if len(text) < max_characters or text[-1].isspace():
        return text.rstrip("\r\n"), ""
    words = text.rsplit(maxsplit=1)
    return (words[0], words[1]) if len(words) == 2 else (text, "")


def _documents_of(path: Path, file: int, max_characters: int) -> Iterator[Document]:
    paragraphs: list[str] = []
    size = number = 0
    is_continuation = False
    for line in lines(path):
        line = line.strip()
        if paragraphs and (not line or size + len(line) > max_characters):
            yield Document("\n".join(paragraphs), file, number, is_continuation)
            is_continuation = bool(line)
            paragraphs, size, number = [], 0, number + 1
        if line:
            paragraphs.append(line)
            size += len(line)
    if paragraphs:
        yield Document("\n".join(paragraphs), file, number, is_continuation)


def _interleaved(paths: Sequence[Path], rng: random.Random, max_characters: int) -> Iterator[Document]:
    """The documents of a few open files, always from the one with the smallest part read since it was opened."""
    waiting = list(enumerate(paths))
    is_open: list[tuple[float, int, int, Iterator[Document]]] = []  # a heap by time: the part of a file that was read
    now = 0.0
    while waiting or is_open:
        while waiting and len(is_open) < OPEN_FILES:
            file, path = _pop(waiting, rng)
            heapq.heappush(is_open, (now, file, size_of(path), _documents_of(path, file, max_characters)))
        now, file, characters, documents = is_open[0]
        document = next(documents, None)
        if document is None:
            heapq.heappop(is_open)
        else:
            heapq.heapreplace(is_open, (now + len(document.text) / characters, file, characters, documents))
            yield document


def _pop(items: list[T], rng: random.Random) -> T:
    """Removes a random item; the last one takes its place."""
    # Python guarantees the same numbers in every version only for random().
    chosen = int(rng.random() * len(items))
    items[chosen], items[-1] = items[-1], items[chosen]
    return items.pop()
