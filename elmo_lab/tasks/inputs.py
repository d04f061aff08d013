"""The inputs of a task's network: static vectors, a character CNN, and ELMo at `none | input | output | both`.

- `Collator` turns sentences into `Tokens`, the padded batch.
- `Inputs` turns `Tokens` into the network's input vectors, and into ELMo's second mix for its output (sec. 3.3).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Self, TypeVar

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from elmo import ops
from elmo.config import ConfigError, check_range, check_sizes
from elmo.forking import cached_property
from elmo.model.bilm import BiLM, tokens_mask
from elmo.model.char_cnn import CharCnn
from elmo.model.config import BiLMConfig, CharCnnConfig
from elmo.model.scalar_mix import ScalarMix
from elmo.text.characters import encode_words
from elmo.text.given import token_lists
from elmo.types import Batch

PADDING, UNKNOWN = 0, 1
"""The special rows of the static vectors."""


@dataclass(frozen=True)
class CharactersConfig:
    """The task's own character CNN; the defaults are those of the paper's NER model (supplement, sec. A.7)."""

    embedding_dim: int = 16
    """The size of a character's vector."""
    filters: tuple[tuple[int, int], ...] = ((3, 128),)
    """The width in characters and the number of filters of every convolution; if empty, there is no character CNN."""
    n_highway: int = 0
    """The number of highway layers."""
    max_characters: int = 50
    """The most characters of a word, its two marks included; longer words are cut."""

    def __post_init__(self) -> None:
        try:
            self.cnn()
        except ConfigError as error:
            raise ConfigError(f"inputs.characters.{error}".replace("_per_token", "")) from error

    def cnn(self) -> CharCnnConfig | None:
        """Returns these settings as a biLM's configuration, or None if there is no character CNN."""
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
    """The size of learned vectors."""
    min_count: int = 2
    """Words that are rarer in the training examples have no learned vector; they train that of unknown words."""
    all_vectors: bool = False
    """Whether to keep the vectors of all words of the file, not only of those in the examples."""
    lowercase: bool = True
    """Whether to look words up in lower case (characters and ELMo are case-sensitive)."""
    vectors_tuned: bool = True
    """Whether to train the vectors of the file with the network. Without a file, vectors are always trained."""
    characters: CharactersConfig | None = None
    elmo: Literal["none", "input", "output", "both"] = "none"
    """The places where the network uses ELMo."""
    model: str = "default"
    """The biLM: a path or name, as for `elmo embed`."""
    layers: Literal["mix", "top", "average", "types"] = "mix"
    """The layers of the biLM: a learned mix, the top one, their mean, or the context-free one."""
    tuned: bool = False
    """Whether to train the biLM with the network. Otherwise its layers are computed once and cached."""
    gamma: Literal["learned", "fixed"] = "learned"
    """The scale of eq. (1); fixed means 1."""
    layer_norm: bool = False
    """Whether to normalise every layer of every token to zero mean and unit variance over its dimensions."""
    dropout: float = 0.0
    """The dropout of static vectors and characters, number by number. It is 0 where the network has a variational
    dropout on its input (ner, snli, squad): both together would keep only the product of their shares."""
    elmo_dropout: float = 0.0
    """The dropout of ELMo at the input and at the output, number by number; it is 0 in the same cases."""
    penalty: float = 0.001
    """The lambda of `lambda * ||w||^2` over the weights w of the mixes, before their softmax (sec. 3.3)."""

    def __post_init__(self) -> None:
        check_sizes(self, ("vectors_dim",), "inputs.")
        check_range(self, ("min_count",), 1, where="inputs.")
        check_range(self, ("penalty",), 0, where="inputs.")
        check_range(self, ("dropout", "elmo_dropout"), 0, 1, "inputs.")
        if not (self.static or self.at_input or (self.characters is not None and self.characters.filters)):
            raise ConfigError(
                f"inputs.static is false and inputs.elmo is {self.elmo!r}, so the network has no input; set"
                " inputs.characters, or inputs.elmo=input"
            )

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
    """The rows of the static vectors; 0 is padding, and 1 an unknown word."""
    char_ids: Int[Tensor, "B T C"]
    """The ids of `elmo.text.characters`; 0 is padding, and C is 0 without a character CNN."""
    lengths: Int[Tensor, " B"]
    layers: Float[Tensor, "N B T D"] | None = None
    """The layers of a frozen biLM, selected by `InputConfig.layers`; padding is zero."""
    bilm_batch: Batch | None = None
    """The sentences with their boundaries, for a biLM that is trained with the network."""

    @property
    def mask(self) -> Bool[Tensor, "B T"]:
        """A mask that is True at tokens."""
        return tokens_mask(self.lengths, self.word_ids.shape[1])

    def rows(self, index: Sequence[int]) -> Self:
        """Selects sentences, and cuts superfluous padding."""
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
        """Copies the batch to another device."""
        parts = {name: part.to(device) for name, part in vars(self).items() if isinstance(part, Tensor | Batch)}
        return replace(self, **parts)


LayersOf = Callable[[Sequence[Sequence[str]]], list[np.ndarray]]
"""A function that returns an array (N, T, D) for each sentence, without boundaries: a layer cache or a frozen biLM."""


@dataclass(frozen=True)
class Collator:
    """Turns sentences into `Tokens`."""

    config: InputConfig
    words: Sequence[str] = field(repr=False)
    """The words with static vectors, from row 2 on, which are in lower case if `config.lowercase` is set."""
    layers_of: LayersOf | None = field(default=None, repr=False)
    """The source of layers, which a frozen biLM needs."""
    to_batch: Callable[[Sequence[Sequence[str]]], Batch] | None = field(default=None, repr=False)
    """`elmo.text.batching.to_batch` with the biLM's arguments, which a biLM trained with the network needs."""

    def __call__(self, sentences: Sequence[Sequence[str]]) -> Tokens:
        sentences = token_lists(sentences)
        lengths = np.array([len(sentence) for sentence in sentences], np.int64)
        mask = np.arange(max(1, lengths.max(initial=0))) < lengths[:, None]
        tokens = [token for sentence in sentences for token in sentence]
        words = (token.lower() for token in tokens) if self.config.lowercase else tokens
        word_ids = np.zeros(mask.shape, np.int64)
        word_ids[mask] = [self._rows.get(word, UNKNOWN) for word in words]
        encoded = self._characters(tokens)
        char_ids = np.zeros((*mask.shape, encoded.shape[1]), np.int64)
        char_ids[mask] = encoded
        layers = batch = None
        if self.config.elmo != "none" and self.config.tuned:
            assert self.to_batch is not None, "the biLM is to be trained, and the collator cannot make its batch"
            batch = self.to_batch(sentences)
        elif self.config.elmo != "none":
            layers = self._layers(sentences, mask)
        ids = torch.from_numpy(word_ids), torch.from_numpy(char_ids)
        return Tokens(*ids, torch.from_numpy(lengths), layers, batch)

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {word: row for row, word in enumerate(self.words, UNKNOWN + 1)}

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


Array = TypeVar("Array", np.ndarray, Tensor)


def choose_layers(layers: Array, which: Literal["mix", "top", "average", "types"]) -> Array:
    """Selects the layers to read, (N, ...) -> (n, ...): the top one, that of the word types, or all for a mix."""
    return {"top": layers[-1:], "types": layers[:1]}.get(which, layers)


class Inputs(nn.Module):
    """The vectors of tokens: static [; characters] [; ELMo], each with its dropout; and ELMo's mix for the output.

    `bilm` is the biLM's configuration, needed unless `config.elmo` is none. If it is tuned, the network has its own
    biLM, whose weights the caller loads.
    """

    def __init__(self, config: InputConfig, vectors: Float[Tensor, "V E"], bilm: BiLMConfig | None = None) -> None:
        super().__init__()
        self.config = config
        fixed = not (config.static and (config.vectors is None or config.vectors_tuned))
        self.vectors = nn.Embedding.from_pretrained(vectors.clone(), freeze=fixed, padding_idx=PADDING)
        cnn = None if config.characters is None else config.characters.cnn()
        self.characters = None if cnn is None else CharCnn(cnn, cnn.n_filters)
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
        """The size of the vectors for the network's input (I)."""
        self.output_dim: int = elmo_dim if config.at_output else 0
        """The size of the vectors for the network's output (D), which is 0 if there are none."""

    def forward(self, tokens: Tokens) -> tuple[Float[Tensor, "B T I"], Float[Tensor, "B T D"] | None]:
        """Returns the input vectors, zero at padding, and those to concatenate to the network's output, if any."""
        mask = tokens.mask
        parts = [self.vectors(tokens.word_ids)]
        if self.characters is not None:
            words, index = ops.distinct_rows(tokens.char_ids.flatten(0, 1))
            parts.append(self.characters(words)[index.view(mask.shape)])
        parts = [self.dropout(torch.cat(parts, dim=-1))]
        layers = self._layers(tokens, mask)
        if self.input_mix is not None and layers is not None:
            parts.append(self.elmo_dropout(self.input_mix(layers, mask)))
        output = None
        if self.output_mix is not None and layers is not None:
            output = self.elmo_dropout(self.output_mix(layers, mask)) * mask[:, :, None]
        return torch.cat(parts, dim=-1) * mask[:, :, None], output

    def penalty(self) -> Float[Tensor, ""]:
        """Returns `lambda * ||w||^2` over the mixes, for the loss (sec. 3.3)."""
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


def _mix(config: InputConfig, bilm: BiLMConfig) -> ScalarMix:
    """A mix of the layers that are read. It does not normalise them, since `Inputs` does that token by token."""
    mix = ScalarMix(bilm.lstm.n_layers + 1 if config.layers in ("mix", "average") else 1)
    mix.scalars.requires_grad_(config.layers == "mix")
    mix.gamma.requires_grad_(config.gamma == "learned")
    return mix
