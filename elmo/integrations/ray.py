"""Ray: a corpus on the processors and GPUs of a cluster, and vectors as a step of Ray Data::

    from elmo.integrations.ray import embed
    vectors = embed(ray.data.read_parquet("in/"), Settings(layers="top"))

Models and inputs are found by the same names on all machines.
"""

import json
import logging
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import torch

from elmo.embedding.arrow import embed_batches, pyarrow, together
from elmo.embedding.corpus import Job, Receipt, Settings, Worker, embed_part, examined, load_embedder, open_worker
from elmo.embedding.corpus_rows import Part
from elmo.errors import InputError, in_one_line

TASKS_OF_AN_ACTOR = 2
"""The part that it writes, and the next."""


def run(job: Job, parts: Sequence[Part], workers: int | None = None, threads: int = 1) -> Iterator[Receipt]:
    """An engine of `elmo.embedding.corpus`: parts go to a pool of actors, each with a model and `threads` processors.

    The cluster is that of the variable RAY_ADDRESS, or this machine. By default there are as many `workers` as it has
    room for; where it has GPUs, one for each of these. An actor that is lost is started again where there is room, and
    a part of which the receipt was lost is looked at again.

    Raises InputError where the cluster has no room, and what a worker raises.
    """
    ray = _ray()
    _start(ray)
    pool, device = _pool(ray, workers, threads)
    context = ray.data.DataContext.get_current()
    shown, context.enable_progress_bars = context.enable_progress_bars, False
    try:  # one block is one task: a receipt comes when its part is written
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
    """A Ray dataset with the columns `id`, `tokens`, `vectors`, `shape` and `error`, in which each row says why it has
    no vectors; `dataset` has `id`, and `text` or `tokens`.

    `workers` and `threads` are those of `run`. Raises as `elmo.formats.load`, and InputError where there is no room.
    """
    ray = _ray()
    settings = settings or Settings()
    pool, device = _pool(ray, workers, threads)
    options = {"settings": settings, "sha256": examined(settings)[0], "device": device, "threads": threads}
    return dataset.map_batches(BatchWorker, fn_constructor_kwargs=options, **pool)


class PartWorker:
    """An actor that writes parts of a corpus. Ray would give the driver the text of an error and not the error: what a
    user can mend is returned."""

    def __init__(self, job: Job, device: str, threads: int) -> None:
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
        return pyarrow().table({"receipt": receipts, "problem": [problem] * len(receipts)})


class BatchWorker:
    """An actor that embeds tables."""

    def __init__(self, settings: Settings, sha256: str, device: str, threads: int) -> None:
        torch.set_num_threads(threads)
        self._embedder, self._tokenizer = load_embedder(settings, sha256, device)
        self._options = settings.choice()

    def __call__(self, table: Any) -> Iterator[Any]:
        for made in embed_batches(self._embedder, table.to_batches(), self._tokenizer, **self._options):
            yield pyarrow().Table.from_batches([together(*made)])


def _ray() -> Any:
    try:
        import ray  # type: ignore[import-not-found]
        from ray import data  # type: ignore[import-not-found]  # noqa: F401
    except ImportError as error:
        raise InputError(f"the engine ray needs Ray ({error}): pip install 'elmo-torch[ray]'") from error
    return ray


def _start(ray: Any) -> None:
    """Unless the program has its own."""
    if not ray.is_initialized():
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nobody is told
        os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # what is lost and tried again is no error here
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        ray.init(log_to_driver=False, logging_level=logging.ERROR)


def _pool(ray: Any, workers: int | None, threads: int) -> tuple[dict[str, Any], str]:
    """Options of `map_batches` for so many actors, and their device. Ray gives an actor OMP_NUM_THREADS = num_cpus."""
    has = ray.cluster_resources()
    cpus, gpus = int(has.get("CPU", 0)), int(has.get("GPU", 0))
    room = gpus or cpus // threads
    if not 0 < (workers or room) <= room:
        raise InputError(
            f"the cluster has {cpus} processors and {gpus} GPUs, room for {room} workers of {threads} processors each"
            f" (or one a GPU), and {workers or 'some'} are asked for; give other --workers or --threads"
        )
    most = workers or room
    strategy = ray.data.ActorPoolStrategy(
        min_size=1, max_size=most, initial_size=most, max_tasks_in_flight_per_actor=TASKS_OF_AN_ACTOR
    )
    pool = {"compute": strategy, "batch_format": "pyarrow", "num_cpus": threads}
    return (pool | {"num_gpus": 1}, "cuda") if gpus else (pool, "cpu")
