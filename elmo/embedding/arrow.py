"""Turns record batches of text into record batches of vectors, in Apache Arrow. Every engine for corpora runs this.

Input batches have the columns `id`, of any type, and `text` (strings, or bytes in UTF-8) or `tokens` (lists of them). A
row that cannot be embedded does not stop the others: it becomes a row of errors, with its reason.

- Batches of vectors have the columns `id`, `tokens`, `vectors` (the numbers of a row in one list), `shape`, and
  `sentence_ends` (the number of tokens up to the end of each sentence).
- Batches of errors have the columns `id`, `reason`, and `begin` (the first bytes of the row).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from elmo.embedding.embedder import Embedder
from elmo.embedding.layers import Layers
from elmo.embedding.pooling import Pool
from elmo.embedding.store_parquet import import_pyarrow
from elmo.embedding.store_rows import as_stored
from elmo.embedding.texts import SplitText
from elmo.errors import InputError
from elmo.text.tokenizer import Tokenizer, split_at_spaces
from elmo.types import Dtype

RecordBatch = Any
"""pyarrow's `RecordBatch`. The package (extra `store`) is imported only where it is needed."""

ROW_BYTES = 1_000_000
ROW_TOKENS = 10_000
"""The most tokens of a row, since its array must fit in memory; a longer row is hardly a text."""
BATCH_BYTES = 16_000_000
"""The approximate size of a batch's vectors and tokens."""
TOKEN_BYTES = 64
"""The memory of a short token in a list: Python's string and its entry in the list."""
BEGIN_BYTES = 80
Row = tuple[Any, SplitText, np.ndarray]
"""A row's id, text and vectors."""


@dataclass(frozen=True)
class RefusedRow:
    """A row that cannot be embedded."""

    reason: str
    begin: bytes | None


def embed_batches(
    embedder: Embedder,
    batches: Iterable[RecordBatch],
    tokenizer: Tokenizer | None = None,
    layers: Layers = "all",
    pool: Pool | None = None,
    dtype: Dtype = "float32",
    row_bytes: int = ROW_BYTES,
    row_tokens: int = ROW_TOKENS,
) -> Iterator[tuple[RecordBatch, RecordBatch]]:
    """Yields pairs of batches, one of vectors and one of errors; each row is in one of them. Memory is constant.

    Vectors and errors each keep the order of the input, but their batches have other sizes. `layers` and `pool` are
    those of `Embedder.embed`. A text is split into sentences, which are read one by one, and its row has the vectors
    of all of them; without a `tokenizer` a text is one sentence, split at whitespace. A row becomes an error if it is
    null, has a null token, is not UTF-8, or has too many bytes or tokens.

    Raises InputError if a batch lacks a column, has one of another type, or has ids of another type than the batches
    before it.
    """
    pa = import_pyarrow()
    kind: Any = None

    def named() -> Iterator[tuple[Any, SplitText | RefusedRow]]:
        nonlocal kind
        for batch in batches:
            ids, values = _columns(batch)
            kind = ids.type if kind is None else kind
            if ids.type != kind:
                raise InputError(f"a batch has ids of type {ids.type} after others of {kind}; cast them to one type")
            for name, value in zip(ids.to_pylist(), values.to_pylist(), strict=True):
                yield name, _split(value, tokenizer, row_bytes, row_tokens)

    def text_of(row: tuple[Any, SplitText | RefusedRow]) -> SplitText:
        # A refused row goes through the embedder as an empty text, so that errors do not accumulate in memory.
        return SplitText("") if isinstance(row[1], RefusedRow) else row[1]

    def batches_of(rows: list[Row], errors: list[dict[str, Any]]) -> tuple[RecordBatch, RecordBatch]:
        refused = pa.RecordBatch.from_pylist(errors, schema=error_schema(kind))
        return _vectors(pa, rows, vector_schema(kind, dtype)), refused

    rows: list[Row] = []
    errors: list[dict[str, Any]] = []
    size = 0
    for (name, text), vectors in embedder.embed_items(named(), text_of, layers, pool):
        if isinstance(text, RefusedRow):
            errors.append({"id": name, "reason": text.reason, "begin": text.begin})
        else:
            try:
                rows.append((name, text, as_stored(np.asarray(vectors), np.dtype(dtype))))
            except InputError as error:
                errors.append({"id": name, "reason": str(error)})
            size += sum(map(len, text.tokens)) + TOKEN_BYTES * len(text.tokens)  # more than the vectors if pooled
        size += vectors.size * np.dtype(dtype).itemsize + 100
        del vectors
        if size >= BATCH_BYTES:
            yield batches_of(rows, errors)
            rows, errors, size = [], [], 0
    if size:
        yield batches_of(rows, errors)


def with_errors(vectors: RecordBatch, errors: RecordBatch) -> RecordBatch:
    """Joins both into one batch, for engines with one table: the columns of vectors (null for errors), and `error`."""
    pa = import_pyarrow()
    nothing = [pa.nulls(len(errors), column.type) for column in vectors.columns[1:]]
    parts = zip(vectors.columns, [errors["id"], *nothing], strict=True)
    columns = [pa.concat_arrays(part) for part in parts]
    reasons = pa.concat_arrays([pa.nulls(len(vectors), pa.string()), errors["reason"]])
    return pa.record_batch([*columns, reasons], names=[*vectors.schema.names, "error"])


def vector_schema(id_type: Any, dtype: Dtype) -> Any:
    """Returns the schema of vectors, which `elmo.embedding.store.read_vectors` also reads."""
    pa = import_pyarrow()
    numbers = pa.list_(pa.from_numpy_dtype(np.dtype(dtype)))
    kinds = [id_type, pa.list_(pa.string()), numbers, pa.list_(pa.int32()), pa.list_(pa.int32())]
    return pa.schema(list(zip(("id", "tokens", "vectors", "shape", "sentence_ends"), kinds, strict=True)))


def error_schema(id_type: Any) -> Any:
    """Returns the schema of errors."""
    pa = import_pyarrow()
    return pa.schema([("id", id_type), ("reason", pa.string()), ("begin", pa.binary())])


def _columns(batch: RecordBatch) -> tuple[Any, Any]:
    """The column of ids, and that of texts or tokens as bytes, which may not be UTF-8."""
    names = batch.schema.names
    column = next((name for name in ("text", "tokens") if name in names), None)
    if column is None or "id" not in names:
        raise InputError(f"a batch has the columns {', '.join(names)}; id, and text or tokens, are expected")
    return batch["id"], as_bytes(batch[column], column)


def as_bytes(values: Any, name: str) -> Any:
    """Converts a column of strings, or of lists of strings, to bytes. Raises InputError for another type."""
    pa = import_pyarrow()
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    kinds = pa.types
    # List views are not accepted: Arrow's cast of those with nulls loses tokens (pyarrow 26).
    is_list = any(is_kind(values.type) for is_kind in (kinds.is_list, kinds.is_large_list, kinds.is_fixed_size_list))
    try:  # Arrow casts only strings to bytes
        return values.cast(pa.large_list(pa.large_binary()) if is_list else pa.large_binary())
    except pa.ArrowNotImplementedError as error:
        raise InputError(
            f"the column {name} is of type {values.type}; strings, bytes or lists of strings are expected"
        ) from error


def _split(
    value: bytes | list[bytes | None] | None, tokenizer: Tokenizer | None, row_bytes: int, row_tokens: int
) -> SplitText | RefusedRow:
    """A row's tokens and sentences, or why it has none."""
    if value is None:
        return RefusedRow("null", None)
    parts = [part or b"" for part in value] if isinstance(value, list) else [value]
    begin = b" ".join(parts[:BEGIN_BYTES])[:BEGIN_BYTES]
    if isinstance(value, list) and None in value:
        return RefusedRow(f"token {value.index(None)} is null", begin)
    if sum(map(len, parts)) > row_bytes:
        return RefusedRow(f"more than {row_bytes:,} bytes", begin)
    try:
        strings = [part.decode("utf-8") for part in parts]
    except UnicodeDecodeError as error:
        return RefusedRow(f"not UTF-8: {error.reason}, byte 0x{error.object[error.start]:02x}", begin)
    if isinstance(value, list):
        text = SplitText.of_tokens(strings)
    elif tokenizer is None:
        text = SplitText.of_tokens(split_at_spaces(strings[0]))
    else:
        text = SplitText.of(strings[0], tokenizer)
    if len(text.tokens) > row_tokens:
        return RefusedRow(f"{len(text.tokens):,} tokens; at most {row_tokens:,} are embedded", begin)
    return text


def _vectors(pa: Any, rows: list[Row], schema: Any) -> RecordBatch:
    numbers = [vectors.reshape(-1) for _, _, vectors in rows]
    flat = np.concatenate([np.empty(0, schema.field("vectors").type.value_type.to_pandas_dtype()), *numbers])
    ends = np.cumsum([0, *map(len, numbers)])
    columns = [
        pa.array([name for name, _, _ in rows], schema.field("id").type),
        pa.array([list(text.tokens) for _, text, _ in rows], schema.field("tokens").type),
        pa.ListArray.from_arrays(pa.array(ends, pa.int32()), pa.array(flat)),
        pa.array([list(vectors.shape) for _, _, vectors in rows], schema.field("shape").type),
        pa.array([text.ends for _, text, _ in rows], pa.list_(pa.int32())),
    ]
    return pa.record_batch(columns, schema=schema)
