"""The biLM with its softmax, and the loss of a training window (Peters et al. 2018, sec. 3.1)."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from elmo import ops
from elmo.model.bilm import BiLM
from elmo.model.char_cnn import CharCnn
from elmo.model.config import BiLMConfig
from elmo.model.lm_head import LmHead
from elmo.types import LstmState


@dataclass(frozen=True)
class ObjectiveConfig:
    """How the likelihood of both directions is maximised."""

    negatives: int = 4096
    """The number of sampled words to compare a target with; 0, or a smaller vocabulary, means the full softmax."""
    dropout: float = 0.1
    """The dropout of the inputs of every LSTM layer and of the softmax."""
    reset_probability: float = 0.5
    """How often the LSTM state is set to zero before a sentence. Without it, a sentence read alone starts from a state
    that the model has never seen."""
    loss_scale: float = 1.0
    """The factor of the loss before the gradient is clipped; the published models used the window's length."""


class LanguageModel(nn.Module):
    """A biLM and the softmax that both directions share.

    With `sparse`, the weight of a sampled softmax has a sparse gradient.
    """

    def __init__(self, model: BiLMConfig, n_words: int, objective: ObjectiveConfig, sparse: bool = False) -> None:
        super().__init__()
        self.bilm = BiLM(model)
        self.lm_head = LmHead(n_words, model.lstm.projection_dim)
        self.objective = objective
        self.sparse = sparse

    def forward(
        self,
        char_ids: Int[Tensor, "W C"] | list[Tensor],
        inputs: Int[Tensor, "2 B T"],
        targets: Int[Tensor, "2 B T"],
        keep: Bool[Tensor, "2 B T"],
        starts: Bool[Tensor, "2 B T"],
        state: LstmState,
        common: torch.Generator | None = None,
    ) -> tuple[Float[Tensor, ""], LstmState]:
        """Returns the scaled mean over both directions of `-log p(target)`, and the state after the window.

        The tensors are those of `LmBatch`; words may come in groups, as in `CharCnn.encode_groups`. `common` draws the
        negatives; None means torch's own generator.
        """
        objective = self.objective
        if objective.reset_probability:
            # Both directions read the same sentences, so sentences start at the same positions.
            reset = torch.rand(starts.shape[1:], device=starts.device) < objective.reset_probability
            keep = keep & ~(starts & reset)
        hidden, state = top_layer(self.bilm, char_ids, inputs, keep, state, objective.dropout)
        hidden = nn.functional.dropout(hidden, objective.dropout).flatten(0, 2)
        words = targets.transpose(1, 2).flatten()
        if 0 < objective.negatives < len(self.lm_head.bias):
            loss = self.lm_head.sampled_loss(hidden, words, self.lm_head.draw(objective.negatives, common), self.sparse)
        else:
            loss = self.lm_head.loss(hidden, words)
        return objective.loss_scale * loss / len(words), state


def top_layer(
    bilm: BiLM,
    char_ids: Int[Tensor, "W C"] | list[Tensor],
    inputs: Int[Tensor, "2 B T"],
    keep: Bool[Tensor, "2 B T"],
    state: LstmState,
    dropout: float = 0.0,
) -> tuple[Float[Tensor, "2 T B P"], LstmState]:
    """Returns the input of the softmax for a window: the top layer, each direction in its own reading order."""
    if isinstance(char_ids, list):
        assert isinstance(bilm.token_encoder, CharCnn)
        words = bilm.token_encoder.encode_groups(char_ids)
    else:
        words = bilm.encode_words(char_ids)
    vectors = ops.take_rows(words, inputs.transpose(1, 2))
    outputs, state = bilm.read(vectors, state, keep=keep.transpose(1, 2), dropout=dropout)
    return outputs[-1], state


def muon_shapes(bilm: BiLM) -> dict[nn.Parameter, tuple[int, ...]]:
    """Returns the weights that Muon updates, all but tables and biases, each with the shape `(..., M, N)` of matrices.

    A character filter is a row. A highway is cut into four blocks of rows: the cost grows with the cube of the shorter
    side.
    """
    found: dict[nn.Parameter, tuple[int, ...]] = {}
    for name, weight in bilm.named_parameters():
        if "convolutions" in name and weight.dim() == 3:
            found[weight] = (len(weight), weight[0].numel())
        elif "highways" in name and weight.dim() == 2 and len(weight) % 4 == 0:
            found[weight] = (4, len(weight) // 4, weight.shape[1])
        elif "weight" in name and weight.dim() > 1:
            found[weight] = tuple(weight.shape)
    return found
