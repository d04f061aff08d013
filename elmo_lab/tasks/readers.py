"""Functions that the readers and writers of labelled text share; docs/files.md has the layouts.

Files are UTF-8, plain, `.gz`, `.xz` or `.bz2`. Every record has its line number. Text that breaks its format but can
still be read is counted in one warning for each file (`IrregularInput`). Text that cannot be read raises an
`InputError` of one line that names the file, the line and the remedy.
"""

import bz2
import gzip
import json
import lzma
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from elmo.disk.files import atomic_path
from elmo.errors import InputError, in_one_line
from elmo.text.characters import is_utf8
from elmo.text.irregular import IrregularPlaces
from elmo.text.lines import numbered_lines
from elmo.text.records import BLANK
from elmo_lab.tasks.tagging import spans

NOT_BLANK = re.compile(r"[^\s,\x1a\ufeff]")  # a comma may separate objects
HALF = re.compile("[\ud800-\udfff]")
EMPTY = "\ufffd"
"""The character that stands for an empty token."""


def tell_unknown(labels: Iterable[tuple[int, str]], known: Collection[str], path: Path, what: str = "tag") -> None:
    """Warns of the `labels`, given with their lines, that the training data lack, since they are never predicted."""
    irregular = IrregularPlaces(path)
    for line, label in labels:
        if label not in known:
            irregular.note(f"the {what} {label!r} is not in the training data: scored, never predicted", line)
    irregular.tell()


@contextmanager
def text_output(path: Path, overwrite: bool) -> Iterator[TextIO]:
    """Opens a text file that appears only if the block succeeds; a suffix `.gz`, `.xz` or `.bz2` compresses it."""
    with (
        atomic_path(path, overwrite) as temporary,
        temporary.open("wb") as raw,
        TextIOWrapper(_compressed(raw, path.suffix.lower()), encoding="utf-8", newline="\n") as file,
    ):
        yield file


def _compressed(raw: BinaryIO, suffix: str) -> Any:
    if suffix == ".gz":  # without a name and a time in it, the same text gives the same bytes
        return gzip.GzipFile("", "wb", fileobj=raw, mtime=0)
    if suffix == ".xz":
        return lzma.open(raw, "wb")
    return bz2.open(raw, "wb") if suffix == ".bz2" else raw


def json_records(path: Path, irregular: IrregularPlaces) -> Iterator[tuple[int, dict[str, Any]]]:
    """Reads the objects of a JSON file, with the lines where they begin.

    The file has one object per line, one after another, or a list of them. Objects under the key `row` in a list
    `rows`, as the server of the Hub's data sets sends them, are taken out.
    """
    lines = numbered_lines(path)
    held = next(((number, line) for number, line in lines if line.strip(BLANK)), None)
    if held is None:
        return
    try:
        first = json.loads(held[1])
    except (ValueError, RecursionError):
        first = None
    if isinstance(first, dict):
        rest = ((n, parsed_json(line, path, n, irregular)) for n, line in lines if line.strip(BLANK))
        found = chain([(held[0], _with_whole_characters(first, held[1], held[0], irregular))], rest)
    else:
        text = "\n" * (held[0] - 1) + "\n".join(line for _, line in chain([held], lines))
        found = _one_after_another(text, path, irregular)
    for number, record in found:
        for row in _rows_of(record):
            if not isinstance(row, dict):
                raise InputError(f"{path}: line {number} is {str(row)[:40]!r}; a JSON object per line is expected")
            yield number, row


def _rows_of(record: Any) -> list[Any]:
    if isinstance(record, dict) and isinstance(rows := record.get("rows"), list):
        return [row["row"] if isinstance(row, dict) and "row" in row else row for row in rows]
    return record if isinstance(record, list) else [record]


def _one_after_another(text: str, path: Path, irregular: IrregularPlaces) -> Iterator[tuple[int, Any]]:
    """Parses the values of a JSON text; yields them with their lines."""
    decoder, place, line = json.JSONDecoder(), 0, 1
    while found := NOT_BLANK.search(text, place):
        line, place = line + text.count("\n", place, found.start()), found.start()
        try:
            value, end = decoder.raw_decode(text, place)
        except (ValueError, RecursionError) as error:
            raise _no_json(error, text, path, 1) from error
        yield line, _with_whole_characters(value, text[place:end], line, irregular)
        line, place = line + text.count("\n", place, end), end


def parsed_json(text: str, path: Path, line: int, irregular: IrregularPlaces) -> Any:
    """Parses JSON that begins in this line; half a surrogate pair, which UTF-8 cannot encode, becomes U+FFFD."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _no_json(error, text, path, line) from error
    return _with_whole_characters(value, text, line, irregular)


def _no_json(error: Exception, text: str, path: Path, line: int) -> InputError:
    if not isinstance(error, json.JSONDecodeError):
        reason = in_one_line(error)
        return InputError(f"{path}: line {line} is not valid JSON ({reason}); give one JSON object per line")
    place = f"line {line + error.lineno - 1}, column {error.colno}"
    remedy = "correct it there"
    if not text[error.pos :].strip() or error.msg.startswith("Unterminated"):
        remedy = "the file or its line ends within a value: complete it"
    elif text[error.pos : error.pos + 1] == "'":
        remedy = "JSON has double quotes: write the file again with a JSON library"
    return InputError(f"{path}: {place}: not valid JSON ({error.msg}); {remedy}")


def _with_whole_characters(value: Any, text: str, line: int, irregular: IrregularPlaces) -> Any:
    if "\\u" not in text:
        return value
    written = json.dumps(value, ensure_ascii=False)
    if is_utf8(written):
        return value
    irregular.note("half a surrogate pair, read as U+FFFD", line)
    return json.loads(HALF.sub("\ufffd", written))


def write_json_lines(path: Path, records: Iterable[dict[str, Any] | None]) -> None:
    """Writes objects, one per line, and an empty line for None; replaces an existing file."""
    with text_output(path, overwrite=True) as file:
        lines = ("" if record is None else json.dumps(record, ensure_ascii=False) for record in records)
        file.writelines(f"{line}\n" for line in lines)


def write_predictions(
    path: Path, examples: Sequence[Any | None], predictions: Sequence[Any], record: Callable[[Any, Any], dict[str, Any]]
) -> None:
    """Writes the record of every prediction, one per line, and an empty line for an example that is None.

    A file of that name is replaced.
    """
    pairs = zip(examples, predictions, strict=True)
    records = (None if example is None else record(example, found) for example, found in pairs)
    write_json_lines(path, records)


def spans_record(
    tokens: Sequence[str], tags: Sequence[str], probabilities: Sequence[float], name: str
) -> list[dict[str, Any]]:
    """Returns the spans of BIO tags as JSON objects: the type under `name`, first and last token, text, probability."""
    found = zip_longest(spans(tags), probabilities)
    return [
        {name: kind, "first": begin, "last": end - 1, "text": " ".join(tokens[begin:end])}
        | ({} if probability is None else {"probability": probability})
        for (begin, end, kind), probability in found
    ]


def text_field(record: dict[str, Any], key: str, place: str) -> str:
    """Returns a string of a JSON object. Raises InputError if it is missing or something else."""
    value = record.get(key)
    if not isinstance(value, str):
        raise InputError(f"{place}: {_seen(record, key)}; a text is expected")
    return value


def strings_field(record: dict[str, Any], key: str, place: str) -> tuple[str, ...]:
    """Returns a list of non-empty strings of a JSON object. Raises InputError if it is missing or something else."""
    value = record.get(key)
    if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
        raise InputError(f"{place}: {_seen(record, key)}; a list of non-empty texts is expected")
    return tuple(value)


def _seen(record: dict[str, Any], key: str) -> str:
    return f"{key!r} is {str(record[key])[:40]!r}" if key in record else f"{key!r} is missing"


def tokens_field(
    record: dict[str, Any], key: str, place: str, line: int, irregular: IrregularPlaces
) -> tuple[str, ...]:
    """Returns a list of tokens of a JSON object; an empty token keeps its place, since labels are counted by tokens."""
    value = record.get(key)
    if isinstance(value, list) and "" in value:
        irregular.note(f"an empty token, read as {EMPTY!r}", line)
        value = [token or EMPTY if isinstance(token, str) else token for token in value]
    return strings_field(record | {key: value} if key in record else record, key, place)


def with_noun(number: int, what: str) -> str:
    """Returns the number with its noun, which gets an s in the plural."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
