"""Encodes vectors in the type that the client accepts; JSON is several times slower than the others."""

import gzip
import io
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import orjson
import safetensors.numpy
from starlette.responses import Response

from elmo.embedding.store_rows import as_stored
from elmo.embedding.texts import SplitText
from elmo.errors import InputError, pip_line

JSON, NPY, NPZ = "application/json", "application/x-npy", "application/x-npz"
SAFETENSORS, ARROW = "application/x-safetensors", "application/vnd.apache.arrow.stream"
TYPES = JSON, NPY, NPZ, SAFETENSORS, ARROW
WEIGHT = re.compile(r";\s*q=([01](?:\.\d*)?)\s*(?:;|$)", re.IGNORECASE)
AT_ONCE = 65_536
"""The numbers that are written as JSON at once, while other threads, such as that of the event loop, wait."""
SMALLEST, LARGEST = 1_000, 256_000
"""The bytes of an answer that is compressed: less gains nothing, and more takes the processor from the model."""


class NotAcceptable(Exception):
    """The client accepts none of the available types; the message lists them."""


def preferred_type(header: str) -> str:
    """Returns the available type that an Accept header prefers, by q, then by order; JSON for `*/*`."""
    weights = _weights(header) or {"*/*": 1.0}
    left = [kind for kind in TYPES if weights.get(kind, 1.0) > 0]
    for name in sorted((name for name in weights if weights[name] > 0), key=lambda name: -weights[name]):
        if name in left:
            return name
        if name in ("*/*", "application/*") and left:
            return left[0]
    raise NotAcceptable(f"Accept is {header[:80]!r}; one of {', '.join(TYPES)} is expected")


def _weights(header: str) -> dict[str, float]:
    """Returns what an Accept header names, in lower case and order, and the q of each; 1 if it has no valid one."""
    weights: dict[str, float] = {}
    for part in filter(str.strip, header.split(",")):
        found = WEIGHT.search(part)
        weights[part.partition(";")[0].strip().lower()] = float(found[1]) if found else 1.0
    return weights


def json_response(content: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Returns plain values and arrays as JSON."""
    return Response(orjson.dumps(content, _piecewise, orjson.OPT_SERIALIZE_DATACLASS), status, headers, JSON)


def _piecewise(value: Any) -> orjson.Fragment:
    """Encodes an array as JSON, in pieces."""
    if not isinstance(value, np.ndarray):
        raise TypeError(f"{type(value)} is no JSON")
    return orjson.Fragment(_written(value))


def _written(array: np.ndarray) -> bytes:
    if array.ndim > 1 and array.size > AT_ONCE:
        return b"[" + b",".join(map(_written, array)) + b"]"
    return orjson.dumps(np.ascontiguousarray(array), option=orjson.OPT_SERIALIZE_NUMPY)


def compressed_response(response: Response, header: str) -> Response:
    """Returns the response, compressed if its size and the header Accept-Encoding allow it, and it is not yet."""
    is_plain = "content-encoding" not in response.headers
    if is_plain and SMALLEST <= len(response.body) <= LARGEST and takes_gzip(header):
        response.body = gzip.compress(response.body, 1, mtime=0)
        response.headers.update({"content-length": str(len(response.body)), "content-encoding": "gzip"})
        response.headers.add_vary_header("accept-encoding")
    return response


def takes_gzip(header: str) -> bool:
    """Returns whether an Accept-Encoding header accepts gzip."""
    return _weights(header).get("gzip", 0) > 0


def vectors_response(splits: Sequence[SplitText], vectors: Sequence[np.ndarray], kind: str, dtype: str) -> Response:
    """Encodes the vectors of all texts; JSON, safetensors and Arrow include tokens and the ends of sentences.

    Raises InputError if the type cannot hold them.
    """
    remedy = "give smaller weights as layers, or dtype float32"
    arrays = [as_stored(array, np.dtype(dtype), remedy) for array in vectors]
    if kind == JSON:
        rows = [
            {"tokens": split.tokens, "sentence_ends": split.ends, "vectors": array.astype(np.float32, copy=False)}
            for split, array in zip(splits, arrays, strict=True)
        ]
        return json_response({"sentences": rows})
    file = io.BytesIO()
    if kind == NPY:
        if len({array.shape for array in arrays}) != 1:
            raise InputError(f"sentences of different lengths do not fit in one array; accept {NPZ}, or set pool")
        np.save(file, np.stack(arrays), allow_pickle=False)
        return Response(file.getvalue(), media_type=NPY)
    if kind == NPZ:
        np.savez(file, **{str(number): array for number, array in enumerate(arrays)})  # type: ignore[arg-type]
        return Response(file.getvalue(), media_type=NPZ)
    if kind == SAFETENSORS:
        named = {str(number): array for number, array in enumerate(arrays)}
        beside = {"tokens": [split.tokens for split in splits], "sentence_ends": [split.ends for split in splits]}
        written = {name: orjson.dumps(value).decode() for name, value in beside.items()}
        return Response(safetensors.numpy.save(named, written), media_type=SAFETENSORS)
    return Response(_arrow(splits, arrays), media_type=ARROW)


def _arrow(splits: Sequence[SplitText], arrays: Sequence[np.ndarray]) -> bytes:
    """Makes one row per text, with its tokens, the ends of its sentences, its flattened values and their shape."""
    try:
        import pyarrow as pa
    except ImportError as error:
        raise InputError(f"{ARROW} needs pyarrow ({error}): {pip_line('store')} on the server") from error
    numbers = [pa.array(array.reshape(-1)) for array in arrays]
    offsets = np.cumsum([0, *(len(part) for part in numbers)])
    columns = {
        "tokens": pa.array([split.tokens for split in splits], pa.list_(pa.string())),
        "sentence_ends": pa.array([split.ends for split in splits], pa.list_(pa.int32())),
        "vectors": pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), pa.concat_arrays(numbers)),
        "shape": pa.array([list(array.shape) for array in arrays], pa.list_(pa.int32())),
    }
    table, sink = pa.table(columns), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()
