"""ELMo in sentence-transformers: `SentenceTransformer(modules=[Elmo(), Pooling(...)])`. Needs the extra `sentence`."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from elmo.embedding.embedder import Embedder
from elmo.embedding.layers import Layers, selection
from elmo.errors import InputError
from elmo.formats import native
from elmo.integrations.reader import Reader, checked
from elmo.model.bilm import BiLM
from elmo.model.scalar_mix import ScalarMix
from elmo.text.batching import to_batch
from elmo.types import Batch

try:
    from sentence_transformers.base.modules import InputModule
except ImportError as error:  # pragma: no cover
    raise InputError(f"Elmo needs sentence-transformers ({error}): pip install 'elmo-torch[sentence]'") from error


class Elmo(InputModule):
    """The vectors of all tokens, for a module of pooling.

    Parameters:
        model: the name or the folder of a model, as in `elmo.load`.
        layers: "mix" is a mix of all layers that training learns (Peters et al. 2018, eq. 1); it begins with their
            average. Other choices are fixed, as in `Embedder.embed`, except "all".
        frozen: False trains the biLM, too; then its products are in float32.
        precision: "float32", "bfloat16" or "int8".

    A text is a string, which the model's own tokenizer splits, or a list of tokens. Prompts are ignored: the model has
    read none.
    """

    config_keys: list[str] = ["layers", "frozen", "precision"]  # noqa: RUF012  (as its base class has it)
    config_file_name: str = "elmo.json"
    save_in_root: bool = False
    _here: Tensor
    """Empty; it is on the device that this module was moved to."""

    def __init__(
        self, model: str | Path = "default", *, layers: Any = "mix", frozen: bool = True, precision: str = "float32"
    ) -> None:
        super().__init__()
        self._reader = Reader(str(model))
        self.tokenizer: Any = self._reader  # the trainer asks for one
        lstm = self._reader.model.config.lstm
        n_layers = lstm.n_layers + 1
        if layers != "mix":
            selection(layers, n_layers)
        if layers == "all":
            raise InputError("layers is 'all'; one vector a token is expected: try 'mix' or 'concat'")
        if not frozen and precision != "float32":
            raise InputError(f"precision is {precision!r}; a biLM that is trained needs float32")
        self.layers: Layers = layers
        self.frozen = frozen
        self.precision = precision
        self.dim = 2 * lstm.projection_dim * (n_layers if layers == "concat" else 1)
        self.mix = ScalarMix(n_layers) if layers == "mix" else None
        self.bilm: BiLM | None = None if frozen else self._reader.model.bilm()
        self.register_buffer("_here", torch.empty(0), persistent=False)
        self._embedder: Embedder | None = None

    def get_embedding_dimension(self) -> int:
        """Size of a token's vector (D), for the module of pooling."""
        return self.dim

    def preprocess(self, inputs: Sequence[Any], prompt: str | None = None, **_: Any) -> dict[str, Any]:
        """The tokens of texts. The mask is 1 at each; of a text without tokens it is 0 everywhere."""
        sentences = [self._reader.tokens(text) for text in checked(inputs)]
        lengths = torch.tensor([len(sentence) for sentence in sentences])
        mask = (torch.arange(int(lengths.max())) < lengths[:, None]).long()
        return {"tokens": sentences, "input_ids": mask, "attention_mask": mask}

    def forward(self, features: dict[str, Any], **_: Any) -> dict[str, Any]:
        """Adds `token_embeddings` (B, T, D), zero where the attention mask is."""
        if self.bilm is None:
            features["token_embeddings"] = self._fixed(features["tokens"])
        else:
            features["token_embeddings"] = self._trained(self.bilm, features["tokens"])
        return features

    def save(self, output_path: str, *_: Any, **__: Any) -> None:
        """A native model with the settings beside it: `elmo.load` opens the folder, too."""
        model = self._reader.model
        if self.bilm is not None:
            model = replace(model, weights={name: value.detach() for name, value in self.bilm.state_dict().items()})
        native.save(model, Path(output_path), overwrite=True)
        self.save_config(output_path)

    def get_config_dict(self) -> dict[str, Any]:
        settings = super().get_config_dict()
        if self.mix is not None:
            settings["mix"] = {"scalars": self.mix.scalars.tolist(), "gamma": self.mix.gamma.item()}
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
        """What `save` wrote, in a folder or on the Hub."""
        hub: dict[str, Any] = {"subfolder": subfolder, "token": token, "cache_folder": cache_folder}
        hub |= {"revision": revision, "local_files_only": local_files_only}
        settings = cls.load_config(model_name_or_path, **hub)
        folder = cls.load_dir_path(model_name_or_path, **hub)
        if folder is None:
            raise FileNotFoundError(f"{model_name_or_path}: no folder {subfolder} in it")
        mix = settings.pop("mix", None)
        made = cls(folder, **settings)
        if mix is not None and made.mix is not None:
            made.mix.load_state_dict({name: torch.tensor(value) for name, value in mix.items()})
        return made

    def _fixed(self, sentences: list[list[str]]) -> Tensor:
        """The biLM as it is, through an `Embedder`: words that it knows are not computed again."""
        device = self._here.device
        if self._embedder is None or self._embedder.device != device:
            self._embedder = self._reader.embedder(self.precision, device)
        if self.mix is None:
            arrays = self._embedder.embed(sentences, self.layers)
            return _padded(arrays).to(device)
        if not torch.is_grad_enabled():
            weights = (self.mix.gamma * self.mix.weights()).tolist()
            return _padded(self._embedder.embed(sentences, weights)).to(device)
        every = _padded([array.swapaxes(0, 1) for array in self._embedder.embed(sentences)]).to(device)
        mask = torch.ones(every.shape[:2], dtype=torch.bool, device=device)
        return self.mix(every.permute(2, 0, 1, 3), mask)

    def _trained(self, bilm: BiLM, sentences: list[list[str]]) -> Tensor:
        """The biLM as a network, boundaries left out."""
        config = bilm.config.char_cnn
        batch: Batch = (
            to_batch(sentences, vocabulary=self._reader.model.inputs)
            if config is None
            else to_batch(sentences, config.max_characters_per_token)
        ).to(self._here.device)
        output = bilm(batch)
        inside = (torch.arange(output.mask.shape[1], device=output.mask.device) < batch.lengths[:, None] - 1)[:, 1:-1]
        every = output.layers[:, :, 1:-1] * inside[None, :, :, None]
        if self.mix is not None:
            return self.mix(every, inside)
        if self.layers == "concat":
            return torch.cat(list(every), dim=-1)
        return selection(self.layers, len(every))(every)


def _padded(arrays: list[np.ndarray]) -> Tensor:
    """Arrays of T_i rows as one tensor of B and the most rows, zero behind the end."""
    return nn.utils.rnn.pad_sequence([torch.from_numpy(np.ascontiguousarray(array)) for array in arrays], True)
