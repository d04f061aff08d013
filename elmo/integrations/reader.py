"""Reader: a model and its tokenizer, shared by the integrations."""

from pathlib import Path
from typing import Any

from elmo.embedding.embedder import Embedder
from elmo.embedding.texts import SplitText, Text
from elmo.formats import Model
from elmo.formats.opened import open_model
from elmo.text.tokenizer import WHITESPACE, Tokenizer


class Reader:
    """A model in this process, and its tokenizer."""

    def __init__(self, model: str | Path | None) -> None:
        source = open_model(model)
        self.model: Model = source.model
        self.sha256 = source.sha256
        self._text = self.model.text or WHITESPACE
        self._tokenizer: Tokenizer | None = None

    def embedder(self, precision: Any = "float32", device: Any = None, release: bool = False) -> Embedder:
        """Returns an embedder. With `release`, the reader's weights are freed while packing, to halve the memory."""
        return Embedder.of(self.model, precision=precision, device=device, release=release)

    def split(self, text: Text) -> SplitText:
        """Splits a text into sentences as `Embedder.embed` does; a list of tokens is one sentence."""
        if not isinstance(text, str):
            return SplitText.of_tokens(list(text))
        if self._tokenizer is None:  # the tokenizer imports spaCy, which lists of tokens do not need
            self._tokenizer = Tokenizer(self._text)
        return SplitText.of(text, self._tokenizer)
