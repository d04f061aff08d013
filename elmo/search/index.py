"""An index of occurrences: every token of a text with its vectors, stored on disk for repeated searches.

- An index is a folder: `index.json` records what it was built from (`elmo.search.index_record`); two LanceDB tables
  hold `occurrences` and `sentences` (`elmo.search.index_tables`).
- It is built chunk by chunk beside its final path. An interrupted build resumes after its last complete chunk.
"""

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from elmo import config as configs
from elmo.disk.files import PARTIAL, check_output, is_unfinished, place_output, real_path, remove
from elmo.disk.run import check_same, lock_folder
from elmo.embedding.embedder import Embedder
from elmo.embedding.pooling import unit_vectors
from elmo.errors import InputError, check_whole, path_of, shown
from elmo.search import index_tables as tables
from elmo.search.index_record import RECORD, IndexRecord, read_record, write_record
from elmo.search.index_tables import Step
from elmo.search.nearest import Neighbor, even_places, layer_numbers
from elmo.text import corpus
from elmo.text.batching import in_parts
from elmo.text.characters import is_utf8
from elmo.text.records import Place, TextRecord, as_records

FILES = RECORD, f"{tables.OCCURRENCES}.lance", f"{tables.SENTENCES}.lance"
PART = ".part"
CHUNK_TOKENS = 16_384
"""The least number of tokens in a chunk of sentences that is written at once."""
SPARE = 10
"""The number of extra neighbours to search for, since LanceDB rounds the query to the stored type."""
REFINE = 10
"""The number of tokens taken from the graph, and compared as stored, for each requested neighbour."""


@dataclass(frozen=True)
class Query:
    """A token in its sentence, with its vector at the searched layer."""

    sentence: tuple[str, ...]
    index: int
    vector: Float[np.ndarray, " D"]
    place: Place = field(default_factory=Place)
    """Where the token stands, if the query comes from an index."""


Use = tuple[tuple[str, ...], int, Place]
"""The tokens of a sentence, the number of one of them, and the place of that token."""


def layers_of(embedder: Embedder, layers: Iterable[int]) -> tuple[int, ...]:
    """Returns layer numbers from 0, each once, in order; -1 is the top. Raises InputError for an unknown layer."""
    return tuple(sorted({layer % embedder.n_layers for layer in layer_numbers(layers, embedder.n_layers)}))


def build_index(
    embedder: Embedder,
    sentences: Iterable[Sequence[str] | TextRecord],
    output: str | Path,
    record: IndexRecord,
    resume: bool = False,
    overwrite: bool = False,
    progress: Callable[[int], object] | None = None,
    step: Step = nullcontext,
) -> IndexRecord:
    """Builds the index of `sentences` in the folder `output`; returns its record.

    `record` says what it is built from. `sentences` are lists of tokens, or records such as those of
    `elmo.text.corpus_records.CorpusRecords`; the index keeps their files, lines and characters. Memory holds one
    chunk's vectors at a time; for the graphs, at the end, LanceDB needs memory that grows more slowly than the text.
    The index is in `output` with the suffix `.part` until it is complete; `resume` continues an interrupted build there
    after its last complete chunk. `progress` is called with the number of tokens so far, at first with those of the
    interrupted build; `step` with the name of each step that cannot tell how far it is (the graphs), and its context
    lasts as long as the step.

    Raises InputError if there is no sentence, if there is an interrupted build without `resume` or with other
    settings, if another process is building it, or if LanceDB cannot write (a full disk, a path that is not UTF-8 or
    has a control character); OSError if the output exists.
    """
    tables.import_lancedb()  # if it is missing, this fails before a folder is made
    output = path_of("the index", output)
    check_output(output, overwrite, FILES, record.texts)
    output = real_path(output)  # an index behind a link is replaced, not the link
    _check_name(output, "name another output")
    part = output.with_name(output.name + PART)
    with lock_folder(part, "is building this index", "name another output", is_moved=True):
        record = _built(embedder, sentences, part, _begun(part, record, resume, overwrite), progress, step)
        place_output(part, output, overwrite, FILES)
    return record


def _built(
    embedder: Embedder,
    sentences: Iterable[Sequence[str] | TextRecord],
    part: Path,
    record: IndexRecord,
    progress: Callable[[int], object] | None,
    step: Step,
) -> IndexRecord:
    """Builds the rest of the index in `part`."""
    left = islice(_limited(as_records(sentences), record.limit), record.sentences, None)
    with _writing(part):
        both = tables.open_tables(tables.import_lancedb().connect(str(part)), record, embedder.dim)
        for table in both:
            table.delete(f"sentence >= {record.sentences}")  # these rows were written after the last complete chunk
    if progress is not None:
        progress(record.tokens)
    try:
        for chunk in in_parts(left, CHUNK_TOKENS, lambda sentence: len(sentence.tokens)):
            rows = tables.rows_of(embedder, chunk, record)
            with _writing(part):
                for table, new in zip(both, rows, strict=True):
                    table.add(new)
            record = replace(record, sentences=record.sentences + len(chunk), tokens=record.tokens + len(rows[0]))
            write_record(part, record)
            if progress is not None:
                progress(record.tokens)
        if not record.sentences:
            raise InputError(f"{', '.join(record.texts)}: no sentences; give a text that has some")
    except InputError:
        if not record.sentences:  # there is nothing to resume
            shutil.rmtree(part)
        raise
    with _writing(part):
        tables.train(both, record, step)
    return record


class Index:
    """A finished index, for searching."""

    def __init__(self, folder: str | Path) -> None:
        """Opens the index in `folder`. Raises InputError if there is none, or if it is damaged."""
        folder = self.folder = path_of("the index", folder)
        self.record = read_record(folder)
        _check_name(real_path(folder), "rename it")
        with self._errors():
            database = tables.import_lancedb().connect(str(real_path(folder)))  # a relative "a:b" would be an address
            self._occurrences = database.open_table(tables.OCCURRENCES)
            self._sentences = database.open_table(tables.SENTENCES)
            counts = (self._sentences.count_rows(), self._occurrences.count_rows())
        if counts != (self.record.sentences, self.record.tokens):
            raise InputError(
                f"{folder}: has {counts[0]:,} sentences and {counts[1]:,} tokens, but {RECORD} says"
                f" {self.record.sentences:,} and {self.record.tokens:,}; build it again"
            )

    def layer(self, layer: int | None = None) -> int:
        """Returns the number of a stored layer; None and -1 are the highest. Raises InputError for others."""
        kept = self.record.layers
        found = kept[-1] if layer in (None, -1) else layer
        if isinstance(found, bool) or found not in kept:
            raise InputError(
                f"{self.folder}: layer is {shown(layer)}; the index has layers {', '.join(map(str, kept))}; build one"
                " with that layer"
            )
        return found

    def check_model(self, card: dict) -> None:
        """Raises InputError if the biLM with this card (`elmo.formats.opened.OpenedModel.card`) is not the index's."""
        kept = self.record.bilm
        if card["sha256"] != kept["sha256"]:
            raise InputError(
                f"{self.folder}: was made with a biLM of sha256 {kept['sha256'][:12]} ({kept['model']}), and that"
                f" of {card['model']} is {card['sha256'][:12]}; give that one, or build another index"
            )

    def occurrences(self, word: str, layer: int, most: int | None = None) -> tuple[list[Query], int]:
        """Returns at most `most` occurrences of `word` as spelled, spread over the text, and their total number."""
        column = tables.column_of(self.layer(layer))
        rows, count = self._rows(word, most)
        if not rows:
            return [], 0
        with self._errors():
            taken = self._occurrences.take_row_ids([row["_rowid"] for row in rows])
            found = sorted(taken.select(["sentence", "token", column]).to_arrow().to_pylist(), key=tables.position)
        vectors = [np.array(row[column], np.float32) for row in found]
        return [
            Query(tokens, token, vector, place)
            for (tokens, token, place), vector in zip(self._uses(rows), vectors, strict=True)
        ], count

    def uses(self, word: str, most: int) -> tuple[list[Use], int]:
        """Returns occurrences of `word` as spelled, without vectors, in text order, and their number.

        If there are more than `most`, they are taken evenly over the text.
        """
        rows, count = self._rows(word, most)
        return self._uses(rows), count

    def _rows(self, word: str, most: int | None) -> tuple[list[dict[str, Any]], int]:
        """Returns the positions and row ids of at most `most` occurrences, evenly over the text, and their number."""
        with self._errors():
            search = self._occurrences.search().where(tables.is_word(word)).select(["sentence", "token"])
            found = search.with_row_id(True).limit(None).to_arrow()
        order = np.lexsort((found["token"].to_numpy(), found["sentence"].to_numpy()))
        kept = order[even_places(len(order), len(order) if most is None else most)]
        return found.take(kept).to_pylist(), len(found)

    def nearest(
        self, query: Query, layer: int, k: int = 5, same_word: bool = True, exact: bool = False
    ) -> list[Neighbor]:
        """Returns the `k` nearest tokens to `query` by cosine at one layer, nearest first; ties are in text order.

        If several tokens tie for the last place, any of them may be left out.
        With `same_word` only occurrences of the query's word are candidates. The query itself (the same sentence and
        position) is never one. With `exact` every candidate is compared, however many there are. Raises InputError if
        `k` or the layer is invalid or the index is damaged.
        """
        check_whole("k", k)
        if not isinstance(query, Query):
            raise InputError(f"the query is {shown(query)}; a Query is expected, as index.occurrences(word, layer) has")
        where = tables.is_word(query.sentence[query.index]) if same_word else None
        with self._errors():
            candidates = self._occurrences.count_rows(where)
        limit, exact = min(k, self.record.tokens) + SPARE, exact or candidates <= tables.EXACT_MOST
        while True:
            rows = self._search(query, self.layer(layer), limit, where, exact)
            found = [
                Neighbor(row["similarity"], row["sentence"], token, tokens, place)
                for row, (tokens, token, place) in zip(rows, self._uses(rows), strict=True)
                if (tokens, token) != (query.sentence, query.index)
            ]
            if len(found) >= k or (exact and len(rows) < limit):
                return found[:k]
            exact |= len(rows) < limit  # among many equal vectors the graph finds no way to the others
            limit *= 2
            if len(found) < len(rows) and (copies := self._copies(query.sentence)):
                others = f"NOT (token = {query.index} AND sentence IN ({', '.join(map(str, copies))}))"
                where = others if where is None else f"{where} AND {others}"

    def _copies(self, sentence: Sequence[str]) -> list[int]:
        """Returns the numbers of the sentences with these tokens."""
        if not all(map(is_utf8, sentence)):
            return []
        with self._errors():
            search = self._sentences.search().where(f"tokens = make_array({', '.join(map(tables.quoted, sentence))})")
            return search.select(["sentence"]).limit(None).to_arrow()["sentence"].to_pylist()

    def _search(self, query: Query, layer: int, limit: int, where: str | None, exact: bool) -> list[dict[str, Any]]:
        """Returns the positions and similarities of up to `limit` tokens, nearest first."""
        vector, column = query.vector.astype(np.float32), tables.column_of(layer)
        with self._errors():
            search = self._occurrences.search(vector, column, query_type="vector").distance_type("cosine")
            if where is not None:
                search = search.where(where, prefilter=True)
            if exact:
                search = search.bypass_vector_index()
            else:
                search = search.refine_factor(REFINE).nprobes(tables.count_graphs(self.record))
            found = search.select(["sentence", "token", column, "_distance"]).limit(limit).to_arrow()
        rows = found.select(["sentence", "token"]).to_pylist()
        if not rows:
            return []
        vectors = found[column].combine_chunks().flatten().to_numpy().reshape(len(rows), -1)
        similarities = unit_vectors(vectors) @ unit_vectors(query.vector[None])[0]
        for row, similarity in zip(rows, similarities.astype(np.float32), strict=True):  # equal vectors then tie
            row["similarity"] = float(similarity)
        return sorted(rows, key=lambda row: (-row["similarity"], *tables.position(row)))

    def _uses(self, rows: Sequence[dict[str, Any]]) -> list[Use]:
        """Returns the sentences, tokens and places of rows of occurrences."""
        wanted = sorted({row["sentence"] for row in rows})
        if not wanted:
            return []
        with self._errors():
            where = f"sentence IN ({', '.join(map(str, wanted))})"
            kept = self._sentences.search().where(where).limit(None).to_arrow().to_pylist()
        if len(kept) != len(wanted):
            raise InputError(f"{self.folder}: damaged: {len(wanted) - len(kept)} sentences are missing; build it again")
        found = {row["sentence"]: (tuple(row["tokens"]), row) for row in kept}
        of_rows = [(*found[row["sentence"]], row["token"]) for row in rows]
        return [(tokens, token, tables.place_in(sentence, token)) for tokens, sentence, token in of_rows]

    def _errors(self) -> AbstractContextManager[None]:
        return tables.lance_errors(f"{self.folder}: damaged: ", "; build it again")


def _writing(part: Path) -> AbstractContextManager[None]:
    return tables.lance_errors(f"{part}: ", "; fix that, then continue with --resume")


def _check_name(folder: Path, remedy: str) -> None:
    if any(character < " " or character == "\x7f" for character in str(folder)):
        raise InputError(f"{str(folder)!r}: the path has a control character, which LanceDB cannot read; {remedy}")
    if not is_utf8(str(folder)):
        raise InputError(f"{str(folder)!r}: the name is not UTF-8, which LanceDB cannot write or read; {remedy}")


def _begun(part: Path, record: IndexRecord, resume: bool, overwrite: bool) -> IndexRecord:
    """Returns the record of the build in `part`, which is an interrupted build as far as it got, or a new one."""
    unfinished = f".{RECORD}.*{PARTIAL}"  # a process that was killed may leave such a file
    if overwrite and not resume:
        check_output(part, overwrite, (*FILES, unfinished))
        remove(part)
        part.mkdir()
    if all(map(is_unfinished, part.iterdir())):
        write_record(part, record)
        return record
    if not resume:
        raise InputError(f"{part}: the index is incomplete; add --resume to continue it, or remove it")
    kept = read_record(part)
    if corpus.is_fingerprint(kept.fingerprint, record.fingerprint):
        kept = replace(kept, fingerprint=record.fingerprint)
    old, new = (configs.to_dict(replace(each, sentences=0, tokens=0)) for each in (kept, record))
    check_same(part / RECORD, old, new, f"remove {part} to start again")
    return kept


def _limited(sentences: Iterable[TextRecord], limit: int | None) -> Iterator[TextRecord]:
    """Yields the non-empty sentences, up to the one that reaches `limit` tokens."""
    seen = 0
    for sentence in sentences:
        if limit is not None and seen >= limit:
            return
        if sentence.tokens:
            seen += len(sentence.tokens)
            yield sentence
