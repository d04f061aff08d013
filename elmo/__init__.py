"""Deep contextualized word representations (ELMo, Peters et al. 2018) for today's PyTorch.

`embedder = elmo.load()`, then `embedder.embed(["They play chess."])`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from matplotlib.figure import Figure

    from elmo.embedding.embedder import Embedder as Embedder
    from elmo.embedding.embedder import StatePolicy
    from elmo.embedding.store import read_vectors as read_vectors
    from elmo.embedding.texts import TextVectors as TextVectors
    from elmo.errors import InputError as InputError
    from elmo.formats.hub import HubModel as HubModel
    from elmo.model.bilm import BiLM as BiLM
    from elmo.model.config import BiLMConfig as BiLMConfig
    from elmo.model.elmo import Elmo as Elmo
    from elmo.model.scalar_mix import ScalarMix as ScalarMix
    from elmo.ops import Library, Precision
    from elmo.text.batching import batch_to_ids as batch_to_ids
    from elmo.text.batching import to_batch as to_batch
    from elmo.training.monitor import Logger
    from elmo.types import Dtype

# These names are resolved at their first use, so that `import elmo` does not import torch.
_HOMES = {
    "Embedder": "elmo.embedding.embedder",
    "Elmo": "elmo.model.elmo",
    "BiLM": "elmo.model.bilm",
    "BiLMConfig": "elmo.model.config",
    "HubModel": "elmo.formats.hub",
    "InputError": "elmo.errors",
    "ScalarMix": "elmo.model.scalar_mix",
    "TextVectors": "elmo.embedding.texts",
    "batch_to_ids": "elmo.text.batching",
    "read_vectors": "elmo.embedding.store",
    "to_batch": "elmo.text.batching",
}
# `HubModel` is not listed, since it needs an extra and `from elmo import *` must work on a plain installation.
__all__ = [
    "BiLM",
    "BiLMConfig",
    "Elmo",
    "Embedder",
    "InputError",
    "ScalarMix",
    "TextVectors",
    "batch_to_ids",
    "load",
    "plot",
    "read_vectors",
    "to_batch",
    "train",
]


def load(
    path: "str | Path | None" = None,
    *,
    weights: "str | Path | None" = None,
    device: Any = None,
    precision: "Precision" = "float32",
    state: "StatePolicy" = "reset",
    dtype: "Dtype" = "float32",
    memory: int | str | None = None,
    batch_tokens: int | None = None,
    batch_size: int = 32,
    keep_state: bool = False,
    warm_text: "Sequence[str] | None" = None,
    library: "Library | None" = None,
    between: "Callable[[], object] | None" = None,
    **unknown: Any,
) -> "Embedder":
    """Loads the model at `path`, a folder, a file or a model's name (None: the default model), into an `Embedder`.

    `weights` names the weights of an options file if they are elsewhere. `device` is "cpu", "cuda" or another of torch
    (None: a GPU if there is one). `precision` is "float32", "bfloat16", "int8" or "int8-weights", and `state` is
    "reset", "echo", "carry" or "warm". `Embedder` describes these and the other options.
    Raises InputError, which is a ValueError, for a model or an option that cannot be used, and FileNotFoundError.
    """
    from elmo.embedding.embedder import Embedder

    given = {name: value for name, value in locals().items() if name not in ("path", "weights", "unknown", "Embedder")}
    if warm_text is None:
        del given["warm_text"]
    return Embedder.load(path, weights=weights, **given, **unknown)


def plot(
    word: str,
    sentences: "str | Iterable[str] | Iterable[Sequence[str]]",
    model: "str | Path | Embedder | None" = None,
    layers: "int | Sequence[int] | None" = None,
) -> "Figure":
    """Draws all uses of `word` in texts, or in sentences of tokens, as a matplotlib figure, which a notebook shows.

    Each layer has a panel (None: the first, without context, and the top), which is the plane in which the uses'
    vectors, scaled to length 1, differ most. `figure.savefig("uses.pdf")` saves it. This needs matplotlib (the extra
    `probes`). Raises InputError if the word, as spelled, occurs less than twice.
    """
    from elmo.search.picture import plot as draw

    return draw(word, sentences, model, layers)


def train(
    train: "str | Path | Sequence[str | Path]",
    output: "str | Path",
    *,
    heldout: "str | Path | Sequence[str | Path]" = (),
    recipe: "str | Path | None" = None,
    init_from: "str | Path | None" = None,
    resume: bool = False,
    quiet: bool = True,
    loggers: "Sequence[Logger]" = (),
    **settings: Any,
) -> "Path":
    """Pretrains a biLM as `elmo train` does; returns the model's folder, for `load`. Needs the extra `train`.

    `train` and `heldout` are text files or patterns, and `output` is the folder of the run. `settings` are those of
    `elmo.pretraining.settings.TrainConfig`, such as `epochs=3` or, for a section, `optim={"lr": 1e-3}`; `recipe` is a
    TOML file with others, or the name of a packaged one. With `init_from`, the run starts from a model's weights; with
    `resume`, from the last checkpoint in `output`. `loggers` get the numbers of the run; they are loggers of Lightning
    and Fabric, or any objects with `log_metrics(metrics, step)` and `finalize(status)`. `quiet=False` shows progress.
    Raises InputError for texts and settings that cannot be used, and for an `output` that holds another run.
    """
    from elmo.pretraining.call import train as run

    return run(train, output, heldout, recipe, init_from, resume, quiet, loggers, settings)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if not name.startswith("_") and (module := _of_others(name)) is not None:
        return module
    raise AttributeError(f"module 'elmo' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Returns the public names and the imported modules."""
    modules = (name for name, value in globals().items() if not name.startswith("_") and hasattr(value, "__path__"))
    return sorted({*__all__, "HubModel", "__version__", "__doc__", *modules})


def _of_others(name: str) -> Any:
    """Finds a module in the packages that add verbs to the command line: `elmo.tasks` is `elmo_lab.tasks`."""
    from importlib.metadata import entry_points
    from importlib.util import find_spec

    if find_spec(f"elmo.{name}") is not None:  # `from elmo import cli` asks here before it imports the module
        return None
    packages = sorted({point.module.partition(".")[0] for point in entry_points(group="elmo.verbs")})
    homes = (f"{package}.{name}" for package in packages)
    return next((import_module(home) for home in homes if find_spec(home) is not None), None)
