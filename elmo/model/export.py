"""Exports a biLM or an Elmo as a program of torch.export, for any number of sentences and tokens.

The program takes and returns tensors, and needs only torch. Modules that differ during export check
`torch.compiler.is_exporting` themselves.
"""

import torch
from jaxtyping import Int
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from elmo.errors import InputError
from elmo.model.bilm import BiLM
from elmo.model.elmo import Elmo
from elmo.types import Batch


class _Plain(nn.Module):
    """The network with tensors as inputs and outputs."""

    def __init__(self, network: BiLM | Elmo) -> None:
        super().__init__()
        self.network = network

    def forward(self, char_ids: Int[Tensor, "B T C"], lengths: Int[Tensor, " B"]) -> tuple[Tensor, ...]:
        batch = Batch(char_ids, lengths)
        if isinstance(self.network, Elmo):
            mixes, mask = self.network(batch)
            return (*mixes, mask)
        output = self.network(batch)
        return output.layers, output.mask


def exported(network: BiLM | Elmo) -> ExportedProgram:
    """Returns the network in evaluation mode as a program, which shares its weights.

    `program.module()(char_ids, lengths)` takes the parts of a `Batch` and starts from the zero state. A biLM gives
    `layers (N, B, T, D)` and `mask (B, T)`; an Elmo gives its k mixes `(B, T, D)`, then the mask. Raises InputError if
    the biLM is packed for embedding.
    """
    bilm = network.bilm if isinstance(network, Elmo) else network
    if bilm.packed_for is not None:
        raise InputError(
            "the biLM is packed for embedding, which torch.export cannot trace; use elmo.formats.load(...)"
        )
    device = bilm.token_encoder.embedding.device
    char_ids = torch.ones(2, 3, bilm.config.ids_per_token, dtype=torch.long, device=device)
    lengths = torch.tensor([3, 2], device=device)
    sentences, tokens = Dim("B", min=1), Dim("T", min=1)
    modes = {module: module.training for module in network.modules()}
    try:
        plain = _Plain(network).eval()
        shapes = {"char_ids": {0: sentences, 1: tokens}, "lengths": {0: sentences}}
        with torch.no_grad():  # the program has gradients even so
            return torch.export.export(plain, (char_ids, lengths), dynamic_shapes=shapes)
    finally:
        for module, training in modes.items():
            module.training = training
