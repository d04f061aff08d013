"""Deep contextualized word representations (ELMo, Peters et al. 2018) for today's PyTorch."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from pathlib import Path

    from elmo.embedding.embedder import Embedder as Embedder
    from elmo.formats.hub import HubModel as HubModel
    from elmo.model.bilm import BiLM as BiLM
    from elmo.model.bilm import BiLMConfig as BiLMConfig
    from elmo.model.elmo import Elmo as Elmo
    from elmo.model.scalar_mix import ScalarMix as ScalarMix
    from elmo.text.batching import batch_to_ids as batch_to_ids
    from elmo.text.batching import to_batch as to_batch

# Resolved at first use: `import elmo` does not import torch.
_HOMES = {
    "Embedder": "elmo.embedding.embedder",
    "Elmo": "elmo.model.elmo",
    "BiLM": "elmo.model.bilm",
    "BiLMConfig": "elmo.model.bilm",
    "HubModel": "elmo.formats.hub",
    "ScalarMix": "elmo.model.scalar_mix",
    "batch_to_ids": "elmo.text.batching",
    "to_batch": "elmo.text.batching",
}
# Without `HubModel`, which needs an extra: `from elmo import *` works on a plain installation.
__all__ = ["BiLM", "BiLMConfig", "Elmo", "Embedder", "ScalarMix", "batch_to_ids", "load", "to_batch"]


def load(path: "str | Path | None" = None, *, weights: "str | Path | None" = None, **options: Any) -> "Embedder":
    """An `Embedder` with the model at `path`: a folder, a file, or a model's name (None: the default model).

    `weights` names the weights of an options file if they are elsewhere. `options` are those of `Embedder`: `device`,
    `precision`, `state`, `batch_tokens` and others.
    """
    from elmo.embedding.embedder import Embedder

    return Embedder.load(path, weights=weights, **options)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if not name.startswith("_") and (module := _of_others(name)) is not None:
        return module
    raise AttributeError(f"module 'elmo' has no attribute {name!r}")


def _of_others(name: str) -> Any:
    """The module of this name in a package that adds verbs to the command line: `elmo.tasks` is `elmo_lab.tasks`."""
    from importlib.metadata import entry_points
    from importlib.util import find_spec

    if find_spec(f"elmo.{name}") is not None:  # `from elmo import cli` asks here before it imports the module
        return None
    packages = {point.module.partition(".")[0] for point in entry_points(group="elmo.verbs")}
    found = (f"{package}.{name}" for package in sorted(packages) if find_spec(f"{package}.{name}") is not None)
    home = next(found, None)
    return None if home is None else import_module(home)
