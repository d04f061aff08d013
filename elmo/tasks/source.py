"""A task's biLM: frozen, with a layer cache, or trained with the task."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from elmo import formats
from elmo.embedding.embedder import Embedder
from elmo.errors import InputError
from elmo.formats import Model, content_hash
from elmo.tasks.cache import CacheConfig, LayerCache, limit_of, open_cache
from elmo.tasks.inputs import Collator, InputConfig
from elmo.text.batching import to_batch
from elmo.types import Batch

Sentences = Sequence[Sequence[str]]
Progress = Callable[[int, int], object]


@dataclass(frozen=True)
class Source:
    """A biLM, and the hash of its layers."""

    name: str
    """As given; the default model's own."""
    model: Model
    sha256: str
    """The hash of everything that its vectors depend on."""

    def card(self) -> dict[str, Any]:
        """The description of the biLM in a result: plain JSON values.

        `cells` are those of an LSTM in one direction, `projection_dim` is None without a projection: models of
        different sizes must not be compared by the words that they have read.
        """
        kept = ("date", "words_read", "init_from", "translation")
        said = {key: self.model.card[key] for key in kept if key in self.model.card}
        lstm = self.model.config.lstm
        size = {"cells": lstm.dim, "projection_dim": lstm.projection_dim if lstm.has_projection else None}
        return {"model": self.name, "sha256": self.sha256, **said, **size}


def is_bilm(card: Mapping[str, Any]) -> bool:
    """Whether a model, as a result describes it, is a biLM; the encoder of a translation model (CoVe) is not one."""
    return "translation" not in card


def open_source(config: InputConfig) -> Source | None:
    """The biLM of these inputs; None if they have none. Raises the errors of `elmo.formats.load`."""
    if config.elmo == "none":
        return None
    return open_model(config.model)


def open_model(name: str) -> Source:
    """The biLM at a path or of a name. Raises the errors of `elmo.formats.load`."""
    model = formats.load(name)
    return Source(formats.named(name), model, content_hash(model))


def collator(config: InputConfig, words: Sequence[str], source: Source | None, cache: CacheConfig) -> Collator:
    """Makes batches for a network with these inputs."""
    if source is None:
        return Collator(config, words)
    if config.tuned:
        return Collator(config, words, to_batch=_to_batch(source.model))
    return Collator(config, words, layers_of=layer_cache(source, cache))


def layer_cache(source: Source, config: CacheConfig) -> LayerCache:
    """The layers of a frozen biLM: from disk, and from the model for new sentences."""
    model = source.model
    embedder = Embedder(model.bilm(), vocabulary=model.inputs)
    return open_cache(config, source.sha256, embedder)


def compute(collate: Collator, sentences: Sentences, config: CacheConfig, progress: Progress | None = None) -> int:
    """Stores the layers of these sentences if the collator has a cache; returns the number of new tokens."""
    if not isinstance(collate.layers_of, LayerCache) or not config.enabled:
        return 0
    return collate.layers_of.add(sentences, limit_of(config), progress)


def check_same(source: Source, card: dict[str, Any], folder: Path) -> None:
    """Raises InputError if a trained task is used with another biLM than in training."""
    if source.sha256 != card["sha256"]:
        raise InputError(
            f"{folder}: was trained with a biLM of sha256 {card['sha256'][:12]} ({card['model']}), but that of"
            f" {source.name} is {source.sha256[:12]}; give the biLM of its training"
        )


def _to_batch(model: Model) -> Callable[[Sentences], Batch]:
    if model.config.char_cnn is not None:
        return partial(to_batch, max_characters=model.config.char_cnn.max_characters_per_token)
    return partial(to_batch, vocabulary=model.inputs)
