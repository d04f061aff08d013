"""Sentences -> the inputs of a task's network: static vectors, character CNN, ELMo at `none | input | output | both`.

- `Collator`: sentences -> `Tokens`, the padded batch
- `Inputs`: `Tokens` -> the network's input vectors, and ELMo's second mix for the network's output (sec. 3.3)
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, Self, TypeVar

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from elmo import ops
from elmo.config import ConfigError
from elmo.model.bilm import BiLM, tokens_mask
from elmo.model.char_cnn import CharCnn
from elmo.model.config import BiLMConfig, CharCnnConfig
from elmo.model.scalar_mix import ScalarMix
from elmo.text.batching import check_tokens
from elmo.text.characters import encode_words
from elmo.types import Batch

PADDING, UNKNOWN = 0, 1
"""Special rows of the static vectors."""


@dataclass(frozen=True)
class CharactersConfig:
    """The task's own character CNN; defaults from the paper's NER model (supplement, sec. A.7)."""

    embedding_dim: int = 16
    filters: tuple[tuple[int, int], ...] = ((3, 128),)
    """(width in characters, number of filters) of every convolution; empty for no character CNN."""
    n_highway: int = 0
    max_characters: int = 50
    """Per word, its two marks included; longer words are cut."""

    def __post_init__(self) -> None:
        try:
            self.cnn()
        except ConfigError as error:
            raise ConfigError(f"inputs.characters.{error}".replace("_per_token", "")) from error

    def cnn(self) -> CharCnnConfig | None:
        """The same as a biLM's configuration; None for no character CNN."""
        if not self.filters:
            return None
        return CharCnnConfig(
            self.embedding_dim, self.filters, self.n_highway, max_characters_per_token=self.max_characters
        )


@dataclass(frozen=True)
class InputConfig:
    """How a task's network represents a token."""

    static: bool = True
    """Whether there are static vectors; without them the network reads only characters and ELMo (sec. 5.7)."""
    vectors: str | None = None
    """A file in GloVe's text format; without one, vectors are learned for the words of the training examples."""
    vectors_dim: int = 100
    """Size of learned vectors."""
    min_count: int = 2
    """For learned vectors: words that are rarer in the training examples are unknown, and train that vector."""
    all_vectors: bool = False
    """Keep the vectors of all words of the file, not only of those in the examples."""
    lowercase: bool = True
    """Look words up in lower case (characters and ELMo are case-sensitive)."""
    vectors_tuned: bool = True
    """Train the vectors of the file with the network. Without a file, vectors are always trained."""
    characters: CharactersConfig | None = None
    elmo: Literal["none", "input", "output", "both"] = "none"
    model: str = "default"
    """The biLM: a path or name, as for `elmo embed`."""
    layers: Literal["mix", "top", "average", "types"] = "mix"
    """Layers of the biLM: a learned mix, the top one, their mean, or the context-free one."""
    tuned: bool = False
    """Train the biLM with the network. Otherwise its layers are computed once and cached."""
    gamma: Literal["learned", "fixed"] = "learned"
    """The scale of eq. (1); fixed means 1."""
    layer_norm: bool = False
    """Normalise every layer of every token to zero mean and unit variance over its dimensions, before weighting."""
    dropout: float = 0.0
    """Of static vectors and characters, number by number. 0 where the network has a variational dropout on its input
    (ner, snli, squad): both together would keep only the product of their shares."""
    elmo_dropout: float = 0.0
    """Of ELMo, at the input and at the output, number by number; the same holds."""
    penalty: float = 0.001
    """The lambda of `lambda * ||w||^2` over the weights w of the mixes, before their softmax (sec. 3.3)."""

    def __post_init__(self) -> None:
        for name, least in (("vectors_dim", 1), ("min_count", 1), ("penalty", 0)):
            if not getattr(self, name) >= least:
                raise ConfigError(f"inputs.{name} is {getattr(self, name)}; at least {least} is expected")
        for name in ("dropout", "elmo_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise ConfigError(f"inputs.{name} is {getattr(self, name)}; from 0 to less than 1 is expected")
        if not (self.static or self.at_input or (self.characters is not None and self.characters.filters)):
            raise ConfigError(
                f"inputs.static is false and inputs.elmo is {self.elmo!r}, so the network has no input; set"
                " inputs.characters, or inputs.elmo=input"
            )

    @property
    def trains_vectors(self) -> bool:
        """Whether the static vectors are trained with the network."""
        return self.static and (self.vectors is None or self.vectors_tuned)

    @property
    def at_input(self) -> bool:
        """Whether ELMo is beside the word vectors."""
        return self.elmo in ("input", "both")

    @property
    def at_output(self) -> bool:
        """Whether ELMo is beside the encoder's output."""
        return self.elmo in ("output", "both")


@dataclass(frozen=True)
class Tokens:
    """A padded batch of sentences without boundaries. T is at least 1, even if all sentences are empty."""

    word_ids: Int[Tensor, "B T"]
    """Rows of the static vectors; 0 is padding, 1 unknown."""
    char_ids: Int[Tensor, "B T C"]
    """From `elmo.text.characters`; 0 is padding, C is 0 without a character CNN."""
    lengths: Int[Tensor, " B"]
    layers: Float[Tensor, "N B T D"] | None = None
    """The layers of a frozen biLM, selected by `InputConfig.layers`; padding is zero."""
    bilm_batch: Batch | None = None
    """For a biLM trained with the network: the sentences with their boundaries."""

    @property
    def mask(self) -> Bool[Tensor, "B T"]:
        """True at tokens."""
        return tokens_mask(self.lengths, self.word_ids.shape[1])

    def rows(self, index: Sequence[int]) -> Self:
        """Some of the sentences, without superfluous padding."""
        chosen = torch.tensor(index, dtype=torch.long, device=self.lengths.device)
        lengths = self.lengths[chosen]
        width = max(1, int(lengths.max())) if len(lengths) else 1
        layers, batch = self.layers, self.bilm_batch
        if batch is not None:  # it has two boundaries besides the tokens
            batch = replace(batch, char_ids=batch.char_ids[chosen, : width + 2], lengths=batch.lengths[chosen])
        return replace(
            self,
            word_ids=self.word_ids[chosen, :width],
            char_ids=self.char_ids[chosen, :width],
            lengths=lengths,
            layers=None if layers is None else layers[:, chosen, :width],
            bilm_batch=batch,
        )

    def to(self, device: torch.device | str) -> Self:
        """The batch on another device."""
        parts = {name: part.to(device) for name, part in vars(self).items() if isinstance(part, Tensor | Batch)}
        return replace(self, **parts)


LayersOf = Callable[[Sequence[Sequence[str]]], list[np.ndarray]]
"""Sentences -> one array (N, T, D) each, without boundaries: a cache of a frozen biLM's layers, or the biLM itself."""


@dataclass(frozen=True)
class Collator:
    """Sentences -> `Tokens`."""

    config: InputConfig
    words: Sequence[str] = field(repr=False)
    """The words with static vectors, from row 2 on; in lower case with `config.lowercase`."""
    layers_of: LayersOf | None = field(default=None, repr=False)
    """Needed for a frozen biLM."""
    to_batch: Callable[[Sequence[Sequence[str]]], Batch] | None = field(default=None, repr=False)
    """Needed for a biLM trained with the network: `elmo.text.batching.to_batch` with the biLM's arguments."""

    def __call__(self, sentences: Sequence[Sequence[str]]) -> Tokens:
        check_tokens(sentences)
        lengths = np.array([len(sentence) for sentence in sentences], np.int64)
        mask = np.arange(max(1, lengths.max(initial=0))) < lengths[:, None]
        tokens = [token for sentence in sentences for token in sentence]
        word_ids = np.zeros(mask.shape, np.int64)
        word_ids[mask] = [self._rows.get(word, UNKNOWN) for word in self._spelled(tokens)]
        encoded = self._characters(tokens)
        char_ids = np.zeros((*mask.shape, encoded.shape[1]), np.int64)
        char_ids[mask] = encoded
        reads_elmo = self.config.elmo != "none"
        return Tokens(
            torch.from_numpy(word_ids),
            torch.from_numpy(char_ids),
            torch.from_numpy(lengths),
            self._layers(sentences, mask) if reads_elmo and not self.config.tuned else None,
            self._batch(sentences) if reads_elmo and self.config.tuned else None,
        )

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {word: row for row, word in enumerate(self.words, UNKNOWN + 1)}

    def _spelled(self, tokens: list[str]) -> list[str]:
        return [token.lower() for token in tokens] if self.config.lowercase else tokens

    def _characters(self, tokens: list[str]) -> Int[np.ndarray, "W C"]:
        characters = self.config.characters
        if characters is None or not characters.filters:
            return np.zeros((len(tokens), 0), np.int32)
        return encode_words(tokens, characters.max_characters)

    def _layers(self, sentences: Sequence[Sequence[str]], mask: np.ndarray) -> Float[Tensor, "N B T D"]:
        assert self.layers_of is not None, "a frozen biLM is to be read, and the collator was given none"
        arrays = [choose_layers(array, self.config.layers) for array in self.layers_of(sentences)]
        layers, _, size = arrays[0].shape if arrays else (0, 0, 0)
        padded = np.zeros((layers, *mask.shape, size), np.float32)
        for row, array in enumerate(arrays):
            padded[:, row, : array.shape[1]] = array
        return torch.from_numpy(padded)

    def _batch(self, sentences: Sequence[Sequence[str]]) -> Batch:
        assert self.to_batch is not None, "the biLM is to be trained, and the collator cannot make its batch"
        return self.to_batch(sentences)


Array = TypeVar("Array", np.ndarray, Tensor)


def choose_layers(layers: Array, which: Literal["mix", "top", "average", "types"]) -> Array:
    """Selects the layers to read, (N, ...) -> (n, ...); a mix of one layer has nothing to weigh."""
    return {"top": layers[-1:], "types": layers[:1]}.get(which, layers)


class Inputs(nn.Module):
    """The vectors of tokens: static [; characters] [; ELMo], each with its dropout; and ELMo's mix for the output.

    `bilm` is the biLM's configuration, needed unless `config.elmo` is none. If it is tuned, the network has its own
    biLM, whose weights the caller loads.
    """

    def __init__(self, config: InputConfig, vectors: Float[Tensor, "V E"], bilm: BiLMConfig | None = None) -> None:
        super().__init__()
        self.config = config
        self.vectors = nn.Embedding.from_pretrained(
            vectors.clone(), freeze=not config.trains_vectors, padding_idx=PADDING
        )
        self.characters = _characters(config.characters)
        self.dropout = nn.Dropout(config.dropout)
        self.elmo_dropout = nn.Dropout(config.elmo_dropout)
        self.bilm: BiLM | None = None
        self.input_mix: ScalarMix | None = None
        self.output_mix: ScalarMix | None = None
        elmo_dim = 0
        if config.elmo != "none":
            assert bilm is not None, "the shape of the biLM is needed"
            elmo_dim = 2 * bilm.lstm.projection_dim
            self.bilm = BiLM(bilm) if config.tuned else None
            self.input_mix = _mix(config, bilm) if config.at_input else None
            self.output_mix = _mix(config, bilm) if config.at_output else None
        n_filters = 0 if self.characters is None else self.characters.config.n_filters
        self.dim: int = vectors.shape[1] + n_filters + (elmo_dim if config.at_input else 0)
        """Size of the vectors for the network's input (I)."""
        self.output_dim: int = elmo_dim if config.at_output else 0
        """Size of the vectors for the network's output (D); 0 for none."""

    def forward(self, tokens: Tokens) -> tuple[Float[Tensor, "B T I"], Float[Tensor, "B T D"] | None]:
        """The input vectors, zero at padding, and the vectors to concatenate to the network's output, if any."""
        mask = tokens.mask
        parts = [self.vectors(tokens.word_ids)]
        if self.characters is not None:
            parts.append(self._words_by_characters(self.characters, tokens.char_ids))
        parts = [self.dropout(torch.cat(parts, dim=-1))]
        layers = self._layers(tokens, mask)
        if self.input_mix is not None and layers is not None:
            parts.append(self.elmo_dropout(self.input_mix(layers, mask)))
        output = None
        if self.output_mix is not None and layers is not None:
            output = self.elmo_dropout(self.output_mix(layers, mask)) * mask[:, :, None]
        return torch.cat(parts, dim=-1) * mask[:, :, None], output

    def penalty(self) -> Float[Tensor, ""]:
        """`lambda * ||w||^2` over the mixes, for the loss (sec. 3.3)."""
        mixes = [mix for mix in (self.input_mix, self.output_mix) if mix is not None]
        return sum((mix.penalty(self.config.penalty) for mix in mixes), start=self.vectors.weight.new_zeros(()))

    def _layers(self, tokens: Tokens, mask: Bool[Tensor, "B T"]) -> Float[Tensor, "N B T D"] | None:
        """The layers to mix, from the batch or the network's own biLM."""
        layers = tokens.layers
        if self.bilm is not None:
            assert tokens.bilm_batch is not None
            layers = self.bilm(tokens.bilm_batch).layers[:, :, 1:]  # without <S>
            layers = layers[:, :, : mask.shape[1]]  # </S> is where padding begins: `forward` makes it zero
            layers = choose_layers(layers, self.config.layers)
        if layers is not None and self.config.layer_norm:
            layers = nn.functional.layer_norm(layers, layers.shape[-1:])
        return layers

    @staticmethod
    def _words_by_characters(encoder: CharCnn, char_ids: Int[Tensor, "B T C"]) -> Float[Tensor, "B T F"]:
        words, index = ops.distinct_rows(char_ids.flatten(0, 1))
        return encoder(words)[index.view(char_ids.shape[:2])]


def _characters(config: CharactersConfig | None) -> CharCnn | None:
    cnn = None if config is None else config.cnn()
    return None if cnn is None else CharCnn(cnn, cnn.n_filters)


def _mix(config: InputConfig, bilm: BiLMConfig) -> ScalarMix:
    """A mix of all layers, or of the only one; `Inputs` normalises layers, token by token, not the mix."""
    mix = ScalarMix(bilm.lstm.n_layers + 1 if config.layers in ("mix", "average") else 1)
    mix.scalars.requires_grad_(config.layers == "mix")
    mix.gamma.requires_grad_(config.gamma == "learned")
    return mix
