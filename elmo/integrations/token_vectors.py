"""The biLM as a module in another library's network: `TokenVectors` turns tokens into padded vectors."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from elmo.embedding.embedder import Embedder
from elmo.embedding.layers import Layers, check_one_vector, layer_selector, listed, vector_size
from elmo.embedding.texts import SplitText
from elmo.errors import InputError, check_choice, check_flag
from elmo.formats import Model
from elmo.integrations.reader import Reader
from elmo.model.bilm import BiLM
from elmo.model.scalar_mix import ScalarMix
from elmo.ops import Precision


class TokenVectors(nn.Module):
    """The vectors of all tokens of a batch.

    `layers` is "mix", a learned mix of all layers (Peters et al. 2018, eq. 1) that starts as their average, or a fixed
    choice as in `Embedder.embed`, except "all". A frozen biLM runs in an `Embedder` and is not in the state dict; a
    trained one has its parameters here.

    Raises InputError if the model lacks the layers.
    """

    _here: Tensor
    """An empty tensor, which moves with the module and so tells its device and the type of its numbers."""

    def __init__(self, reader: Reader, layers: Any = "mix", frozen: bool = True, precision: str = "float32") -> None:
        super().__init__()
        check_choice("precision", precision, get_args(Precision))
        check_flag("frozen", frozen)
        lstm = reader.model.config.lstm
        n_layers = lstm.n_layers + 1
        layers = listed(layers)
        if layers != "mix":
            layer_selector(layers, n_layers)
        check_one_vector(layers)
        if not frozen and precision != "float32":
            raise InputError(f"precision is {precision!r}; training a biLM needs float32")
        self.layers: Layers = layers
        self.precision = precision
        self.dim = vector_size(layers, n_layers, 2 * lstm.projection_dim)
        """The size of a vector (D)."""
        self.mix = ScalarMix(n_layers) if layers == "mix" else None
        self.bilm: BiLM | None = None if frozen else reader.model.bilm()
        self.register_buffer("_here", torch.empty(0), persistent=False)
        self._reader = reader
        self._embedder: Embedder | None = None

    @property
    def learns(self) -> bool:
        """Whether there is anything to train."""
        return self.mix is not None or self.bilm is not None

    def forward(self, texts: Sequence[SplitText]) -> Float[Tensor, "B T D"]:
        """Returns the vectors, padded with zeros to the longest text (T). Each sentence of a text is read alone."""
        return self._read(texts) if self.bilm is None else self._run(self.bilm, texts)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_embedder": None}  # the embedder cannot be pickled

    def model(self) -> Model:
        """Returns the model with the current weights, for saving."""
        if self.bilm is None:
            return self._reader.model
        weights = {name: weight.detach() for name, weight in self.bilm.state_dict().items()}
        return replace(self._reader.model, weights=weights)

    def _read(self, texts: Sequence[SplitText]) -> Tensor:
        """Reads with an `Embedder`, which caches words."""
        device = self._here.device
        if self._embedder is None or self._embedder.device != device:
            self._embedder = self._reader.embedder(self.precision, device)
        if self.mix is None or not torch.is_grad_enabled():
            layers = self.layers if self.mix is None else (self.mix.gamma * self.mix.weights()).tolist()
            return _padded(list(self._embedder.embed_stream(texts, layers))).to(self._here)
        every = _padded([array.swapaxes(0, 1) for array in self._embedder.embed_stream(texts)]).to(self._here)
        mask = torch.ones(every.shape[:2], dtype=torch.bool, device=device)
        return self.mix(every.permute(2, 0, 1, 3), mask)

    def _run(self, bilm: BiLM, texts: Sequence[SplitText]) -> Tensor:
        """Runs the trained biLM, and drops the boundaries."""
        parts = [text.sentences or ((0, 0),) for text in texts]
        sentences = [text.tokens[a:b] for text, own in zip(texts, parts, strict=True) for a, b in own]
        batch = self._reader.model.to_batch(sentences).to(self._here.device)
        output = bilm(batch)
        steps = torch.arange(1, output.mask.shape[1] - 1, device=output.mask.device)
        inside = steps < batch.lengths[:, None] - 1
        every = output.layers[:, :, 1:-1] * inside[None, :, :, None]
        if self.mix is not None:
            read = self.mix(every, inside)
        elif self.layers == "concat":
            read = torch.cat(list(every), dim=-1)
        else:
            read = layer_selector(self.layers, len(every))(every)
        rows = iter(read)
        whole = [torch.cat([next(rows)[: end - begin] for begin, end in own]) for own in parts]
        return nn.utils.rnn.pad_sequence(whole, True)


def _padded(arrays: list[np.ndarray]) -> Tensor:
    """Joins arrays of different numbers of rows into one tensor (B, T, ...), padded with zeros."""
    return nn.utils.rnn.pad_sequence([torch.from_numpy(np.ascontiguousarray(array)) for array in arrays], True)
