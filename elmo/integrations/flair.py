"""ELMo in Flair: `ElmoEmbeddings` is one of its `TokenEmbeddings`. This module needs the package flair."""

from pathlib import Path
from typing import Any, Self

from elmo.embedding.texts import SplitText
from elmo.errors import InputError, installer, shown
from elmo.formats import native
from elmo.integrations.reader import Reader
from elmo.integrations.token_vectors import TokenVectors
from elmo.text.given import check_outer

try:
    import flair
    from flair.data import Sentence
    from flair.embeddings.base import TokenEmbeddings, register_embeddings
except ImportError as error:  # pragma: no cover
    raise InputError(f"ElmoEmbeddings needs Flair ({error}): {installer()} flair") from error

SENTENCES = "Flair embeds its own sentences: Sentence(text), or a list of them, is expected"


@register_embeddings
class ElmoEmbeddings(TokenEmbeddings):
    """The vectors of all tokens of Flair's sentences: one `Sentence` is one sentence, so split a text into them first.

    - `model`: a model's name or folder, as in `elmo.load`.
    - `layers`: "mix" is a learned mix of all layers (Peters et al. 2018, eq. 1) that starts as their average. Other
      choices are fixed, as in `Embedder.embed`, except "all".
    - `frozen`: with False, the biLM is trained, too, in float32.
    - `precision`: "float32", "bfloat16", "int8" or "int8-weights".
    - `name`: the name of these vectors at a token, for stacked embeddings.

    Flair saves the biLM with a tagger, which then loads without the model's folder.
    """

    def __init__(
        self,
        model: str | Path = "default",
        *,
        layers: Any = "mix",
        frozen: bool = True,
        precision: str = "float32",
        name: str = "elmo",
    ) -> None:
        super().__init__()
        self.name = name
        self.vectors = TokenVectors(Reader(model), layers, frozen, precision)
        self.static_embeddings = not self.vectors.learns
        self.to(flair.device)
        self.eval()

    def embed(self, data_points: Any) -> Any:
        """Gives every token of a `Sentence`, or of a list of them, its vector. Raises InputError for anything else."""
        is_one = isinstance(data_points, Sentence)
        given = [data_points] if is_one else list(check_outer(data_points, SENTENCES))
        for sentence in given:
            if not isinstance(sentence, Sentence):
                raise InputError(f"{shown(sentence)} is given; {SENTENCES}")
        return super().embed(given)

    @property
    def embedding_length(self) -> int:
        return self.vectors.dim

    def _add_embeddings_internal(self, sentences: list[Sentence]) -> None:
        vectors = self.vectors([SplitText.of_tokens([token.text for token in sentence]) for sentence in sentences])
        for sentence, rows in zip(sentences, vectors, strict=True):
            for token, vector in zip(sentence, rows, strict=False):  # padding follows a sentence's end
                token.set_embedding(self.name, vector)

    def to_params(self) -> dict[str, Any]:
        """Returns the settings and the files of the model."""
        vectors = self.vectors
        settings = {"layers": vectors.layers, "frozen": vectors.bilm is None, "precision": vectors.precision}
        return settings | {"name": self.name, "files": native.to_files(vectors.model())}

    @classmethod
    def from_params(cls, params: dict[str, Any]) -> Self:
        with native.folder_of(params.pop("files")) as folder:
            return cls(folder, **params)
