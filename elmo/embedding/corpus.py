"""Writes the vectors of a corpus to a folder of Parquet files, part by part, in one process or many::

    OUTPUT/manifest.json           the job, its parts, and in the end what each one holds
    OUTPUT/vectors/00000000.parquet    the vectors of a part
    OUTPUT/errors/00000000.parquet     its rows that could not be embedded, if any
    OUTPUT/done/00000000.json      its receipt

A part is the unit of work: a worker reads its rows, writes its files whole, and writes its receipt last. So the parts
without a receipt are those that remain to be done, whatever was lost. The vectors of a part depend only on its rows and
on the number of tokens that are read at once, so doing it again gives the same bytes.
"""

import dataclasses
import json
import platform
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch

from elmo import __version__, formats, ops
from elmo.config import check_range, from_dict, to_dict
from elmo.disk.run import lock_folder
from elmo.embedding.arrow import ROW_BYTES, ROW_TOKENS, RecordBatch, embed_batches, error_schema, vector_schema
from elmo.embedding.budget import tokens_within
from elmo.embedding.corpus_folder import (
    DONE,
    ERRORS,
    FORMAT,
    MANIFEST,
    VECTORS,
    HashedFile,
    Receipt,
    is_local,
    name_of,
    own_manifest,
    parts_of,
    read_json,
    tidy,
    whole_file,
    write_json,
)
from elmo.embedding.corpus_rows import (
    Columns,
    Part,
    absolute_address,
    expand_addresses,
    filesystem,
    is_address,
    plan_parts,
    read_part,
)
from elmo.embedding.embedder import Embedder, StatePolicy
from elmo.embedding.layers import Layers, layer_selector, written_layers
from elmo.embedding.pooling import Pool, vector_shaper
from elmo.embedding.store_parquet import import_pyarrow
from elmo.errors import InputError
from elmo.formats import Model
from elmo.text.corpus import sample_hash
from elmo.text.tokenizer import WHITESPACE, TextConfig, Tokenizer, text_of, text_values
from elmo.types import Dtype

PART_ROWS = 10_000


@dataclass(frozen=True)
class Settings:
    """How the rows of a corpus become vectors."""

    model: str = "default"
    weights: str | None = None
    layers: Layers = "all"
    pool: Pool | None = None
    dtype: Dtype = "float32"
    state: StatePolicy = "reset"
    precision: ops.Precision = "float32"
    pretokenized: bool = False
    """Whether the tokens of a text are separated by whitespace; otherwise the model's own tokenizer splits it."""
    lines: bool = False
    """Whether a row of text is one sentence; otherwise the model's own settings say what a sentence is."""
    part_rows: int = PART_ROWS
    row_bytes: int = ROW_BYTES
    row_tokens: int = ROW_TOKENS
    columns: Columns = field(default_factory=Columns)
    memory: int | None = None
    batch_tokens: int | None = None

    def choice(self) -> dict[str, Any]:
        """Returns the options of `embed_batches`."""
        return {name: getattr(self, name) for name in ("layers", "pool", "dtype", "row_bytes", "row_tokens")}


NO_IDENTITY = ("model", "weights", "memory", "batch_tokens")
"""Settings that may change when a job resumes: the sha256 identifies the model, the others change only last bits."""


@dataclass(frozen=True)
class CorpusJob:
    """What a worker needs to know, wherever it runs."""

    output: str
    settings: Settings
    sha256: str
    """The hash of the model's content."""
    base: str
    """The folder in which the job was started, to which relative input names refer."""


@dataclass(frozen=True)
class Worker:
    """A model in a process that embeds parts."""

    job: CorpusJob
    embedder: Embedder
    tokenizer: Tokenizer


@dataclass(frozen=True)
class CorpusProgress:
    """Progress of all workers."""

    rows: int
    """The rows that are done, those of earlier runs included."""
    total: int
    fresh_rows: int
    """The rows that this run has done."""
    fresh_tokens: int


@dataclass(frozen=True)
class EmbeddedCorpus:
    """What a finished folder holds."""

    path: str
    vectors: int
    errors: int
    tokens: int
    parts: int


Engine = Callable[[CorpusJob, Sequence[Part]], Iterator[Receipt]]
"""An engine processes parts in any order, and yields the receipt of each part when it is written."""


def embed_corpus(
    inputs: Iterable[str],
    output: str,
    settings: Settings,
    engine: Engine | None = None,
    progress: Callable[[CorpusProgress], None] | None = None,
) -> EmbeddedCorpus:
    """Writes the vectors of all rows of `inputs` to the folder `output`, or resumes such a job.

    Inputs are names and patterns of text files (one row per line) and Parquet files, the output is a folder; all may be
    fsspec addresses. `engine` is `run_here` by default.

    Raises InputError, and changes nothing, if the folder holds something else, or another job: other inputs, settings
    or weights.
    """
    import_pyarrow()
    vector_shaper(settings.layers, settings.pool)
    if settings.state == "carry":
        raise InputError("state carry makes a row depend on all before it, but a corpus is read in parts; use reset")
    check_range(settings, ("part_rows", "row_bytes", "row_tokens", "batch_tokens"), 1)
    files, path = filesystem(absolute_address(output))
    model, sha256, text = examine_model(settings)
    engine = run_here if engine is None else engine
    if getattr(engine, "func", engine) is run_here:  # it need not open the model again
        engine = partial(engine, opened=[model])
    del model
    sizes = expand_addresses(inputs)
    identity = _identity(settings, sha256, text, sizes)
    manifest = own_manifest(files, path, output, identity)
    parts = plan_parts(list(sizes), settings.part_rows, settings.columns) if manifest is None else parts_of(manifest)
    with ExitStack() as stack:
        files.makedirs(path, exist_ok=True)
        if is_local(files):
            stack.enter_context(lock_folder(Path(path), "is writing these vectors", "name another output"))
        manifest = own_manifest(files, path, output, identity)  # another process may have worked here until now
        parts = parts if manifest is None else parts_of(manifest)
        for folder in (VECTORS, ERRORS, DONE):
            files.makedirs(f"{path}/{folder}", exist_ok=True)
        tidy(files, path)
        if manifest is None:
            manifest = {
                "format": FORMAT,
                "finished": False,
                "model": formats.recorded_name(settings.model),
                "job": identity,
                "versions": {
                    "elmo": __version__,
                    "torch": torch.__version__,
                    "pyarrow": import_pyarrow().__version__,
                    "python": platform.python_version(),
                },
                "parts": [dataclasses.asdict(part) for part in parts],
            }
            write_json(files, f"{path}/{MANIFEST}", manifest)
        _work(CorpusJob(absolute_address(output), _placed(settings), sha256, str(Path.cwd())), parts, engine, progress)
        return _finish(files, path, output, manifest, parts)


def run_here(
    job: CorpusJob,
    parts: Sequence[Part],
    device: str | None = None,
    threads: int | None = None,
    opened: list[Model] | None = None,
) -> Iterator[Receipt]:
    """Runs all parts in this process, with `threads` threads, or as many as torch uses. This is the local engine.

    `opened` may hold the job's model, which is then taken out of it instead of being loaded again.
    """
    worker = open_worker(job, device, threads, opened)
    for part in parts:
        yield embed_part(worker, part)


def open_worker(
    job: CorpusJob, device: str | None = None, threads: int | None = None, opened: list[Model] | None = None
) -> Worker:
    """Loads the model in a worker process. Raises InputError if it is not the job's."""
    if threads is not None:
        torch.set_num_threads(threads)
    embedder, tokenizer = load_embedder(job.settings, job.sha256, device, opened)
    return Worker(job, embedder, tokenizer)


def examine_model(settings: Settings) -> tuple[Model, str, TextConfig]:
    """Returns the model, its content hash, and how text is split for it.

    Raises the errors of `elmo.formats.load`, and InputError if the model lacks the layers or needs more memory.
    """
    model = formats.load(settings.model, settings.weights)
    layer_selector(settings.layers, model.config.lstm.n_layers + 1)
    if settings.memory is not None:
        tokens_within(settings.memory, model.config)
    return model, formats.content_hash(model), _text(settings, model.text)


def load_embedder(
    settings: Settings, sha256: str | None = None, device: str | None = None, opened: list[Model] | None = None
) -> tuple[Embedder, Tokenizer]:
    """Returns an embedder with the model, which is opened unless it is in `opened`, and its tokenizer.

    Raises InputError if the model's hash is not `sha256`.
    """
    model = opened.pop() if opened else formats.load(settings.model, settings.weights)
    if sha256 and opened is None and (found := formats.content_hash(model)) != sha256:
        raise InputError(
            f"{settings.model}: the model has sha256 {found[:12]} here, but {sha256[:12]} where the job was started;"
            " give all machines the same"
        )
    text = _text(settings, model.text)
    options = {name: getattr(settings, name) for name in ("memory", "batch_tokens", "state", "precision")}
    return Embedder.of(model, release=True, text=text, device=device, **options), Tokenizer(text)


def embed_part(worker: Worker, part: Part) -> Receipt:
    """Writes the files of a part unless it is done, and returns its receipt."""
    job = worker.job
    files, path = filesystem(job.output)
    receipt_path = f"{path}/{DONE}/{name_of(part)}.json"
    files.invalidate_cache()
    if files.exists(receipt_path):
        return from_dict(Receipt, read_json(files, receipt_path))
    worker.embedder.words.clear()
    settings = job.settings
    batches = read_part(part, settings.columns, settings.row_bytes, job.base)
    made = embed_batches(worker.embedder, batches, worker.tokenizer, **settings.choice())
    ids, rows, tokens = import_pyarrow().string(), 0, 0
    errors: list[RecordBatch] = []
    with whole_file(files, f"{path}/{VECTORS}/{name_of(part)}.parquet") as file:
        hashed = HashedFile(file)
        with _parquet(hashed, vector_schema(ids, settings.dtype)) as table:
            for vectors, refused in made:
                if len(vectors):
                    table.write_batch(vectors)
                if len(refused):
                    errors.append(refused)
                rows, tokens = rows + len(vectors), tokens + len(vectors["tokens"].values)
                del vectors
    if errors:
        place = f"{path}/{ERRORS}/{name_of(part)}.parquet"
        with whole_file(files, place) as file, _parquet(file, error_schema(ids)) as table:
            for batch in errors:
                table.write_batch(batch)
    receipt = Receipt(part.number, rows, sum(map(len, errors)), tokens, hashed.size, hashed.sha256)
    write_json(files, receipt_path, dataclasses.asdict(receipt))
    return receipt


def _parquet(file: Any, schema: Any) -> Any:
    return import_pyarrow().parquet.ParquetWriter(file, schema, use_dictionary=["tokens"])


def _text(settings: Settings, text: TextConfig | None) -> TextConfig:
    return WHITESPACE if text is None else text_of(text, settings.pretokenized, settings.lines)


def _placed(settings: Settings) -> Settings:
    """Makes paths absolute, but not the names of models."""

    def placed(name: str) -> str:
        return absolute_address(name) if Path(name).exists() or Path(name).parent != Path() else name

    weights = None if settings.weights is None else placed(settings.weights)
    return dataclasses.replace(settings, model=placed(settings.model), weights=weights)


def _identity(settings: Settings, sha256: str, text: TextConfig, sizes: dict[str, int]) -> dict[str, Any]:
    """What identifies a job, as JSON values."""
    kept = {name: value for name, value in to_dict(settings).items() if name not in NO_IDENTITY}
    kept["layers"] = written_layers(settings.layers)
    identity = {"model sha256": sha256, "text": text_values(text), **kept, "inputs": sizes}
    identity["inputs' contents"] = sample_hash([Path(name) for name in sizes if not is_address(name)])
    return json.loads(json.dumps(identity))


def _work(
    job: CorpusJob, parts: Sequence[Part], engine: Engine, progress: Callable[[CorpusProgress], None] | None
) -> None:
    files, path = filesystem(job.output)
    files.invalidate_cache()
    done = {Path(name).stem for name in files.ls(f"{path}/{DONE}", detail=False)}
    left = [part for part in parts if name_of(part) not in done]
    if not left:
        return
    total, tokens, rows = sum(part.rows for part in parts), 0, 0
    before = total - sum(part.rows for part in left)
    if progress is not None:
        progress(CorpusProgress(before, total, 0, 0))
    for receipt in engine(job, left):
        rows, tokens = rows + receipt.vectors + receipt.errors, tokens + receipt.tokens
        if progress is not None:
            progress(CorpusProgress(before + rows, total, rows, tokens))


def _finish(files: Any, path: str, output: str, manifest: dict[str, Any], parts: Sequence[Part]) -> EmbeddedCorpus:
    """Completes the manifest from the receipts."""
    receipts = [from_dict(Receipt, read_json(files, f"{path}/{DONE}/{name_of(part)}.json")) for part in parts]
    totals = {name: sum(getattr(receipt, name) for receipt in receipts) for name in ("vectors", "errors", "tokens")}
    if not manifest["finished"]:
        for part, receipt in zip(manifest["parts"], receipts, strict=True):
            part |= {name: value for name, value in dataclasses.asdict(receipt).items() if name != "part"}
        manifest |= {"finished": True, "counts": {"rows": sum(part.rows for part in parts), **totals}}
        write_json(files, f"{path}/{MANIFEST}", manifest)
        tidy(files, path)
    return EmbeddedCorpus(output, **totals, parts=len(parts))
