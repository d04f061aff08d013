"""ELMo in scikit-learn: `make_pipeline(ElmoVectorizer(), LogisticRegression())`. It needs the extra `sklearn`."""

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from elmo.embedding.embedder import Embedder
from elmo.embedding.layers import Layers, check_one_vector, layer_selector, listed, vector_size
from elmo.embedding.pooling import Pool, pool_tokens, vector_shaper
from elmo.embedding.texts import SplitText, texts_and_tokens
from elmo.errors import InputError, pip_line
from elmo.integrations.reader import Reader

try:
    from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
    from sklearn.utils.validation import check_is_fitted, check_memory
except ImportError as error:  # pragma: no cover
    raise InputError(f"ElmoVectorizer needs scikit-learn ({error}): {pip_line('sklearn')}") from error


class ElmoVectorizer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Gives one vector per text: the mean, maximum or sum of the vectors of its tokens.

    - `model`: a model's name or folder, as in `elmo.load`.
    - `layers`: as in `Embedder.embed`, except "all", since a row has no layers; "concat" joins them.
    - `pool`: "mean", "max" or "sum" over tokens.
    - `precision`: "float32", "bfloat16", "int8" or "int8-weights".
    - `device`: "cpu" or "cuda"; None for the GPU if there is one.
    - `memory`: a folder or a `joblib.Memory` that caches results. It stores every layer of a list of texts, so a search
      over `layers` reads each fold once; only "max" over mixed layers is stored per choice of layers.

    A copy in another process, as in grid searches with `n_jobs`, loads the model there.
    """

    def __init__(
        self,
        model: str | Path = "default",
        *,
        layers: Any = "average",
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
        """Loads the model and checks the parameters; learns nothing from X.

        Raises ValueError if the model lacks the layers, and for a string instead of a list of texts.
        """
        texts_and_tokens(X)
        _, embedder = self._loaded()
        self._check(embedder)
        return self

    def fit_transform(self, X: Iterable[Any], y: Any = None, **fit_params: Any) -> Any:
        """Calls `fit`, then `transform`; X may be a generator."""
        return super().fit_transform(X if hasattr(X, "__len__") else list(X), y, **fit_params)

    def transform(self, X: Iterable[Any]) -> Float[np.ndarray, "B _"]:
        """Returns one row of float32 numbers per text; a text without tokens has zeros."""
        check_is_fitted(self)
        reader, embedder = self._loaded()
        self._check(embedder)  # set_params may have changed the parameters
        texts = [reader.split(text) for text in texts_and_tokens(X)]
        chosen = listed(self.layers)
        mixed = chosen not in ("top", "concat") and not isinstance(chosen, int)
        layers: Layers = chosen if self.pool == "max" and mixed else "all"
        memory = str(self.memory) if isinstance(self.memory, Path) else self.memory
        compute: Any = check_memory(memory).cache(_pooled, ignore=["embedder"])
        kept = compute(embedder, texts, layers, self.pool, (reader.sha256, self.precision))
        return kept if kept.ndim == 2 else _mixed(kept, chosen)

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
        return {name: value for name, value in state.items() if name != "_held"}  # the embedder cannot be pickled

    @property
    def _n_features_out(self) -> int:
        return self.n_features_out_

    def _check(self, embedder: Embedder) -> None:
        """Checks the parameters, since scikit-learn wants no checks in __init__, and sets the size of a row."""
        layers = listed(self.layers)
        layer_selector(layers, embedder.n_layers)
        pool: Any = self.pool
        if pool is None:
            raise InputError("pool is None; one vector per text is expected: 'mean', 'max' or 'sum'")
        vector_shaper(layers, pool)
        check_one_vector(layers, "text")
        self.n_features_out_ = vector_size(layers, embedder.n_layers, embedder.dim)

    def _loaded(self) -> tuple[Reader, Embedder]:
        asked = str(self.model), self.precision, self.device
        held: tuple[Any, tuple[Reader, Embedder]] | None = getattr(self, "_held", None)
        if held is None or held[0] != asked:
            reader = Reader(self.model)
            embedder = reader.embedder(self.precision, self.device, release=True)
            held = asked, (reader, embedder)
            self._held = held
        return held[1]


def _pooled(
    embedder: Embedder, texts: list[SplitText], layers: Layers, pool: Pool, model: tuple[str, str]
) -> np.ndarray:
    """Returns (B, N, D) for all layers, else (B, D). `model` only serves as a key of the cache."""
    del model
    arrays = list(map(partial(pool_tokens, pool=pool), embedder.embed_stream(texts, layers)))
    shape = (embedder.n_layers, embedder.dim) if layers == "all" else (embedder.dim,)
    return np.stack(arrays) if arrays else np.zeros((0, *shape), np.float32)


def _mixed(vectors: Float[np.ndarray, "B N D"], layers: Layers) -> Float[np.ndarray, "B _"]:
    """Selects `layers` after pooling: mixing and the mean (sum) over tokens commute."""
    if layers == "concat":
        return vectors.reshape(len(vectors), vectors.shape[1] * vectors.shape[2])
    every = torch.from_numpy(vectors.swapaxes(0, 1)[:, :, None])
    return np.ascontiguousarray(layer_selector(layers, len(every))(every)[:, 0].numpy())
