"""The `ElmoModel` of simple_elmo, for programs written for it, with the behaviour that its README describes.

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
from elmo.integrations.originals import StatePolicy, chosen_state, missing_name_line, public_names
from elmo.pretraining.scoring import Scorer
from elmo.text.batching import check_outer, token_lists

CHOICES = ("average", "top", "all")


class ElmoModel:
    """A model, after `load`.

    With `state="carry"` every call begins at zero, reads the first batch once to warm up, and carries the state of
    every row from batch to batch, as the original did; with a `session` also from call to call.
    """

    def __init__(self, *, state: StatePolicy | None = None) -> None:
        self.state = chosen_state(state)
        self.batch_size: int | None = None
        self._directory: Path | None = None
        self._embedder: Embedder | None = None
        self._scorer: Scorer | None = None

    def load(self, directory: str | Path, max_batch_size: int = 32, limit: int = 100, full: bool = False) -> str:
        """Opens a model: a folder of options and weights, a ZIP of the NLPL repository, or what `elmo.load` opens.

        `max_batch_size` only has an effect with carried state. `limit` and `full` are accepted without effect: words
        are encoded once anyway, and a softmax is read when it is needed.
        """
        self._embedder = Embedder.load(
            directory, state=self.state, batch_size=max_batch_size, keep_state=self.state == "carry"
        )
        self._directory, self._scorer, self.batch_size = Path(directory), None, max_batch_size
        return "The model is now loaded."

    def get_elmo_vectors(
        self,
        texts: Sequence[Sequence[str]],
        warmup: bool = True,
        layers: str = "average",
        session: Any = None,
    ) -> np.ndarray:
        """Vectors of all tokens, float64: (sentences, T of the longest, D); for layers "all", (sentences, N, T, D).

        Zero after a sentence's last token. `layers` is "average", "top" or "all"; `warmup` and `session` only have an
        effect with carried state.
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
        layers: str = "average",
        session: Any = None,
    ) -> np.ndarray:
        """The mean of a sentence's vectors, scaled to length 1: (sentences, D); for layers "all", (sentences, N, D).

        For "all", the whole matrix has length 1. Zero for an empty sentence. The arguments are those of
        `get_elmo_vectors`, and so is the type.
        """
        sums = [array.sum(axis=-2, dtype=np.float64) for array in self._embed(texts, layers, warmup, session)]
        units = [total / (float(np.linalg.norm(total)) or 1.0) for total in sums]
        return np.stack(units) if units else np.zeros((0, *self._shape(layers)))

    def get_elmo_substitutes(
        self, data: Sequence[str | Sequence[str]], topn: int = 3, nodelimiters: bool = True
    ) -> list[list[dict[str, Any]]]:
        """Returns the `topn` words that the forward and the backward language model expect at each token of a sentence.

        Each is a dictionary of `word`, `forward` and `backward`; those hold `candidates` (ids in the vocabulary),
        `candidate_words` and `logp` (log-probabilities, rounded), best first. A sentence is a string of tokens between
        spaces, or a list. `nodelimiters` has no effect: boundaries are never listed. Raises InputError if the model has
        no softmax.
        """
        del nodelimiters
        if self._scorer is None:
            self._loaded  # noqa: B018  (says that no model is loaded)
            self._scorer = Scorer(formats.load(self._directory))
        lists = token_lists(text.split() if isinstance(text, str) else text for text in check_outer(data))
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
        """D."""
        return self._loaded.dim

    @property
    def n_layers(self) -> int:
        """N."""
        return self._loaded.n_layers

    @property
    def max_chars(self) -> int:
        """The characters that the model reads of a word, with both marks."""
        return self._loaded.bilm.config.ids_per_token

    def _embed(self, texts: Sequence[Sequence[str]], layers: str, warmup: bool, session: Any) -> Iterator[np.ndarray]:
        if layers not in CHOICES:
            raise InputError(f"layers is {layers!r}; one of {', '.join(CHOICES)} is expected")
        embedder, texts = self._loaded, token_lists(texts)  # a string would be read as a text, not by its characters
        if self.state == "carry":
            if session is None:
                embedder.reset_state()
            if warmup:
                embedder.embed(texts[: embedder.batch_size], layers)
        return embedder.embed_stream(texts, layers)

    def _shape(self, layers: str, *tokens: int) -> tuple[int, ...]:
        every = (self._loaded.n_layers,) if layers == "all" else ()
        return (*every, *tokens, self._loaded.dim)

    @property
    def _loaded(self) -> Embedder:
        if self._embedder is None:
            raise InputError("no model is loaded; call load(path) first")
        return self._embedder

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(missing_name_line("simple_elmo.ElmoModel", name, public_names(self)))


def divide_chunks(data: Sequence[Any], n: int) -> Iterator[Sequence[Any]]:
    """The data in parts of `n`; the last has the rest."""
    return (data[start : start + n] for start in range(0, len(data), n))
