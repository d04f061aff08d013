"""Reader: a model and its tokenizer, shared by the integrations."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from elmo.embedding.embedder import Embedder
from elmo.embedding.texts import SplitText
from elmo.errors import InputError
from elmo.formats import Model
from elmo.formats.opened import open_model
from elmo.text.tokenizer import WHITESPACE, Tokenizer

Text = str | Sequence[str]
"""A text, which is split into sentences and tokens as the model's training text was, or the tokens of a sentence."""


class Reader:
    """A model in this process, and its tokenizer."""

    def __init__(self, model: str) -> None:
        source = open_model(model)
        self.model: Model = source.model
        self.sha256 = source.sha256
        self._text = self.model.text or WHITESPACE
        self._tokenizer: Tokenizer | None = None

    def embedder(self, precision: Any = "float32", device: Any = None, release: bool = False) -> Embedder:
        """Returns an embedder. With `release`, the reader's weights are freed while packing, to halve the memory."""
        bilm, words = self.model.bilm(), self.model.inputs
        if release:
            self.model = replace(self.model, weights={}, lm_head=None)
        return Embedder(
            bilm, text=self.model.text, vocabulary=words, precision=precision, device=device, release=release
        )

    def split(self, text: Text) -> SplitText:
        """Splits a text into sentences as `Embedder.embed` does; a list of tokens is one sentence."""
        if not isinstance(text, str):
            return SplitText.of_tokens(list(text))
        if self._tokenizer is None:  # the tokenizer imports spaCy, which lists of tokens do not need
            self._tokenizer = Tokenizer(self._text)
        return SplitText.of(str(text), self._tokenizer)  # spaCy refuses subclasses of str, such as NumPy's


def check_texts(texts: Iterable[Any]) -> list[Text]:
    """Returns the texts as a list. Raises InputError, which is a ValueError, if they are not texts."""
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
