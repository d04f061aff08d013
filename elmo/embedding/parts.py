"""Makes a dump resumable: finished rows are kept in a folder beside the output until the output is complete.

The folder holds `run.json` (the settings), the rows and new words of every chunk that the embedder reads ahead, and the
unfinished output. The last bits of a vector depend on what is computed with it. So a chunk has the same sentences in
every run, and a resumed run knows the words that the interrupted one knew: its result equals that of an uninterrupted
run to the bit. The rows take twice their disk space until the output is complete.
"""

import hashlib
import json
import os
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import torch

from elmo.config import check_regular
from elmo.disk.files import DISK_FULL, atomic_path, check_output, place_output, remove
from elmo.disk.run import check_same, lock_folder, read_json
from elmo.embedding.embedder import NEUTRAL_TEXT, Embedder
from elmo.embedding.layers import Layers, written_layers
from elmo.embedding.pooling import Pool
from elmo.embedding.store import Writer, read_vectors, write_vectors
from elmo.errors import InputError
from elmo.text.records import TextRecord
from elmo.types import Dtype

Embedded = tuple[TextRecord, np.ndarray]
RUN = "run.json"
NAMES, VECTORS = "names", "vectors"
"""The arrays in the file of a chunk's new words: the words as JSON in bytes, and their vectors."""


def folder_of(output: Path) -> Path:
    """Returns the folder that keeps the rows of an output."""
    return output.with_name(f"{output.name}.parts")


@contextmanager
def written_in_parts(
    embedder: Embedder,
    records: Iterable[TextRecord],
    output: Path,
    overwrite: bool,
    layers: Layers,
    pool: Pool | None,
    dtype: Dtype,
) -> Iterator[tuple[Writer, Iterator[Embedded]]]:
    """Yields the writer of the output, in the folder, and every record with its vectors. In the end the folder goes.

    Raises InputError if the folder has rows of another model, other settings or other sentences, is damaged or not of
    such a run, or another process is writing the output, and OSError if the output exists; for a full disk, it says
    how to resume.
    """
    if embedder.state == "carry":
        raise InputError("state carry cannot be resumed: a row depends on all before it; use reset, or omit --resume")
    check_output(output, overwrite)
    folder = folder_of(output)
    settings = _settings(embedder, layers, pool, dtype)
    written = folder / f"output{output.suffix}"
    with lock_folder(folder, "is writing this output", "name another output", is_moved=True):
        _check_run(folder, settings)
        for left in (*folder.glob(".*.partial"), written):  # a killed process may have left them
            left.unlink(missing_ok=True)
        try:
            with write_vectors(written, dtype, overwrite) as writer:
                yield writer, _embedded(embedder, records, folder, layers, pool, dtype)
        except OSError as error:
            if error.errno not in DISK_FULL or not Path(error.filename or "").is_relative_to(folder):
                raise
            problem = f"{os.strerror(error.errno)}; free some space, then continue with --resume"
            raise OSError(error.errno, problem, error.filename) from error
        place_output(written, output, overwrite)
        remove(folder)


def _embedded(
    embedder: Embedder, records: Iterable[TextRecord], folder: Path, layers: Layers, pool: Pool | None, dtype: Dtype
) -> Iterator[Embedded]:
    """Yields every record with its vectors: kept rows are read, others embedded and kept."""
    embedder.words.clear()
    tokens_of = attrgetter("tokens")
    for number, chunk in enumerate(embedder.chunks(iter(records), tokens_of)):
        part, words = folder / f"{number:08}.npz", folder / f"{number:08}.words.npz"
        if part.is_file():
            _read_words(embedder, words)
        else:
            before = len(embedder.words), embedder.words.times_emptied
            with write_vectors(part, dtype) as writer:
                for record, vectors in embedder.embed_items(chunk, tokens_of, layers, pool):
                    writer.append(record.text, record.tokens, vectors)
                _write_words(embedder, words, *before)
        yield from _read_part(part, chunk)


def _write_words(embedder: Embedder, path: Path, known: int, times_emptied: int) -> None:
    """Writes the words that came after the first `known` ones, or all words if the table was emptied in between."""
    emptied = embedder.words.times_emptied != times_emptied
    names, vectors = embedder.words.known(0 if emptied else known)
    text = np.frombuffer(json.dumps([emptied, names]).encode(), np.uint8)
    with atomic_path(path, overwrite=True) as temporary, temporary.open("wb") as file:
        np.savez(file, **{NAMES: text, VECTORS: vectors})


def _read_words(embedder: Embedder, path: Path) -> None:
    try:
        check_regular(path)
        with path.open("rb") as file, np.load(file) as kept:  # np.load leaves a damaged file open
            emptied, names = json.loads(kept[NAMES].tobytes())
            vectors = kept[VECTORS]
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile) as error:
        raise _damaged(path, error) from error
    if emptied:
        embedder.words.clear()
    embedder.words.keep(names, vectors)


def _read_part(part: Path, records: list[TextRecord]) -> Iterator[Embedded]:
    with read_vectors(part) as kept:
        for row, record in enumerate(records):
            try:
                tokens, vectors = (kept.tokens(row), kept[row]) if row < len(kept) else (None, None)
            except (OSError, InputError) as error:
                raise _damaged(part, error.__cause__ or error) from error
            if vectors is None or tokens != record.tokens:
                raise InputError(
                    f"{part}: row {row} is not of the sentence {record.text[:40]!r}: the input has changed since the"
                    f" interrupted run; remove {part.parent} to start again"
                )
            yield record, vectors


def _settings(embedder: Embedder, layers: Layers, pool: Pool | None, dtype: Dtype) -> dict[str, Any]:
    """The settings that rows depend on."""
    return {
        "model": _mark(embedder),
        "layers": written_layers(layers),
        "pool": pool,
        "dtype": dtype,
        "state": embedder.state,
        "warm_text": list(embedder.warm_text) if embedder.state == "warm" else None,
        "precision": embedder.precision,
        "dtype of the embedder": embedder.dtype,
        "batch_tokens": embedder.batch_tokens,
    }


@torch.inference_mode()
def _mark(embedder: Embedder) -> str:
    """Identifies the model by the bits of the vectors that it gives here."""
    tokens = embedder.words.fresh(" ".join(NEUTRAL_TEXT).split())[None]
    lengths = torch.tensor([tokens.shape[1]], device=tokens.device)
    layers = embedder.bilm.contextualize(tokens, lengths).layers
    return hashlib.sha256(layers.cpu().numpy().tobytes()).hexdigest()


def _check_run(folder: Path, settings: dict[str, Any]) -> None:
    file = folder / RUN
    if not file.is_file():
        for entry in sorted(folder.iterdir()):
            if not entry.name.startswith((".lock", f".{RUN}.")):  # a run that was killed at its start leaves these
                raise InputError(
                    f"{folder}: holds {entry.name!r} but no {RUN}, so it is not of an interrupted run; move it away, or"
                    " name another output"
                )
        with atomic_path(file) as new:
            new.write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8", newline="\n")
        return
    kept = read_json(file, f"remove {folder} to start again")
    check_same(file, kept, settings, f"remove {folder} to start again")


def _damaged(file: Path, error: BaseException) -> InputError:
    return InputError(f"{file}: damaged ({error}); remove {file.parent} to start again")
