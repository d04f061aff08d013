"""The translator: a `BiLM` that reads a sentence, and a decoder that attends to it and predicts the translation.

The encoder of such a model gives CoVe (McCann et al. 2017, "Learned in Translation: Contextualized Word Vectors"). The
decoder is that of Luong et al. (2015, "Effective Approaches to Attention-based Neural Machine Translation", sec. 3.1):
with `s_i` for the encoder's top layer at word i, and `h` for the LSTM's output after the translation so far,

    a_i = softmax_i(h^T W_a s_i)                        # the score "general"
    p(next word) = softmax(W_s tanh(W_c [sum_i a_i s_i; h] + b_c) + b_s)

Two differences from McCann et al.: the encoder's two directions are stacked separately, as in a biLM, while their
second layer reads both directions of the first; and the decoder does not read what it attended to before ("input
feeding"), so the attention of all steps is one product.

The shapes use letters beyond those of `elmo.types`: U for the words of a translation, its end included, E for the size
of a target word's vector, and Q for the cells of the decoder.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from elmo.config import check_range, check_sizes
from elmo.model.bilm import BiLM
from elmo.model.config import BiLMConfig
from elmo.model.word_table import WordTable
from elmo.types import Batch


@dataclass(frozen=True)
class DecoderConfig:
    """Sizes of the decoder, and the dropout of the whole network."""

    dim: int = 200
    """The cells of the decoder's LSTM (Q)."""
    word_dim: int = 100
    """The size of a target word's vector (E)."""
    dropout: float = 0.2
    """The dropout of word vectors on both sides, of the encoder's output, and of the softmax's input."""

    def __post_init__(self) -> None:
        check_sizes(self, ("dim", "word_dim"), "decoder.")
        check_range(self, ("dropout",), 0, 1, "decoder.")


class Translator(nn.Module):
    """Encoder, decoder, and a softmax over the `n_targets` words of the other language."""

    def __init__(self, encoder: BiLMConfig, decoder: DecoderConfig, n_targets: int) -> None:
        super().__init__()
        width = 2 * encoder.lstm.projection_dim
        self.encoder = BiLM(encoder)
        self.words = WordTable(n_targets, decoder.word_dim)
        self.start = nn.Linear(width, decoder.dim)
        """Maps the last output of each direction to the first state of the decoder."""
        self.decoder = nn.LSTM(decoder.word_dim, decoder.dim, batch_first=True)
        self.score = nn.Linear(decoder.dim, width, bias=False)
        self.combine = nn.Linear(width + decoder.dim, decoder.dim)
        self.softmax = nn.Linear(decoder.dim, n_targets)
        self.dropout = nn.Dropout(decoder.dropout)

    def forward(self, source: Batch, target: Batch) -> Float[Tensor, ""]:
        """Returns the mean negative log-probability of a target word, the end of its sentence included.

        Row b of `target` translates row b of `source`. Both have boundaries, and `target` has word ids (C = 1).
        """
        words = target.char_ids[:, :, 0]
        before, after = words[:, :-1], words[:, 1:]
        vectors = self.words(before.reshape(-1, 1)).view(*before.shape, -1)
        outputs = self.decode(*self.encode(source), vectors)
        there = after > 0
        return functional.cross_entropy(self.softmax(self.dropout(outputs[there])), after[there] - 1)

    def encode(self, source: Batch) -> tuple[Float[Tensor, "B T D"], Bool[Tensor, "B T"]]:
        """Returns the encoder's top layer, and the mask of its words."""
        rows, steps, characters = source.char_ids.shape
        tokens = self.encoder.encode_words(source.char_ids.view(-1, characters)).view(rows, steps, -1)
        output = self.encoder.contextualize(self.dropout(tokens), source.lengths)
        return self.dropout(output.layers[-1]), output.mask

    def decode(
        self, encoded: Float[Tensor, "B T D"], mask: Bool[Tensor, "B T"], words: Float[Tensor, "B U E"]
    ) -> Float[Tensor, "B U Q"]:
        """Returns the input of the softmax for every word, given the vectors of the words before it."""
        forward, backward = encoded.chunk(2, dim=2)
        last = mask.sum(1) - 1
        ends = torch.cat([forward[torch.arange(len(last), device=last.device), last], backward[:, 0]], dim=1)
        hidden = torch.tanh(self.start(ends))[None]
        states, _ = self.decoder(self.dropout(words), (hidden, torch.zeros_like(hidden)))
        scores = self.score(states) @ encoded.transpose(1, 2)  # B U T
        attention = scores.masked_fill(~mask[:, None], -torch.inf).softmax(2)
        return torch.tanh(self.combine(torch.cat([attention @ encoded, states], dim=2)))
