"""The LanceDB tables of an index: `occurrences` (word, position, vectors), `sentences` (tokens and where they stand).

Up to `EXACT_MOST` candidates are compared one by one. Larger sets are searched through a neighbour graph over 8-bit
vectors (LanceDB's IVF_HNSW_SQ), and the hits are compared as stored.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from typing import Any

import numpy as np

from elmo.embedding.embedder import Embedder
from elmo.embedding.store_rows import as_stored
from elmo.errors import InputError, pip_line
from elmo.search.index_record import IndexRecord
from elmo.text.characters import is_utf8
from elmo.text.records import Place, TextRecord

Step = Callable[[str], AbstractContextManager[object]]
"""A function that takes the name of a step, and returns a context in which it is done."""
OCCURRENCES, SENTENCES = "occurrences", "sentences"
EXACT_MOST = 10_000
"""The most candidates that are compared one by one."""
PARTITION = 1 << 18
"""The approximate number of tokens in a graph, which is in memory while it is built. All graphs are searched."""
EF_CONSTRUCTION = 150
"""The number of candidates that are considered as a new token's neighbours in the graph."""


def import_lancedb() -> Any:
    """Returns LanceDB. Raises InputError, with the remedy, if it is missing."""
    try:
        import lancedb
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise InputError(f"an index needs LanceDB ({error}): {pip_line('index')}") from error
    return lancedb


@contextmanager
def lance_errors(before: str, after: str) -> Iterator[None]:
    """Turns LanceDB's errors, which have no type of their own, into an error of one line."""
    try:
        yield
    except InputError:
        raise
    except (RuntimeError, ValueError, OSError) as error:
        said = str(error).partition(", /")[0]  # the rest is a place in LanceDB's source
        raise InputError(f"{before}{said}{after}") from error


def is_word(word: str) -> str:
    """Returns the condition in SQL that a row has this word."""
    return f"word = {quoted(word)}" if is_utf8(word) else "false"  # tables hold UTF-8 alone


def quoted(word: str) -> str:
    """Quotes a string for SQL. LanceDB's own `to_sql` does not double a quote after a backslash."""
    return "'" + word.replace("'", "''") + "'"


def position(row: dict[str, Any]) -> tuple[int, int]:
    """Returns the numbers of the sentence and the token of a row of occurrences, which are the order of the text."""
    return row["sentence"], row["token"]


def column_of(layer: int) -> str:
    """Returns the name of the column that has a layer's vectors."""
    return f"layer_{layer}"


def open_tables(database: Any, record: IndexRecord, dim: int) -> tuple[Any, Any]:
    """Opens both tables, or creates those that are missing."""
    occurrences, sentences = _schemas(record, dim)
    return (
        database.create_table(OCCURRENCES, schema=occurrences, exist_ok=True),
        database.create_table(SENTENCES, schema=sentences, exist_ok=True),
    )


def _schemas(record: IndexRecord, dim: int) -> tuple[Any, Any]:
    """Returns the schemas of the tables of occurrences and of sentences."""
    import pyarrow as pa

    number = pa.from_numpy_dtype(np.dtype(record.dtype))
    vectors = [pa.field(column_of(layer), pa.list_(number, dim), nullable=False) for layer in record.layers]
    word, sentence = pa.field("word", pa.utf8(), nullable=False), pa.field("sentence", pa.int64(), nullable=False)
    token, tokens = pa.field("token", pa.int32(), nullable=False), pa.field("tokens", pa.list_(pa.utf8()))
    file, line = pa.field("file", pa.binary()), pa.field("line", pa.int64())  # a file's name may be no UTF-8
    spans = [pa.field(name, pa.list_(pa.int64())) for name in ("starts", "ends")]
    return pa.schema([word, sentence, token, *vectors]), pa.schema([sentence, tokens, file, line, *spans])


def rows_of(embedder: Embedder, chunk: list[TextRecord], record: IndexRecord) -> tuple[Any, Any]:
    """Returns the rows of both tables for the sentences of a chunk."""
    import pyarrow as pa

    sentences = [each.tokens for each in chunk]
    numbers = np.arange(record.sentences, record.sentences + len(chunk))
    lengths = [len(sentence) for sentence in sentences]
    kept = {layer: np.empty((sum(lengths), embedder.dim), record.dtype) for layer in record.layers}
    end = 0
    for vectors in embedder.embed_stream(sentences):
        begin, end = end, end + vectors.shape[1]
        for layer, array in kept.items():
            array[begin:end] = as_stored(vectors[layer], array.dtype, "give --dtype float32")
    columns = {
        "word": [token for sentence in sentences for token in sentence],
        "sentence": np.repeat(numbers, lengths),
        "token": np.concatenate([np.arange(length, dtype=np.int32) for length in lengths]),
    } | {
        column_of(layer): pa.FixedSizeListArray.from_arrays(pa.array(array.reshape(-1)), embedder.dim)
        for layer, array in kept.items()
    }
    places = [[each.place(token) for token in range(len(each.tokens))] for each in chunk]
    occurrences, schema = _schemas(record, embedder.dim)
    of_sentences = {
        "sentence": numbers,
        "tokens": sentences,
        "file": [None if each.file is None else os.fsencode(each.file) for each in chunk],
        "line": [each.line for each in chunk],
        "starts": [_unless_unknown([place.start for place in each]) for each in places],
        "ends": [_unless_unknown([place.end for place in each]) for each in places],
    }
    return pa.table(columns, schema=occurrences), pa.table(of_sentences, schema=schema)


def _unless_unknown(numbers: list[int | None]) -> list[int | None] | None:
    return None if None in numbers else numbers


def place_in(row: dict[str, Any], token: int) -> Place:
    """Returns the place of a token of a row of `sentences`."""
    file = None if row["file"] is None else os.fsdecode(row["file"])
    if row["starts"] is None:
        return Place(file, row["line"])
    return Place(file, row["line"], row["starts"][token], row["ends"][token])


def count_graphs(record: IndexRecord) -> int:
    """Returns the number of graphs of a layer of a long text."""
    return -(-record.tokens // PARTITION)


def train(tables: tuple[Any, Any], record: IndexRecord, step: Step) -> None:
    """Builds the lookups by word and by sentence, and the graphs if the text is long."""
    from lancedb.index import BTree, HnswSq

    occurrences, sentences = tables
    with step("merging files"):
        for table in tables:  # tidying would rebuild indices that an interrupted build left
            for index in table.list_indices():
                table.drop_index(index.name)
            # This merges many files into few, and removes what earlier versions and interrupted builds left.
            table.optimize(cleanup_older_than=timedelta(milliseconds=1), delete_unverified=True)
    with step("building the lookups of words and sentences"):
        occurrences.create_index("word", config=BTree())
        sentences.create_index("sentence", config=BTree())
    if record.tokens > EXACT_MOST:
        graph = HnswSq(distance_type="cosine", num_partitions=count_graphs(record), ef_construction=EF_CONSTRUCTION)
        for number, layer in enumerate(record.layers, 1):
            with step(f"building the graph of layer {layer}, {number} of {len(record.layers)}"):
                occurrences.create_index(column_of(layer), config=graph)
