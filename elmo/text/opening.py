"""Opens text files: compression is recognized by content, and UTF-8 may have a mark and line ends of all three kinds.

UTF-16 and UTF-32, with a mark or without, documents, and bytes that are not UTF-8 raise errors that name the remedy.
"""

import bz2
import codecs
import errno
import gzip
import lzma
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from shlex import quote
from typing import Any
from unicodedata import category

from elmo.errors import InputError

HEAD = 65_536  # bytes of a file that show its encoding and its line ends
PIECE = 1 << 20  # bytes
BZIP2 = b"BZh91AY&SY"  # with any digit
BY_SUFFIX = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}
COMPRESSED = tuple(BY_SUFFIX)
STANDARD_INPUT = "standard input"
"""The name of standard input in errors."""
UNREAD = {b"PK\x03\x04": ".zip", b"\x28\xb5\x2f\xfd": ".zst", b"\x04\x22\x4d\x18": ".lz4", b"7z\xbc\xaf\x27\x1c": ".7z"}
BY_MAGIC = {b"\x1f\x8b": ".gz", b"\xfd7zXZ\x00": ".xz"} | UNREAD
DOCUMENTS = {
    b"%PDF-": "a PDF document",
    b"{\\rtf": "an RTF document",
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": "a document of Microsoft Office",
}
"""The first bytes of documents, which hold a text among other things."""
OF_DOCUMENTS = ("word/", "xl/", "ppt/", "content.xml")
"""How the names of files begin in the zip archives that Word, Excel, PowerPoint and LibreOffice save."""
MARK = "\ufeff"
"""The byte-order mark; it has no meaning in UTF-8."""
BROKEN = "\ufffd"
FEW = 8  # At most one byte in this many is a control character in UTF-8; UTF-16 has more, or is not valid UTF-8.
SHORT = 8  # A text of fewer bytes does not show its encoding.
CONTROLS = bytes(set(range(32)) - set(b"\t\n\v\f\r\x1a\x1b"))
"""The bytes that text in UTF-8 has only by mistake; in UTF-16 they are halves of letters."""
ENDS = "\t\n\v\f\r\x1a"
RARE = 64  # At most one character of a text in this many is unknown to this Python.


def open_text(path: Path) -> TextIOWrapper:
    """Opens a text file for reading as UTF-8, decompressing gzip, xz and bzip2.

    A line feed ends a line; in a file without any in its first 64 KiB, a carriage return does. Raises InputError for
    other archives, and for UTF-16 and UTF-32.
    """
    raw = open_bytes(path)
    try:
        first = peek_start(raw)
        check_encoding(first, path)
    except BaseException:
        raw.close()
        raise
    return TextIOWrapper(raw, encoding="utf-8", newline=None if has_old_ends(first) else "\n")


def open_bytes(path: Path) -> Any:
    """Opens a file for reading, decompressing gzip, xz and bzip2, which it recognizes by content.

    Raises InputError for a zip archive and other compressed files.
    """
    suffix = path.suffix.lower()
    if not path.is_file():  # a pipe cannot be opened twice
        if " " in path.name and not path.exists():
            hint = "No such file; if this is the text itself, write it to a file"
            raise FileNotFoundError(errno.ENOENT, hint, str(path))
        return path.open("rb")
    with path.open("rb") as file:
        begin = file.read(len(BZIP2))
    kind = _compression(begin) or suffix
    if kind in UNREAD.values():
        raise InputError(f"{path}: {kind} files are not read; {_unpacking(path, kind)}")
    opener = BY_SUFFIX.get(kind)
    return path.open("rb") if opener is None else opener(path, "rb")


@contextmanager
def naming_damage(name: str | Path) -> Iterator[None]:
    """Raises InputError if the block finds that the compressed file `name` is damaged, and other errors as they are."""
    try:
        yield
    except (EOFError, lzma.LZMAError, zlib.error, zipfile.BadZipFile, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # it is the system's, not gzip's or bz2's
            raise
        raise InputError(f"{name}: the compressed file is damaged or incomplete ({error}); fetch it again") from error


def peek_start(raw: Any) -> bytes:
    """Returns the first bytes of a stream without consuming them: up to 64 KiB of a file, or what a pipe has sent."""
    if not raw.seekable():
        return raw.peek(HEAD)[:HEAD]
    place = raw.tell()  # standard input may have been read from
    first = raw.read(HEAD)
    raw.seek(place)
    return first


def has_old_ends(first: bytes) -> bool:
    """Returns whether the lines of a text that begins with `first` end with carriage returns alone, as on old Macs."""
    return b"\r" in first[:-1] and b"\n" not in first


def check_encoding(first: bytes, source: str | Path) -> None:
    """Raises InputError if a text that begins with `first` is compressed, a document, or in UTF-16 or UTF-32.

    A compressed file has been decompressed before; a pipe has not.
    """
    if (kind := _compression(first)) is not None:
        raise InputError(f"{source}: the text is compressed ({kind}); decompress it before it is read")
    _check_plain(first, source)
    if (encoding := _wide(first)) is not None:
        raise InputError(f"{source}: the text is {encoding}, not UTF-8; {_convert(source, encoding)}")


def _check_plain(first: bytes, source: str | Path) -> None:
    """Raises InputError if a file that begins with `first` is a document."""
    if what := next((what for magic, what in DOCUMENTS.items() if first.startswith(magic)), None):
        raise InputError(f"{source}: is {what}, not plain text; save its text as a text file in UTF-8")


def not_utf8(path: Path) -> InputError:
    """Returns the error for a file that is not UTF-8: the first place, what the file seems to be, and the remedy."""
    if not path.is_file():  # a pipe cannot be read again
        return InputError(f"{path}: the text is not UTF-8; write it to a file first, and the error will name the line")
    decoder = codecs.getincrementaldecoder("utf-8")()
    line, column, valid = 1, 1, 0
    with open_bytes(path) as file:
        while piece := file.readline(PIECE):
            try:
                text = decoder.decode(piece)
            except UnicodeDecodeError as error:
                before = error.object[: error.start].decode("utf-8")
                rest = bytes(error.object[error.start :]) + file.read(HEAD)
                return broken_byte(path, (line, column + len(before)), rest, valid + _letters(before), error.reason)
            valid += 0 if text.isascii() else _letters(text)
            line, column = (line + 1, 1) if piece.endswith(b"\n") else (line, column + len(text))
    return InputError(f"{path}: line {line} is not UTF-8: it ends within a character; fetch the file again")


def decode_text(raw: bytes, path: Path, otherwise: str | None = None) -> tuple[str, str]:
    """Returns the text of a file's bytes and its encoding: UTF-8, UTF-16 or UTF-32 by the bytes, or else `otherwise`.

    Raises InputError for a document, and if the text is not Unicode and `otherwise` is None, is no encoding, or is not
    that of the text.
    """
    _check_plain(raw[:HEAD], path)
    if (wide := _wide(raw[:HEAD])) is not None:
        try:
            return raw.decode(wide), wide
        except UnicodeDecodeError as error:
            raise InputError(f"{path}: damaged {wide} ({error.reason}, byte {error.start}); fetch it again") from error
    try:
        return raw.decode("utf-8"), "utf-8"
    except UnicodeDecodeError as error:
        if otherwise is None:
            said = str(not_utf8(path)).split("; ")[0]
            raise InputError(
                f"{said}; name the encoding of such files, for example --encoding windows-1252 (Western Europe)"
            ) from error
    try:
        return raw.decode(otherwise), otherwise
    except LookupError as error:
        raise InputError(f"encoding {otherwise!r} is not known; name one such as windows-1252 or latin-1") from error
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: is neither UTF-8 nor {otherwise} ({error.reason}, byte {error.start}); name another --encoding"
        ) from error


def broken_byte(source: str | Path, place: tuple[int, int], rest: bytes, valid: int, reason: str) -> InputError:
    """Returns the error for a byte that is not UTF-8, at line and column; `rest` begins with it after `valid` letters.

    Letters beyond ASCII that are UTF-8 mean that only single bytes are damaged: text in another encoding has none.
    """
    line, column = place
    text = rest.decode("utf-8", errors="replace")
    broken = text.count(BROKEN)
    if encoding := _wide(rest):
        remedy = _convert(source, encoding)
    elif valid + _letters(text) - broken >= broken:
        remedy = (
            "the rest of the text is UTF-8, so only such bytes are damaged: correct them, or drop them with"
            f" {_command('iconv -c -f utf-8 -t utf-8', source)}"
        )
    elif 0 in rest:
        remedy = "it also has NULs, which no text has, so this is another kind of file: give a text"
    elif len(rest) >= SHORT and sum(byte > 0x7F for byte in rest) * 4 > len(rest):
        remedy = (
            f"{_convert(source, 'ENCODING')}, with its own encoding, such as windows-1251 (Cyrillic), gb18030 (Chinese)"
            " or shift-jis (Japanese)"
        )
    else:
        remedy = f"if the text is Western European, {_convert(source, 'windows-1252')}; else name its own encoding"
    return InputError(f"{source}: line {line} is not UTF-8 (column {column}: {reason}, byte 0x{rest[0]:02x}); {remedy}")


def _convert(source: str | Path, encoding: str) -> str:
    return f"convert it with {_command(f'iconv -f {encoding} -t utf-8', source)}"


def _command(command: str, source: str | Path) -> str:
    """A command line that converts the source, as a shell reads it."""
    return f"`{command}`" if source == STANDARD_INPUT else f"`{command} {quote(str(source))} > NEW`"


def _compression(first: bytes) -> str | None:
    """The extension of files that begin so, if they are compressed."""
    if first[:3] == BZIP2[:3] and first[4 : len(BZIP2)] == BZIP2[4:]:
        return ".bz2"
    return next((kind for magic, kind in BY_MAGIC.items() if first.startswith(magic)), None)


def _wide(first: bytes) -> str | None:
    """UTF-16 or UTF-32, as `iconv` names it; None for other text."""
    if first.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return "utf-32"
    if first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if len(first) < SHORT or 0 not in first:  # every line end in UTF-16 and UTF-32 has a NUL
        return None
    controls = len(first) - len(first.translate(None, CONTROLS))
    if controls * FEW < len(first) and _is_utf8(first):
        return None
    widest = ("utf-32le", "utf-32be") if first.count(0) * 2 > len(first) else ("utf-16le", "utf-16be")
    whole = first[: len(first) // 4 * 4]
    texts = {encoding: whole.decode(encoding, errors="replace") for encoding in widest}
    has_lines = whole.isascii() and b"\n" in whole  # in ASCII with NULs, pairs of letters may look like Chinese
    found = [name for name, text in texts.items() if _is_text(text) and ("\n" in text or not has_lines)]
    # The letters of a text belong to few alphabets; if its bytes are exchanged, they seem to belong to many.
    return min(found, key=lambda encoding: len({ord(letter) >> 8 for letter in texts[encoding]}), default=None)


def _is_text(text: str) -> bool:
    """Whether nearly all characters are those of a text, and some are letters."""
    others = [letter for letter in text if not letter.isprintable() or letter == BROKEN]
    bad = sum(letter not in ENDS and category(letter) not in ("Zs", "Zl", "Zp", "Cf") for letter in others)
    return bad * RARE < len(text) and any(map(str.isalpha, text))


def _is_utf8(first: bytes) -> bool:
    try:
        codecs.getincrementaldecoder("utf-8")().decode(first)  # the bytes may end within a character
    except UnicodeDecodeError:
        return False
    return True


def _letters(text: str) -> int:
    """The number of characters beyond ASCII."""
    return len(text) - len(text.encode("ascii", errors="ignore"))


def _unpacking(path: Path, kind: str) -> str:
    if kind == ".zip" and zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if not name.endswith("/")]
        if names:
            if any(name.startswith(OF_DOCUMENTS) for name in names):
                return "it is a document: save its text as a text file in UTF-8"
            shown = ", ".join(map(repr, names[:4])) + (", ..." if len(names) > 4 else "")
            return f"it has {shown}: unpack one (`unzip -p {quote(str(path))} MEMBER > NEW`)"
    return "decompress it, or compress it as .gz, .xz or .bz2"
