"""Reads and writes column files: one token per line, an empty line between sentences, a tag in a column.

They are read as conlleval reads them. Some collections have other columns, too (see docs/files.md): numbers of tokens
before the tokens (GermEval, Universal NER), or language codes before them (WikiAnn).
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from elmo.errors import InputError
from elmo.text.irregular import IrregularPlaces
from elmo.text.lines import numbered_lines
from elmo.text.records import BLANK, read_conllu, suffix_of
from elmo.text.tokenizer import split_at_spaces
from elmo_lab.tasks import readers_conll2012 as conll2012
from elmo_lab.tasks.readers import EMPTY, json_records, text_output, tokens_field, with_noun
from elmo_lab.tasks.tagging import is_tag, to_bio

DOCUMENT_START = "-DOCSTART-"
LANGUAGE = re.compile(r"[a-z]{2,3}(?:[-_][a-z]+)*:")
JSON = re.compile(r"\{\s*(\"|$)|\[\s*(\{|$)")
"""The beginning of a JSON file's first line; "[" and "{" alone may be tokens."""
MARKED_OTHERWISE = re.compile(r"[BIESLUMW]_.+|.+[-_][BIESLUMW]")
"""A tag whose mark is before an underscore, or after its type: B_PER, PER-B. Beside other types, it is one (B_cell)."""
PART_OF_WORD = re.compile(r"\d+[-.]\d+")
"""The number of a multiword token or of an empty node, as in CoNLL-U."""

Row = tuple[int, list[str]]
"""A line's number and its columns."""


@dataclass(frozen=True)
class TaggedSentence:
    """A sentence of a file, with its tags if they are known."""

    tokens: tuple[str, ...]
    tags: tuple[str, ...] | None = None
    """The BIO tags; None if they are unknown or were not requested."""
    lines: tuple[int, ...] = ()
    """The line of every token, counted from 1."""


def read_tagged(path: Path, unlabelled: bool = False) -> list[TaggedSentence]:
    """Reads the sentences of a file with tags, and finds their columns; with `unlabelled`, tags may be missing.

    Tokens are in the first column, or in the second if the first numbers them. The tags are in the last column; if the
    tokens are numbered, they are in the first column that has only tags, and of two columns they may be the first. A
    language code before all tokens, such as `en:`, is removed.
    """
    irregular = IrregularPlaces(path)
    sentences = list(_sentences(path, irregular, None if unlabelled else -1, unlabelled))
    tokens, tags = 0, -1
    if _is_numbered(sentences):
        whole = ([row for row in rows if not PART_OF_WORD.fullmatch(row[1][0])] for rows in sentences)
        sentences = [rows for rows in whole if rows]
        # The tags are in the first column after the number and the token that has only tags, or else in the last one.
        tokens = 1
        tags = next((place for place in range(2, _width(sentences)) if _only_tags(sentences, place)), -1)
    elif _width(sentences) == 2 and _only_tags(sentences, 0) and not _only_tags(sentences, 1):
        tokens, tags = 1, 0
    return _tagged(path, sentences, tokens, None if unlabelled else tags, irregular)


def read_entities(path: Path, unlabelled: bool = False) -> list[TaggedSentence]:
    """Reads the sentences of a file with named entities: columns (`read_tagged`), CoNLL-2012, or JSON lines.

    JSON lines have `tokens`, and `tags`, `ner_tags` or `labels`: a list of the names of tags (docs/files.md). With
    `unlabelled`, tags are neither needed nor read, and CoNLL-U (`.conllu`) is read, too.
    """
    if unlabelled and suffix_of(path) == ".conllu":
        lines = (line for _, line in numbered_lines(path))
        return [TaggedSentence(tuple(record.tokens)) for record in read_conllu(lines, path)]
    first = next((line for _, line in numbered_lines(path) if line.strip(BLANK)), "")
    irregular = IrregularPlaces(path)
    if conll2012.is_begin(first) and unlabelled:
        every = conll2012.read_documents(path, irregular)
        found = [TaggedSentence(tuple(rows.cells(each, 1))) for rows in every for each in rows.sentences]
    elif conll2012.is_begin(first):
        found = [
            TaggedSentence(tuple(words), tags, tuple(lines))
            for words, tags, lines in conll2012.document_entities(path, irregular)
        ]
    elif JSON.match(first.strip()):
        found = _of_json(path, irregular, unlabelled)
    else:
        found = read_tagged(path, unlabelled)
        check_words(found, path, "cut the columns of the words and their tags (such as cut -f2,3)")
    irregular.tell()
    return found


def _of_json(path: Path, irregular: IrregularPlaces, unlabelled: bool) -> list[TaggedSentence]:
    keys = () if unlabelled else ("tags", "ner_tags", "labels")
    sentences = list[TaggedSentence]()
    for number, record in json_records(path, irregular):
        place = f"{path}: line {number}"
        key = "words" if "words" in record and "tokens" not in record else "tokens"
        tokens = tokens_field(record, key, place, number, irregular)
        name = next((name for name in keys if record.get(name) is not None), None)
        tags = None if name is None else record[name]
        if tags is not None and (not isinstance(tags, list) or len(tags) != len(tokens)):
            raise InputError(f"{place}: {name!r} is {str(tags)[:40]!r}; a tag for each of the tokens is expected")
        for tag in tags or ():
            if not isinstance(tag, str) or not is_tag(tag):
                raise InputError(
                    f"{place} has {tag!r} in {name!r}; the names of tags are expected, such as O and B-PER: replace"
                    " numbers by the names in the features of the data set"
                )
        sentences.append(TaggedSentence(tokens, None if tags is None else tuple(tags), (number,) * len(tokens)))
    found = to_bio([sentence.tags or () for sentence in sentences])
    for sentence, _, problem in found.broken:
        irregular.note(problem, sentences[sentence].lines[0])
    return [
        replace(sentence, tags=None if sentence.tags is None else tags)
        for sentence, tags in zip(sentences, found.sentences, strict=True)
    ]


def read_conll(path: Path, token_column: int = 0, tag_column: int | None = -1) -> list[TaggedSentence]:
    """Reads the sentences of a column file: one token per line, an empty line between sentences.

    Columns are separated by tabs, or by spaces and tabs if the first token's line has no tab; all lines have the same
    number of columns. A line of `-DOCSTART-` ends a sentence and is skipped. So are comments: lines that start with `#`
    and have another number of columns, or no tag.

    Tags are converted to BIO, from the scheme that all tags of the file show together; types alone, such as PER, are
    tags if most tokens have O. Sequences that the scheme does not allow, such as O I-PER in BIO, are read as conlleval
    does, and counted in a warning (`IrregularInput`). An empty token, which becomes U+FFFD, and an empty tag, which
    becomes O, are counted, too.
    """
    irregular = IrregularPlaces(path)
    return _tagged(path, list(_sentences(path, irregular, tag_column)), token_column, tag_column, irregular)


def write_conll(path: Path, sentences: Iterable[Sequence[Sequence[str]]]) -> None:
    """Writes sentences, each given as its columns (tokens, tags, ...), separated by tabs, and an empty line after each.

    A sentence without columns is only the empty line. conlleval reads the columns tokens, gold, predicted. An existing
    file is replaced. Raises InputError for a token that contains a tab or line end.
    """
    with text_output(path, overwrite=True) as file:
        for columns in sentences:
            for row in zip(*columns, strict=True):
                if not {"\t", "\n", "\r"}.isdisjoint(row[0]):
                    raise InputError(f"{path}: the token {row[0]!r} contains a tab or line end; write .jsonl instead")
                file.write("\t".join(row) + "\n")
            file.write("\n")


def check_words(sentences: Sequence[TaggedSentence], path: Path, remedy: str) -> None:
    """Raises InputError if the tokens of all sentences are 1, 2, 3 ..., which are numbers instead of the words."""
    if _counts([list(each.tokens) for each in sentences]):
        raise InputError(f"{path}: the tokens are 1, 2, 3 ...: the column numbers them; {remedy}")


def _tagged(
    path: Path, sentences: list[list[Row]], token_column: int, tag_column: int | None, irregular: IrregularPlaces
) -> list[TaggedSentence]:
    """The sentences' tokens and tags, normalised."""
    tokens = [[_column(row, token_column, path).strip() for row in rows] for rows in sentences]
    tokens = _without_language(tokens)
    for rows, words in zip(sentences, tokens, strict=True):
        for place, (row, word) in enumerate(zip(rows, words, strict=True)):
            if not word:
                irregular.note(f"an empty token, read as {EMPTY!r}", row[0])
                words[place] = EMPTY
    lines = [tuple(number for number, _ in rows) for rows in sentences]
    if tag_column is None:
        irregular.tell()
        return [TaggedSentence(tuple(words), None, numbers) for words, numbers in zip(tokens, lines, strict=True)]
    inside = "I-" if _are_types([_column(row, tag_column, path).strip() for rows in sentences for row in rows]) else ""
    found = to_bio([[_tag(row, tag_column, path, irregular, inside) for row in rows] for rows in sentences])
    for sentence, token, problem in found.broken:
        irregular.note(problem, lines[sentence][token])
    irregular.tell()
    return [
        TaggedSentence(tuple(words), tags, own) for words, tags, own in zip(tokens, found.sentences, lines, strict=True)
    ]


def _are_types(tags: list[str]) -> bool:
    """Whether the tags are types without a mark of their beginning, such as PER, and mostly O."""
    counts = Counter(tags)
    others = [tag for tag in counts if tag != "O"]
    mostly_outside, has_marks = counts["O"] * 2 > len(tags), any(is_tag(tag) or not tag for tag in others)
    return mostly_outside and not has_marks and not all(map(MARKED_OTHERWISE.fullmatch, others))


def _tag(row: Row, column: int, path: Path, irregular: IrregularPlaces, inside: str = "") -> str:
    """The tag of a row; `inside` is put before a type that stands alone."""
    tag = _column(row, column, path).strip()
    if not tag:
        irregular.note("an empty tag, read as O", row[0])
        return "O"
    tag = tag if tag == "O" else inside + tag
    if not is_tag(tag):
        raise InputError(
            f"{path}: line {row[0]} has {tag!r} in column {column % len(row[1]) + 1}, that of the tags; O, B-TYPE or"
            " I-TYPE (IOBES: also E-TYPE, S-TYPE) is expected: correct the line, or cut the columns of the tokens and"
            " their tags (such as cut -f2,3)"
        )
    return tag


def _sentences(
    path: Path, irregular: IrregularPlaces, tag_column: int | None, may_have_tags: bool = False
) -> Iterator[list[Row]]:
    """Yields the rows of every sentence. With `may_have_tags`, a last column of tags tells comments, too."""
    by_tabs, first = _first_row(path)
    rows, width = list[Row](), len(first)
    if may_have_tags and width > 1 and is_tag(first[-1].strip()):
        tag_column = -1
    for number, line in numbered_lines(path):
        if not line.strip(BLANK) or line.startswith(DOCUMENT_START):
            if rows:
                yield rows
            rows = []
            continue
        by_tabs = by_tabs if width else "\t" in line
        columns = _columns(line, by_tabs, width)
        if line.startswith("#") and _is_comment(columns, by_tabs, width, tag_column):
            continue
        if by_tabs and width > 1 and "\t" not in line:
            irregular.note("columns separated by spaces instead of tabs", number)
        width = width or len(columns)
        if len(columns) != width:
            raise InputError(
                f"{path}: line {number} has {with_noun(len(columns), 'column')} where the lines before it have {width}:"
                f" {line[:60]!r}; give every token all columns, and put an empty line between sentences"
            )
        rows.append((number, columns))
    if rows:
        yield rows


def _first_row(path: Path) -> tuple[bool, list[str]]:
    """Returns whether tabs separate the columns of the first line that does not begin with #, and these columns.

    There are no columns if there is no such line.
    """
    for _, line in numbered_lines(path):
        if line.strip(BLANK) and not line.startswith(("#", DOCUMENT_START)):
            return "\t" in line, _columns(line, "\t" in line, 0)
    return False, []


def _columns(line: str, by_tabs: bool, width: int) -> list[str]:
    """The columns of a line; `width` is their expected number, 0 if that is unknown."""
    if not by_tabs or (width > 1 and "\t" not in line):
        columns = split_at_spaces(line)
        is_first_missing = len(columns) == (width or 2) - 1 and line[0] in " \t" and is_tag(columns[-1])
        return ["", *columns] if is_first_missing else columns
    columns = line.split("\t")
    while len(columns) > max(width, 1) and not columns[-1].strip():  # there may be tabs at the end
        columns.pop()
    return columns


def _is_comment(columns: list[str], by_tabs: bool, width: int, tag_column: int | None) -> bool:
    """Whether a line that starts with # is a comment, not a token."""
    if width and len(columns) != width:
        return True
    if tag_column is None:
        return not width and len(columns) > 1 and not by_tabs
    return not -len(columns) <= tag_column < len(columns) or not is_tag(columns[tag_column].strip())


def _column(row: Row, index: int, path: Path) -> str:
    number, columns = row
    if not -len(columns) <= index < len(columns):
        raise InputError(
            f"{path}: line {number} has {with_noun(len(columns), 'column')}, so no column {index} (the first is"
            " 0, the last -1); choose another column"
        )
    return columns[index]


def _is_numbered(sentences: list[list[Row]]) -> bool:
    """Whether the first of at least three columns numbers the tokens of every sentence."""
    firsts = [[columns[0] for _, columns in rows] for rows in sentences]
    whole = [[first for first in each if not PART_OF_WORD.fullmatch(first)] for each in firsts]
    return all(len(columns) > 2 for rows in sentences for _, columns in rows) and _counts(whole)


def _counts(sentences: list[list[str]]) -> bool:
    """Whether all sentences count 1, 2, 3 ... or all count 0, 1, 2 ..., and at least one has two tokens."""
    numbered = any(all(each == [str(base + n) for n in range(len(each))] for each in sentences) for base in (0, 1))
    return numbered and any(len(each) > 1 for each in sentences)


def _width(sentences: list[list[Row]]) -> int:
    return min((len(columns) for each in sentences for _, columns in each), default=0)


def _only_tags(sentences: list[list[Row]], column: int) -> bool:
    return all(is_tag(columns[column].strip()) for each in sentences for _, columns in each)


def _without_language(sentences: list[list[str]]) -> list[list[str]]:
    """Removes the language code that begins every token of WikiAnn's files."""
    first = next((LANGUAGE.match(word) for words in sentences for word in words), None)
    every = [word for words in sentences for word in words]
    if first is None or len(every) < 2 or not all(word.startswith(first[0]) for word in every):
        return sentences
    return [[word.removeprefix(first[0]) for word in words] for words in sentences]
