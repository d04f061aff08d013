"""Embeds a corpus on the processors and GPUs of a Ray cluster, or as a step of Ray Data::

    from elmo.integrations.ray import embed
    vectors = embed(ray.data.read_parquet("in/"), Settings(layers="top"))

Models and inputs must have the same names on all machines.
"""

import json
import logging
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import torch

from elmo.embedding.arrow import embed_batches, with_errors
from elmo.embedding.corpus import (
    CorpusJob,
    Receipt,
    Settings,
    Worker,
    embed_part,
    examine_model,
    load_embedder,
    open_worker,
)
from elmo.embedding.corpus_rows import Part
from elmo.embedding.store_parquet import import_pyarrow
from elmo.errors import InputError, check_whole, in_one_line, pip_line

TASKS_OF_AN_ACTOR = 2
"""An actor has the part that it writes, and the next one, so that it never waits."""


def run_parts(job: CorpusJob, parts: Sequence[Part], workers: int | None = None, threads: int = 1) -> Iterator[Receipt]:
    """Runs parts on a pool of actors, each with a model and `threads` processors.

    It is an engine of `elmo.embedding.corpus`.

    The variable RAY_ADDRESS names the cluster; without it, this machine is used. By default there are as many `workers`
    as fit, or one per GPU if there are GPUs. A lost actor is restarted where there is room, and a part whose
    receipt was lost is checked again.

    Raises InputError if the cluster has no room or a worker has failed.
    """
    ray = _ray()
    _start(ray)
    pool, device = _pool(ray, workers, threads)
    context = ray.data.DataContext.get_current()
    shown, context.enable_progress_bars = context.enable_progress_bars, False
    try:  # one block is one task: a receipt arrives when its part is written
        rows = ray.data.from_items([asdict(part) for part in parts], override_num_blocks=len(parts))
        done = rows.map_batches(
            PartWorker, fn_constructor_kwargs={"job": job, "device": device, "threads": threads}, batch_size=1, **pool
        )
    finally:
        context.enable_progress_bars = shown
    for row in done.iter_rows():
        if row["problem"]:
            raise InputError(row["problem"])
        yield Receipt(**json.loads(row["receipt"]))


def embed(dataset: Any, settings: Settings | None = None, workers: int | None = None, threads: int = 1) -> Any:
    """Embeds a Ray dataset with the columns `id`, and `text` or `tokens`.

    The result has the columns `id`, `tokens`, `vectors`, `shape`, `sentence_ends` and `error`, which says why a row has
    no vectors.

    `workers` and `threads` are those of `run_parts`. Raises the errors of `elmo.formats.load`, and InputError if the
    cluster has no room.
    """
    check_whole("threads", threads)
    if workers is not None:
        check_whole("workers", workers)
    ray = _ray()
    settings = settings or Settings()
    pool, device = _pool(ray, workers, threads)
    options = {"settings": settings, "sha256": examine_model(settings)[1], "device": device, "threads": threads}
    return dataset.map_batches(BatchWorker, fn_constructor_kwargs=options, **pool)


class PartWorker:
    """An actor that writes parts of a corpus.

    It returns the errors that a user can fix, since Ray would pass only their text to the driver.
    """

    def __init__(self, job: CorpusJob, device: str, threads: int) -> None:
        self._open = partial(open_worker, job, device, threads)
        self._worker: Worker | None = None

    def __call__(self, parts: Any) -> Any:
        receipts, problem = [], ""
        try:
            self._worker = self._worker or self._open()
            receipts = [json.dumps(asdict(embed_part(self._worker, Part(**part)))) for part in parts.to_pylist()]
        except InputError as error:
            problem = str(error)
        except OSError as error:
            problem = in_one_line(error)
        receipts = receipts or [""]
        return import_pyarrow().table({"receipt": receipts, "problem": [problem] * len(receipts)})


class BatchWorker:
    """An actor that embeds tables."""

    def __init__(self, settings: Settings, sha256: str, device: str, threads: int) -> None:
        torch.set_num_threads(threads)
        self._embedder, self._tokenizer = load_embedder(settings, sha256, device)
        self._options = settings.choice()

    def __call__(self, table: Any) -> Iterator[Any]:
        for made in embed_batches(self._embedder, table.to_batches(), self._tokenizer, **self._options):
            yield import_pyarrow().Table.from_batches([with_errors(*made)])


def _ray() -> Any:
    try:
        import ray  # type: ignore[import-not-found]
        from ray import data  # type: ignore[import-not-found]  # noqa: F401
    except ImportError as error:
        raise InputError(f"the engine ray needs Ray ({error}): {pip_line('ray')}") from error
    return ray


def _start(ray: Any) -> None:
    """Starts Ray, unless the program has started it."""
    if not ray.is_initialized():
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # send no usage statistics
        os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # a lost worker is tried again, so its loss is no error
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        ray.init(log_to_driver=False, logging_level=logging.ERROR)


def _pool(ray: Any, workers: int | None, threads: int) -> tuple[dict[str, Any], str]:
    """Returns the options of `map_batches` and the actors' device. Ray sets OMP_NUM_THREADS of an actor to num_cpus."""
    has = ray.cluster_resources()
    cpus, gpus = int(has.get("CPU", 0)), int(has.get("GPU", 0))
    room = gpus or cpus // threads
    if not 0 < (workers or room) <= room:
        raise InputError(
            f"the cluster has {cpus} processors and {gpus} GPUs, room for {room} workers of {threads} processors each"
            f" (or one per GPU), not for {workers or 'any'}; change --workers or --threads"
        )
    most = workers or room
    strategy = ray.data.ActorPoolStrategy(
        min_size=1, max_size=most, initial_size=most, max_tasks_in_flight_per_actor=TASKS_OF_AN_ACTOR
    )
    pool = {"compute": strategy, "batch_format": "pyarrow", "num_cpus": threads}
    return (pool | {"num_gpus": 1}, "cuda") if gpus else (pool, "cpu")
