"""Readers and writers of labelled text: CoNLL columns, SNLI and semantic roles as JSON lines, and shared helpers.

Files are UTF-8, plain, `.gz` or `.xz`. Every record has its line number. Malformed input is an `InputError` of one line
that names the file, the line and the remedy. Other formats: `readers_trees.py` (sentiment), `readers_squad.py`,
`readers_coref.py`.
"""

import gzip
import json
import lzma
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from elmo.disk.files import whole
from elmo.errors import InputError
from elmo.text.lines import columns_at_spaces, numbered_lines
from elmo_lab.tasks.tagging import is_tag, to_bio

DOCUMENT_START = "-DOCSTART-"
SNLI_LABELS = ("entailment", "contradiction", "neutral")
NO_AGREEMENT = "-"  # SNLI: the annotators did not agree on a label


@dataclass(frozen=True)
class Tagged:
    """A sentence of a column file."""

    tokens: tuple[str, ...]
    tags: tuple[str, ...] | None
    """BIO; None if no tag column was requested."""
    lines: tuple[int, ...]
    """The line of every token, counted from 1."""


@dataclass(frozen=True)
class Pair:
    """A premise and a hypothesis (Bowman et al. 2015), not tokenised."""

    premise: str
    hypothesis: str
    label: str | None
    """One of SNLI_LABELS; None if the file has none."""
    line: int


@dataclass(frozen=True)
class Predicate:
    """A predicate and the roles of its sentence's tokens."""

    index: int
    """The predicate's token."""
    tags: tuple[str, ...] | None
    """BIO, with V for the predicate itself; None if the file has none."""
    lemma: str = ""
    roleset: str = ""


@dataclass(frozen=True)
class Roles:
    """A sentence with its predicates, if any."""

    tokens: tuple[str, ...]
    predicates: tuple[Predicate, ...]
    line: int
    id: str = ""


# CoNLL columns


def read_conll(path: Path, token_column: int = 0, tag_column: int | None = -1) -> list[Tagged]:
    """The sentences of a column file: one token per line, an empty line between sentences.

    Columns are separated by tabs, or by spaces and tabs if the first token's line has no tab; all lines have the same
    number. Ignored are lines of `-DOCSTART-`, which end a sentence, and comments: lines that start with `#` and have no
    tab or another number of columns.

    Tags are converted to BIO, from the scheme that all tags of the file show together. A sequence that the scheme does
    not allow, such as O I-PER in BIO, is refused.
    """
    sentences = list(_columns(path, token_column, tag_column))
    if tag_column is None:
        return sentences
    tags = to_bio([sentence.tags or () for sentence in sentences])
    if tags.broken is not None:
        number, place, problem = tags.broken
        line = sentences[number].lines[place]
        raise InputError(f"{path}: line {line} {problem}; fix the tags")
    return [
        Tagged(sentence.tokens, bio, sentence.lines) for sentence, bio in zip(sentences, tags.sentences, strict=True)
    ]


def write_conll(path: Path, sentences: Iterable[Sequence[Sequence[str]]], overwrite: bool = False) -> None:
    """Writes sentences, each given as its columns (tokens, tags, ...), separated by tabs.

    conlleval reads the columns tokens, gold, predicted.
    """
    with writing(path, overwrite) as file:
        for columns in sentences:
            file.writelines("\t".join(row) + "\n" for row in zip(*columns, strict=True))
            file.write("\n")


def _columns(path: Path, token_column: int, tag_column: int | None) -> Iterator[Tagged]:
    separator, width = None, 0  # of the first token's line
    tokens, tags, numbers = list[str](), list[str](), list[int]()
    for number, line in numbered_lines(path):
        is_blank = not line.strip() or line.startswith(DOCUMENT_START)
        if is_blank and tokens:
            yield _tagged(tokens, tags, numbers)
            tokens, tags, numbers = [], [], []
        if is_blank or _is_comment(line, separator, width, tag_column):
            continue
        if not width:
            separator = "\t" if "\t" in line else None
        columns = line.split(separator) if separator else columns_at_spaces(line)
        width = width or len(columns)
        if len(columns) != width:
            raise InputError(
                f"{path}: line {number} has {count(len(columns), 'column')} where the lines before it have {width}:"
                f" {line[:60]!r}; give every token all columns, and put an empty line between sentences"
            )
        tokens.append(_column(columns, token_column, path, number).strip())
        numbers.append(number)
        if not tokens[-1]:
            raise InputError(f"{path}: line {number} has an empty token; write the token or remove the line")
        if tag_column is not None:
            tags.append(_column(columns, tag_column, path, number).strip())
            if not is_tag(tags[-1]):
                raise InputError(
                    f"{path}: line {number} has {tags[-1]!r} in the tag column; O, B-TYPE or I-TYPE (IOBES: also"
                    " E-TYPE, S-TYPE) is expected: fix the line, or cut the columns of the tokens and their tags"
                    " (cut -f2,3 for Universal NER)"
                )
    if tokens:
        yield _tagged(tokens, tags, numbers)


def _tagged(tokens: list[str], tags: list[str], numbers: list[int]) -> Tagged:
    return Tagged(tuple(tokens), tuple(tags) or None, tuple(numbers))


def _is_comment(line: str, separator: str | None, width: int, tag_column: int | None) -> bool:
    if not line.startswith("#") or "\t" in line:
        return False
    columns = line.split()
    if width:
        return (separator == "\t" and width > 1) or len(columns) != width
    return len(columns) > 1 if tag_column is None else not is_tag(columns[-1])


def _column(columns: list[str], index: int, path: Path, number: int) -> str:
    if not -len(columns) <= index < len(columns):
        raise InputError(
            f"{path}: line {number} has {count(len(columns), 'column')}, so no column {index} (the first is"
            " 0, the last -1); choose another column"
        )
    return columns[index]


# SNLI


def read_snli(path: Path, undecided: bool = False) -> list[Pair]:
    """The pairs of a file of JSON lines with `sentence1`, `sentence2` and `gold_label`.

    Pairs with the label "-" (no agreement among annotators) are omitted, as in the paper, unless `undecided`. Their
    label, and that of pairs without `gold_label`, is None.
    """
    pairs = []
    for number, record in json_lines(path):
        place = f"{path}: line {number}"
        label = text_field(record, "gold_label", place) if "gold_label" in record else None
        if label == NO_AGREEMENT:
            if not undecided:
                continue
            label = None
        if label is not None and label not in SNLI_LABELS:
            raise InputError(
                f"{place} has the gold_label {label!r}; {', '.join(SNLI_LABELS)} or {NO_AGREEMENT!r} (omitted) is"
                " expected: fix or remove the line"
            )
        pairs.append(
            Pair(text_field(record, "sentence1", place), text_field(record, "sentence2", place), label, number)
        )
    return pairs


def write_snli(path: Path, pairs: Iterable[Pair], overwrite: bool = False) -> None:
    """Writes pairs as SNLI's JSON lines."""
    write_json_lines(
        path,
        (
            ({} if pair.label is None else {"gold_label": pair.label})
            | {"sentence1": pair.premise, "sentence2": pair.hypothesis}
            for pair in pairs
        ),
        overwrite,
    )


# Semantic roles


def read_roles(path: Path) -> list[Roles]:
    """The sentences of a file of JSON lines: `tokens`, and `props`, a list of `pred` (the predicate's token, from 0),
    `tags` (BIO, one per token; optional), `lemma` and `roleset`.
    """
    return [_roles(record, number, f"{path}: line {number}") for number, record in json_lines(path)]


def write_roles(path: Path, sentences: Iterable[Roles], overwrite: bool = False) -> None:
    """Writes sentences as JSON lines for `read_roles`."""
    records = (
        ({"id": sentence.id} if sentence.id else {})
        | {"tokens": sentence.tokens, "props": [_prop(predicate) for predicate in sentence.predicates]}
        for sentence in sentences
    )
    write_json_lines(path, records, overwrite)


def _roles(record: dict[str, Any], number: int, place: str) -> Roles:
    tokens = strings_field(record, "tokens", place)
    props = record.get("props", [])
    if not isinstance(props, list) or not all(isinstance(prop, dict) for prop in props):
        raise InputError(
            f"{place}: 'props' is not a list of objects with 'pred' and 'tags'; write one object per predicate"
        )
    name = record.get("id")
    props = tuple(_predicate(prop, len(tokens), place) for prop in props)
    return Roles(tokens, props, number, "" if name is None else str(name))


def _predicate(prop: dict[str, Any], length: int, place: str) -> Predicate:
    index = prop.get("pred")
    if type(index) is not int or not 0 <= index < length:
        raise InputError(
            f"{place} has 'pred': {index!r} in a sentence of {count(length, 'token')}; the index of one"
            " of them is expected, counted from 0"
        )
    lemma, roleset = (str(prop.get(key) or "") for key in ("lemma", "roleset"))
    if prop.get("tags") is None:
        return Predicate(index, None, lemma, roleset)
    tags = strings_field(prop, "tags", place)
    if len(tags) != length:
        raise InputError(
            f"{place}: the predicate of token {index} has {count(len(tags), 'tag')} for {count(length, 'token')}; give"
            " one per token"
        )
    for token, tag in enumerate(tags):
        if not is_tag(tag):
            raise InputError(
                f"{place}: predicate {index}, token {token}: the tag is {tag!r}; O, B-ROLE or I-ROLE is expected"
            )
    read = to_bio([tags], "BIO")
    if read.broken is not None:
        _, token, problem = read.broken
        raise InputError(f"{place}: the predicate of token {index}: token {token} {problem}; fix the tags")
    return Predicate(index, tags, lemma, roleset)


def _prop(predicate: Predicate) -> dict[str, Any]:
    fields = {"pred": predicate.index, "lemma": predicate.lemma, "roleset": predicate.roleset}
    return fields if predicate.tags is None else fields | {"tags": predicate.tags}


# Shared by all readers


def check_known(labels: Iterable[tuple[int, str]], known: Collection[str], path: Path, what: str = "tag") -> None:
    """Raises InputError for the first of `labels`, each with its line, that the training data lack."""
    for number, label in labels:
        if label not in known:
            listed = ", ".join(sorted(known)[:20]) + (", ..." if len(known) > 20 else "")
            raise InputError(
                f"{path}: line {number} has the {what} {label!r}, which is not in the training data; it has {listed}:"
                f" fix the {what}, or train on data that has it"
            )


def check_words(sentences: Sequence[Tagged], path: Path, remedy: str) -> None:
    """Raises InputError if the tokens of all sentences are 1, 2, 3 ...: their numbers instead of the words."""
    numbered = all(list(each.tokens) == [str(n + 1) for n in range(len(each.tokens))] for each in sentences)
    if numbered and any(len(each.tokens) > 1 for each in sentences):
        raise InputError(f"{path}: the tokens are 1, 2, 3 ...: the column numbers them; {remedy}")


@contextmanager
def writing(path: Path, overwrite: bool = False) -> Iterator[TextIO]:
    """A text file that appears only if the block succeeds; compressed if its suffix is `.gz` or `.xz`."""
    with (
        whole(path, overwrite) as temporary,
        temporary.open("wb") as raw,
        TextIOWrapper(_compressed(raw, path.suffix.lower()), encoding="utf-8", newline="\n") as file,
    ):
        yield file


def _compressed(raw: BinaryIO, suffix: str) -> Any:
    if suffix == ".gz":  # without name and time: same text, same bytes
        return gzip.GzipFile("", "wb", fileobj=raw, mtime=0)
    if suffix == ".xz":
        return lzma.open(raw, "wb")
    return raw


def json_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a file of JSON lines, with their line numbers; skips blank lines."""
    for number, line in numbered_lines(path):
        if line.strip():
            record = parsed_json(line, f"{path}: line {number}")
            if not isinstance(record, dict):
                raise InputError(f"{path}: line {number} is {line[:40]!r}; one JSON object per line is expected")
            yield number, record


def parsed_json(text: str, place: str) -> Any:
    """Parses JSON; refuses strings that cannot be written as UTF-8."""
    try:
        value = json.loads(text)
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except (ValueError, RecursionError) as error:  # ValueError: JSONDecodeError, UnicodeEncodeError (half a surrogate)
        reason = " ".join(str(error).split())
        raise InputError(f"{place} is not valid JSON ({reason}); fix it, or fetch the file again") from error
    return value


def write_json_lines(path: Path, records: Iterable[dict[str, Any]], overwrite: bool = False) -> None:
    """Writes objects, one per line."""
    with writing(path, overwrite) as file:
        file.writelines(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


def text_field(record: dict[str, Any], key: str, place: str) -> str:
    """A string of a JSON object. Raises InputError if it is missing or something else."""
    value = record.get(key)
    if not isinstance(value, str):
        found = f"{key!r} is {str(value)[:40]!r}" if key in record else f"{key!r} is missing"
        raise InputError(f"{place}: {found}; a text is expected")
    return value


def strings_field(record: dict[str, Any], key: str, place: str) -> tuple[str, ...]:
    """A list of non-empty strings of a JSON object. Raises InputError if it is missing or something else."""
    value = record.get(key)
    if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
        found = f"{key!r} is {str(value)[:40]!r}" if key in record else f"{key!r} is missing"
        raise InputError(f"{place}: {found}; a list of non-empty texts is expected")
    return tuple(value)


def count(number: int, what: str) -> str:
    """The number with its noun, with an s in the plural."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
