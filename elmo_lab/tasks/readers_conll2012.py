"""Reads the columns of CoNLL-2012 (`gold_conll`), the format of OntoNotes: words, entities, roles, coreference.

The columns are document, part, number, word, part of speech, parse, lemma, frameset, sense, speaker, entities, a column
of arguments for each predicate, and coreference. A document stands between `#begin document` and `#end document`; an
empty line ends a sentence.

The column before the words counts them from 0, or from 1 in SemEval-2010's files, where it is the first. The words are
found by this column, since the name of a document may have spaces.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from elmo.errors import InputError
from elmo.text.irregular import IrregularPlaces
from elmo.text.lines import numbered_lines
from elmo.text.records import BLANK
from elmo.text.tokenizer import split_at_spaces
from elmo_lab.tasks.readers import EMPTY, with_noun
from elmo_lab.tasks.tagging import Span, tags_of

BEGIN = re.compile(r"#\s*begin document\b:?\s*(?P<title>(?P<name>.*?)(?:; *part (?P<part>\d{1,9}))?)\s*")
END = re.compile(r"#\s*end document\b.*")
NUMBER = 2
"""The usual column of a word's number."""
LEMMA, FRAMESET, SPEAKER, ENTITIES, ARGUMENTS = 4, 5, 7, 8, 9
"""The columns, counted from that of the numbers."""
CELL = re.compile(r"(?P<opens>(?:\([^()*\s]+)*)\*?(?P<closes>\)*)")
VERB = re.compile(r"\(V(?=[()*]|$)")
NOTHING = ("-", "_", "*", "")

Row = tuple[int, list[str]]
"""A line's number and its columns."""


@dataclass(frozen=True)
class ColumnDocument:
    """A document's sentences as rows of columns."""

    line: int
    name: str
    part: int
    sentences: list[list[Row]]
    number: int
    """The column that counts the words; the word follows it."""
    first: int
    """The first number: 0 in CoNLL-2012, 1 in SemEval-2010."""
    title: str
    """The name and the part as the file writes them, by which the reference scorer finds the document."""

    def cells(self, rows: list[Row], column: int) -> list[str]:
        """Returns a column, counted from that of the numbers, with "-" for cells that a row lacks."""
        place = self.number + column
        known = self.first == 0 or column == 1
        return [columns[place] if known and place < len(columns) - 1 else "-" for _, columns in rows]


@dataclass(frozen=True)
class Predicate:
    """A predicate and the roles of its sentence's tokens."""

    index: int
    """The predicate's token."""
    tags: tuple[str, ...] | None
    """The BIO tags, with V for the predicate itself; None if the file has no tags."""
    lemma: str = ""
    roleset: str = ""


def is_begin(line: str) -> bool:
    """Returns whether a document begins in this line."""
    return BEGIN.fullmatch(line.strip()) is not None


def read_documents(path: Path, irregular: IrregularPlaces) -> Iterator[ColumnDocument]:
    """Reads the documents of a file. Raises InputError for rows outside of one, or if no column counts the words."""
    begin: tuple[int, str, int, str] | None = None  # line, name, part and title of the open document
    sentences: list[list[Row]] = []
    for number, line in numbered_lines(path):
        if header := BEGIN.fullmatch(line.strip()):
            if begin is not None:
                irregular.note("a document without '#end document' before the next one", begin[0])
                yield _document(path, begin, sentences, irregular)
            name = header["name"]
            name = name[1:-1] if name.startswith("(") and name.endswith(")") else name
            begin, sentences = (number, name, int(header["part"] or 0), header["title"]), [[]]
        elif END.fullmatch(line.strip()):
            if begin is None:
                raise InputError(f"{path}: line {number}: this end has no start; write '#begin document (name)'")
            yield _document(path, begin, sentences, irregular)
            begin = None
        elif not line.strip(BLANK):
            if begin is not None and sentences[-1]:
                sentences.append([])
        elif not line.startswith("#") or (begin is not None and begin[1].startswith("#") and line.startswith(begin[1])):
            if begin is None:
                raise InputError(
                    f"{path}: line {number} is outside a document: {line[:40]!r}; '#begin document (name); part 000'"
                    " is expected before it"
                )
            sentences[-1].append((number, _columns(path, number, line, sentences[-1], irregular)))
    if begin is not None:
        raise InputError(f"{path}: the document of line {begin[0]} has no end; write '#end document' after it")


def document_entities(path: Path, irregular: IrregularPlaces) -> Iterator[tuple[list[str], tuple[str, ...], list[int]]]:
    """Reads the words, the named entities as BIO tags, and the lines of every sentence.

    Raises InputError if the file has no entities.
    """
    any_bracket = False
    for document in read_documents(path, irregular):
        for rows in document.sentences:
            cells = document.cells(rows, ENTITIES)
            any_bracket |= any("(" in cell for cell in cells)
            tags = tags_of(_spans(path, rows, cells), len(rows))
            yield document.cells(rows, 1), tags, [line for line, _ in rows]
    if not any_bracket:
        raise InputError(f"{path}: the column of entities, the eleventh of CoNLL-2012, is empty; give a file with them")


def read_predicates(
    path: Path, irregular: IrregularPlaces, unlabelled: bool = False
) -> Iterator[tuple[int, str, list[str], Iterator[Predicate]]]:
    """Reads the first line, a name, the words and the predicates of every sentence; no arguments with `unlabelled`."""
    for document in read_documents(path, irregular):
        for number, rows in enumerate(document.sentences):
            name = f"{document.name}/{document.part}/{number}"
            yield rows[0][0], name, document.cells(rows, 1), _predicates(path, document, rows, irregular, unlabelled)


def _predicates(
    path: Path, document: ColumnDocument, rows: list[Row], irregular: IrregularPlaces, unlabelled: bool
) -> Iterator[Predicate]:
    width = len(rows[0][1])
    for column in range(ARGUMENTS, width - 1 - document.number if document.first == 0 else 0):
        cells, tags = document.cells(rows, column), None
        if unlabelled:
            verb = next((place for place, cell in enumerate(cells) if VERB.match(cell)), None)
        else:
            spans = _spans(path, rows, cells)
            tags = tags_of(spans, len(rows))
            verb = next((begin for begin, _, kind in spans if kind == "V"), None)
        if verb is None:
            irregular.note("a column of arguments without its predicate (V*), left out", rows[0][0])
            continue
        lemma, roleset = (document.cells(rows, place)[verb] for place in (LEMMA, FRAMESET))
        yield Predicate(verb, tags, *("" if each in NOTHING else each for each in (lemma, roleset)))


def _spans(path: Path, rows: list[Row], cells: list[str]) -> list[Span]:
    """The spans of a column of brackets; of nested spans, only the outer ones."""
    spans, is_open = list[Span](), list[tuple[int, str]]()
    for place, cell in enumerate(cells):
        if cell in NOTHING:
            continue
        found = CELL.fullmatch(cell)
        if found is None or len(found["closes"]) > len(is_open) + found["opens"].count("("):
            raise InputError(f"{path}: line {rows[place][0]} has {cell!r}; brackets (PERSON*, *, *) are expected")
        is_open += [(place, kind) for kind in found["opens"].split("(")[1:]]
        for _ in found["closes"]:
            begin, kind = is_open.pop()
            if not is_open:
                spans.append((begin, place + 1, kind))
    if is_open:
        raise InputError(f"{path}: line {rows[is_open[0][0]][0]} opens ({is_open[0][1]}, not closed in its sentence")
    return spans


def _columns(path: Path, number: int, line: str, before: list[Row], irregular: IrregularPlaces) -> list[str]:
    by_tabs = "\t" in line
    columns = line.split("\t") if by_tabs else split_at_spaces(line)
    width = len(before[0][1]) if before else max(len(columns), NUMBER + 3)
    if by_tabs and len(columns) == width - 1:
        columns.append("")  # an editor removed the tab at the end
    if len(columns) != width:
        expected = f"its sentence has {width}" if before else f"at least {width} are expected"
        raise InputError(
            f"{path}: line {number} has {with_noun(len(columns), 'column')} where {expected}: {line[:60]!r}; write"
            " document, part, number, word, ..., coreference, and an empty line between sentences"
        )
    columns[-1] = columns[-1].strip()
    if not columns[-1]:
        irregular.note("an empty last cell, read as no mention", number)
        columns[-1] = "-"
    return columns


def _document(
    path: Path, begin: tuple[int, str, int, str], sentences: list[list[Row]], irregular: IrregularPlaces
) -> ColumnDocument:
    line, name, part, title = begin
    sentences = [rows for rows in sentences if rows]
    words = len(name.split())
    # The column is looked for after the document's name and part, at CoNLL-2012's place, at SemEval's, then anywhere.
    places = dict.fromkeys([words + 1, NUMBER, 0, *range(20)])
    found = next(((place, base) for place in places for base in (0, 1) if _is_count(sentences, place, base)), None)
    if found is None:
        found = _most_counting(sentences, list(places))
        if found is None:
            raise InputError(
                f"{path}: no column of the document that starts in line {line} counts the words 0, 1, 2 ...;"
                " CoNLL-2012 has document, part, number, word, ..., coreference"
            )
        sentences = _divided(sentences, *found, irregular)
    place, base = found
    for rows in sentences:
        for number, columns in rows:
            if not columns[place + 1]:
                irregular.note(f"an empty token, read as {EMPTY!r}", number)
                columns[place + 1] = EMPTY
    return ColumnDocument(line, name, part, sentences, place, base, title)


def _is_count(sentences: list[list[Row]], place: int, base: int) -> bool:
    """Whether this column counts the words of every sentence, and the next one can hold the words."""
    return all(
        place + 2 < len(columns) and columns[place] == str(base + number)
        for rows in sentences
        for number, (_, columns) in enumerate(rows)
    )


def _most_counting(sentences: list[list[Row]], places: list[int]) -> tuple[int, int] | None:
    """The column that counts words in most rows, and its first number; None if no column does in two thirds of them."""
    rows = [columns for each in sentences for _, columns in each]

    def steps(place: int) -> int:
        numbers = [columns[place] if place + 2 < len(columns) else "" for columns in rows]
        values = [int(each) if each.isdecimal() and len(each) < 9 else -1 for each in numbers]
        return sum(
            now == before + 1 or (now in (0, 1) and now != before)
            for before, now in zip([-1, *values], values, strict=False)
        )

    best = max(places, key=steps)
    numbers = [columns[best] for columns in rows if best < len(columns)]
    distinct = len(set(numbers)) > 1
    if not rows or steps(best) * 3 < len(rows) * 2 or not distinct:
        return None
    return best, 0 if "0" in numbers else 1


def _divided(sentences: list[list[Row]], place: int, base: int, irregular: IrregularPlaces) -> list[list[Row]]:
    """Divides sentences where the numbers begin again, too, and notes numbers that are not the next."""
    divided: list[list[Row]] = []
    for rows in sentences:
        divided.append([])
        for line, columns in rows:
            if columns[place] == str(base) and divided[-1]:
                irregular.note("a sentence without an empty line before it", line)
                divided.append([])
            elif columns[place] != str(base + len(divided[-1])):
                irregular.note("a number of a word that is not the next", line)
            divided[-1].append((line, columns))
    return divided
