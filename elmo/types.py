"""The data types that several packages share, and the legend of the letters in shapes.

======  ==========================================================
letter  meaning
======  ==========================================================
B       sentences of a batch, or parallel streams of text in training
T       tokens of a sentence with `<S>` and `</S>`, or of a training window
C       characters of a token (50 in the published models); 1, a word's id, if a model reads words
W       distinct words
E       width of a character vector
F       filters of the character CNN, all widths together
L       LSTM layers of one direction
N       layers of vectors, L + 1 (layer 0 is the token layer)
P       projection: what one direction outputs
D       2 P: forward and backward side by side
H       LSTM memory cells
V       words that the softmax knows
S       negatives sampled for the softmax
2       reading directions: 0 forward, 1 backward
======  ==========================================================
"""

from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, Self

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

Dtype = Literal["float32", "float16"]
"""The type of the numbers in arrays and files of vectors."""


class LstmState(NamedTuple):
    """The LSTM state between two calls, which is passed in and returned; no module keeps it."""

    hidden: Float[Tensor, "L 2 B P"]
    cell: Float[Tensor, "L 2 B H"]


@dataclass(frozen=True)
class Batch:
    """Sentences as characters, boundaries included; padding is 0 and comes after the last token."""

    char_ids: Int[Tensor, "B T C"]
    lengths: Int[Tensor, " B"]

    def to(self, device: torch.device | str) -> Self:
        """Returns the batch on another device."""
        return _to(self, device)


@dataclass(frozen=True)
class BiLMOutput:
    """All layers of a batch. `layers[0]` is the token layer, which stands twice side by side; padding is zero."""

    layers: Float[Tensor, "N B T D"]
    mask: Bool[Tensor, "B T"]
    state: LstmState


@dataclass(frozen=True)
class LmBatch:
    """One training window of every stream, each direction in its own reading order.

    Direction 0 reads `<S> w1 .. wn` and predicts `w1 .. wn </S>`; direction 1 reads `</S> wn .. w1` and predicts
    `wn .. w1 <S>`. Windows cut sentences anywhere; the LSTM state is carried between windows.
    """

    char_ids: Int[Tensor, "W C"]
    """The distinct words of the window, each once."""
    inputs: Int[Tensor, "2 B T"]
    """The rows of `char_ids` that are read."""
    targets: Int[Tensor, "2 B T"]
    """The word ids of the vocabulary that are predicted at the same position."""
    keep: Bool[Tensor, "2 B T"]
    """A mask that is False where the state is reset to zero before the token: at a document's first sentence."""
    starts: Bool[Tensor, "2 B T"]
    """A mask that is True where a sentence begins (the input is its boundary token)."""
    position: dict[str, Any]
    """The reader's position after this window, to resume from (plain JSON values)."""

    def to(self, device: torch.device | str) -> Self:
        """Returns the batch on another device."""
        return _to(self, device)


def _to(batch: Any, device: torch.device | str) -> Any:
    tensors = {name: value.to(device) for name, value in vars(batch).items() if isinstance(value, Tensor)}
    return replace(batch, **tensors)
