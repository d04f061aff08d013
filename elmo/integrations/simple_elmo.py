"""The `ElmoModel` of simple_elmo, for programs written for it. It behaves as the README of simple_elmo describes.

Two errors of the original are corrected: the average of all layers uses each layer's own vectors, and padding is never
counted. Every sentence starts from zero; the original warmed up and carried the LSTM state, as `state="carry"` does.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from elmo import formats
from elmo.embedding.embedder import Embedder
from elmo.errors import InputError
from elmo.integrations.originals import StandIn, StatePolicy, chosen_state
from elmo.pretraining.scoring import Scorer
from elmo.text.given import SENTENCES, check_outer, token_lists

CHOICES = ("average", "top", "all")


class ElmoModel(StandIn):
    """Embeds texts with the model that `load` opens.

    With `state="carry"` every call begins at zero, reads the first batch once to warm up, and carries the state of
    every row from batch to batch, as the original did; with a `session`, calls do not begin at zero.
    """

    def __init__(self, *, state: StatePolicy | None = None) -> None:
        self.state = chosen_state(state)
        self.batch_size: int | None = None
        self._directory: str | Path | None = None
        self._layers = "average"
        self._embedder: Embedder | None = None
        self._scorer: Scorer | None = None

    def load(
        self,
        directory: str | Path,
        max_batch_size: int = 32,
        limit: int = 100,
        full: bool = False,
        *,
        top: bool = False,
    ) -> str:
        """Opens a model: a folder of options and weights, a ZIP of the NLPL repository, or what `elmo.load` opens.

        `max_batch_size` only has an effect with carried state. `limit` and `full` have no effect: every word is encoded
        once anyway, and a softmax is read when it is needed. With `top`, which the first versions had, vectors are
        those of the top layer where a call names no `layers`.
        """
        self._layers = "top" if top else "average"
        self._embedder = Embedder.load(
            directory, state=self.state, batch_size=max_batch_size, keep_state=self.state == "carry"
        )
        self._directory, self._scorer, self.batch_size = directory, None, max_batch_size
        return "The model is now loaded."

    def get_elmo_vectors(
        self,
        texts: Sequence[Sequence[str]],
        warmup: bool = True,
        layers: str | None = None,
        session: Any = None,
    ) -> np.ndarray:
        """Returns the vectors of all tokens, float64: (sentences, T, D) or, for layers "all", (sentences, N, T, D).

        T is that of the longest sentence; shorter ones are padded with zeros. `layers` is "average" (the default),
        "top" or "all". `warmup` and `session` only have an effect with carried state.
        """
        arrays = list(self._embed(texts, layers, warmup, session))
        longest = max((array.shape[-2] for array in arrays), default=0)
        vectors = np.zeros((len(arrays), *self._shape(layers, longest)))
        for row, array in zip(vectors, arrays, strict=True):
            row[..., : array.shape[-2], :] = array
        return vectors

    def get_elmo_vector_average(
        self,
        texts: Sequence[Sequence[str]],
        warmup: bool = True,
        layers: str | None = None,
        session: Any = None,
    ) -> np.ndarray:
        """Returns each sentence's mean vector, scaled to length 1: (sentences, D) or, for "all", (sentences, N, D).

        For "all", each sentence's matrix as a whole has length 1. An empty sentence gives zeros. The arguments and the
        type of the result are those of `get_elmo_vectors`.
        """
        sums = [array.sum(axis=-2, dtype=np.float64) for array in self._embed(texts, layers, warmup, session)]
        units = [total / (float(np.linalg.norm(total)) or 1.0) for total in sums]
        return np.stack(units) if units else np.zeros((0, *self._shape(layers)))

    def get_elmo_substitutes(
        self, data: Sequence[str | Sequence[str]], topn: int = 3, nodelimiters: bool = True
    ) -> list[list[dict[str, Any]]]:
        """Returns the `topn` words that the forward and the backward language model expect at each token.

        A token has a dictionary of `word`, `forward` and `backward`; the latter two hold `candidates` (ids in the
        vocabulary), `candidate_words` and `logp` (rounded log-probabilities), best first. A sentence is a string of
        tokens between spaces, or a list. `nodelimiters` has no effect: boundaries are never listed. Raises InputError
        if the model has no softmax.
        """
        del nodelimiters
        if self._scorer is None:
            self._loaded  # noqa: B018  (raises an error if no model is loaded)
            self._scorer = Scorer(formats.load(self._directory))
        lists = token_lists(text.split() if isinstance(text, str) else text for text in check_outer(data, SENTENCES))
        return [self._substitutes(self._scorer, sentence, topn) for sentence in lists]

    def _substitutes(self, scorer: Scorer, sentence: list[str], topn: int) -> list[dict[str, Any]]:
        found = [{"word": word} for word in sentence]
        for side in ("forward", "backward"):
            ranked = scorer.substitutes_at(sentence, range(len(sentence)), topn, side) if sentence else []
            for row, best in zip(found, ranked, strict=True):
                words = [each.word for each in best]
                row[side] = {  # type: ignore[assignment]
                    "candidates": scorer.vocabulary.ids(words),
                    "candidate_words": words,
                    "logp": [round(each.log_probability, 4) for each in best],
                }
        return found  # type: ignore[return-value]

    @property
    def vector_size(self) -> int:
        """The size of a vector (D)."""
        return self._loaded.dim

    @property
    def n_layers(self) -> int:
        """The number of layers (N), including the token layer."""
        return self._loaded.n_layers

    @property
    def max_chars(self) -> int:
        """The number of characters that the model reads of a word, including the two marks."""
        return self._loaded.bilm.config.ids_per_token

    def _embed(
        self, texts: Sequence[Sequence[str]], layers: str | None, warmup: bool, session: Any
    ) -> Iterator[np.ndarray]:
        layers = layers or self._layers
        if layers not in CHOICES:
            raise InputError(f"layers is {layers!r}; one of {', '.join(CHOICES)} is expected")
        embedder, texts = self._loaded, token_lists(texts)  # a string would be split into characters
        if self.state == "carry":
            if session is None:
                embedder.reset_state()
            if warmup:
                embedder.embed(texts[: embedder.batch_size], layers)
        return embedder.embed_stream(texts, layers)

    def _shape(self, layers: str | None, *tokens: int) -> tuple[int, ...]:
        every = (self._loaded.n_layers,) if layers == "all" else ()
        return (*every, *tokens, self._loaded.dim)

    @property
    def _loaded(self) -> Embedder:
        if self._embedder is None:
            raise InputError("no model is loaded; call load(path) first")
        return self._embedder


def divide_chunks(data: Sequence[Any], n: int) -> Iterator[Sequence[Any]]:
    """Yields the data in parts of `n`; the last part may be shorter."""
    return (data[start : start + n] for start in range(0, len(data), n))
