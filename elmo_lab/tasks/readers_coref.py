"""Readers and writers of coreference: CoNLL-2012 columns, and JSON lines with lists of clusters.

Both hold a document's sentences, speakers and clusters of mentions.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elmo.errors import InputError
from elmo.text.lines import columns_at_spaces, numbered_lines
from elmo_lab.tasks.readers import count, json_lines, strings_field, text_field, write_json_lines, writing

Mention = tuple[int, int]
"""The first and last token, counted from the start of the document."""
Cluster = tuple[Mention, ...]

BEGIN = re.compile(r"#begin document (?P<name>.*?)(?:; part (?P<part>\d{1,9}))?\s*")
BRACKET = re.compile(r"(?P<opens>\()?(?P<cluster>[^\s()|]+)(?P<closes>\))?")
Row = tuple[int, list[str]]
"""A line's number and its columns."""
NOTHING = ("-", "_", "*")
WORD, SPEAKER = 3, 9  # columns
COLUMNS = 12  # as written, without predicates: the fewest possible


@dataclass(frozen=True)
class Document:
    """A document. `clusters` is None if the file has none."""

    name: str
    sentences: tuple[tuple[str, ...], ...]
    clusters: tuple[Cluster, ...] | None
    """Mentions and clusters are in text order."""
    speakers: tuple[tuple[str, ...], ...]
    """Of every token; "" or "-" if unknown."""
    genre: str = ""
    part: int = 0
    line: int = 0


def read_coref(path: Path) -> list[Document]:
    """The documents of a file of CoNLL-2012 columns or JSON lines; recognizes which.

    JSON: `doc_key`, `sentences`, `clusters` of `[first, last]` token, both included; optional: `speakers`, one per
    sentence or per token, `genre` and `part`. Clusters that share a mention are merged.

    Raises InputError if brackets are not balanced, a mention is not within a sentence, or a token is empty.
    """
    first = next((line for _, line in numbered_lines(path) if line.strip()), "")
    if first.lstrip().startswith("{"):
        return [_document_of(record, number, f"{path}: line {number}") for number, record in json_lines(path)]
    return list(_documents(path))


def write_conll2012(path: Path, documents: Iterable[Document], overwrite: bool = False) -> None:
    """Writes documents as CoNLL-2012 columns; fills those for name, part, number, word, speaker and coreference.

    Raises ValueError for crossing mentions of one cluster, which this format cannot distinguish, and InputError for a
    token that is empty or contains a tab or line end.
    """
    with writing(path, overwrite) as file:
        for document in documents:
            file.write(f"#begin document ({' '.join(document.name.split())}); part {document.part:03d}\n")
            file.writelines(_rows(document))
            file.write("#end document\n")


def write_coref_json(path: Path, documents: Iterable[Document], overwrite: bool = False) -> None:
    """Writes documents as JSON lines."""
    records = (
        {"doc_key": document.name, "genre": document.genre, "sentences": document.sentences}
        | {"speakers": document.speakers}
        | ({"part": document.part} if document.part else {})
        | ({} if document.clusters is None else {"clusters": document.clusters})
        for document in documents
    )
    write_json_lines(path, records, overwrite)


def joined(clusters: Iterable[Iterable[Mention]]) -> tuple[Cluster, ...]:
    """The clusters in order, each mention once; clusters that share a mention are merged."""
    merged: list[set[Mention]] = []
    for cluster in clusters:
        mentions = set(cluster)
        apart = [other for other in merged if not other & mentions]
        merged = [*apart, mentions.union(*(other for other in merged if other & mentions))]
    return tuple(sorted(tuple(sorted(cluster)) for cluster in merged if cluster))


# JSON lines


def _document_of(record: dict[str, Any], number: int, place: str) -> Document:
    sentences = record.get("sentences")
    if not isinstance(sentences, list):
        raise InputError(
            f"{place}: 'sentences' is not a list of lists of tokens; write each sentence as a list of tokens"
        )
    tokens = tuple(strings_field({"a sentence": sentence}, "a sentence", place) for sentence in sentences)
    clusters, part = record.get("clusters"), record.get("part", 0)
    if type(part) is not int or part < 0:
        raise InputError(f"{place} has 'part': {part!r}; a number from 0 on is expected")
    return Document(
        text_field(record, "doc_key", place),
        tokens,
        None if clusters is None else _clusters(clusters, tokens, place),
        _speakers(record.get("speakers"), tokens, place),
        str(record.get("genre") or ""),
        part,
        number,
    )


def _clusters(clusters: Any, sentences: Sequence[Sequence[str]], place: str) -> tuple[Cluster, ...]:
    sentence_of = [number for number, tokens in enumerate(sentences) for _ in tokens]
    if not isinstance(clusters, list) or not all(isinstance(cluster, list) for cluster in clusters):
        raise InputError(
            f"{place}: 'clusters' is not a list of lists of mentions; write mentions as [first, last] token"
        )
    for mention in (mention for cluster in clusters for mention in cluster):
        if not isinstance(mention, list) or [type(end) for end in mention] != [int, int]:
            raise InputError(f"{place} has the mention {str(mention)[:40]}; [first, last] token indices are expected")
        first, last = mention
        if not 0 <= first <= last < len(sentence_of) or sentence_of[first] != sentence_of[last]:
            raise InputError(
                f"{place} has the mention {mention} in a document of {count(len(sentence_of), 'token')}; two tokens of"
                " one sentence are expected, counted from 0 and both included"
            )
    return joined([(first, last) for first, last in cluster] for cluster in clusters)


def _speakers(speakers: Any, sentences: tuple[tuple[str, ...], ...], place: str) -> tuple[tuple[str, ...], ...]:
    if speakers is None:
        return tuple(("",) * len(tokens) for tokens in sentences)
    if isinstance(speakers, list) and len(speakers) == len(sentences):
        lengths = [len(tokens) for tokens in sentences]
        each = [names if isinstance(names, list) else [names] * n for names, n in zip(speakers, lengths, strict=True)]
        if [len(names) for names in each] == lengths:
            found = tuple(tuple("" if name is None else name for name in names) for names in each)
            if all(isinstance(name, str) for names in found for name in names):
                return found
    raise InputError(
        f"{place}: 'speakers' does not match the sentences; name one per sentence or per token, null if it is unknown"
    )


# CoNLL-2012


def _documents(path: Path) -> Iterator[Document]:
    begin: tuple[int, str, int] | None = None  # line, name, part of the open document
    sentences: list[list[Row]] = []
    for number, line in numbered_lines(path):
        if line.startswith("#begin document"):
            if begin is not None:
                raise _unended(path, begin[0])
            begin, sentences = (number, *_header(line)), [[]]
        elif line.startswith("#end document"):
            if begin is None:
                raise InputError(
                    f"{path}: line {number} ends a document that has no start; write '#begin document (name)'"
                )
            yield _document(path, begin, [rows for rows in sentences if rows])
            begin = None
        elif line.strip() and not line.startswith("#"):
            if begin is None:
                raise InputError(
                    f"{path}: line {number} is outside a document: {line[:40]!r}; '#begin document (name); part 000'"
                    " is expected before it"
                )
            sentences[-1].append((number, _columns(path, number, line, sentences[-1])))
        elif begin is not None and sentences[-1] and not line.startswith("#"):
            sentences.append([])
    if begin is not None:
        raise _unended(path, begin[0])


def _unended(path: Path, line: int) -> InputError:
    return InputError(f"{path}: the document that starts in line {line} has no end; write '#end document' after it")


def _header(line: str) -> tuple[str, int]:
    """Name and part of `#begin document (name); part 000`."""
    found = BEGIN.fullmatch(line)
    name = found["name"] if found else line.removeprefix("#begin document").strip()
    if name.startswith("(") and name.endswith(")"):
        name = name[1:-1]
    return name, int(found["part"] or 0) if found else 0


def _columns(path: Path, number: int, line: str, before: list[Row]) -> list[str]:
    columns = line.split("\t") if "\t" in line else columns_at_spaces(line)
    width = len(before[0][1]) if before else max(len(columns), WORD + 2)
    if len(columns) != width:
        expected = f"its sentence has {width}" if before else f"at least {width} are expected"
        raise InputError(
            f"{path}: line {number} has {count(len(columns), 'column')} where {expected}: {line[:60]!r}; write"
            " document, part, number, word, ..., coreference, and an empty line between sentences"
        )
    if not columns[WORD]:
        raise InputError(f"{path}: line {number} has an empty token; write the token or remove the line")
    return columns


def _document(path: Path, begin: tuple[int, str, int], sentences: list[list[Row]]) -> Document:
    line, name, part = begin
    clusters: dict[str, list[Mention]] = {}
    token = 0
    for rows in sentences:
        for cluster, (first, last) in _mentions(path, rows):
            clusters.setdefault(cluster, []).append((token + first, token + last))
        token += len(rows)
    return Document(
        name,
        tuple(tuple(columns[WORD] for _, columns in rows) for rows in sentences),
        joined(clusters.values()),
        tuple(tuple(columns[SPEAKER] if len(columns) >= COLUMNS else "" for _, columns in rows) for rows in sentences),
        name.partition("/")[0] if "/" in name else "",
        part,
        line,
    )


def _mentions(path: Path, rows: list[Row]) -> Iterator[tuple[str, Mention]]:
    """The mentions of a sentence with their clusters; within a cluster, the last opened is closed first."""
    is_open: dict[str, list[tuple[int, int]]] = {}  # cluster -> (line, token) of mentions that are still open
    for token, (number, columns) in enumerate(rows):
        cell = columns[-1].strip()
        for part in cell.split("|") if cell not in NOTHING else ():
            found = BRACKET.fullmatch(part)
            if found is None or not (found["opens"] or found["closes"]):
                raise InputError(
                    f"{path}: line {number} has {columns[-1]!r} in the coreference column, the last; (1, 1), (1) or"
                    " -, with | between several, is expected"
                )
            begun = is_open.setdefault(found["cluster"], [])
            if found["opens"]:
                begun.append((number, token))
            if found["closes"]:
                if not begun:
                    raise _unbalanced(path, number, part, "closes a mention that is not open in its sentence")
                yield found["cluster"], (begun.pop()[1], token)
    for cluster, begun in is_open.items():
        if begun:
            raise _unbalanced(path, begun[-1][0], f"({cluster}", "opens a mention that is not closed in its sentence")


def _unbalanced(path: Path, number: int, bracket: str, problem: str) -> InputError:
    return InputError(f"{path}: line {number}: {bracket!r} {problem}; balance the coreference brackets")


def _rows(document: Document) -> Iterator[str]:
    cells = _cells(document.clusters or ())
    name = "_".join(document.name.split()) or "-"
    name = f"_{name}" if name.startswith("#") else name  # else every row is a comment
    token = 0
    for tokens, speakers in zip(document.sentences, document.speakers, strict=True):
        for number, (word, speaker) in enumerate(zip(tokens, speakers, strict=True)):
            if not word:
                raise InputError(f"{document.name}: token {token} is empty; give it a text, or remove it")
            if not {"\t", "\n", "\r"}.isdisjoint(word):
                raise InputError(
                    f"{document.name}: the token {word!r} contains a tab or line end; write .jsonl instead"
                )
            middle = ["-", "*", "-", "-", "-", "_".join(speaker.split()) or "-", "*"]
            columns = [name, str(document.part), str(number), word, *middle, "|".join(cells.get(token, ["-"]))]
            yield "\t".join(columns) + "\n"
            token += 1
        yield "\n"


def _cells(clusters: Sequence[Cluster]) -> dict[int, list[str]]:
    """The brackets of every token that has any: closing before opening ones, so that neighbours stay separate."""
    closing, opening, single = dict[int, list[str]](), dict[int, list[str]](), dict[int, list[str]]()
    for number, cluster in enumerate(clusters):
        if any(a < c < b < d for a, b in cluster for c, d in cluster):
            raise ValueError(f"cluster {number} has crossing mentions, which CoNLL-2012 cannot represent: {cluster}")
    mentions = [(first, last, number) for number, cluster in enumerate(clusters) for first, last in cluster]
    for first, last, number in sorted(mentions, key=lambda mention: (mention[0], -mention[1])):
        if first == last:
            single.setdefault(first, []).append(f"({number})")
        else:
            opening.setdefault(first, []).append(f"({number}")
            closing.setdefault(last, []).insert(0, f"{number})")
    tokens = sorted({*closing, *opening, *single})
    return {token: closing.get(token, []) + opening.get(token, []) + single.get(token, []) for token in tokens}
