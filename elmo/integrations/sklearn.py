"""ELMo in scikit-learn: `make_pipeline(ElmoVectorizer(), LogisticRegression())`. Needs the extra `sklearn`."""

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from elmo.embedding.embedder import Embedder
from elmo.embedding.layers import Layers, selection
from elmo.embedding.pooling import Pool, pooled, shaping
from elmo.errors import InputError
from elmo.tasks.source import open_model
from elmo.text.tokenizer import TextConfig, Tokenizer

try:
    from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
    from sklearn.utils.validation import check_is_fitted, check_memory
except ImportError as error:  # pragma: no cover
    raise InputError(f"ElmoVectorizer needs scikit-learn ({error}): pip install 'elmo-torch[sklearn]'") from error

Text = str | Sequence[str]
"""A text, which the model's own tokenizer splits, or its tokens."""


class ElmoVectorizer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """One vector for every text: the mean (maximum, sum) of its tokens' vectors.

    Parameters:
        model: the name or the folder of a model, as in `elmo.load`.
        layers: as in `Embedder.embed`, except "all": a row of numbers has no layers; "concat" puts them side by side.
        pool: "mean", "max" or "sum" over tokens.
        precision: "float32", "bfloat16" or "int8".
        device: "cpu" or "cuda"; None for the GPU where there is one.
        memory: a folder or a `joblib.Memory` that keeps what was computed. It holds every layer, so that a search over
            `layers` reads each text once; only "max" over mixed layers is kept by its layers.

    A copy in another process, as grid searches with `n_jobs` make them, loads the model there.
    """

    def __init__(
        self,
        model: str | Path = "default",
        *,
        layers: Layers = "average",
        pool: str = "mean",
        precision: str = "float32",
        device: str | None = None,
        memory: Any = None,
    ) -> None:
        self.model = model
        self.layers = layers
        self.pool = pool
        self.precision = precision
        self.device = device
        self.memory = memory

    def fit(self, X: Iterable[Any], y: object = None) -> "ElmoVectorizer":
        """Loads the model and checks the parameters; nothing is learned of X.

        Raises ValueError where the model has no such layers, and for a string in the place of a list of texts.
        """
        _checked(X)
        embedder = self._loaded().embedder
        selection(self.layers, embedder.n_layers)
        pool: Any = self.pool  # scikit-learn's parameters are checked here, not when they are given
        shaping(self.layers, pool)
        if isinstance(self.layers, str) and self.layers == "all":
            raise InputError("layers is 'all'; one vector a text is expected: try 'concat', layers side by side")
        side_by_side = isinstance(self.layers, str) and self.layers == "concat"
        self.n_features_out_ = embedder.dim * (embedder.n_layers if side_by_side else 1)
        return self

    def transform(self, X: Iterable[Any]) -> Float[np.ndarray, "B _"]:
        """One row of float32 numbers for every text; zeros for one without tokens."""
        check_is_fitted(self)
        loaded = self._loaded()
        sentences = [loaded.tokens(text) for text in _checked(X)]
        mixed = self.layers not in ("top", "concat") and not isinstance(self.layers, int)
        layers: Layers = self.layers if self.pool == "max" and mixed else "all"
        compute: Any = check_memory(self.memory).cache(_pooled, ignore=["embedder"])
        kept = compute(loaded.embedder, sentences, layers, self.pool, (loaded.sha256, self.precision))
        return kept if kept.ndim == 2 else _mixed(kept, self.layers)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "n_features_out_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        tags.transformer_tags.preserves_dtype = []
        return tags

    def __getstate__(self) -> Any:
        state: Any = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_held"}  # it is packed for its process

    @property
    def _n_features_out(self) -> int:
        return self.n_features_out_

    def _loaded(self) -> "_Loaded":
        asked = str(self.model), self.precision, self.device
        held: tuple[Any, _Loaded] | None = getattr(self, "_held", None)
        if held is None or held[0] != asked:
            held = asked, _Loaded(*asked)
            self._held = held
        return held[1]


class _Loaded:
    """A model in this process, and what splits text for it."""

    def __init__(self, model: str, precision: Any, device: str | None) -> None:
        source = open_model(model)
        stored = source.model
        self.sha256 = source.sha256
        self.text = stored.text or TextConfig(tokens="whitespace", sentences="line")
        self.embedder = Embedder(
            stored.bilm(), vocabulary=stored.inputs, precision=precision, device=device, release=True
        )
        self._tokenizer: Tokenizer | None = None

    def tokens(self, text: Text) -> list[str]:
        if not isinstance(text, str):
            return list(text)
        if self._tokenizer is None:  # spaCy is imported for those who give text
            self._tokenizer = Tokenizer(self.text)
        return self._tokenizer.tokens(text)


def _checked(texts: Iterable[Any]) -> list[Text]:
    """The texts. Raises InputError, which is a ValueError, where they are none."""
    if isinstance(texts, str):
        raise InputError(f"{texts[:40]!r} is a string; a list of texts is expected: [text]")
    if getattr(texts, "ndim", 1) != 1:
        raise InputError("texts in one dimension are expected, such as a list or a column: frame['text']")
    found = list(texts)
    for row, text in enumerate(found):
        if not isinstance(text, str) and not (
            isinstance(text, list | tuple | np.ndarray) and all(isinstance(token, str) for token in text)
        ):
            raise InputError(f"text {row} is {str(text)[:40]!r}; a string or a list of tokens is expected")
    return found


def _pooled(
    embedder: Embedder, sentences: list[list[str]], layers: Layers, pool: Pool, model: tuple[str, str]
) -> np.ndarray:
    """(B, N, D) of all layers, else (B, D). `model` says whose vectors these are, where they are kept."""
    del model
    arrays = list(map(partial(pooled, pool=pool), embedder.embed_stream(sentences, layers)))
    shape = (embedder.n_layers, embedder.dim) if layers == "all" else (embedder.dim,)
    return np.stack(arrays) if arrays else np.zeros((0, *shape), np.float32)


def _mixed(vectors: Float[np.ndarray, "B N D"], layers: Layers) -> Float[np.ndarray, "B _"]:
    """What `layers` names: mixing and the mean (sum) over tokens can be done in any order."""
    if isinstance(layers, str):
        if layers == "concat":
            return vectors.reshape(len(vectors), -1)
        mixes = {"average": vectors.mean(axis=1), "sum": vectors.sum(axis=1), "top": vectors[:, -1]}
        return np.ascontiguousarray(mixes[layers])
    if isinstance(layers, int | np.integer):
        return np.ascontiguousarray(vectors[:, int(layers)])
    return np.einsum("bnd,n->bd", vectors, np.asarray(layers, np.float32))
