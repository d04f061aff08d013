"""An index of occurrences: every token of a text with its vectors, stored on disk for repeated searches.

- An index is a folder: `index.json` records what it was built from; two LanceDB tables hold `occurrences` (word,
  position, vectors) and `sentences`.
- It is built chunk by chunk beside its final path. An interrupted build resumes after its last complete chunk.
- Up to `EXACT_MOST` candidates are compared one by one. Larger sets are searched through a neighbour graph over 8-bit
  vectors (LanceDB's IVF_HNSW_SQ), and the hits are compared as stored.
"""

import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from elmo import config as configs
from elmo.disk.files import PARTIAL, check_output, is_unfinished, move_into_place, remove, write_run_file
from elmo.disk.run import check_same, lock_folder
from elmo.embedding.embedder import Embedder, StatePolicy
from elmo.errors import InputError
from elmo.search.nearest import Neighbor, even_places, unit_vectors
from elmo.text import corpus
from elmo.text.batching import in_parts
from elmo.text.characters import is_utf8
from elmo.text.tokenizer import TextConfig

VERSION = "1"
RECORD, OCCURRENCES, SENTENCES = "index.json", "occurrences", "sentences"
FILES = RECORD, f"{OCCURRENCES}.lance", f"{SENTENCES}.lance"
PART = ".part"
CHUNK_TOKENS = 16_384
"""The least number of tokens in a chunk of sentences that is written at once."""
EXACT_MOST = 10_000
"""The most candidates that are compared one by one."""
PARTITION = 1 << 18
"""The approximate number of tokens in a graph, which is in memory while it is built. All graphs are searched."""
EF_CONSTRUCTION = 150
"""The number of candidates that are considered as a new token's neighbours in the graph."""
SPARE = 10
"""The number of extra neighbours to search for, since LanceDB rounds the query to the stored type."""
REFINE = 10
"""The number of tokens taken from the graph, and compared as stored, for each requested neighbour."""


@dataclass(frozen=True)
class IndexRecord:
    """The content of `index.json`: what an index was built from, and how far the build got."""

    bilm: dict
    """The biLM's card (`elmo.formats.opened.OpenedModel.card`): its name, and the hash of everything it depends on."""
    texts: tuple[str, ...]
    fingerprint: str
    """The fingerprint of the texts; see `elmo.text.corpus.corpus_fingerprint`."""
    layers: tuple[int, ...]
    """The layers in ascending order; 0 is the word without context."""
    tokenizer: TextConfig = field(default_factory=TextConfig)
    dtype: Literal["float16", "float32"] = "float16"
    limit: int | None = None
    """The number of tokens after which indexing stops, at the end of the sentence."""
    state: StatePolicy = "reset"
    """The LSTM state at the start of a sentence."""
    version: str = VERSION
    sentences: int = 0
    tokens: int = 0


@dataclass(frozen=True)
class Query:
    """A token in its sentence, with its vector at the searched layer."""

    sentence: tuple[str, ...]
    index: int
    vector: Float[np.ndarray, " D"]


def layers_of(embedder: Embedder, layers: Iterable[int]) -> tuple[int, ...]:
    """Returns layer numbers from 0, each once, in order; -1 is the top. Raises InputError for an unknown layer."""
    for layer in layers:
        if not -embedder.n_layers <= layer < embedder.n_layers:
            raise InputError(f"layer is {layer}; the model has layers 0 to {embedder.n_layers - 1}")
    return tuple(sorted({layer % embedder.n_layers for layer in layers}))


def build_index(
    embedder: Embedder,
    sentences: Iterable[Sequence[str]],
    output: Path,
    record: IndexRecord,
    resume: bool = False,
    overwrite: bool = False,
    progress: Callable[[int], object] | None = None,
) -> IndexRecord:
    """Builds the index of `sentences` in the folder `output`; returns its record.

    `record` says what it is built from. Memory holds one chunk's vectors at a time; for the graphs, at the end,
    LanceDB needs memory that grows more slowly than the text. The index is in `output` with the suffix `.part` until
    it is complete; `resume` continues an interrupted build there after its last complete chunk. `progress` is called
    with the number of tokens so far.

    Raises InputError if there is no sentence, if there is an interrupted build without `resume` or with other
    settings, if another process is building it, or if LanceDB cannot write (a full disk, a path that is not UTF-8 or
    has a control character); OSError if the output exists.
    """
    _lancedb()  # if it is missing, this fails before a folder is made
    check_output(output, overwrite, FILES)
    output = output.resolve()  # an index behind a link is replaced, not the link
    _check_name(output, "name another output")
    part = output.with_name(output.name + PART)
    with lock_folder(part, "is building this index", "name another output", is_moved=True):
        record = _built(embedder, sentences, part, _begun(part, record, resume, overwrite), progress)
        check_output(output, overwrite, FILES)  # another process may have written it in the meantime
        move_into_place(part, output)
    return record


def _built(
    embedder: Embedder,
    sentences: Iterable[Sequence[str]],
    part: Path,
    record: IndexRecord,
    progress: Callable[[int], object] | None,
) -> IndexRecord:
    """Builds the rest of the index in `part`."""
    left = islice(_limited(map(tuple, sentences), record.limit), record.sentences, None)
    with _writing(part):
        tables = _tables(_lancedb().connect(str(part)), record, embedder.dim)
        for table in tables:
            table.delete(f"sentence >= {record.sentences}")  # these rows were written after the last complete chunk
    try:
        for chunk in in_parts(left, CHUNK_TOKENS):
            rows = _rows(embedder, chunk, record)
            with _writing(part):
                for table, new in zip(tables, rows, strict=True):
                    table.add(new)
            record = replace(record, sentences=record.sentences + len(chunk), tokens=record.tokens + len(rows[0]))
            _write(part, record)
            if progress is not None:
                progress(record.tokens)
        if not record.sentences:
            raise InputError(f"{', '.join(record.texts)}: no sentences; give a text that has some")
    except InputError:
        if not record.sentences:  # there is nothing to resume
            shutil.rmtree(part)
        raise
    with _writing(part):
        _train(tables, record)
    return record


class Index:
    """A finished index, for searching."""

    def __init__(self, folder: Path) -> None:
        """Opens the index in `folder`. Raises InputError if there is none, or if it is damaged."""
        self.folder = folder
        self.record = _read(folder)
        _check_name(folder.resolve(), "rename it")
        with self._errors():
            database = _lancedb().connect(str(folder.resolve()))  # a relative "a:b" would be an address
            self._occurrences = database.open_table(OCCURRENCES)
            self._sentences = database.open_table(SENTENCES)
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
        if found not in kept:
            raise InputError(
                f"{self.folder}: layer is {layer}; the index has layers {', '.join(map(str, kept))}; build one"
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
        column = _column(self.layer(layer))
        with self._errors():
            search = self._occurrences.search().where(_is(word)).select(["sentence", "token"]).with_row_id(True)
            places = search.limit(None).to_arrow()
            order = np.lexsort((places["token"].to_numpy(), places["sentence"].to_numpy()))
            order = order[even_places(len(order), len(order) if most is None else most)]
            if not len(order):
                return [], 0
            wanted = places["_rowid"].to_numpy()[order].tolist()
            taken = self._occurrences.take_row_ids(wanted).select(["sentence", "token", column]).to_arrow()
            found = sorted(taken.to_pylist(), key=_place)
        tokens = self._tokens(row["sentence"] for row in found)
        return [Query(tokens[r["sentence"]], r["token"], np.array(r[column], np.float32)) for r in found], len(places)

    def places(self, word: str, most: int) -> tuple[list[tuple[tuple[str, ...], int]], int]:
        """Returns the sentence and position of occurrences of `word` as spelled, in text order, and their number.

        If there are more than `most`, they are taken evenly over the text.
        """
        with self._errors():
            search = self._occurrences.search().where(_is(word)).select(["sentence", "token"])
            found = sorted(search.limit(None).to_arrow().to_pylist(), key=_place)
        taken = [found[number] for number in even_places(len(found), most)]
        tokens = self._tokens(row["sentence"] for row in taken)
        return [(tokens[row["sentence"]], row["token"]) for row in taken], len(found)

    def nearest(
        self, query: Query, layer: int, k: int = 5, same_word: bool = True, exact: bool = False
    ) -> list[Neighbor]:
        """Returns the `k` nearest tokens to `query` by cosine at one layer, nearest first; ties are in text order.

        If several tokens tie for the last place, any of them may be left out.
        With `same_word` only occurrences of the query's word are candidates. The query itself (the same sentence and
        position) is never one. With `exact` every candidate is compared, however many there are. Raises InputError if
        `k` or the layer is invalid or the index is damaged.
        """
        if k < 1:
            raise InputError(f"k is {k}; at least 1 neighbour is expected")
        where = _is(query.sentence[query.index]) if same_word else None
        with self._errors():
            candidates = self._occurrences.count_rows(where)
        limit, exact = k + SPARE, exact or candidates <= EXACT_MOST
        while True:
            rows = self._search(query, self.layer(layer), limit, where, exact)
            tokens = self._tokens(row["sentence"] for row in rows)
            found = [
                Neighbor(row["similarity"], row["sentence"], row["token"], tokens[row["sentence"]])
                for row in rows
                if (row["token"], tokens[row["sentence"]]) != (query.index, query.sentence)
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
            search = self._sentences.search().where(f"tokens = make_array({', '.join(map(_quoted, sentence))})")
            return search.select(["sentence"]).limit(None).to_arrow()["sentence"].to_pylist()

    def _search(self, query: Query, layer: int, limit: int, where: str | None, exact: bool) -> list[dict[str, Any]]:
        """Returns the positions and similarities of up to `limit` tokens, nearest first."""
        vector, column = query.vector.astype(np.float32), _column(layer)
        with self._errors():
            search = self._occurrences.search(vector, column, query_type="vector").distance_type("cosine")
            if where is not None:
                search = search.where(where, prefilter=True)
            if exact:
                search = search.bypass_vector_index()
            else:
                search = search.refine_factor(REFINE).nprobes(_graphs(self.record))
            found = search.select(["sentence", "token", column, "_distance"]).limit(limit).to_arrow()
        rows = found.select(["sentence", "token"]).to_pylist()
        if not rows:
            return []
        vectors = found[column].combine_chunks().flatten().to_numpy().reshape(len(rows), -1)
        similarities = unit_vectors(vectors) @ unit_vectors(query.vector[None])[0]
        for row, similarity in zip(rows, similarities.astype(np.float32), strict=True):  # equal vectors then tie
            row["similarity"] = float(similarity)
        return sorted(rows, key=lambda row: (-row["similarity"], *_place(row)))

    def _tokens(self, numbers: Iterable[int]) -> dict[int, tuple[str, ...]]:
        """Returns the tokens of the sentences with these numbers."""
        wanted = sorted(set(numbers))
        if not wanted:
            return {}
        with self._errors():
            where = f"sentence IN ({', '.join(map(str, wanted))})"
            rows = self._sentences.search().where(where).limit(None).to_arrow().to_pylist()
        if len(rows) != len(wanted):
            raise InputError(f"{self.folder}: damaged: {len(wanted) - len(rows)} sentences are missing; build it again")
        return {row["sentence"]: tuple(row["tokens"]) for row in rows}

    def _errors(self) -> AbstractContextManager[None]:
        return _lance_errors(f"{self.folder}: damaged: ", "; build it again")


def _lancedb() -> Any:
    try:
        import lancedb
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise InputError(f"an index needs LanceDB ({error}): pip install 'elmo-torch[index]'") from error
    return lancedb


@contextmanager
def _lance_errors(before: str, after: str) -> Iterator[None]:
    """Turns LanceDB's errors, which have no type of their own, into an error of one line."""
    try:
        yield
    except InputError:
        raise
    except (RuntimeError, ValueError, OSError) as error:
        said = str(error).partition(", /")[0]  # the rest is a place in LanceDB's source
        raise InputError(f"{before}{said}{after}") from error


def _writing(part: Path) -> AbstractContextManager[None]:
    return _lance_errors(f"{part}: ", "; fix that, then continue with --resume")


def _check_name(folder: Path, remedy: str) -> None:
    if any(character < " " or character == "\x7f" for character in str(folder)):
        raise InputError(f"{str(folder)!r}: the path has a control character, which LanceDB cannot read; {remedy}")
    if not is_utf8(str(folder)):
        raise InputError(f"{str(folder)!r}: the name is not UTF-8, which LanceDB cannot write or read; {remedy}")


def _is(word: str) -> str:
    """Returns the condition in SQL that a row has this word."""
    return f"word = {_quoted(word)}" if is_utf8(word) else "false"  # tables hold UTF-8 alone


def _quoted(word: str) -> str:
    """Quotes a string for SQL. LanceDB's own `to_sql` does not double a quote after a backslash."""
    return "'" + word.replace("'", "''") + "'"


def _place(row: dict[str, Any]) -> tuple[int, int]:
    return row["sentence"], row["token"]


def _column(layer: int) -> str:
    return f"layer_{layer}"


def _begun(part: Path, record: IndexRecord, resume: bool, overwrite: bool) -> IndexRecord:
    """Returns the record of the build in `part`, which is an interrupted build as far as it got, or a new one."""
    unfinished = f".{RECORD}.*{PARTIAL}"  # a process that was killed may leave such a file
    if overwrite and not resume:
        check_output(part, overwrite, (*FILES, unfinished))
        remove(part)
        part.mkdir()
    if all(map(is_unfinished, part.iterdir())):
        _write(part, record)
        return record
    if not resume:
        raise InputError(f"{part}: the index is incomplete; add --resume to continue it, or remove it")
    kept = _read(part)
    if corpus.is_fingerprint(kept.fingerprint, record.fingerprint):
        kept = replace(kept, fingerprint=record.fingerprint)
    old, new = (configs.to_dict(replace(each, sentences=0, tokens=0)) for each in (kept, record))
    check_same(part / RECORD, old, new, f"remove {part} to start again")
    return kept


def _write(folder: Path, record: IndexRecord) -> None:
    write_run_file(folder / RECORD, configs.to_json(record).encode())


def _read(folder: Path) -> IndexRecord:
    file = folder / RECORD
    if not file.is_file():
        raise InputError(f"{folder}: not an index (no {RECORD}); build one with elmo index TEXT --output {folder}")
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
        version = values["version"]
        if version != VERSION:
            raise InputError(f"{file}: version {version}; this program reads {VERSION}; build the index again")
        record = configs.from_dict(IndexRecord, values)
        _ = record.bilm["sha256"], record.bilm["model"], record.layers[0]
    except (ValueError, KeyError, TypeError, IndexError) as error:
        if isinstance(error, InputError) and not isinstance(error, configs.ConfigError):
            raise
        raise InputError(f"{file}: damaged ({error}); build the index again") from error
    return record


def _limited(sentences: Iterable[tuple[str, ...]], limit: int | None) -> Iterator[tuple[str, ...]]:
    """Yields the non-empty sentences, up to the one that reaches `limit` tokens."""
    seen = 0
    for sentence in sentences:
        if limit is not None and seen >= limit:
            return
        if sentence:
            seen += len(sentence)
            yield sentence


def _schemas(record: IndexRecord, dim: int) -> tuple[Any, Any]:
    """Returns the schemas of the tables of occurrences and of sentences."""
    import pyarrow as pa

    number = pa.from_numpy_dtype(np.dtype(record.dtype))
    vectors = [pa.field(_column(layer), pa.list_(number, dim), nullable=False) for layer in record.layers]
    word, sentence = pa.field("word", pa.utf8(), nullable=False), pa.field("sentence", pa.int64(), nullable=False)
    token, tokens = pa.field("token", pa.int32(), nullable=False), pa.field("tokens", pa.list_(pa.utf8()))
    return pa.schema([word, sentence, token, *vectors]), pa.schema([sentence, tokens])


def _tables(database: Any, record: IndexRecord, dim: int) -> tuple[Any, Any]:
    """Opens both tables, or creates those that are missing."""
    occurrences, sentences = _schemas(record, dim)
    return (
        database.create_table(OCCURRENCES, schema=occurrences, exist_ok=True),
        database.create_table(SENTENCES, schema=sentences, exist_ok=True),
    )


def _rows(embedder: Embedder, chunk: list[tuple[str, ...]], record: IndexRecord) -> tuple[Any, Any]:
    """Returns the rows of both tables for the sentences of a chunk."""
    import pyarrow as pa

    numbers = np.arange(record.sentences, record.sentences + len(chunk))
    lengths = [len(sentence) for sentence in chunk]
    kept = {layer: np.empty((sum(lengths), embedder.dim), record.dtype) for layer in record.layers}
    end = 0
    for vectors in embedder.embed_stream(chunk):
        begin, end = end, end + vectors.shape[1]
        for layer, array in kept.items():
            with np.errstate(over="ignore"):
                array[begin:end] = vectors[layer]
    for layer, array in kept.items():
        if not np.isfinite(array).all():
            raise InputError(f"layer {layer} has values outside the range of {record.dtype}; give --dtype float32")
    columns = {
        "word": [token for sentence in chunk for token in sentence],
        "sentence": np.repeat(numbers, lengths),
        "token": np.concatenate([np.arange(length, dtype=np.int32) for length in lengths]),
    } | {
        _column(layer): pa.FixedSizeListArray.from_arrays(pa.array(array.reshape(-1)), embedder.dim)
        for layer, array in kept.items()
    }
    occurrences, sentences = _schemas(record, embedder.dim)
    return pa.table(columns, schema=occurrences), pa.table({"sentence": numbers, "tokens": chunk}, schema=sentences)


def _graphs(record: IndexRecord) -> int:
    return -(-record.tokens // PARTITION)


def _train(tables: tuple[Any, Any], record: IndexRecord) -> None:
    """Builds the lookups by word and by sentence, and the graphs if the text is long."""
    from lancedb.index import BTree, HnswSq

    occurrences, sentences = tables
    for table in tables:  # tidying would rebuild indices that an interrupted build left
        for index in table.list_indices():
            table.drop_index(index.name)
        _tidy(table)
    occurrences.create_index("word", config=BTree())
    sentences.create_index("sentence", config=BTree())
    if record.tokens > EXACT_MOST:
        graph = HnswSq(distance_type="cosine", num_partitions=_graphs(record), ef_construction=EF_CONSTRUCTION)
        for layer in record.layers:
            occurrences.create_index(_column(layer), config=graph)


def _tidy(table: Any) -> None:
    """Merges many files into few, and removes leftovers of earlier table versions and interrupted builds."""
    table.optimize(cleanup_older_than=timedelta(milliseconds=1), delete_unverified=True)
