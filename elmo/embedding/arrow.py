"""Record batches of text -> record batches of vectors, in Apache Arrow: what every engine for corpora runs.

Input batches have the columns `id`, of any type, and `text` (strings, or bytes in UTF-8) or `tokens` (lists of them). A
row that cannot be embedded does not stop the others: it becomes a row of errors, with its reason.

- vectors: `id`, `tokens`, `vectors` (a row's numbers, flat) and `shape`
- errors: `id`, `reason` and `begin`, the first bytes of the row
"""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from elmo.embedding.embedder import Embedder
from elmo.embedding.layers import Layers
from elmo.embedding.pooling import Pool
from elmo.embedding.store import Dtype
from elmo.embedding.store_safetensors import as_stored
from elmo.errors import InputError
from elmo.text.tokenizer import Tokenizer, split_at_spaces

RecordBatch = Any
"""pyarrow's. The package (extra `store`) is imported where it is needed."""

ROW_BYTES = 1_000_000
ROW_TOKENS = 10_000
"""A longer row is not a sentence, and a row's array must fit in memory."""
BATCH_BYTES = 16_000_000
"""Vectors and tokens of a batch, about."""
TOKEN_BYTES = 64
"""Of a short token in a list: Python's string and the place that it takes."""
BEGIN_BYTES = 80


@dataclass(frozen=True)
class Refused:
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
    """Vectors and errors of any number of batches, each row once, at constant memory.

    Vectors and errors each keep the order of the input, in batches of other sizes. `layers` and `pool` are those of
    `Embedder.embed`. Text is split at whitespace without a `tokenizer`. A row is refused if it is null, has a null
    token, is not UTF-8, or has too many bytes or tokens.

    Raises InputError if a batch lacks a column or has one of another type, or ids of another type than those before.
    """
    pa = pyarrow()
    waiting: deque[tuple[Any, list[str] | Refused]] = deque()  # what the embedder has read ahead
    kind: Any = None

    def sentences() -> Iterator[list[str]]:
        nonlocal kind
        for batch in batches:
            ids, values = _columns(batch)
            kind = ids.type if kind is None else kind
            if ids.type != kind:
                raise InputError(f"a batch has ids of type {ids.type} after others of {kind}; cast them to one type")
            for name, value in zip(ids.to_pylist(), values.to_pylist(), strict=True):
                tokens = _tokens(value, tokenizer, row_bytes, row_tokens)
                waiting.append((name, tokens))
                # A refused row takes its turn as an empty sentence, so errors do not accumulate in memory.
                yield [] if isinstance(tokens, Refused) else tokens

    rows: list[tuple[Any, list[str], np.ndarray]] = []
    errors: list[tuple[Any, str, bytes | None]] = []
    size = 0
    for vectors in embedder.embed_stream(sentences(), layers, pool):
        name, tokens = waiting.popleft()
        if isinstance(tokens, Refused):
            errors.append((name, tokens.reason, tokens.begin))
        else:
            try:
                rows.append((name, tokens, as_stored(vectors, np.dtype(dtype))))
            except InputError as error:
                errors.append((name, str(error), None))
            size += sum(map(len, tokens)) + TOKEN_BYTES * len(tokens)  # many more than the vectors, if pooled
        size += vectors.size * np.dtype(dtype).itemsize + 100
        del vectors
        if size >= BATCH_BYTES:
            yield _vectors(pa, rows, vector_schema(kind, dtype)), _errors(pa, errors, error_schema(kind))
            rows, errors, size = [], [], 0
    if size:
        yield _vectors(pa, rows, vector_schema(kind, dtype)), _errors(pa, errors, error_schema(kind))


def together(vectors: RecordBatch, errors: RecordBatch) -> RecordBatch:
    """Both in one batch, for engines with one table: the columns of vectors (null for errors) and `error`."""
    pa = pyarrow()
    nothing = [pa.nulls(len(errors), column.type) for column in vectors.columns[1:]]
    parts = zip(vectors.columns, [errors["id"], *nothing], strict=True)
    columns = [pa.concat_arrays(part) for part in parts]
    reasons = pa.concat_arrays([pa.nulls(len(vectors), pa.string()), errors["reason"]])
    return pa.record_batch([*columns, reasons], names=[*vectors.schema.names, "error"])


def vector_schema(id_type: Any, dtype: Dtype) -> Any:
    """The schema of vectors, which `elmo.embedding.store.read_vectors` also reads."""
    pa = pyarrow()
    numbers = pa.list_(pa.from_numpy_dtype(np.dtype(dtype)))
    kinds = [id_type, pa.list_(pa.string()), numbers, pa.list_(pa.int32())]
    return pa.schema(list(zip(("id", "tokens", "vectors", "shape"), kinds, strict=True)))


def error_schema(id_type: Any) -> Any:
    """The schema of errors."""
    pa = pyarrow()
    return pa.schema([("id", id_type), ("reason", pa.string()), ("begin", pa.binary())])


def pyarrow() -> Any:
    """The package. Raises InputError if it is not installed."""
    try:
        import pyarrow
    except ImportError as error:
        raise InputError(f"corpora need pyarrow ({error}): pip install 'elmo-torch[store]'") from error
    return pyarrow


def _columns(batch: RecordBatch) -> tuple[Any, Any]:
    """The ids, and the texts or tokens as bytes of unchecked UTF-8."""
    names = batch.schema.names
    column = next((name for name in ("text", "tokens") if name in names), None)
    if column is None or "id" not in names:
        raise InputError(f"a batch has the columns {', '.join(names)}; id, and text or tokens, are expected")
    return batch["id"], as_bytes(batch[column], column)


def as_bytes(values: Any, name: str) -> Any:
    """A column of strings, or of lists of them, as bytes. Raises InputError for another type."""
    pa = pyarrow()
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    kinds = pa.types
    # Not list views: Arrow's cast of those with nulls loses tokens (pyarrow 26).
    is_list = any(is_kind(values.type) for is_kind in (kinds.is_list, kinds.is_large_list, kinds.is_fixed_size_list))
    try:  # Arrow casts nothing else to bytes
        return values.cast(pa.large_list(pa.large_binary()) if is_list else pa.large_binary())
    except pa.ArrowNotImplementedError as error:
        raise InputError(
            f"the column {name} is of type {values.type}; strings, bytes or lists of strings are expected"
        ) from error


def _tokens(
    value: bytes | list[bytes | None] | None, tokenizer: Tokenizer | None, row_bytes: int, row_tokens: int
) -> list[str] | Refused:
    """The tokens of a row, or why it has none."""
    if value is None:
        return Refused("null", None)
    parts = [part or b"" for part in value] if isinstance(value, list) else [value]
    begin = b" ".join(parts[:BEGIN_BYTES])[:BEGIN_BYTES]
    if isinstance(value, list) and None in value:
        return Refused(f"token {value.index(None)} is null", begin)
    if sum(map(len, parts)) > row_bytes:
        return Refused(f"more than {row_bytes:,} bytes", begin)
    try:
        strings = [part.decode("utf-8") for part in parts]
    except UnicodeDecodeError as error:
        return Refused(f"not UTF-8: {error.reason}, byte 0x{error.object[error.start]:02x}", begin)
    if not isinstance(value, list):
        strings = split_at_spaces(strings[0]) if tokenizer is None else tokenizer.tokens(strings[0])
    if len(strings) > row_tokens:
        return Refused(f"{len(strings):,} tokens; at most {row_tokens:,} are embedded", begin)
    return strings


def _vectors(pa: Any, rows: list[tuple[Any, list[str], np.ndarray]], schema: Any) -> RecordBatch:
    numbers = [vectors.reshape(-1) for _, _, vectors in rows]
    flat = np.concatenate([np.empty(0, schema.field("vectors").type.value_type.to_pandas_dtype()), *numbers])
    ends = np.cumsum([0, *map(len, numbers)])
    columns = [
        pa.array([name for name, _, _ in rows], schema.field("id").type),
        pa.array([tokens for _, tokens, _ in rows], schema.field("tokens").type),
        pa.ListArray.from_arrays(pa.array(ends, pa.int32()), pa.array(flat)),
        pa.array([list(vectors.shape) for _, _, vectors in rows], schema.field("shape").type),
    ]
    return pa.record_batch(columns, schema=schema)


def _errors(pa: Any, refused: list[tuple[Any, str, bytes | None]], schema: Any) -> RecordBatch:
    columns = [pa.array([row[place] for row in refused], field.type) for place, field in enumerate(schema)]
    return pa.record_batch(columns, schema=schema)
