"""Reads and writes documents with coreference: CoNLL-2012 columns, JSON lines with lists of clusters, and GAP."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any

from elmo.errors import InputError, is_number
from elmo.text.irregular import IrregularPlaces
from elmo.text.lines import numbered_lines
from elmo.text.records import token_offsets
from elmo.text.tokenizer import TextConfig, Tokenizer
from elmo_lab.tasks import readers_conll2012 as conll2012
from elmo_lab.tasks.readers import json_records, text_output, tokens_field, with_noun
from elmo_lab.tasks.readers_squad import covering_tokens

Mention = tuple[int, int]
"""The first and last token, counted from the start of the document."""
Cluster = tuple[Mention, ...]

BRACKET = re.compile(r"(?P<opens>\()?(?P<cluster>[^\s()|]+)(?P<closes>\))?")
GENRE = re.compile(r"(?P<ontonotes>[^/]+)/.*|GUM_(?P<gum>[^_]+)_.+", re.DOTALL)
GAP: tuple[str, ...] = (
    "ID", "Text", "Pronoun", "Pronoun-offset", "A", "A-offset", "A-coref", "B", "B-offset", "B-coref", "URL"
)  # fmt: skip


@dataclass(frozen=True)
class Document:
    """A document. `clusters` is None if the file has none."""

    name: str
    sentences: tuple[tuple[str, ...], ...]
    clusters: tuple[Cluster, ...] | None
    """The clusters in the order in which they begin, with their mentions in text order; a mention may be in two."""
    speakers: tuple[tuple[str, ...], ...]
    """The speaker of every token; "" or "-" if unknown."""
    genre: str = ""
    """The genre that the file names, or that in the document's name; "" if there is neither."""
    part: int = 0
    line: int = 0
    title: str = field(default="", compare=False)
    """The name and the part as a file of columns writes them; "" if the document is of no such file."""


def read_coref(path: Path, unlabelled: bool = False) -> list[Document]:
    """Reads the documents of a file, whose layout it recognizes:

    - the columns of CoNLL-2012 and SemEval-2010
    - JSON lines with `doc_key`, `sentences`, and `clusters` of `[first, last]` token, both included, or PreCo's
      `mention_clusters` of `[sentence, first, after the last]`. They may have `genre`, `part` and `speakers`, one per
      sentence or per token.
    - GAP: a text, a pronoun and two names, one of which it may mean (Webster et al. 2018), split by spaCy's rules for
      English

    Columns have no genre, and JSON may have none. It is then read from names such as `bc/cctv/00/cctv_0000` (OntoNotes)
    and `GUM_bio_byron`. A mention in two clusters stays in both, and is counted in a warning. With `unlabelled`,
    clusters are neither needed nor read.

    Raises InputError if brackets are not balanced, or a mention is not within its document.
    """
    irregular = IrregularPlaces(path)
    first = next((line for _, line in numbered_lines(path) if line.strip()), "")
    if first.lstrip().startswith(("{", "[")):
        found = [
            _document_of(record, number, f"{path}: line {number}", irregular, unlabelled)
            for number, record in json_records(path, irregular)
        ]
    elif tuple(first.split("\t")[: len(GAP) - 1]) == GAP[:-1]:
        found = list(_of_gap(path, Tokenizer(TextConfig()), unlabelled))
    else:
        found = [_document(path, rows, irregular, unlabelled) for rows in conll2012.read_documents(path, irregular)]
    irregular.tell()
    return found


def write_conll2012(path: Path, documents: Iterable[Document]) -> None:
    """Writes documents as CoNLL-2012 columns, and fills those for name, part, number, word, speaker and coreference.

    An existing file is replaced. Raises ValueError for crossing mentions of one cluster, which this format cannot
    distinguish, and InputError for a token that is empty or contains a tab or line end.
    """
    with text_output(path, overwrite=True) as file:
        for document in documents:
            title = document.title or f"({' '.join(document.name.split())}); part {document.part:03d}"
            file.write(f"#begin document {title}\n")
            file.writelines(_rows(document))
            file.write("#end document\n")


def as_record(document: Document) -> dict[str, Any]:
    """Returns a document as a JSON object."""
    return (
        {"doc_key": document.name, "genre": document.genre, "sentences": document.sentences}
        | {"speakers": document.speakers}
        | ({"part": document.part} if document.part else {})
        | ({} if document.clusters is None else {"clusters": document.clusters})
    )


def check_clusters(clusters: Iterable[Iterable[Mention]], irregular: IrregularPlaces, line: int) -> tuple[Cluster, ...]:
    """Sorts the mentions of clusters in text order; a mention that occurs twice stays, and is noted.

    Scores count such a mention as the reference scorer does (`coref_scores`).
    """
    found = tuple(tuple(sorted(cluster)) for cluster in clusters)
    for mention, times in Counter(mention for cluster in found for mention in cluster).items():
        if times > 1:
            irregular.note("a mention that occurs twice in the clusters of its document", f"{mention} of line {line}")
    return tuple(cluster for cluster in found if cluster)


def genre_of(name: str) -> str:
    """Returns the genre in a document's name, as OntoNotes and GUM have it, or "" if there is none."""
    found = GENRE.fullmatch(name)
    return "" if found is None else found["ontonotes"] or found["gum"]


def _document_of(
    record: dict[str, Any], number: int, place: str, irregular: IrregularPlaces, unlabelled: bool
) -> Document:
    sentences = record.get("sentences")
    if not isinstance(sentences, list):
        raise InputError(f"{place}: 'sentences' is not a list of lists of tokens; write each sentence as a list")
    tokens = tuple(tokens_field({"a sentence": each}, "a sentence", place, number, irregular) for each in sentences)
    part = record.get("part", 0)
    if type(part) is not int or part < 0:
        raise InputError(f"{place} has 'part': {part!r}; a number from 0 on is expected")
    clusters = record.get("clusters")
    if clusters is None and isinstance(record.get("mention_clusters"), list) and not unlabelled:
        clusters = _of_preco(record["mention_clusters"], tokens, place)
    name = record.get("doc_key", record.get("id", f"line-{number}"))
    found = None if clusters is None or unlabelled else _clusters(clusters, tokens, place, number, irregular)
    speakers = _speakers(record.get("speakers"), tokens, place)
    genre = str(record.get("genre") or genre_of(str(name)))
    return Document(str(name), tokens, found, speakers, genre, part, number)


def _of_preco(clusters: list[Any], sentences: Sequence[Sequence[str]], place: str) -> list[Any]:
    """Converts PreCo's mentions, [sentence, first, after the last], to [first, last] of the document."""
    begins = [0, *accumulate(map(len, sentences))]
    try:
        return [[[begins[n] + first, begins[n] + end - 1] for n, first, end in cluster] for cluster in clusters]
    except (TypeError, ValueError, IndexError) as error:
        raise InputError(
            f"{place}: 'mention_clusters' is not a list of clusters of [sentence, first, after the last] ({error})"
        ) from error


def _clusters(
    clusters: Any, sentences: Sequence[Sequence[str]], place: str, line: int, irregular: IrregularPlaces
) -> tuple[Cluster, ...]:
    sentence_of = [number for number, tokens in enumerate(sentences) for _ in tokens]
    if not isinstance(clusters, list) or not all(isinstance(cluster, list) for cluster in clusters):
        raise InputError(f"{place}: 'clusters' is not a list of lists of mentions; write a mention as [first, last]")
    for mention in (mention for cluster in clusters for mention in cluster):
        if not isinstance(mention, list) or [type(end) for end in mention] != [int, int]:
            raise InputError(f"{place} has the mention {str(mention)[:40]}; [first, last] token indices are expected")
        first, last = mention
        if not 0 <= first <= last < len(sentence_of):
            raise InputError(
                f"{place} has the mention {mention} in a document of {with_noun(len(sentence_of), 'token')}; two of its"
                " tokens are expected, counted from 0 and both included"
            )
        if sentence_of[first] != sentence_of[last]:
            irregular.note("a mention across sentences, which is scored but never predicted", line)
    return check_clusters(([(first, last) for first, last in cluster] for cluster in clusters), irregular, line)


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
    raise InputError(f"{place}: 'speakers' does not fit the sentences; name one per sentence or token, null if unknown")


def _of_gap(path: Path, tokenizer: Tokenizer, unlabelled: bool) -> Iterator[Document]:
    """Reads a document for each row, with a cluster of the pronoun and the names that it means."""
    lines = numbered_lines(path)
    next(lines)
    for number, line in lines:
        if not line.strip():
            continue
        row = dict(zip(GAP, line.split("\t"), strict=False))
        offsets = [] if unlabelled else [row.get(f"{name}-offset", "") for name in ("Pronoun", "A", "B")]
        if len(row) < len(GAP) - 1 or not all(map(is_number, offsets)):
            raise InputError(f"{path}: line {number} is {line[:40]!r}; GAP's columns are expected: {', '.join(GAP)}")
        text = row["Text"]
        sentences = tuple(map(tuple, tokenizer.sentences(text)))
        clusters = None if unlabelled else _of_names(row, sentences, f"{path}: line {number}")
        speakers = tuple(("",) * len(tokens) for tokens in sentences)
        yield Document(row["ID"], sentences, clusters, speakers, line=number)


def _of_names(row: dict[str, str], sentences: Sequence[Sequence[str]], place: str) -> tuple[Cluster, ...]:
    """Returns the cluster of a row's pronoun and the names that it means, if it means any."""
    text = row["Text"]
    spans = token_offsets(text, [token for tokens in sentences for token in tokens]) or []
    mentions = {}
    for name in ("Pronoun", "A", "B"):
        begin = int(row[f"{name}-offset"])
        found = covering_tokens(spans, begin, begin + len(row[name]))
        if found is None or text[begin : begin + len(row[name])] != row[name]:
            raise InputError(f"{place}: the text has no {row[name]!r} at character {begin}")
        mentions[name] = found
    linked = [mentions[name] for name in ("A", "B") if row[f"{name}-coref"].strip().lower() == "true"]
    return (tuple(sorted({mentions["Pronoun"], *linked})),) if linked else ()


def _document(path: Path, rows: conll2012.ColumnDocument, irregular: IrregularPlaces, unlabelled: bool) -> Document:
    tokens, speakers = (
        tuple(tuple(rows.cells(each, column)) for each in rows.sentences) for column in (1, conll2012.SPEAKER)
    )
    if rows.first:  # the columns are SemEval-2010's, which have no speakers
        speakers = tuple(("",) * len(each) for each in speakers)
    clusters = None
    if not unlabelled:
        clusters = check_clusters(_mentions(path, rows.sentences, irregular).values(), irregular, rows.line)
    genre = genre_of(rows.name)
    return Document(rows.name, tokens, clusters, speakers, genre, rows.part, rows.line, rows.title)


def _mentions(path: Path, sentences: list[list[conll2012.Row]], irregular: IrregularPlaces) -> dict[str, list[Mention]]:
    """The mentions of each cluster, in the order in which the reference scorer meets the clusters.

    A bracket closes the mention of its cluster that was opened last.
    """
    clusters: dict[str, list[Mention]] = {}
    is_open: dict[str, list[tuple[int, int, int]]] = {}  # line, token and sentence of mentions that are still open
    rows = ((number, row) for number, each in enumerate(sentences) for row in each)
    for token, (sentence, (line, columns)) in enumerate(rows):
        cell = columns[-1]
        parts = [BRACKET.fullmatch(part.strip()) for part in cell.split("|")] if cell not in conll2012.NOTHING else []
        if not all(part is not None and (part["opens"] or part["closes"]) for part in parts):
            raise InputError(
                f"{path}: line {line} has {cell!r} in the coreference column, the last; (1, 1), (1) or"
                " -, with | between several, is expected"
            )
        found = [part for part in parts if part is not None]
        for part in sorted(found, key=lambda part: not (part["opens"] and part["closes"])):
            clusters.setdefault(part["cluster"], [])
        for part in found:
            begun = is_open.setdefault(part["cluster"], [])
            if part["opens"]:
                begun.append((line, token, sentence))
            if part["closes"]:
                if not begun:
                    raise _unbalanced(path, line, part[0], "closes a mention that is not open")
                _, first, began_in = begun.pop()
                if began_in != sentence:
                    irregular.note("a mention across sentences, which is scored but never predicted", line)
                clusters[part["cluster"]].append((first, token))
    for cluster, begun in is_open.items():
        if begun:
            raise _unbalanced(path, begun[-1][0], f"({cluster}", "opens a mention that is not closed in its document")
    return clusters


def _unbalanced(path: Path, line: int, bracket: str, problem: str) -> InputError:
    return InputError(f"{path}: line {line}: {bracket!r} {problem}; balance the coreference brackets")


def _rows(document: Document) -> Iterator[str]:
    cells = _cells(document.clusters or ())
    name = "_".join(document.name.split()) or "-"
    name = f"_{name}" if name.startswith("#") else name  # otherwise every row would be a comment
    token = 0
    for tokens, speakers in zip(document.sentences, document.speakers, strict=True):
        for number, (word, speaker) in enumerate(zip(tokens, speakers, strict=True)):
            if not word:
                raise InputError(f"{document.name!r}: token {token} is empty; give it a text, or remove it")
            if not {"\t", "\n", "\r"}.isdisjoint(word):
                raise InputError(f"{document.name!r}: token {word!r} contains a tab or line end; write .jsonl instead")
            middle = ["-", "*", "-", "-", "-", "_".join(speaker.split()) or "-", "*"]
            columns = [name, str(document.part), str(number), word, *middle, "|".join(cells.get(token, ["-"]))]
            yield "\t".join(columns) + "\n"
            token += 1
        yield "\n"


def _cells(clusters: Sequence[Cluster]) -> dict[int, list[str]]:
    """The brackets of each token that has any, closing before opening ones, so that neighbours stay separate."""
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
