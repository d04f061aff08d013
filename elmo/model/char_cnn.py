"""The character CNN, which gives a word's context-free vector (Kim et al. 2016; Peters et al. 2018, sec. 3.4).

- A character embedding, whose row 0 pads words to the longest one of a batch (published models pad by 260 inside).
- Filters of several widths, each max-pooled over all positions, then the activation.
- Highway layers.
- A projection to P.
"""

from typing import TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from elmo import ops
from elmo.errors import InputError
from elmo.model.affine import Affine
from elmo.model.config import CharCnnConfig
from elmo.model.highway import Highway, draw_weights

Number = TypeVar("Number", int, Tensor)
FEW_WORDS = 256
"""Up to this many words are encoded without grouping by length."""
WORDS = 128
"""The most words that a packed encoder takes at once, so that intermediate values stay in the cache."""


class Convolution(nn.Conv1d):
    """The filters of one width. It gives only the largest of their values over all positions."""

    def forward(self, input: Float[Tensor, "w C E"]) -> Float[Tensor, "w n"]:
        """Returns the result of `ops.convolve_max`."""
        assert self.bias is not None
        return ops.convolve_max(input, self.weight, self.bias)


class CharCnn(nn.Module):
    """Encodes the characters of distinct words as vectors of size `projection_dim`."""

    def __init__(self, config: CharCnnConfig, projection_dim: int) -> None:
        super().__init__()
        self.config = config
        size = config.embedding_dim
        self.embedding = nn.Parameter(torch.empty(config.n_characters, size).uniform_(-1.0, 1.0))
        self.convolutions = nn.ModuleList(Convolution(size, count, width) for width, count in config.filters)
        self.highways = nn.ModuleList(Highway(config.n_filters) for _ in range(config.n_highway))
        self.projection = Affine(config.n_filters, projection_dim) if config.n_filters != projection_dim else None
        with torch.no_grad():
            self.embedding[0] = 0.0
        for convolution in self.convolutions:
            nn.init.zeros_(convolution.bias)  # type: ignore[arg-type]
        if self.projection is not None:
            draw_weights(self.projection.weight)
            nn.init.zeros_(self.projection.bias)

    def forward(self, char_ids: Int[Tensor, "W C"]) -> Float[Tensor, "W P"]:
        """Returns the context-free vectors of the words."""
        groups, places = _by_length(char_ids, self.config.widest)
        return self.encode_groups(groups)[places]

    def encode_groups(self, groups: list[Tensor]) -> Float[Tensor, "W P"]:
        """Returns the vectors of words in groups `(w, c)`, each without the padding that its words have in common.

        At least `CharCnnConfig.widest` characters of padding must stay, or all of it if there are fewer.
        """
        activation = torch.relu if self.config.activation == "relu" else torch.tanh
        vectors = activation(torch.cat([self._pooled(words) for words in groups]))  # w F
        for highway in self.highways:
            vectors = highway(vectors)
        if self.projection is not None:
            vectors = self.projection(vectors)
        # Under autocast the projection gives bfloat16, but the values are summed over many steps, so they are float32.
        return vectors.to(self.embedding.dtype)

    def _pooled(self, char_ids: Int[Tensor, "w c"]) -> Float[Tensor, "w F"]:
        """The filters' largest values over all positions."""
        characters = ops.take_rows(self.embedding, char_ids, padding=0)  # w c E
        return torch.cat([convolution(characters) for convolution in self.convolutions], dim=-1)


class PackedCharCnn(ops.PackedModule):
    """A `CharCnn` for inference: its weights are packed for the fastest product, without gradients.

    `WORDS` bounds the memory. `ops.pack_words` says in which precision the products are.
    """

    def __init__(self, encoder: CharCnn, precision: ops.Precision, library: ops.Library | None) -> None:
        super().__init__()
        self.config = encoder.config
        self.embedding = encoder.embedding.detach().to(torch.float32, copy=True)

        def packed(layer: nn.Module) -> tuple[ops.Product, Tensor]:
            weight, bias = _weights(layer)
            return ops.pack_words(weight, precision, library), bias

        filters = [_weights(convolution) for convolution in encoder.convolutions]
        self.bias = torch.cat([bias for _, bias in filters])
        self.windows = ops.pack_windows(self.embedding, [weight for weight, _ in filters], precision, library)
        self.highways = [(packed(h.transform), packed(h.carry)) for h in encoder.highways]  # type: ignore[union-attr, arg-type]
        self.projection = None if encoder.projection is None else packed(encoder.projection)

    def forward(self, char_ids: Int[Tensor, "W C"]) -> Float[Tensor, "W P"]:
        """Returns what `CharCnn.forward` returns."""
        char_ids = without_tail(char_ids, self.config.widest)
        return torch.cat([self._encode(words) for words in char_ids.split(WORDS)])

    def _encode(self, char_ids: Int[Tensor, "W C"]) -> Float[Tensor, "W P"]:
        vectors = self.windows(char_ids).add_(self.bias)
        vectors = vectors.relu_() if self.config.activation == "relu" else vectors.tanh_()
        for transform, carry in self.highways:
            gate = ops.sigmoid_(_linear(vectors, carry))
            vectors = vectors + gate.mul_(_linear(vectors, transform).relu_().sub_(vectors))
        return vectors if self.projection is None else _linear(vectors, self.projection)


def _weights(layer: nn.Module) -> tuple[Tensor, Tensor]:
    if not isinstance(layer, nn.Linear | nn.Conv1d):
        name = type(layer).__name__
        raise InputError(f"a layer of the character CNN is now a {name}; merge adapters before embedding")
    assert layer.bias is not None
    return layer.weight.detach(), layer.bias.detach().to(torch.float32, copy=True)


def _linear(x: Float[Tensor, "W K"], layer: tuple[ops.Product, Tensor]) -> Float[Tensor, "W F"]:
    product, bias = layer
    return product(x).to(x.dtype).add_(bias)


def without_tail(char_ids: Int[Tensor, "W C"], width: int) -> Int[Tensor, "W c"]:
    """Drops columns that cannot affect a maximum: those where every word only repeats its last character (padding).

    One full window of that character is kept, so the maximum over positions is the same.
    """
    constant = (char_ids == char_ids[:, -1:]).all(dim=0)
    tail = int(constant.flip(0).long().cumprod(0).sum())
    return char_ids[:, : _round_up(char_ids.shape[1] - max(0, tail - width), 8)]


def _by_length(char_ids: Int[Tensor, "W C"], width: int) -> tuple[list[Int[Tensor, "w c"]], Int[Tensor, " W"]]:
    """Groups words of similar length, without the tail of each group; also returns every word's position in them.

    The longest word of a batch has three times as many characters as most, so most work would otherwise be padding.
    """
    if torch.compiler.is_exporting():  # an exported program cannot look at the characters first
        return [char_ids], torch.arange(char_ids.shape[0], device=char_ids.device)
    if len(char_ids) <= FEW_WORDS:
        return [without_tail(char_ids, width)], torch.arange(len(char_ids), device=char_ids.device)
    ids = char_ids.cpu()
    lengths = ((ids != ids[:, -1:]) * torch.arange(1, ids.shape[1] + 1, device=ids.device)).amax(1)
    columns = _round_up(lengths + width, 8)
    order = columns.argsort(stable=True)
    places = torch.empty_like(order)
    groups, begin = [], 0
    for members in order.split(columns.unique(return_counts=True)[1].tolist()):
        places[members] = torch.arange(begin, begin + len(members), device=ids.device)
        # oneDNN compiles and caches a program for every new shape (2 MB each, and a third more time).
        words = without_tail(ids[members], width)
        words = nn.functional.pad(words, (0, 0, 0, _round_up(len(members), 64) - len(members)))
        groups.append(words.to(char_ids.device))
        begin += len(words)
    return groups, places.to(char_ids.device)


def _round_up(number: Number, step: int) -> Number:
    return -(-number // step) * step
