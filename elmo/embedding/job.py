"""Does the work of `elmo embed`: turns a text into a file of vectors, in which a sentence or protein is a row."""

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np

from elmo.disk.files import atomic_path, check_distinct, check_not_input, check_output, real_path
from elmo.embedding.embedder import Embedder
from elmo.embedding.layers import Layers
from elmo.embedding.parts import folder_of, written_in_parts
from elmo.embedding.pooling import Pool
from elmo.embedding.store import write_vectors
from elmo.errors import InputError, path_of
from elmo.text import corpus, opening
from elmo.text.given import check_outer, no_text, place_of
from elmo.text.irregular import IrregularPlaces
from elmo.text.records import Kind, TextRecord, kind_of, read_records
from elmo.text.tokenizer import WHITESPACE, Tokenizer
from elmo.types import Dtype


@dataclass(frozen=True)
class EmbeddedFile:
    """What `embed_file` has written."""

    path: Path
    rows: int
    tokens: int
    lines: int | None = None
    """The number of the last line that has a row; None if every line of the text is a row."""


def embed_file(
    embedder: Embedder,
    source: str | Path | Iterable[str],
    output: str | Path,
    layers: Layers = "all",
    tokenizer: Tokenizer | None = None,
    dtype: Dtype = "float32",
    overwrite: bool = False,
    progress: Callable[[int, int | None], object] | None = None,
    *,
    pool: Pool | None = None,
    kind: Kind | None = None,
    index: str | Path | None = None,
    resume: bool = False,
) -> EmbeddedFile:
    """Writes the vectors of every sentence of `source` to `output` (.hdf5, .npz, .parquet or .safetensors).

    `source` is a file (also .gz and .xz), "-" for standard input, or the lines. `kind` is text, CoNLL-U or FASTA; by
    default, the file's name decides. `tokenizer` splits text into sentences and tokens; by default it is that of the
    model's training text, or, if that is unknown, whitespace with one sentence per line. Where a line is a sentence, an
    empty line is a row without tokens. `layers` and `pool` are those of `Embedder.embed`. `progress` is called with the
    rows written so far and the estimated number of all, None if that is unknown.

    `index` names a file that describes the rows, one JSON object per line: `row`, `line` (its number from 1; null if
    the source is no text), `start` (the character of that line where the sentence begins), `text` (the sentence, or
    the protein's name), `tokens`, and `offsets`, the start and end (exclusive) of every token in `text`.

    With `resume`, the rows of an interrupted run are used, which are kept beside the output (`elmo.embedding.parts`).

    Raises InputError (invalid UTF-8, no line at all) and OSError (no such file, the output exists, a full disk), and
    leaves nothing behind except what `resume` keeps.
    """
    named_output = path_of("the output", output)
    index = None if index is None else path_of("the index", index)
    source = str(path_of("the text", source)) if isinstance(source, str | Path) else source
    output = real_path(named_output) if resume else named_output  # a link's target is written in parts
    _check_outputs(source, output, index, overwrite, resume)
    lines, name = (FileLines(source), source) if isinstance(source, str | Path) else (_given_lines(source), "input")
    kind = kind or kind_of(name)
    if kind == "text" and tokenizer is None:
        tokenizer = Tokenizer(embedder.text or WHITESPACE)
    records = read_records(lines, kind, tokenizer, name)
    rows, tokens_seen, last, is_by_line = 0, 0, None, True
    with ExitStack() as stack:
        # The index is the first context and so ends last: if the disk is full, no index is left without its vectors.
        note = None if index is None else stack.enter_context(_open_index(Path(index), overwrite))
        begin = written_in_parts if resume else _written
        writer, embedded = stack.enter_context(begin(embedder, records, output, overwrite, layers, pool, dtype))
        for record, vectors in embedded:
            writer.append(record.text, record.tokens, vectors)
            if note is not None:
                note(rows, record)
            rows, tokens_seen, last = rows + 1, tokens_seen + len(record.tokens), record.line
            is_by_line = is_by_line and last in (None, rows)
            del record, vectors  # frees the vectors of a long line before the next ones are made
            if progress is not None:
                progress(rows, lines.total(rows) if isinstance(lines, FileLines) else None)
        if not rows:
            raise InputError(f"{source}: has no sentences; text is expected")
    return EmbeddedFile(named_output, rows, tokens_seen, None if is_by_line else last)


@contextmanager
def _written(
    embedder: Embedder,
    records: Iterator[TextRecord],
    output: Path,
    overwrite: bool,
    layers: Layers,
    pool: Pool | None,
    dtype: Dtype,
) -> Iterator[tuple[Any, Iterator[tuple[TextRecord, np.ndarray]]]]:
    """Yields the writer of the output, and the records with their vectors."""
    with write_vectors(output, dtype, overwrite) as writer:
        yield writer, embedder.embed_items(records, attrgetter("tokens"), layers, pool)


@contextmanager
def _open_index(path: Path, overwrite: bool) -> Iterator[Callable[[int, TextRecord], None]]:
    """Yields a function that writes the entry of a row."""
    with atomic_path(path, overwrite) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:

        def note(row: int, record: TextRecord) -> None:
            entry = {"row": row, "line": record.line, "start": record.start, "text": record.text}
            entry |= {"tokens": record.tokens, "offsets": record.offsets}
            file.write(f"{json.dumps(entry)}\n")

        yield note


def _check_outputs(source: Any, output: Path, index: str | Path | None, overwrite: bool, resume: bool) -> None:
    """Raises an error if the output or the index exists, or if one of them is the input or the other."""
    inputs = [source] if isinstance(source, str | Path) else []
    if index is not None:
        check_output(Path(index), overwrite, inputs=[*inputs, output])
        check_distinct(output, index)
    if resume:  # the folder of parts is removed
        check_not_input(folder_of(output), inputs)
    check_output(output, overwrite, inputs=inputs)


class FileLines:
    """The lines of a text file, as `read_lines` gives them, and how much of it is read, to estimate a total."""

    def __init__(self, source: str | Path) -> None:
        self._source, self._read = source, 0

    def __iter__(self) -> Iterator[str]:
        for line in read_lines(self._source):
            self._read += corpus.length_of(line)
            yield line

    def total(self, done: int) -> int | None:
        """Estimates how many there will be of what there are `done` of now; None for standard input."""
        if str(self._source) == "-":
            return None
        return corpus.estimate(done, self._read, corpus.size_of(Path(self._source)))


def _given_lines(lines: Iterable[str]) -> Iterator[str]:
    """The lines that a caller gives, without line ends. Raises InputError for what is no line."""
    for number, line in enumerate(check_outer(lines, "a file or a list of lines is expected")):
        if not isinstance(line, str):
            raise no_text(line, place_of("line", number, lines), "a string is expected")
        yield str(line).rstrip("\r\n").removeprefix(opening.MARK)


def read_lines(source: str | Path) -> Iterator[str]:
    """Yields the lines of a text file, or of standard input for "-", without line ends."""
    if str(source) != "-":
        if Path(source).is_dir():
            raise InputError(f"{source}: is a folder; name one text file (.txt, .gz, .xz, .bz2)")
        yield from corpus.file_lines(Path(source), corpus.MOST_CHARACTERS, whole=True)
        return
    if sys.stdin is None:
        raise InputError("the input is '-', but standard input is closed; redirect a text to it, or name a file")
    yield from _standard_input(sys.stdin.buffer)


def _standard_input(raw: Any) -> Iterator[str]:
    """The lines of standard input, each as soon as it arrives, unless lines end with carriage returns alone."""
    name, first = opening.STANDARD_INPUT, opening.peek_start(raw)
    opening.check_encoding(first, name)
    ends = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+") if opening.has_old_ends(first) else None
    irregular = IrregularPlaces(name)
    valid = 0
    each = iter(partial(raw.readline, corpus.MOST_CHARACTERS), b"") if ends is None else ends.findall(raw.read())
    for number, line in enumerate(each, 1):
        if len(line) >= corpus.MOST_CHARACTERS:
            raise corpus.long_line(name, number, corpus.MOST_CHARACTERS)
        try:
            text = line.decode("utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            column = len(line[: error.start].decode("utf-8")) + 1
            rest = line[error.start :] + raw.read(opening.HEAD)
            raise opening.broken_byte(name, (number, column), rest, valid, error.reason) from error
        valid += not text.isascii()
        corpus.note_controls(irregular, text, number)
        yield text.removeprefix(opening.MARK)
    irregular.tell()
