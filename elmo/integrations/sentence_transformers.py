"""ELMo in sentence-transformers: `SentenceTransformer(modules=[Elmo(), Pooling(...)])`.

This module needs the extra `sentence`.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch

from elmo.disk.files import atomic_path
from elmo.embedding.texts import texts_and_tokens
from elmo.errors import InputError, pip_line
from elmo.formats import native
from elmo.integrations.reader import Reader
from elmo.integrations.token_vectors import TokenVectors

try:
    from sentence_transformers.base.modules import InputModule
except ImportError as error:  # pragma: no cover
    raise InputError(f"Elmo needs sentence-transformers ({error}): {pip_line('sentence')}") from error


class Elmo(InputModule):
    """The vectors of all tokens, for a pooling module.

    - `model`: a model's name or folder, as in `elmo.load`.
    - `layers`: "mix" is a learned mix of all layers (Peters et al. 2018, eq. 1) that starts as their average. Other
      choices are fixed, as in `Embedder.embed`, except "all".
    - `frozen`: with False, the biLM is trained, too, in float32.
    - `precision`: "float32", "bfloat16", "int8" or "int8-weights".

    A text is a string, split into sentences and tokens as the model's training text was, or a list of tokens. Prompts
    are ignored, since the model was trained without them.
    """

    config_keys: list[str] = ["layers", "frozen", "precision"]  # noqa: RUF012  (as its base class has it)
    config_file_name: str = "elmo.json"
    save_in_root: bool = False

    def __init__(
        self, model: str | Path = "default", *, layers: Any = "mix", frozen: bool = True, precision: str = "float32"
    ) -> None:
        super().__init__()
        self.frozen = frozen
        self.precision = precision
        self._reader = Reader(model)
        self.tokenizer: Any = self._reader  # the library's trainer needs one
        self.vectors = TokenVectors(self._reader, layers, frozen, precision)
        self.layers = self.vectors.layers

    def get_embedding_dimension(self) -> int:
        """Returns the size of a token's vector (D), for the pooling module."""
        return self.vectors.dim

    def preprocess(self, inputs: Sequence[Any], prompt: str | None = None, **_: Any) -> dict[str, Any]:
        """Returns the tokens and a mask that is 1 at each; an empty text has one token with a zero vector.

        Raises InputError for what the library takes for one text, and which is none: a column or a generator of texts.
        """
        texts = [self._reader.split(text) for text in texts_and_tokens(inputs)]
        for given in inputs:
            if not isinstance(given, str | list | tuple | np.ndarray):
                raise InputError(f"a {type(given).__name__} is given; a list of texts is expected: list(texts)")
        if not texts:
            raise InputError("no texts are given; a batch has at least one")
        lengths = torch.tensor([max(1, len(text.tokens)) for text in texts])  # a maximum needs at least one
        mask = (torch.arange(int(lengths.max())) < lengths[:, None]).long()
        return {"texts": texts, "input_ids": mask, "attention_mask": mask}

    def forward(self, features: dict[str, Any], **_: Any) -> dict[str, Any]:
        """Adds `token_embeddings` (B, T, D), zero where the attention mask is zero."""
        vectors = self.vectors(features["texts"])
        missing = features["attention_mask"].shape[1] - vectors.shape[1]  # this is 1 if no text has tokens
        features["token_embeddings"] = torch.nn.functional.pad(vectors, (0, 0, 0, missing))
        return features

    def save(self, output_path: str, *_: Any, **__: Any) -> None:
        """Writes the settings and a model in the native format to a folder, which `elmo.load` also opens."""
        with atomic_path(Path(output_path), overwrite=True, holds=(*native.FILES, self.config_file_name)) as folder:
            native.save(self.vectors.model(), folder)
            self.save_config(str(folder))

    def get_config_dict(self) -> dict[str, Any]:
        settings, mix = super().get_config_dict(), self.vectors.mix
        if mix is not None:
            settings["mix"] = {"scalars": mix.scalars.tolist(), "gamma": mix.gamma.item()}
        return settings

    @classmethod
    def load(
        cls,
        model_name_or_path: str,
        subfolder: str = "",
        token: bool | str | None = None,
        cache_folder: str | None = None,
        revision: str | None = None,
        local_files_only: bool = False,
        **_: Any,
    ) -> Self:
        """Loads what `save` wrote, from a folder or the Hub."""
        hub: dict[str, Any] = {"subfolder": subfolder, "token": token, "cache_folder": cache_folder}
        hub |= {"revision": revision, "local_files_only": local_files_only}
        settings = cls.load_config(model_name_or_path, **hub)
        folder = cls.load_dir_path(model_name_or_path, **hub)
        if folder is None:
            raise FileNotFoundError(f"{model_name_or_path}: no folder {subfolder} in it")
        mix = settings.pop("mix", None)
        made = cls(folder, **settings)
        if mix is not None and made.vectors.mix is not None:
            made.vectors.mix.load_state_dict({name: torch.tensor(value) for name, value in mix.items()})
        return made
