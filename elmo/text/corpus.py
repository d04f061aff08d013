"""Streams the paragraphs of many text files at constant memory.

Files are plain text, `.gz`, `.xz` or `.bz2`, in UTF-8, with one paragraph (or sentence) per line and a blank line
between documents. A huge line is split.
"""

import glob
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from pathlib import Path

from elmo.errors import InputError, path_of
from elmo.text.irregular import IrregularPlaces
from elmo.text.opening import COMPRESSED, MARK, naming_damage, not_utf8, open_text
from elmo.text.tokenizer import Tokenizer

MAX_CHARACTERS = 65_536  # per line
MOST_CHARACTERS = 1 << 26
"""The most characters of a line that must not be split."""
END_OF_FILE = "\x1a\0\ufeff"
"""The characters that programs put at the end of a file or line, and that are no part of the text."""
RATIO = 4  # approximate characters per byte of a compressed file
HASH = 16  # hexadecimal digits of a hash
BLOCK = 4096  # bytes of a sample
MOST_BLOCKS, ALL_BLOCKS = 16, 4096  # the most blocks of a file, and of all files (but at least one of each)


def expand_patterns(patterns: Iterable[str | Path]) -> list[Path]:
    """Returns the files that match the names and glob patterns, sorted, each once."""
    paths: set[Path] = set()
    for pattern in patterns:
        name = str(path_of("the text", pattern))
        found = [name] if Path(name).exists() else glob.glob(name, recursive=True)  # noqa: PTH207
        # A device such as /dev/zero never ends. A pipe may hold a text.
        files = [path for path in map(Path, found) if path.is_file() or path.is_fifo()]
        if not files:
            problem = "matches no file"
            if Path(name).is_dir():
                problem = "is a folder"
            elif Path(name).exists():
                problem = "is a device"
            elif name == "-":
                problem = "standard input is not read here"
            raise InputError(f"{name}: {problem}; name a text file (.txt, .gz, .xz, .bz2) or a pattern: 'corpus/*.txt'")
        paths.update(files)
    if not paths:
        raise InputError("no text files; name one (.txt, .gz, .xz, .bz2) or a pattern such as 'corpus/*.txt'")
    return sorted(paths, key=attrgetter("parts"))  # paths themselves compare case-insensitively on Windows


def file_lines(path: Path, max_characters: int = MAX_CHARACTERS, whole: bool = False) -> Iterator[str]:
    """Yields the lines of a file without line ends; one of `max_characters` or more is split, at a space if possible.

    With `whole`, such a line is refused instead, since a small compressed file can hold a line that no memory can.

    Carriage returns and NULs within lines are counted in a warning. Raises InputError with the file and the line if the
    text is not UTF-8 or the compressed file is damaged.
    """
    return (line for line, _, _ in placed_lines(path, max_characters, whole))


def placed_lines(
    path: Path, max_characters: int = MAX_CHARACTERS, whole: bool = False
) -> Iterator[tuple[str, int, int]]:
    """Yields the lines of `file_lines`, the number (from 1) of each, and the character of it at which a part begins."""
    irregular = IrregularPlaces(path)
    try:
        with naming_damage(path), open_text(path) as file:
            text = file.readline(max_characters)
            is_remainder, number, first = False, 1, 0
            while text:
                if whole and len(text) >= max_characters and not text.endswith("\n"):
                    raise long_line(path, number, max_characters)
                line, rest = _cut(text, max_characters)
                note_controls(irregular, line, number)
                if line.strip() or not is_remainder:  # the blank rest of a split line is not a blank line
                    yield line if is_remainder else line.removeprefix(MARK), number, first
                is_remainder = not text.endswith("\n")
                if is_remainder:
                    first += len(text) - len(rest) - (not first and text.startswith(MARK))  # the mark is no character
                else:
                    number, first = number + 1, 0
                text = rest + file.readline(max_characters)
    except UnicodeDecodeError as error:
        raise not_utf8(path) from error
    irregular.tell()


def note_controls(irregular: IrregularPlaces, line: str, number: int) -> None:
    """Notes the characters within a line that no text has."""
    if "\r" in line:
        irregular.note("a carriage return within a line", number)
    if "\0" in line.rstrip(END_OF_FILE):
        irregular.note("a NUL, which no text has, within a line", number)


def long_line(source: str | Path, number: int, most: int) -> InputError:
    """Returns the error for a line that is too long to be one row."""
    return InputError(
        f"{source}: line {number} has {most:,} characters or more; one sentence or record per line is expected: divide"
        " it by line feeds"
    )


def file_paragraphs(path: Path) -> Iterator[tuple[str, bool]]:
    """Yields the lines of a file that are not blank, stripped, with whether each starts a document."""
    starts_document = True
    for line in file_lines(path):
        line = line.strip()
        if line:
            yield line, starts_document
        starts_document = not line


def corpus_sentences(paths: Sequence[Path], tokenizer: Tokenizer) -> Iterator[list[str]]:
    """Yields the tokens of every sentence of the corpus, in file order."""
    for path in paths:
        for line in file_lines(path):
            yield from tokenizer.sentences(line)


def size_of(path: Path) -> int:
    """Returns the approximate number of characters in a file, at least 1."""
    size = max(1, path.stat().st_size)
    return size * RATIO if path.suffix.lower() in COMPRESSED else size


def length_of(line: str) -> int:
    """Returns what a line adds to `size_of` a file that is not compressed: its bytes, with the line end."""
    return 1 + (len(line) if line.isascii() else len(line.encode("utf-8", errors="surrogatepass")))


def estimate(done: int, read: int, size: int) -> int | None:
    """Estimates how many of something there are in `size` characters, if the first `read` of them have `done`."""
    return max(done, round(done * size / read)) if read else None


def corpus_fingerprint(paths: Sequence[Path]) -> str:
    """Returns short hashes of names and sizes, and of a sample of the bytes, by which a changed corpus is detected."""
    listing = "\n".join(f"{path.name} {path.stat().st_size}" for path in paths)
    names = hashlib.sha256(listing.encode("utf-8", errors="surrogateescape")).hexdigest()[:HASH]
    return names + sample_hash(paths)


def is_fingerprint(known: object, now: str) -> bool:
    """Returns whether a stored fingerprint equals `now`; that of english-base's text lacks the sample."""
    return known in (now, now[:HASH])


def sample_hash(paths: Sequence[Path]) -> str:
    """Returns a short hash of blocks of raw bytes: the first block of each file and, unless there are many, others.

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
    """The first part of `text`, which may begin a very long line, and the rest with which the next part begins."""
    if len(text) < max_characters or text[-1].isspace():
        return text.rstrip("\r\n"), ""
    words = text.rsplit(maxsplit=1)
    return (words[0], words[1]) if len(words) == 2 else (text, "")
