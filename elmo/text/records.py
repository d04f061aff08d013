"""Lines -> records, one per sentence: its tokens, its text or name, and the positions of the tokens in the text.

- text: one sentence per line
- CoNLL-U: the words of a sentence (multiword tokens are split into their words, empty nodes are skipped)
- FASTA: a protein, with one token per residue
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from elmo.errors import InputError
from elmo.text.tokenizer import Tokenizer

Kind = Literal["text", "conllu", "fasta"]
FASTA = (".fasta", ".fa", ".faa", ".fas", ".fsa", ".mpfa", ".pep")
SUFFIXES: dict[str, Kind] = {".conllu": "conllu", **dict.fromkeys(FASTA, "fasta")}
UNTOLD = (".conll", ".conllx")
COMPRESSED = (".gz", ".xz")
CONLLU_ID = re.compile(r"\d{1,9}([-.]\d{1,9})?")
Span = tuple[int, int]


@dataclass(frozen=True)
class Record:
    """One sentence or protein."""

    text: str
    """The line, the sentence in `# text`, or a protein's identifier."""
    tokens: list[str]
    offsets: list[Span] | None = None
    """Start and end (exclusive) of every token in `text`, in characters (for a protein: in the sequence); None if
    unknown."""


def kind_of(path: str | Path) -> Kind:
    """The kind of input by the file's name. Raises InputError if the name is ambiguous."""
    suffix = suffix_of(path)
    if suffix in UNTOLD:
        raise InputError(
            f"{path}: {suffix} files have different formats; give --kind conllu or --kind text, or, without such"
            " a flag, rename it to .conllu or .txt"
        )
    return SUFFIXES.get(suffix, "text")


def check_text(path: str | Path, remedy: str = "write its sentences to a text file") -> None:
    """Raises InputError, with the remedy, for a file that by its name has other lines than text."""
    suffix = suffix_of(path)
    if suffix in SUFFIXES or suffix in UNTOLD:
        raise InputError(f"{path}: the lines of {suffix} files are not text; {remedy}, or rename it to .txt")


def suffix_of(path: str | Path) -> str:
    """The extension of a file, with its dot, in lower case, ignoring that of a compression."""
    name = Path(str(path).lower())
    return Path(name.stem).suffix if name.suffix in COMPRESSED else name.suffix


def read_records(
    lines: Iterable[str], kind: Kind, tokenizer: Tokenizer | None, source: str | Path = "input"
) -> Iterator[Record]:
    """The records of a file's lines; `tokenizer`, needed only for text, splits a line into tokens.

    Raises InputError with `source` and the line.
    """
    if kind not in get_args(Kind):
        raise InputError(f"kind is {kind!r}; one of {', '.join(get_args(Kind))} is expected")
    if kind == "text":
        if tokenizer is None:
            raise ValueError("text needs a tokenizer")
        return (_text_record(line, tokenizer) for line in lines)
    return read_conllu(lines, source) if kind == "conllu" else read_fasta(lines, source)


def offsets(text: str, tokens: Sequence[str]) -> list[Span] | None:
    """Start and end of the tokens in `text`, in characters: each is searched for after the one before it.

    None if one is missing. If a tokenizer dropped only white space, every token is found where it was.
    """
    spans, end = [], 0
    for token in tokens:
        begin = text.find(token, end)
        if begin < 0:
            return None
        end = begin + len(token)
        spans.append((begin, end))
    return spans


def read_conllu(lines: Iterable[str], source: str | Path = "input") -> Iterator[Record]:
    """The sentences of CoNLL-U (https://universaldependencies.org/format.html): tab-separated ID, FORM and more."""
    text, units = None, list[tuple[str, int]]()  # forms in the text, and their numbers of words
    words: list[str] = []
    inside = 0  # remaining words of a multiword token
    for number, line in enumerate(_and_blank(lines), 1):
        if not line.strip():
            _check_words(inside, number, source)
            if words:
                yield _conllu_record(text, words, units)
            text, units, words, inside = None, [], [], 0
        elif line.startswith("#"):
            key, _, value = line[1:].partition("=")
            text = value.strip() if key.strip() == "text" else text
        else:
            place, form = _conllu_word(line, number, source)
            if "." in place:
                continue
            if "-" in place:
                _check_words(inside, number, source)
                first, last = map(int, place.split("-"))
                inside = last - first + 1
                if inside < 1:
                    raise InputError(f"{source}: line {number} has the range {place}; its first number comes first")
                units.append((form, inside))
                continue
            words.append(form)
            if inside:
                inside -= 1
            else:
                units.append((form, 1))


def read_conllu_columns(
    lines: Iterable[str], columns: Sequence[int], source: str | Path = "input"
) -> Iterator[list[tuple[str, ...]]]:
    """Columns, counted from 0, of every word in each sentence of CoNLL-U; the words are those of `read_conllu`."""
    words: list[tuple[str, ...]] = []
    for number, line in enumerate(_and_blank(lines), 1):
        if not line.strip():
            if words:
                yield words
            words = []
        elif not line.startswith("#"):
            place, _ = _conllu_word(line, number, source)
            values = line.rstrip("\r\n").split("\t")
            if not place.isdecimal():
                continue
            if max(columns) >= len(values):
                raise InputError(
                    f"{source}: line {number} has {len(values)} columns, but column {max(columns) + 1} is needed;"
                    " CoNLL-U has 10, separated by tabs"
                )
            words.append(tuple(values[column] for column in columns))


def read_fasta(lines: Iterable[str], source: str | Path = "input") -> Iterator[Record]:
    """The proteins of a FASTA file, by the first word of their header, in upper case and without white space."""
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


def _text_record(line: str, tokenizer: Tokenizer) -> Record:
    tokens = tokenizer.tokens(line)
    return Record(line, tokens, offsets(line, tokens))


def _protein(name: str, parts: list[str]) -> Record:
    residues = list("".join(parts))
    return Record(name, residues, [(place, place + 1) for place in range(len(residues))])


def _and_blank(lines: Iterable[str]) -> Iterator[str]:
    """Adds an empty line, since the last sentence may lack the one that ends it."""
    yield from lines
    yield ""


def _conllu_word(line: str, number: int, source: str | Path) -> tuple[str, str]:
    columns = line.split("\t")
    place = columns[0].strip()
    if len(columns) < 2 or not CONLLU_ID.fullmatch(place):
        raise InputError(
            f"{source}: line {number} is {line[:40]!r}; a number, a tab and a word are expected (CoNLL-U), or an empty"
            " line between sentences"
        )
    return place, columns[1]


def _check_words(inside: int, number: int, source: str | Path) -> None:
    """Raises InputError if words of a multiword token are to come before this line."""
    if inside:
        raise InputError(
            f"{source}: line {number} comes before {inside:,} words of the multiword token above it; list all of its"
            " words below it"
        )


def _conllu_record(text: str | None, words: list[str], units: list[tuple[str, int]]) -> Record:
    """Words of a multiword token get its position."""
    forms = [form for form, _ in units]
    text = " ".join(forms) if text is None else text
    found = offsets(text, forms)
    spans = (
        None if found is None else [span for span, (_, count) in zip(found, units, strict=True) for _ in range(count)]
    )
    return Record(text, words, spans)
