"""Computes the layers of a frozen biLM once per distinct sentence, and keeps them on disk for all runs with that model.

Each model has a folder, named by a hash of its content and by how it was run, with shards of many sentences:

- `NAME.layers.npy` holds the sentences one after another, (tokens, N, D), as float16 or float32.
- `NAME.index.npz` holds `keys`, 16 bytes of a hash of each sentence's tokens, and `lengths`, its number of tokens.

A shard counts once its index exists; the index is moved into place last. Runs that write at the same time do not
conflict: each uses its own file names, and if a sentence is stored twice, one copy is read.
"""

import hashlib
import json
import math
import shutil
import uuid
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import Float, UInt8

from elmo.config import ConfigError
from elmo.disk.files import remove_abandoned, run_file
from elmo.disk.lock import locked
from elmo.embedding.budget import parse_bytes
from elmo.embedding.embedder import Embedder
from elmo.embedding.store_rows import as_stored
from elmo.errors import InputError
from elmo.formats import cache
from elmo.text.batching import in_parts

VERSION = "1"
"""The version changes when the same model and text give other numbers, or when the file layout changes."""
SHARD_BYTES = 128_000_000
KEY_BYTES = 16
WIDER = "set cache.dtype=float32"
Sentence = Sequence[str]


@dataclass(frozen=True)
class CacheConfig:
    """Where the layers of frozen biLMs are kept, and how much space they may take."""

    folder: str | None = None
    """The folder of the layers; by default `layers` in elmo's cache (`ELMO_CACHE`)."""
    dtype: Literal["float16", "float32"] = "float16"
    """The type of the stored numbers."""
    limit: str | int = "40GB"
    """The most space for the layers of one model; a run that needs more fails before it computes."""
    enabled: bool = True
    """Whether layers are kept; otherwise every sentence is computed each time it is read."""

    def __post_init__(self) -> None:
        try:
            parse_bytes(self.limit)
        except InputError as error:
            raise ConfigError(f"cache.limit: {error}") from error


class LayerCache:
    """Gives the layers of sentences, from disk if they are stored, otherwise from the model."""

    def __init__(self, folder: Path, embedder: Embedder, dtype: Literal["float16", "float32"] = "float16") -> None:
        self.folder = folder
        self._embedder = embedder
        self._dtype = np.dtype(dtype)
        self._places: dict[bytes, tuple[str, int, int]] = {}
        """The shard of each sentence, its first byte there, and its length, by the sentence's key."""
        self._read_shards()

    def __call__(self, sentences: Sequence[Sentence]) -> list[Float[np.ndarray, "N T D"]]:
        """Returns the layers of each sentence, without boundaries; those not on disk are computed but not stored."""
        keys = [key_of(sentence) for sentence in sentences]
        missing = {key: sentence for key, sentence in zip(keys, sentences, strict=True) if key not in self._places}
        computed = dict(zip(missing, self._compute(list(missing.values())), strict=True)) if missing else {}
        return [
            computed[key] if key in computed else self._stored(*self._places[key]).transpose(1, 0, 2) for key in keys
        ]

    def missing(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        """Returns the distinct sentences that are not on disk, longest first."""
        found = {key: sentence for sentence in sentences if (key := key_of(sentence)) not in self._places}
        return sorted(found.values(), key=len, reverse=True)

    def bytes_for(self, sentences: Sequence[Sentence]) -> int:
        """Returns the bytes that these sentences take on disk, without a small overhead per sentence."""
        return sum(map(len, sentences)) * self._embedder.n_layers * self._embedder.dim * self._dtype.itemsize

    def add(
        self, sentences: Sequence[Sentence], limit: int, progress: Callable[[int, int], object] | None = None
    ) -> int:
        """Computes and stores the sentences that are not on disk, shard by shard; returns their number of tokens.

        Calls `progress` with tokens done and tokens in total. Raises InputError before computing anything if the
        model's layers would exceed `limit` bytes or the free disk space, and OSError if writing fails.
        """
        if not (new := self.missing(sentences)):
            return 0
        self._check_room(self.bytes_for(new), limit)
        cache.make_folder(self.folder, "name another by cache.folder, or set cache.enabled=false")
        with locked(self.folder / "adding.lock", wait=True):  # otherwise two runs would compute the same layers
            self._read_shards()
            new = self.missing(new)
            self._check_room(self.bytes_for(new), limit)  # checked again, since another run may have added others
            done, total = 0, sum(map(len, new))
            for part in in_parts(new, SHARD_BYTES // max(1, self.bytes_for([["token"]]))):
                self._write_shard(part)
                done += sum(map(len, part))
                if progress is not None:
                    progress(done, total)
        return total

    def _compute(self, sentences: Sequence[Sentence]) -> list[Float[np.ndarray, "N T D"]]:
        """Computes the layers and rounds them to the stored type, so that they equal those read from disk."""
        arrays = self._embedder.embed(sentences)
        return [as_stored(layers, self._dtype, WIDER).astype(np.float32) for layers in arrays]

    def _stored(self, shard: str, begin: int, length: int) -> Float[np.ndarray, "T N D"]:
        # The file is not mapped: every map holds an open file, and there may be more shards than a process may open.
        shape = (length, self._embedder.n_layers, self._embedder.dim)
        path = self.folder / f"{shard}.layers.npy"
        return np.fromfile(path, self._dtype, math.prod(shape), offset=begin).reshape(shape)

    def _read_shards(self) -> None:
        for index in sorted(self.folder.glob("*.index.npz")):
            name = index.name.removesuffix(".index.npz")
            try:
                with index.open("rb") as file, np.load(file) as stored:
                    keys, lengths = stored["keys"], stored["lengths"]
                layers = np.load(self.folder / f"{name}.layers.npy", mmap_mode="r")
            except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile) as error:
                raise InputError(f"{index}: damaged ({error}); remove the folder {self.folder}") from error
            shape = (lengths.sum(), self._embedder.n_layers, self._embedder.dim)
            if layers.shape != shape or layers.dtype != self._dtype or keys.shape != (len(lengths), KEY_BYTES):
                raise InputError(f"{index}: does not match its layers; remove the folder {self.folder}")
            self._place(name, layers.offset, [key.tobytes() for key in keys], lengths.tolist())

    def _place(self, shard: str, begin: int, keys: Sequence[bytes], lengths: Sequence[int]) -> None:
        """Records where the sentences of a shard are; the first one begins at the byte `begin`."""
        token = self.bytes_for([["token"]])
        for key, length in zip(keys, lengths, strict=True):
            self._places[key] = (shard, begin, length)
            begin += length * token

    def _write_shard(self, sentences: Sequence[Sentence]) -> None:
        remove_abandoned(self.folder.iterdir())
        lengths = [len(sentence) for sentence in sentences]
        shape = (sum(lengths), self._embedder.n_layers, self._embedder.dim)
        name = uuid.uuid4().hex
        layers, index = self.folder / f"{name}.layers.npy", self.folder / f"{name}.index.npz"
        keys: UInt8[np.ndarray, "S 16"] = np.frombuffer(b"".join(map(key_of, sentences)), np.uint8).reshape(-1, 16)
        with run_file(index) as index_file, run_file(layers) as file:  # the index takes its place last
            header = {"descr": self._dtype.str, "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(file, header)
            begin = file.tell()
            for vectors in self._embedder.embed_stream(sentences):
                file.write(as_stored(vectors.transpose(1, 0, 2), self._dtype, WIDER).data)
            np.savez(index_file, keys=keys, lengths=np.array(lengths, np.int64))
        self._place(name, begin, list(map(key_of, sentences)), lengths)

    def _check_room(self, needed: int, limit: int) -> None:
        if not needed:
            return
        kept = sum(path.stat().st_size for path in self.folder.glob("*.layers.npy"))
        if kept + needed > limit:
            raise InputError(
                f"{self.folder}: {needed:,} bytes of layers and {kept:,} stored exceed cache.limit"
                f" ({limit:,}); raise it, remove the folder, or set cache.enabled=false"
            )
        existing = next(folder for folder in (self.folder, *self.folder.absolute().parents) if folder.exists())
        free = shutil.disk_usage(existing).free
        if needed > free:
            raise InputError(
                f"{self.folder}: {needed:,} bytes of layers are needed, {free:,} are free; free some, choose"
                " another cache.folder, or set cache.enabled=false"
            )


def open_cache(config: CacheConfig, sha256: str, embedder: Embedder) -> LayerCache:
    """Opens the layer cache of the model with this `content_hash`. Nothing is created on disk yet."""
    root = cache.cache_folder() / "layers" if config.folder is None else Path(config.folder)
    return LayerCache(root / f"{sha256[:16]}-{config.dtype}-v{VERSION}", embedder, config.dtype)


def key_of(sentence: Sentence) -> bytes:
    """Returns the key of a sentence, which is a hash of its tokens."""
    return hashlib.sha256(json.dumps(list(sentence)).encode()).digest()[:KEY_BYTES]
