"""A biLM with k learned mixes of its layers, for the network of a task (Peters et al. 2018, sec. 3.2-3.3)."""

from jaxtyping import Bool, Float
from torch import Tensor, nn

from elmo.errors import InputError, check_whole, shown
from elmo.model.bilm import BiLM
from elmo.model.scalar_mix import ScalarMix
from elmo.types import Batch, LstmState


class Elmo(nn.Module):
    """Gives a task contextual vectors: one learned mix for each place where the task's network uses them.

    `frozen` keeps the biLM's weights fixed (they get no gradient); the mixes are always learned.
    """

    def __init__(
        self, bilm: BiLM, n_mixes: int = 1, dropout: float = 0.5, layer_norm: bool = False, frozen: bool = True
    ) -> None:
        super().__init__()
        if not isinstance(bilm, BiLM):
            raise InputError(f"the biLM is {shown(bilm)}; elmo.formats.load(path).elmo() makes an Elmo of a model")
        check_whole("n_mixes", n_mixes)
        if not isinstance(dropout, int | float) or not 0 <= dropout <= 1:
            raise InputError(f"dropout is {shown(dropout)}; a share from 0 to 1 is expected")
        if not frozen and bilm.packed_for is not None:
            raise InputError(
                "the biLM cannot be trained: it was packed for embedding; take"
                " elmo.formats.load(...).elmo(frozen=False)"
            )
        self.bilm = bilm.requires_grad_(not frozen)
        n_layers = bilm.config.lstm.n_layers + 1
        like = bilm.token_encoder.embedding
        self.mixes = nn.ModuleList(ScalarMix(n_layers, layer_norm) for _ in range(n_mixes)).to(like.device, like.dtype)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, batch: Batch, state: LstmState | None = None
    ) -> tuple[list[Float[Tensor, "B T D"]], Bool[Tensor, "B T"]]:
        """Returns the k mixes, including the boundaries `<S>` and `</S>`, and the mask of real tokens."""
        output = self.bilm(batch, state)
        return [self.dropout(mix(output.layers, output.mask)) for mix in self.mixes], output.mask

    def penalty(self, coefficient: float) -> Float[Tensor, ""]:
        """Returns `lambda * ||w||^2`, summed over the mixes, for the task's loss (sec. 3.3)."""
        return sum((mix.penalty(coefficient) for mix in self.mixes), start=self.mixes[0].gamma.new_zeros(()))  # type: ignore[operator]
