"""The ELMo classes of AllenNLP, with the same names and results, for programs written for them.

- `Elmo` is a module for the network of a task: a biLM and learned mixes of its layers; `batch_to_ids` makes its input
- `ElmoTokenEmbedder` has one such mix
- `_ElmoBiLm` gives all layers, `_ElmoCharacterEncoder` only the token layer
- `ElmoEmbedder` turns sentences into arrays of all layers
- files can be named by their published addresses, once `elmo pull` has downloaded them
- state dicts that were saved from AllenNLP's classes can be loaded, and `allennlp_state_dict` makes such state dicts

AllenNLP's LSTMs kept their state, so a repeated sentence got different vectors. Here every sentence starts from zero;
`state="carry"` does what AllenNLP did.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from elmo.errors import InputError, check_whole
from elmo.integrations.allennlp_bilm import ElmoLstm as ElmoLstm
from elmo.integrations.allennlp_bilm import PathLike, _ElmoBiLm
from elmo.integrations.allennlp_bilm import _ElmoCharacterEncoder as _ElmoCharacterEncoder
from elmo.integrations.allennlp_bilm import allennlp_state_dict as allennlp_state_dict
from elmo.integrations.allennlp_bilm import remove_sentence_boundaries as remove_sentence_boundaries
from elmo.integrations.allennlp_data import ConfigurationError as ConfigurationError
from elmo.integrations.allennlp_embedder import DEFAULT_BATCH_SIZE as DEFAULT_BATCH_SIZE
from elmo.integrations.allennlp_embedder import DEFAULT_OPTIONS_FILE as DEFAULT_OPTIONS_FILE
from elmo.integrations.allennlp_embedder import DEFAULT_WEIGHT_FILE as DEFAULT_WEIGHT_FILE
from elmo.integrations.allennlp_embedder import ElmoEmbedder as ElmoEmbedder
from elmo.integrations.originals import StandIn, StatePolicy, masks_are_bool
from elmo.text.batching import batch_to_ids as batch_to_ids


class ScalarMix(StandIn, nn.Module):
    """A learned mix of `mixture_size` tensors, with AllenNLP's parameters: one per weight, and `gamma`."""

    def __init__(
        self,
        mixture_size: int,
        do_layer_norm: bool | str = False,
        initial_scalar_parameters: Sequence[float] | None = None,
        trainable: bool = True,
    ) -> None:
        super().__init__()
        initial = [0.0] * mixture_size if initial_scalar_parameters is None else initial_scalar_parameters
        if len(initial) != mixture_size:
            raise ConfigurationError(f"{len(initial)} initial scalar parameters were given to mix {mixture_size}")
        self.mixture_size = mixture_size
        self.do_layer_norm = bool(do_layer_norm)  # some programs pass a name instead of True
        self.scalar_parameters = nn.ParameterList(
            nn.Parameter(torch.tensor([float(value)]), requires_grad=trainable) for value in initial
        )
        self.gamma = nn.Parameter(torch.ones(1), requires_grad=trainable)

    def forward(self, tensors: Sequence[Tensor] | Tensor, mask: Tensor | None = None) -> Tensor:
        """Returns `gamma * sum_k softmax(w)_k * tensor_k`; all tensors have the same shape (..., D).

        With layer norm, which needs `mask` (...), each tensor is first shifted and scaled to mean 0 and variance 1
        over all its numbers where the mask is not zero.
        """
        if len(tensors) != self.mixture_size:
            raise ConfigurationError(f"{len(tensors)} tensors were given to a mix of {self.mixture_size}")
        layers = tensors if isinstance(tensors, Tensor) else torch.stack(list(tensors))
        if self.do_layer_norm:
            if mask is None:
                raise ConfigurationError("mask is None; a mix with layer norm needs one")
            layers = _normalized(layers, mask > 0)
        weights = torch.softmax(torch.cat(list(self.scalar_parameters)), dim=0)
        return self.gamma * torch.einsum("n,n...->...", weights, layers)


class Elmo(StandIn, nn.Module):
    """A biLM and `num_output_representations` learned mixes of its layers.

    `options_file` and `weight_file` are those of a published model. `requires_grad` also trains the biLM; the mixes are
    always trained, unless `scalar_mix_parameters` (before the softmax) fixes them. `vocab_to_cache` lists words to
    encode once; inputs then give their index in this list. `module` replaces the biLM: it has `num_layers`, and a
    `forward` that returns a dictionary of `activations` and `mask`.

    `state` is "reset" or "carry"; `allennlp` is the version that the program was written for, which decides the type of
    masks: int64 for 0.9, bool since 1.0. The defaults of both are the values given to `install_shims`.
    """

    def __init__(
        self,
        options_file: PathLike | None,
        weight_file: PathLike | None,
        num_output_representations: int,
        requires_grad: bool = False,
        do_layer_norm: bool = False,
        dropout: float = 0.5,
        vocab_to_cache: list[str] | None = None,
        keep_sentence_boundaries: bool = False,
        scalar_mix_parameters: Sequence[float | int] | None = None,
        module: nn.Module | None = None,
        *,
        state: StatePolicy | None = None,
        allennlp: str | None = None,
    ) -> None:
        super().__init__()
        check_whole("num_output_representations", num_output_representations, least=0)
        if module is not None and (options_file is not None or weight_file is not None):
            raise ConfigurationError(
                "module was given together with options_file or weight_file; give None for both files"
            )
        self._has_bool_masks = masks_are_bool(allennlp)
        self._elmo_lstm: Any = module or _ElmoBiLm(
            options_file, weight_file, requires_grad, vocab_to_cache, state=state, allennlp=allennlp
        )
        self._has_cached_vocab = vocab_to_cache is not None
        self._keep_sentence_boundaries = keep_sentence_boundaries
        self._dropout = nn.Dropout(dropout)
        n_layers = self._elmo_lstm.num_layers
        if scalar_mix_parameters is not None and len(scalar_mix_parameters) != n_layers:
            raise ConfigurationError(
                f"scalar_mix_parameters has {len(scalar_mix_parameters)} numbers; the model has {n_layers} layers"
            )
        self._mixes = [f"scalar_mix_{k}" for k in range(num_output_representations)]
        for name in self._mixes:
            trained = scalar_mix_parameters is None
            self.add_module(name, ScalarMix(n_layers, do_layer_norm, scalar_mix_parameters, trained))

    @property
    def _scalar_mixes(self) -> list[nn.Module]:
        return [getattr(self, name) for name in self._mixes]

    def get_output_dim(self) -> int:
        """Returns the size of a vector (D)."""
        return self._elmo_lstm.get_output_dim()

    def forward(self, inputs: Tensor | None, word_inputs: Tensor | None = None) -> dict[str, Any]:
        """Returns the mixes of a batch: `elmo_representations`, a list of (B, T, D), and `mask` (B, T).

        `inputs` is (B, T, 50) as from `batch_to_ids`, `word_inputs` is (B, T), for `vocab_to_cache`; both may have more
        axes between B and T, which the results keep. Padding is zero. With `keep_sentence_boundaries`, T includes `<S>`
        and `</S>`.
        """
        if self._has_cached_vocab and word_inputs is None and inputs is not None and inputs.ndim == 2:
            inputs, word_inputs = None, inputs
        if not self._has_cached_vocab:
            word_inputs = None
        outer = _outer_shape(inputs, word_inputs)
        output = self._elmo_lstm(
            None if inputs is None else inputs.flatten(0, -3),
            None if word_inputs is None else word_inputs.flatten(0, -2),
        )
        layers, mask = torch.stack(list(output["activations"])), output["mask"] > 0
        mixed = [getattr(self, name)(layers, mask) * mask[:, :, None] for name in self._mixes]
        if not self._keep_sentence_boundaries:
            mixed = [remove_sentence_boundaries(vectors, mask)[0] for vectors in mixed]
            mask = mask[:, 2:]  # a mask is ones, then zeros, so this removes the two boundaries
        mixed = [self._dropout(vectors) for vectors in mixed]
        mask = mask if self._has_bool_masks else mask.long()
        return {
            "elmo_representations": [vectors.view(*outer, *vectors.shape[-2:]) for vectors in mixed],
            "mask": mask.view(*outer, mask.shape[-1]),
        }


class ElmoTokenEmbedder(StandIn, nn.Module):
    """One mix of a biLM's layers, which a linear layer may map to `projection_dim` numbers."""

    def __init__(
        self,
        options_file: PathLike,
        weight_file: PathLike,
        do_layer_norm: bool = False,
        dropout: float = 0.5,
        requires_grad: bool = False,
        projection_dim: int | None = None,
        vocab_to_cache: list[str] | None = None,
        scalar_mix_parameters: Sequence[float] | None = None,
    ) -> None:
        super().__init__()
        self._elmo = Elmo(
            options_file,
            weight_file,
            1,
            requires_grad,
            do_layer_norm,
            dropout,
            vocab_to_cache,
            scalar_mix_parameters=scalar_mix_parameters,
        )
        size = self._elmo.get_output_dim()
        self._projection = nn.Linear(size, projection_dim) if projection_dim else None
        self.output_dim = projection_dim or size

    def get_output_dim(self) -> int:
        """Returns the size of a vector (D)."""
        return self.output_dim

    def forward(self, inputs: Tensor, word_inputs: Tensor | None = None) -> Tensor:
        """Returns the vectors (B, T, D) of a batch; the arguments are those of `Elmo.forward`."""
        (vectors,) = self._elmo(inputs, word_inputs)["elmo_representations"]
        return vectors if self._projection is None else self._projection(vectors)


def _outer_shape(inputs: Tensor | None, word_inputs: Tensor | None) -> torch.Size:
    """The axes before the token axis."""
    if word_inputs is not None:
        return word_inputs.shape[:-1]
    if inputs is None or inputs.ndim < 3:
        shape = None if inputs is None else tuple(inputs.shape)
        raise InputError(f"inputs has shape {shape}; (B, T, 50) is expected, as from batch_to_ids")
    return inputs.shape[:-2]


def _normalized(layers: Tensor, mask: Tensor) -> Tensor:
    """Shifts and scales each layer (..., D) to mean 0 and variance 1 over its numbers where the mask (...) is true."""
    inside = mask[None, ..., None].to(layers.dtype)
    axes, count = tuple(range(1, layers.ndim)), inside.sum() * layers.shape[-1]
    mean = (layers * inside).sum(dim=axes, keepdim=True) / count
    variance = ((layers - mean) * inside).square().sum(dim=axes, keepdim=True) / count
    return (layers - mean) / torch.sqrt(variance + 1e-12)
