"""Corpus: many text files -> paragraphs, streamed at constant memory.

Plain text, `.gz`, `.xz` and `.bz2`; UTF-8; one paragraph (or sentence) per line, a blank line between documents. A
huge line is split.
"""

import glob
import gzip
import hashlib
import lzma
import zlib
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from pathlib import Path

from elmo.errors import InputError
from elmo.text.irregular import IrregularPlaces
from elmo.text.opening import COMPRESSED, MARK, not_utf8, open_text
from elmo.text.tokenizer import Tokenizer

MAX_CHARACTERS = 65_536  # per line
MOST_CHARACTERS = 1 << 26
"""Of a line that must stay whole."""
END_OF_FILE = "\x1a\0\ufeff"
"""What programs put at the end of a file, or of a line: no part of it."""
RATIO = 4  # approximate characters per byte of a compressed file
HASH = 16  # hexadecimal digits of a hash
BLOCK = 4096  # bytes of a sample
MOST_BLOCKS, ALL_BLOCKS = 16, 4096  # of a file, and of all, but one of each


def expand_patterns(patterns: Iterable[str | Path]) -> list[Path]:
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


def file_lines(path: Path, max_characters: int = MAX_CHARACTERS, whole: bool = False) -> Iterator[str]:
    """The lines of a file, without line ends; one of `max_characters` or more is split, at white space if possible.

    With `whole`, it is refused instead: a small compressed file can hold a line that no memory can.

    Carriage returns and NULs within lines are counted in a warning. Raises InputError with the file and the line if the
    text is not UTF-8 or the compressed file is damaged.
    """
    irregular = IrregularPlaces(path)
    try:
        with open_text(path) as file:
            text = file.readline(max_characters)
            is_remainder, number = False, 1
            while text:
                if whole and len(text) >= max_characters and not text.endswith("\n"):
                    raise long_line(path, number, max_characters)
                line, rest = _cut(text, max_characters)
                if "\r" in line:
                    irregular.note("a carriage return within a line", number)
                if "\0" in line.rstrip(END_OF_FILE):
                    irregular.note("a NUL, which no text has, within a line", number)
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


def long_line(source: str | Path, number: int, most: int) -> InputError:
    """The error for a line that is too long to be one row."""
    return InputError(
        f"{source}: line {number} has {most:,} characters or more; one sentence or record per line is expected: divide"
        " it by line feeds"
    )


def file_paragraphs(path: Path) -> Iterator[tuple[str, bool]]:
    """The lines of a file that are not blank, without white space around them, and whether each starts a document."""
    starts_document = True
    for line in file_lines(path):
        line = line.strip()
        if line:
            yield line, starts_document
        starts_document = not line


def corpus_sentences(paths: Sequence[Path], tokenizer: Tokenizer) -> Iterator[list[str]]:
    """The tokens of every sentence of the corpus, in file order."""
    for path in paths:
        for line in file_lines(path):
            yield from tokenizer.sentences(line)


def size_of(path: Path) -> int:
    """The approximate number of characters in a file, at least 1."""
    size = max(1, path.stat().st_size)
    return size * RATIO if path.suffix.lower() in COMPRESSED else size


def corpus_fingerprint(paths: Sequence[Path]) -> str:
    """Short hashes of the files' names and sizes, and of a sample of their bytes, to detect a corpus that changed."""
    listing = "\n".join(f"{path.name} {path.stat().st_size}" for path in paths)
    names = hashlib.sha256(listing.encode("utf-8", errors="surrogateescape")).hexdigest()[:HASH]
    return names + sample_hash(paths)


def is_fingerprint(known: object, now: str) -> bool:
    """Whether a stored fingerprint is that of `now`; older ones are without a sample."""
    return known in (now, now[:HASH])


def sample_hash(paths: Sequence[Path]) -> str:
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
