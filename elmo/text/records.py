"""Reads records from lines, one per sentence: its tokens, its text or name, and the positions of tokens in the text.

- Text gives the sentences of each line, as the tokenizer finds them; with `sentences = "line"`, one per line.
- CoNLL-U gives the words of a sentence: multiword tokens are split into their words, and empty nodes are skipped.
- FASTA gives a protein, with one token per residue.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args

from elmo.errors import InputError
from elmo.text.given import SENTENCES, check_outer, check_sentence
from elmo.text.irregular import IrregularPlaces
from elmo.text.opening import COMPRESSED
from elmo.text.tokenizer import Tokenizer

Kind = Literal["text", "conllu", "fasta"]
FASTA = (".fasta", ".fa", ".faa", ".fas", ".fsa", ".mpfa", ".pep")
SUFFIXES: dict[str, Kind] = {".conllu": "conllu", **dict.fromkeys(FASTA, "fasta")}
UNTOLD = ".conll"
"""How the suffixes begin of files whose columns differ: .conll, .conllx, .conll09, .conllup ..."""
TABLES = {
    ".csv": "read_csv({})",
    ".tsv": "read_csv({}, sep='\\t')",
    ".json": "read_json({})",
    ".jsonl": "read_json({}, lines=True)",
    ".ndjson": "read_json({}, lines=True)",
}
"""How pandas reads a table, by the suffix of its file."""
MARKUP = (".html", ".htm", ".xhtml", ".xml", ".tei")
CONLLU_ID = re.compile(r"\d{1,9}([-.]\d{1,9})?")
CONLL_WIDTHS = (8, 10, 14)  # columns of CoNLL-X, CoNLL-U and CoNLL-2009
BLANK = " \t\n\r\f\v\0\x1a\u00a0\u200b\u200e\u200f\ufeff"
"""The characters of a line that looks empty: spaces of all kinds, marks, and the end-of-file of DOS."""
Span = tuple[int, int]


@dataclass(frozen=True)
class Place:
    """Where a token stands in a file; what is unknown is None."""

    file: str | None = None
    line: int | None = None
    """The number of the line, from 1; None for other files than text."""
    start: int | None = None
    """The character of the line at which the token begins, from 0."""
    end: int | None = None
    """The character of the line after the token."""

    def __str__(self) -> str:
        """The file, the line and the column (from 1), as editors and compilers write them; "" without a file."""
        column = None if self.start is None else self.start + 1
        return "" if self.file is None else ":".join(str(each) for each in (self.file, self.line, column) if each)


@dataclass(frozen=True)
class TextRecord:
    """One sentence or protein."""

    text: str
    """The sentence as it stands in its line or in `# text`, or the identifier of a protein."""
    tokens: list[str]
    offsets: list[Span] | None = None
    """Start and end (exclusive) of every token in `text`, in characters (for a protein: in the sequence); None if
    unknown."""
    line: int | None = None
    """The number of the line that has the sentence, from 1; None for other files than text."""
    start: int = 0
    """The character of its line at which `text` begins."""
    file: str | None = None
    """The name of the file that has the sentence; None unless `of_file` gave it."""

    def place(self, token: int) -> Place:
        """Returns where a token stands: `line[start:end]` is the token."""
        if self.line is None or self.offsets is None:
            return Place(self.file, self.line)
        begin, end = self.offsets[token]
        return Place(self.file, self.line, self.start + begin, self.start + end)


def as_records(sentences: "Iterable[Sequence[str] | TextRecord]") -> Iterator[TextRecord]:
    """Yields sentences as records. Nothing is known of the place of a list of tokens.

    Raises InputError for what is neither, as `elmo.text.given.check_sentence` does.
    """
    for number, sentence in enumerate(check_outer(sentences, SENTENCES)):
        yield sentence if isinstance(sentence, TextRecord) else TextRecord("", check_sentence(sentence, number))


def kind_of(path: str | Path) -> Kind:
    """Returns the kind of input by the file's name. Raises InputError if the name is ambiguous."""
    suffix = suffix_of(path)
    _check_suffix(path, suffix)
    if suffix.startswith(UNTOLD) and suffix not in SUFFIXES:
        raise InputError(
            f"{path}: {suffix} files have different formats; give --kind conllu or --kind text, or, without such"
            " a flag, rename it to .conllu or .txt"
        )
    return SUFFIXES.get(suffix, "text")


def check_text(path: str | Path, remedy: str = "write its sentences to a text file") -> None:
    """Raises InputError, with the remedy, for a file whose name says that its lines are not text."""
    suffix = suffix_of(path)
    _check_suffix(path, suffix)
    if suffix in SUFFIXES or suffix.startswith(UNTOLD):
        raise InputError(f"{path}: the lines of {suffix} files are not text; {remedy}, or rename it to .txt")


def _check_suffix(path: str | Path, suffix: str) -> None:
    """Raises InputError for tables and markup, whose heads, numbers and tags would be read as words."""
    if suffix in MARKUP:
        raise InputError(
            f"{path}: a {suffix} file has markup, whose tags would be read as words; write its texts to a text file, or"
            " rename it to .txt if it has none"
        )
    if suffix in TABLES:
        frame = f"pandas.{TABLES[suffix].format(repr(str(path)))}"
        raise InputError(
            f"{path}: a {suffix} file is a table, not text; embed its texts in Python,"
            f" elmo.load().embed({frame}['text']), with the name of their column, or write them to a text file, one on"
            " each line; rename it to .txt if its lines are text"
        )


def suffix_of(path: str | Path) -> str:
    """Returns the extension of a file with its dot, in lower case, ignoring that of a compression."""
    name = Path(str(path).lower())
    return Path(name.stem).suffix if name.suffix in COMPRESSED else name.suffix


def read_records(
    lines: Iterable[str], kind: Kind, tokenizer: Tokenizer | None, source: str | Path = "input"
) -> Iterator[TextRecord]:
    """Yields the records of a file's lines; `tokenizer`, needed only for text, splits a line into sentences of tokens.

    Raises InputError with `source` and the line.
    """
    if kind not in get_args(Kind):
        raise InputError(f"kind is {kind!r}; one of {', '.join(get_args(Kind))} is expected")
    if kind == "text":
        if tokenizer is None:
            raise ValueError("text needs a tokenizer")
        return (record for number, line in enumerate(lines, 1) for record in text_records(line, tokenizer, number))
    return read_conllu(lines, source) if kind == "conllu" else read_fasta(lines, source)


def text_records(line: str, tokenizer: Tokenizer, number: int | None = None, first: int = 0) -> Iterator[TextRecord]:
    """Yields the sentences of a line of text. All raw text becomes sentences here.

    If a line is a sentence, it is one record, even without tokens; otherwise a line without tokens has no record.
    `number` and `first` are the place of `line` in its file: its number, and the character at which this part of it
    begins.
    """
    if tokenizer.config.sentences == "line":
        tokens = tokenizer.tokens(line)
        yield TextRecord(line, tokens, token_offsets(line, tokens), number, first)
        return
    end = 0
    for tokens in tokenizer.sentences(line):
        spans = token_offsets(line, tokens, end)
        if spans is None:  # the tokenizer saw another text, for example one without a lone surrogate
            yield TextRecord(" ".join(tokens), tokens, None, number, first + end)
            continue
        begin, end = spans[0][0], spans[-1][1]
        offsets = [(a - begin, b - begin) for a, b in spans]
        yield TextRecord(line[begin:end], tokens, offsets, number, first + begin)


def of_file(records: Iterable[TextRecord], file: str | Path) -> Iterator[TextRecord]:
    """Yields the records with the name of their file."""
    return (replace(record, file=str(file)) for record in records)


def token_offsets(text: str, tokens: Sequence[str], begin: int = 0) -> list[Span] | None:
    """Returns start and end (exclusive) of the tokens in `text`, in characters; None if a token is missing.

    Each token is searched for after the one before it, and the first one from `begin` on. If a tokenizer dropped only
    white space, every token is found where it was.
    """
    spans, end = [], begin
    for token in tokens:
        begin = text.find(token, end)
        if begin < 0:
            return None
        end = begin + len(token)
        spans.append((begin, end))
    return spans


def read_conllu(lines: Iterable[str], source: str | Path = "input") -> Iterator[TextRecord]:
    """Yields the sentences of CoNLL-U (https://universaldependencies.org/format.html): tab-separated ID, FORM and more.

    A sentence also ends where the numbers of its words begin again. One warning, `IrregularInput`, counts such places,
    and numbers that do not count the words.
    """
    for text, rows in _conllu_sentences(lines, source):
        units = list[tuple[str, int]]()  # forms in the text, and their numbers of words
        words: list[str] = []
        inside = 0  # remaining words of a multiword token
        for place, columns, _ in rows:
            if "-" in place:
                first, last = map(int, place.split("-"))
                inside = last - first + 1
                units.append((columns[1], inside))
                continue
            words.append(columns[1])
            if inside:
                inside -= 1
            else:
                units.append((columns[1], 1))
        if words:
            yield _conllu_record(text, words, units)


def read_conllu_columns(
    lines: Iterable[str], columns: Sequence[int], source: str | Path = "input"
) -> Iterator[list[tuple[str, ...]]]:
    """Yields columns, counted from 0, of every word in each sentence of CoNLL-U, with the words of `read_conllu`."""
    for _, rows in _conllu_sentences(lines, source):
        words: list[tuple[str, ...]] = []
        for place, values, number in rows:
            if "-" in place:
                continue
            if max(columns) >= len(values):
                raise InputError(
                    f"{source}: line {number} has {len(values)} columns, but column {max(columns) + 1} is needed;"
                    " CoNLL-U has 10, separated by tabs"
                )
            words.append(tuple(values[column] for column in columns))
        if words:
            yield words


def read_fasta(lines: Iterable[str], source: str | Path = "input") -> Iterator[TextRecord]:
    """Yields the proteins of a FASTA file in upper case without white space, named by the first words of headers."""
    name, parts = None, list[str]()
    for number, line in enumerate(lines, 1):
        if line.startswith(">"):
            if name is not None:
                yield _protein(name, parts)
            name, parts = (line[1:].split() or [""])[0], []
        elif line.strip() and not line.startswith(";"):
            if name is None:
                raise InputError(f"{source}: line {number} is {line[:40]!r}; a FASTA file starts with a header: >name")
            parts.append("".join(line.split()).upper())
    if name is not None:
        yield _protein(name, parts)


def _protein(name: str, parts: list[str]) -> TextRecord:
    residues = list("".join(parts))
    return TextRecord(name, residues, [(place, place + 1) for place in range(len(residues))])


Row = tuple[str, list[str], int]
"""A word or the range of a multiword token: its ID, its columns and its line."""


def _conllu_sentences(lines: Iterable[str], source: str | Path) -> Iterator[tuple[str | None, list[Row]]]:
    """The text in the comments of every sentence, and its rows; empty nodes are left out."""
    irregular = IrregularPlaces(source)
    text, rows = None, list[Row]()
    last = inside = 0  # the number of the last word, and how many words of a multiword token remain
    number = 0
    for number, line in enumerate(lines, 1):
        if not line.strip(BLANK):
            _check_words(inside, number, source)
            if rows:
                yield text, rows
            text, rows, last, inside = None, [], 0, 0
            continue
        if line.startswith("#"):
            key, _, value = line[1:].partition("=")
            text = value.strip() if key.strip() == "text" else text
            continue
        columns = _conllu_columns(line, number, source, irregular)
        place = columns[0]
        if "." in place:
            continue
        first, _, end = place.partition("-")
        begin = int(first)
        if begin == 1 and last and not inside:
            irregular.note("a sentence without an empty line before it", number)
            yield text, rows
            text, rows, last = None, [], 0
        elif begin != last + 1:
            irregular.note("an ID that is not the next number", number)
        if end:
            _check_words(inside, number, source)
            inside = int(end) - begin + 1
            if inside < 1:
                raise InputError(f"{source}: line {number} has the range {place}; its first number comes first")
        else:
            last, inside = begin, max(0, inside - 1)
        rows.append((place, columns, number))
    _check_words(inside, number + 1, source)
    if rows:
        yield text, rows
    irregular.tell()


def _conllu_columns(line: str, number: int, source: str | Path, irregular: IrregularPlaces) -> list[str]:
    """The columns of a line; the first is a valid ID."""
    columns = line.split("\t")
    if len(columns) == 1 and len(found := line.split()) in CONLL_WIDTHS:
        irregular.note("columns separated by spaces", number)
        columns = found
    columns[0] = columns[0].strip()
    if len(columns) < 2 or not CONLLU_ID.fullmatch(columns[0]):
        raise InputError(
            f"{source}: line {number} is {line[:40]!r}; a number, a tab and a word are expected (CoNLL-U), or an empty"
            " line between sentences"
        )
    return columns


def _check_words(inside: int, number: int, source: str | Path) -> None:
    """Raises InputError if words of a multiword token are missing before this line."""
    if inside:
        raise InputError(
            f"{source}: line {number} comes before {inside:,} words of the multiword token above it; list all of its"
            " words below it"
        )


def _conllu_record(text: str | None, words: list[str], units: list[tuple[str, int]]) -> TextRecord:
    """Makes a record, in which the words of a multiword token have its position."""
    forms = [form for form, _ in units]
    text = " ".join(forms) if text is None else text
    found = token_offsets(text, forms)
    spans = None
    if found is not None:
        spans = [span for span, (_, count) in zip(found, units, strict=True) for _ in range(count)]
    return TextRecord(text, words, spans)
