"""Deep contextualized word representations (ELMo, Peters et al. 2018) for today's PyTorch."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from elmo.embedding.embedder import Embedder as Embedder
    from elmo.embedding.embedder import load as load
    from elmo.model.bilm import BiLM as BiLM
    from elmo.model.bilm import BiLMConfig as BiLMConfig
    from elmo.model.elmo import Elmo as Elmo
    from elmo.model.scalar_mix import ScalarMix as ScalarMix
    from elmo.text.batching import batch_to_ids as batch_to_ids

# Resolved when first asked for: `import elmo` does not import torch.
_HOMES = {
    "load": "elmo.embedding.embedder",
    "Embedder": "elmo.embedding.embedder",
    "Elmo": "elmo.model.elmo",
    "BiLM": "elmo.model.bilm",
    "BiLMConfig": "elmo.model.bilm",
    "ScalarMix": "elmo.model.scalar_mix",
    "batch_to_ids": "elmo.text.batching",
}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'elmo' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
