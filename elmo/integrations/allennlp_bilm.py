"""The biLM in AllenNLP's classes: it gives all layers of a batch or only the token layer, and can keep its state."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from elmo import formats
from elmo.errors import InputError
from elmo.formats import allennlp_state
from elmo.formats.stored import Model, check_shapes
from elmo.integrations.originals import StandIn, StatePolicy, chosen_state, masks_are_bool
from elmo.model.bilm import BiLM, uncompiled
from elmo.model.config import LstmConfig
from elmo.text.characters import END_WORD, PADDING, encode_words
from elmo.text.marks import BOS, EOS
from elmo.types import Batch, LstmState

PathLike = str | Path


class _ElmoCharacterEncoder(StandIn, nn.Module):
    """The token layer alone, which adds boundaries. Programs import it by this name, which is AllenNLP's."""

    def __init__(
        self,
        options_file: PathLike | None,
        weight_file: PathLike | None,
        requires_grad: bool = False,
        *,
        allennlp: str | None = None,
    ) -> None:
        super().__init__()
        self._take(_load(options_file, weight_file).bilm().requires_grad_(requires_grad), masks_are_bool(allennlp))

    @classmethod
    def _of(cls, bilm: BiLM, has_bool_masks: bool) -> "_ElmoCharacterEncoder":
        """Returns the encoder of a biLM, with which it shares the weights."""
        made = cls.__new__(cls)
        nn.Module.__init__(made)
        made._take(bilm, has_bool_masks)
        return made

    def _take(self, bilm: BiLM, has_bool_masks: bool) -> None:
        self.token_encoder: Any = bilm.token_encoder
        self.output_dim = bilm.config.lstm.projection_dim
        self._characters = bilm.config.ids_per_token
        self._has_bool_masks = has_bool_masks

    def get_output_dim(self) -> int:
        """Returns the size of a token's vector (P), half the size of a layer's."""
        return self.output_dim

    def forward(self, inputs: Tensor) -> dict[str, Tensor]:
        """Returns `token_embedding` (B, T + 2, P) of characters (B, T, 50), and `mask` (B, T + 2)."""
        return uncompiled(self._forward, inputs)

    def _forward(self, inputs: Tensor) -> dict[str, Tensor]:
        char_ids, lengths = _bounded_characters(inputs, self._characters)
        vectors = self.token_encoder(char_ids.long().flatten(0, 1)).view(*char_ids.shape[:2], -1)
        mask = torch.arange(char_ids.shape[1], device=lengths.device) < lengths[:, None]
        return {"mask": mask if self._has_bool_masks else mask.long(), "token_embedding": vectors}


class _ElmoBiLm(StandIn, nn.Module):
    """The biLM alone, which adds boundaries and gives all layers. Programs import it by this name of AllenNLP's."""

    def __init__(
        self,
        options_file: PathLike | None,
        weight_file: PathLike | None,
        requires_grad: bool = False,
        vocab_to_cache: list[str] | None = None,
        *,
        state: StatePolicy | None = None,
        allennlp: str | None = None,
    ) -> None:
        super().__init__()
        self._has_bool_masks = masks_are_bool(allennlp)
        policy, model = chosen_state(state), _load(options_file, weight_file)
        self._elmo_lstm = ElmoLstm(policy, model.config.lstm)
        self.bilm: BiLM = model.bilm().requires_grad_(requires_grad)
        self._word_embedding: nn.Embedding | None = None
        if vocab_to_cache:
            self.create_cached_cnn_embeddings(vocab_to_cache)
        self.register_load_state_dict_pre_hook(_read_weights)

    @property
    def num_layers(self) -> int:
        """The number of layers (N), including the token layer."""
        return self.bilm.config.lstm.n_layers + 1

    @property
    def _token_embedder(self) -> _ElmoCharacterEncoder:
        return _ElmoCharacterEncoder._of(self.bilm, self._has_bool_masks)

    def get_output_dim(self) -> int:
        """Returns the size of a vector (D)."""
        return 2 * self.bilm.config.lstm.projection_dim

    def create_cached_cnn_embeddings(self, tokens: Sequence[str]) -> None:
        """Encodes these words now; the `word_inputs` of `forward` are then indices into this list."""
        trained = self.bilm.token_encoder.embedding.requires_grad
        self._word_embedding = nn.Embedding.from_pretrained(self._encode(tokens).detach(), freeze=not trained)

    def forward(self, inputs: Tensor | None, word_inputs: Tensor | None = None) -> dict[str, Any]:
        """Returns `activations`, a list of N tensors (B, T + 2, D), and `mask` (B, T + 2); see `Elmo.forward`.

        `word_inputs` is used if all its words are cached, else `inputs`.
        """
        return uncompiled(self._forward, inputs, word_inputs)

    def _forward(self, inputs: Tensor | None, word_inputs: Tensor | None) -> dict[str, Any]:
        if word_inputs is not None and self._word_embedding is not None and self._all_known(word_inputs):
            tokens, lengths = self._word_embedding(word_inputs), (word_inputs > 0).sum(dim=1)
            begin, end = self._encode([BOS, EOS])
            tokens, lengths = _with_boundaries(tokens, lengths, begin, end), lengths + 2
        elif inputs is not None:
            tokens, lengths = _bounded_characters(inputs, self.bilm.config.ids_per_token)
        else:
            raise InputError("word_inputs has words that are not in vocab_to_cache; also give inputs, their characters")
        state = self._elmo_lstm.before(self.bilm, len(tokens))
        if tokens.is_floating_point():
            output = self.bilm.contextualize(tokens, lengths, state)
        else:
            output = self.bilm(Batch(tokens.long(), lengths), state)
        self._elmo_lstm.after(output.state)
        mask = output.mask if self._has_bool_masks else output.mask.long()
        return {"activations": list(output.layers), "mask": mask}

    def _all_known(self, word_inputs: Tensor) -> bool:
        assert self._word_embedding is not None
        return int(word_inputs.max()) < self._word_embedding.num_embeddings if word_inputs.numel() else True

    def _encode(self, words: Sequence[str]) -> Float[Tensor, "W P"]:
        char_ids = torch.from_numpy(encode_words(words, self.bilm.config.ids_per_token)).long()
        return self.bilm.encode_words(char_ids.to(self.bilm.token_encoder.embedding.device))


class ElmoLstm(StandIn, nn.Module):
    """Carries the LSTM state between calls; AllenNLP kept it at the same place, `elmo._elmo_lstm._elmo_lstm`.

    It has the LSTMs' sizes under AllenNLP's names, where `hidden_size` is that of the projection, but no weights; it is
    a module so that programs find `stateful` and `reset_states` among a network's modules. Row i of a batch continues
    from row i of the previous batch. Additional rows start from zero; rows that a smaller batch lacks keep their state.
    """

    def __init__(self, state: StatePolicy, lstm: LstmConfig) -> None:
        super().__init__()
        self.input_size = self.hidden_size = lstm.projection_dim
        self.cell_size, self.num_layers = lstm.dim, lstm.n_layers
        self.stateful = state == "carry"
        self._states: tuple[Tensor, ...] | None = ()  # programs iterate over it, or set it to None

    def reset_states(self) -> None:
        """Forgets the state."""
        self._states = ()

    def before(self, bilm: BiLM, rows: int) -> LstmState | None:
        """Returns the initial state of a batch with `rows` rows; None if no state is carried."""
        if not self.stateful:
            return None
        states = self._states or ()
        kept = states[0].shape[2] if states else 0
        new = bilm.initial_state(max(rows, kept))
        for part, old in zip(new, states, strict=False):
            part[:, :, :kept] = old
        self._states = tuple(new)
        return LstmState(*(part[:, :, :rows] for part in new))

    def after(self, state: LstmState) -> None:
        """Keeps the state after a batch."""
        if self.stateful and self._states:
            for part, left in zip(self._states, state, strict=True):
                part[:, :, : left.shape[2]] = left.detach()


def remove_sentence_boundaries(tensor: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Removes the first and last token of each row from (B, T + 2, D) and its mask; padding is zero."""
    inside = (mask.sum(dim=1) - 2)[:, None] > torch.arange(max(mask.shape[1] - 2, 0), device=mask.device)
    return tensor[:, 1:-1] * inside[:, :, None], inside.to(mask.dtype)


def allennlp_state_dict(module: nn.Module) -> dict[str, Tensor]:
    """Returns a state dict that AllenNLP loads: every biLM in the module has AllenNLP's names and arrays.

    The arrays are new; the sums of biases are rounded.
    """
    state = dict(module.state_dict())
    for prefix, part in module.named_modules():
        if isinstance(part, _ElmoBiLm):
            own = f"{prefix}." if prefix else ""
            weights = {name: state.pop(f"{own}bilm.{name}") for name in part.bilm.state_dict()}
            theirs = allennlp_state.from_weights(part.bilm.config, weights)
            state |= {own + name: weight for name, weight in theirs.items()}
    return state


def _read_weights(module: "_ElmoBiLm", state_dict: dict[str, Any], prefix: str, *_: Any) -> None:
    """Converts weights that have AllenNLP's names to those of elmo, in place."""
    theirs = [name for name in state_dict if allennlp_state.is_foreign(name.removeprefix(prefix))]
    if not theirs:
        return
    tensors = {name.removeprefix(prefix): state_dict.pop(name) for name in theirs}
    config = module.bilm.config
    seen = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    check_shapes("the state dict", seen, allennlp_state.state_shapes(config), "it is of a biLM with other options")
    weights = allennlp_state.to_weights(config, tensors)
    state_dict.update({f"{prefix}bilm.{name}": weight for name, weight in weights.items()})


def _load(options_file: PathLike | None, weight_file: PathLike | None) -> Model:
    """Loads the model from two files or, without an options file, from anything that `elmo.load` opens."""
    if weight_file is None:
        raise InputError("weight_file is None; a weights file or a module is expected")
    model = formats.load(weight_file) if options_file is None else formats.load(options_file, weight_file)
    if model.config.char_cnn is None:
        raise InputError(f"{weight_file}: its model reads {model.config.reads}; AllenNLP's classes read characters")
    if model.text is not None and model.text.normalize:
        raise InputError(
            f"{weight_file}: the model reads words in another spelling ({', '.join(model.text.normalize)}), but"
            " AllenNLP's classes are given characters; open it with elmo.load"
        )
    return model


def _bounded_characters(inputs: Tensor, width: int) -> tuple[Int[Tensor, "B T C"], Int[Tensor, " B"]]:
    """Adds boundaries to the characters; returns them and the lengths, which include the boundaries.

    Raises InputError for numbers that are no ids.
    """
    if inputs.is_floating_point():
        raise InputError(f"inputs has numbers of {inputs.dtype}; whole numbers are expected, as from batch_to_ids")
    char_ids, lengths = _to_width(inputs, width), (inputs > 0).any(dim=-1).sum(dim=1)
    begin, end = torch.from_numpy(encode_words([BOS, EOS], width)).to(char_ids)
    return _with_boundaries(char_ids, lengths, begin, end), lengths + 2


def _to_width(char_ids: Int[Tensor, "B T c"], width: int) -> Int[Tensor, "B T C"]:
    """Cuts or pads each word to `width` characters, as if it had been encoded with this width."""
    missing = width - char_ids.shape[-1]
    if missing > 0:
        padding = torch.where(char_ids[..., :1] > 0, PADDING, 0)
        return torch.cat([char_ids, padding.expand(-1, -1, missing)], dim=-1)
    if missing < 0:
        goes_on = (char_ids[..., width] != PADDING) & (char_ids[..., 0] > 0)
        char_ids = char_ids[..., :width].clone()
        char_ids[..., -1] = torch.where(goes_on, END_WORD, char_ids[..., -1])
    return char_ids


def _with_boundaries(tokens: Tensor, lengths: Int[Tensor, " B"], begin: Tensor, end: Tensor) -> Tensor:
    """Inserts `begin` before and `end` after the tokens of each row: (B, T, X) -> (B, T + 2, X)."""
    rows, steps, size = tokens.shape
    longer = tokens.new_zeros(rows, steps + 2, size)
    longer[:, 1:-1] = tokens
    longer[:, 0] = begin
    longer[torch.arange(rows, device=tokens.device), lengths + 1] = end
    return longer
