"""Adds a column of vectors to a Spark DataFrame with `mapInArrow`::

    from elmo.integrations.spark import embed
    vectors = embed(spark.read.parquet("in/"), Settings(layers="top"))

elmo must be installed where the executors run, and the model must have the same name there.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import torch

from elmo.embedding.arrow import RecordBatch, embed_batches, with_errors
from elmo.embedding.corpus import Settings, examine_model, load_embedder
from elmo.embedding.embedder import Embedder
from elmo.errors import InputError, check_whole, pip_line
from elmo.text.tokenizer import Tokenizer


def embed(frame: Any, settings: Settings | None = None, threads: int = 1, device: str = "cpu") -> Any:
    """Embeds a DataFrame with the columns `id`, and `text` or `tokens`.

    The result has the columns `id`, `tokens`, `vectors` (the numbers of a row in one list), `shape`, `sentence_ends`
    and `error`, which says why a row has no vectors.

    Every Python process of an executor loads the model once and computes with `threads` threads, as set by
    `spark.task.cpus`. Spark's numbers are float32. Raises the errors of `elmo.formats.load`, and InputError.
    """
    check_whole("threads", threads)
    types = _types()
    settings = settings or Settings()
    column = next((name for name in ("text", "tokens") if name in frame.columns), None)
    if column is None or "id" not in frame.columns:
        raise InputError(
            f"the frame has the columns {', '.join(frame.columns)}; id, and text or tokens, are expected: rename them"
        )
    if settings.dtype != "float32":
        raise InputError(f"dtype is {settings.dtype!r}, which Spark lacks; use float32")
    if not isinstance(settings.layers, str | int):
        settings = replace(settings, layers=tuple(settings.layers))
    array = types.ArrayType
    fields = [
        types.StructField("id", frame.schema["id"].dataType),
        types.StructField("tokens", array(types.StringType())),
        types.StructField("vectors", array(types.FloatType())),
        types.StructField("shape", array(types.IntegerType())),
        types.StructField("sentence_ends", array(types.IntegerType())),
        types.StructField("error", types.StringType()),
    ]
    run = partial(_embed, settings, examine_model(settings)[1], threads, device)
    return frame.select("id", column).mapInArrow(run, types.StructType(fields))


def _types() -> Any:
    try:
        from pyspark.sql import types  # type: ignore[import-not-found]
    except ImportError as error:
        raise InputError(f"Spark needs pyspark ({error}): {pip_line('spark')}") from error
    return types


def _embed(
    settings: Settings, sha256: str, threads: int, device: str, batches: Iterable[RecordBatch]
) -> Iterator[RecordBatch]:
    embedder, tokenizer = _loaded(settings, sha256, threads, device)
    for made in embed_batches(embedder, batches, tokenizer, **settings.choice()):
        yield with_errors(*made)


@lru_cache(maxsize=1)
def _loaded(settings: Settings, sha256: str, threads: int, device: str) -> tuple[Embedder, Tokenizer]:
    """Loads the model once per process, since Spark reuses the processes of an executor."""
    torch.set_num_threads(threads)
    return load_embedder(settings, sha256, device)
