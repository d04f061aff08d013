"""The biLM: a token encoder, and forward and backward LSTMs with skip connections (Peters et al. 2018, sec. 3.1).

- `forward` takes padded sentences and returns a `BiLMOutput` with every layer of both directions.
- `encode_words` and `read` are its two halves, for callers with distinct words or with windows of text (training).
- The LSTM state is an argument and a result. The sentences of a batch may have any order and length.
"""

import copy
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from elmo import ops
from elmo.errors import InputError, shown
from elmo.forking import settle_child
from elmo.model.char_cnn import CharCnn, PackedCharCnn
from elmo.model.config import BiLMConfig
from elmo.model.lstm import BiLstmLayer, PackedBiLstmLayer
from elmo.model.word_cnn import PackedWordCnn, WordCnn
from elmo.model.word_table import WordTable
from elmo.types import Batch, BiLMOutput, LstmState

T = TypeVar("T")
TokenEncoder = CharCnn | PackedCharCnn | WordTable | WordCnn | PackedWordCnn


class BiLM(nn.Module):
    """The bidirectional language model without its softmax."""

    def __init__(self, config: BiLMConfig) -> None:
        super().__init__()
        if not isinstance(config, BiLMConfig):
            raise InputError(f"the configuration is {shown(config)}; elmo.BiLMConfig(...) makes one")
        self.config = config
        self.token_encoder: TokenEncoder = _token_encoder(config)
        self.layers = nn.ModuleList(BiLstmLayer(config.lstm) for _ in range(config.lstm.n_layers))
        self.packed_for: tuple[ops.Precision, ops.Library | None] | None = None
        """The precision and library of a packed model's products; None if the model is not packed."""

    def packed(
        self, precision: ops.Precision = "float32", library: ops.Library | None = None, release: bool = False
    ) -> "BiLM":
        """Returns this model for inference: its weights are packed for the fastest products on this CPU.

        The packed model has no gradients. It keeps the present weights, also if this model is trained later, and
        computes all that is not a product in float32. `library` forces a library. With `release`, the original weights
        of each part are freed as soon as it is packed: this halves the memory, and makes this model unusable. A packed
        model returns itself.

        If this CPU multiplies bfloat16 only in software, float32 is faster: it is used, with a warning, unless
        `library` forces the slow products. Raises InputError if the precision or the library is not available, if
        the model is packed for others, or if a layer of its character CNN was replaced.
        """
        settle_child()
        precision = _available(precision, library)
        if self.packed_for is not None:
            if precision != self.packed_for[0] or library not in (None, self.packed_for[1]):
                raise InputError(
                    f"the model is packed for {self.packed_for[0]} already; load it again for other products"
                )
            return self
        with torch.device("meta"):
            packed = BiLM(self.config)
        packed.packed_for = precision, library
        packed.token_encoder = _packed_encoder(self.token_encoder, precision, library, release)
        if release and packed.token_encoder is not self.token_encoder:
            self.token_encoder.to("meta")
        for number, layer in enumerate(self.layers):
            packed.layers[number] = PackedBiLstmLayer(layer, precision, library)  # type: ignore[arg-type]
            if release:
                layer.to("meta")
        return packed

    def initial_state(self, rows: int) -> LstmState:
        """Returns the zero state for `rows` sentences or streams."""
        lstm, like = self.config.lstm, self.token_encoder.embedding
        return LstmState(
            like.new_zeros(lstm.n_layers, 2, rows, lstm.projection_dim),
            like.new_zeros(lstm.n_layers, 2, rows, lstm.dim),
        )

    def forward(self, batch: Batch, state: LstmState | None = None) -> BiLMOutput:
        """Returns all layers of `batch`; each row starts from its row of `state`, or from zero if there is none.

        Raises InputError if the batch has another number of ids per token than the model reads.
        """
        return uncompiled(self._forward, batch, state)

    def _forward(self, batch: Any, state: LstmState | None) -> BiLMOutput:
        if not isinstance(batch, Batch):
            raise InputError(f"the batch is {shown(batch)}; the model's to_batch or elmo.to_batch makes one")
        rows, steps, characters = batch.char_ids.shape
        if characters != (expected := self.config.ids_per_token):
            options = expected if self.config.char_cnn is not None else "vocabulary=model.inputs"
            raise InputError(
                f"the batch has {characters} ids per token, but the model reads {expected}:"
                f" to_batch(sentences, {options})"
            )
        words, index = ops.distinct_rows(batch.char_ids.reshape(-1, characters))
        tokens = self.encode_words(words)[index.view(rows, steps)]  # B T P
        return self.contextualize(tokens, batch.lengths, state)

    def contextualize(
        self, tokens: Float[Tensor, "B T P"], lengths: Int[Tensor, " B"], state: LstmState | None = None
    ) -> BiLMOutput:
        """Returns all layers above given token vectors; values after a row's length do not matter."""
        rows, steps, _ = tokens.shape
        state = self.initial_state(rows) if state is None else state
        order = lengths.argsort(descending=True, stable=True)
        mask = tokens_mask(lengths, steps)
        tokens = tokens.masked_fill(~mask[:, :, None], 0)  # a NaN would survive a product with 0, also in gradients
        lengths = lengths[order]
        active = (lengths[:, None] > torch.arange(steps, device=lengths.device)).sum(0)
        if not torch.compiler.is_exporting():
            active = active.tolist()
        backwards = reading_backwards(lengths, steps)  # B T
        tokens = tokens[order]
        inputs = torch.stack([tokens, reorder(tokens, backwards)]).transpose(1, 2)  # 2 T B P
        found, state = self.read(inputs, LstmState(*(part[:, :, order] for part in state)), active)

        back = order.argsort()
        outputs = torch.stack(found).transpose(2, 3)  # L 2 B T P
        outputs = torch.cat([outputs[:, 0], torch.stack([reorder(layer, backwards) for layer in outputs[:, 1]])], -1)
        bottom = torch.cat([tokens, tokens], -1)[None, back]
        layers = torch.cat([bottom, outputs[:, back]])
        return BiLMOutput(layers, mask, LstmState(*(part[:, :, back] for part in state)))

    def encode_words(self, char_ids: Int[Tensor, "W C"]) -> Float[Tensor, "W P"]:
        """Returns the context-free vector of every word."""
        return self.token_encoder(char_ids)

    def read(
        self,
        inputs: Float[Tensor, "2 T B P"],
        state: LstmState,
        active: list[int] | Int[Tensor, " T"] | None = None,
        keep: Bool[Tensor, "2 T B"] | None = None,
        dropout: float = 0.0,
        same: Int[Tensor, "2 T B"] | None = None,
    ) -> tuple[list[Float[Tensor, "2 T B P"]], LstmState]:
        """Runs the LSTMs over token vectors, each direction in its own reading order.

        Returns the output of every layer. `dropout` is applied to the input of every layer; the skip connection passes
        that same input.
        `active` and `keep` are those of `BiLstmLayer.forward`. Equal numbers in `same` mark inputs of the same word: a
        packed model computes their product once.
        """
        outputs, hiddens, cells = [], [], []
        for depth, layer in enumerate(self.layers):
            if dropout:
                inputs = nn.functional.dropout(inputs, dropout)
            alike = same if depth == 0 else None
            output, hidden, cell = layer(inputs, state.hidden[depth], state.cell[depth], active, keep, alike)
            if depth > 0 and self.config.lstm.use_skip_connections:
                output = output + inputs
            inputs = output
            outputs.append(output)
            hiddens.append(hidden)
            cells.append(cell)
        return outputs, LstmState(torch.stack(hiddens), torch.stack(cells))


def _available(precision: ops.Precision, library: ops.Library | None) -> ops.Precision:
    """The precision to pack for: the requested one, or float32 if that is faster."""
    found = ops.find_support(precision)
    if library is not None and library not in found.libraries:
        others = f"; {' and '.join(found.libraries)} can be used" if found.libraries else ""
        raise InputError(f"library {library} has no {precision} products on this CPU{others}")
    if not found.libraries:
        raise InputError(f"precision {precision} is not available: {found.problem}; use float32")
    if found.problem and library is None:
        warnings.warn(f"precision {precision}: {found.problem}; using float32", stacklevel=4)
        return "float32"
    return precision


def _token_encoder(config: BiLMConfig) -> TokenEncoder:
    size = config.lstm.projection_dim
    if config.word_cnn is not None:
        return WordCnn(config.word_cnn, size)
    if config.char_cnn is not None:
        return CharCnn(config.char_cnn, size)
    assert config.n_tokens_vocab is not None
    return WordTable(config.n_tokens_vocab, size)


def _packed_encoder(
    encoder: TokenEncoder, precision: ops.Precision, library: ops.Library | None, release: bool
) -> TokenEncoder:
    if isinstance(encoder, CharCnn):
        return PackedCharCnn(encoder, precision, library)
    if isinstance(encoder, WordCnn):
        return PackedWordCnn(encoder, precision, library, release)
    return (encoder if release else copy.deepcopy(encoder)).float()  # a table of words has no products


def uncompiled(function: Callable[..., T], *arguments: Any) -> T:
    """Calls a function of a biLM, which torch.compile leaves as it is.

    It would gain nothing: products and gradients are already written by hand.
    """
    if torch.compiler.is_dynamo_compiling() and not torch.compiler.is_exporting():
        function = torch.compiler.disable(function)  # type: ignore[call-arg]
    return function(*arguments)


def tokens_mask(lengths: Int[Tensor, " B"], width: int) -> Bool[Tensor, "B T"]:
    """Returns a mask that is True at the tokens of sentences of these lengths, padded to `width`."""
    return torch.arange(width, device=lengths.device) < lengths[:, None]


def reading_backwards(lengths: Int[Tensor, " B"], width: int) -> Int[Tensor, "B T"]:
    """Returns the order, for `reorder`, of tokens from last to first, with padding in place; it is its own inverse."""
    positions = torch.arange(width, device=lengths.device).expand(lengths.shape[0], width)
    return torch.where(positions < lengths[:, None], lengths[:, None] - 1 - positions, positions)


def reorder(vectors: Float[Tensor, "B T I"], order: Int[Tensor, "B T"]) -> Float[Tensor, "B T I"]:
    """Returns the vectors `vectors[b, order[b, t]]` at b, t."""
    return vectors.gather(1, order[:, :, None].expand_as(vectors))
