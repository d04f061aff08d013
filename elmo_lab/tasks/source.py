"""The biLM of a task, which is frozen, with a layer cache, or trained with the task."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from elmo.embedding.budget import parse_bytes
from elmo.embedding.embedder import Embedder
from elmo.formats.opened import OpenedModel, open_model
from elmo_lab.tasks.cache import CacheConfig, LayerCache, open_cache
from elmo_lab.tasks.inputs import Collator, InputConfig

Sentences = Sequence[Sequence[str]]
Progress = Callable[[int, int], object]


def open_source(config: InputConfig) -> OpenedModel | None:
    """Opens the biLM of these inputs, or returns None if they have none. Raises the errors of `elmo.formats.load`."""
    return None if config.elmo == "none" else open_model(config.model)


def make_collator(
    config: InputConfig, words: Sequence[str], source: OpenedModel | None, cache: CacheConfig
) -> Collator:
    """Makes the collator of a network with these inputs."""
    if source is None:
        return Collator(config, words)
    if config.tuned:
        return Collator(config, words, to_batch=replace(source.model, weights={}, lm_head=None).to_batch)
    return Collator(config, words, layers_of=layer_cache(source, cache))


def layer_cache(source: OpenedModel, config: CacheConfig) -> LayerCache:
    """Opens the layer cache of a frozen biLM, which reads layers from disk, or from the model for new sentences."""
    return open_cache(config, source.sha256, Embedder.of(source.model))


def store_layers(collate: Collator, sentences: Sentences, config: CacheConfig, progress: Progress | None = None) -> int:
    """Stores the layers of these sentences if the collator has a cache; returns the number of new tokens."""
    if not isinstance(collate.layers_of, LayerCache) or not config.enabled:
        return 0
    return collate.layers_of.add(sentences, parse_bytes(config.limit), progress)
