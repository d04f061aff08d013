"""ELMo in transformers: `import elmo.integrations.transformers`, then `AutoModel`, `AutoTokenizer`, `pipeline`.

transformers opens a folder in the native format (`elmo convert`), and `elmo.load` opens one that transformers saved.
This module needs the extra `transformers`.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn

from elmo.config import from_dict, to_dict
from elmo.errors import InputError, pip_line, shown
from elmo.formats import Mix, Model, check_finite, native
from elmo.model.bilm import BiLM
from elmo.model.config import BiLMConfig
from elmo.model.scalar_mix import ScalarMix
from elmo.text.tokenizer import TextConfig
from elmo.types import Batch

try:
    from transformers import (
        AutoConfig,
        AutoModel,
        AutoModelForTokenClassification,
        AutoTokenizer,
        PretrainedConfig,
        PreTrainedModel,
    )
    from transformers.modeling_outputs import BaseModelOutput, TokenClassifierOutput
    from transformers.utils.hub import cached_file

    from elmo.integrations.transformers_tokenizer import ElmoTokenizer
except ImportError as error:  # pragma: no cover
    raise InputError(f"ElmoModel needs transformers ({error}): {pip_line('transformers')}") from error


class ElmoConfig(PretrainedConfig):
    """The `config.json` of a native folder, and the settings of a token classifier.

    `frozen` excludes the biLM from training; `dropout` is that of the mixed vectors.
    """

    model_type = native.MODEL_TYPE
    has_no_defaults_at_init = True  # so that the file has all settings

    def __init__(
        self,
        model: dict[str, Any] | None = None,
        text: dict[str, Any] | None = None,
        card: dict[str, Any] | None = None,
        mixes: Sequence[dict[str, Any]] = (),
        frozen: bool = True,
        dropout: float = 0.5,
        **others: Any,
    ) -> None:
        self.format = others.pop("format", native.FORMAT)
        self.version = others.pop("version", native.VERSION)
        native.check_version(native.CONFIG, self.version)
        self.model = model or to_dict(BiLMConfig())
        self.text = text
        self.card = card or {}
        self.mixes = list(mixes)
        self.frozen = frozen
        self.dropout = dropout
        others.setdefault("dtype", "float32")  # a float16 file is half as large, but computation is in float32
        super().__init__(**others)

    @property
    def bilm(self) -> BiLMConfig:
        """The network's configuration."""
        return from_dict(BiLMConfig, self.model)

    @property
    def hidden_size(self) -> int:
        """The size of a vector (D)."""
        return 2 * self.bilm.lstm.projection_dim

    @property
    def num_hidden_layers(self) -> int:
        """The number of layers above the token layer (N - 1)."""
        return self.bilm.lstm.n_layers


class ElmoModel(PreTrainedModel):
    """The biLM. `last_hidden_state` (B, T, D) is its top layer; `hidden_states` are all layers, the token layer first.

    `input_ids` (B, T, C) are from `ElmoTokenizer`: a row is a text, whose sentences stand between the boundaries `<S>`
    and `</S>`, and the biLM reads each sentence alone. Zeros are padding, with zero vectors; `attention_mask` says the
    same and is not used.
    """

    config_class = ElmoConfig
    base_model_prefix = "elmo"
    main_input_name = "input_ids"
    # These belong to a softmax, to 8-bit rows (their scales) and to a token classifier above the biLM.
    _keys_to_ignore_on_load_unexpected = [r"^lm_head\.", r"^scales\.", r"^mix\.", r"^classifier\."]  # noqa: RUF012

    def __init__(self, config: ElmoConfig) -> None:
        super().__init__(config)
        self.bilm = BiLM(config.bilm).requires_grad_(not config.frozen)
        self.post_init()

    @classmethod
    def of(cls, model: Model, **settings: Any) -> Self:
        """Converts a loaded model, in evaluation mode; `settings` are those of `ElmoConfig`."""
        made = cls(ElmoConfig(**native.config_values(model), **settings))
        made.bilm.load_state_dict(model.weights)
        return made.eval()

    def stored(self) -> Model:
        """Returns the model, which any format of `elmo.formats` can save, without softmax and vocabulary."""
        config = self.config
        weights = {name: weight.detach().to("cpu", torch.float32) for name, weight in self.bilm.state_dict().items()}
        text = None if config.text is None else from_dict(TextConfig, config.text)
        mixes = tuple(from_dict(Mix, mix) for mix in config.mixes)
        return Model(config.bilm, weights, text=text, card=config.card, mixes=mixes)

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: Any, *arguments: Any, **options: Any) -> Any:
        """Loads a model as transformers does.

        Raises InputError if the biLM lacks weights, which would be random, or has some that are not finite.
        """
        wants_info = options.pop("output_loading_info", False)
        options["output_loading_info"] = True
        weights = _of_8_bit_rows(pretrained_model_name_or_path, options)
        load: Any = super().from_pretrained
        model, info = load(pretrained_model_name_or_path, *arguments, **options)
        missing = sorted(name for name in info["missing_keys"] if name.startswith("bilm."))
        if missing:
            raise InputError(f"{pretrained_model_name_or_path}: the weights lack {missing[0]}; copy it again")
        if weights is not None:  # transformers has read the matrices as integers
            like = next(weight for weight in model.bilm.parameters() if weight.is_floating_point())
            model.bilm.load_state_dict({key: weight.to(like) for key, weight in weights.items()}, assign=True)
        check_finite(pretrained_model_name_or_path, model.stored())
        model.bilm.requires_grad_(not model.config.frozen)  # transformers 5 creates new parameters
        return (model, info) if wants_info else model

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
        **_: Any,
    ) -> BaseModelOutput | tuple[Any, ...]:
        layers, hidden_states = self._layers(input_ids, output_hidden_states)
        output = BaseModelOutput(last_hidden_state=layers[-1], hidden_states=hidden_states)  # type: ignore[arg-type]
        return output.to_tuple() if return_dict is False else output

    def _layers(self, input_ids: Tensor, as_tuple: bool | None) -> tuple[Tensor, tuple[Tensor, ...] | None]:
        """Returns all layers (N, B, T, D), and if requested, the same layers as a tuple for transformers."""
        size = self.config.bilm.ids_per_token
        if not isinstance(input_ids, Tensor):
            raise InputError(f"input_ids is {shown(input_ids)}; a tensor is expected, as from ElmoTokenizer")
        if input_ids.ndim != 3 or input_ids.shape[-1] != size:
            raise InputError(
                f"input_ids has shape {tuple(input_ids.shape)}; (B, T, {size}) is expected, as from ElmoTokenizer"
            )
        there = input_ids[:, :, 0] != 0
        if (there[:, 1:] > there[:, :-1]).any():
            raise InputError("input_ids has padding before a token; pad on the right: tokenizer.padding_side = 'right'")
        layers = self._read(input_ids, there)
        wanted = self.config.output_hidden_states if as_tuple is None else as_tuple
        return layers, tuple(layers) if wanted else None

    def _read(self, input_ids: Tensor, there: Tensor) -> Tensor:
        """Returns all layers (N, B, T, D) of texts; each of their sentences is a row for the biLM."""
        rows, steps = there.nonzero(as_tuple=True)
        begins = _sentence_begins(input_ids, there)[rows, steps]
        first = begins.nonzero()[:, 0]
        sentence = begins.cumsum(0) - 1
        place = torch.arange(len(rows), device=rows.device) - first[sentence]
        lengths = sentence.bincount()
        ids = input_ids.new_zeros(len(first), max(lengths.tolist(), default=0), input_ids.shape[2])
        ids[sentence, place] = input_ids[rows, steps]
        read = self.bilm(Batch(ids, lengths)).layers
        layers = read.new_zeros(len(read), *there.shape, read.shape[-1])
        layers[:, rows, steps] = read[:, sentence, place]
        return layers

    def _init_weights(self, module: nn.Module) -> None:
        """Initializes new modules; the biLM initializes itself."""
        if isinstance(module, ScalarMix):
            nn.init.zeros_(module.scalars)
            nn.init.ones_(module.gamma)
        elif module is getattr(self, "classifier", None):
            nn.init.normal_(module.weight, std=0.02)  # type: ignore[arg-type]
            nn.init.zeros_(module.bias)  # type: ignore[arg-type]


class ElmoForTokenClassification(ElmoModel):
    """A learned mix of all layers (Peters et al. 2018, eq. 1), dropout, and a linear layer over each token."""

    def __init__(self, config: ElmoConfig) -> None:
        super().__init__(config)
        self.num_labels = config.num_labels
        self.mix = ScalarMix(config.num_hidden_layers + 1)
        self.dropout = nn.Dropout(config.dropout)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()

    def save_pretrained(self, save_directory: Any, *arguments: Any, **options: Any) -> Any:
        """Saves the model as transformers does, with the mix, which `elmo.load(folder).elmo()` then has, too."""
        mix = Mix("tokens", tuple(self.mix.scalars.tolist()), self.mix.gamma.item())
        self.config.mixes = [to_dict(mix)]
        return super().save_pretrained(save_directory, *arguments, **options)

    def forward(  # type: ignore[override]
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
        num_items_in_batch: Tensor | int | None = None,
        **_: Any,
    ) -> TokenClassifierOutput | tuple[Any, ...]:
        """Returns the logits and, with `labels` (B, T), the mean loss over all labels except -100.

        A trainer that accumulates gradients gives `num_items_in_batch`, the labels of all batches of a step; the loss
        is then this batch's share of their mean.
        """
        layers, hidden_states = self._layers(input_ids, output_hidden_states)
        logits = self.classifier(self.dropout(self.mix(layers, input_ids[:, :, 0] != 0)))
        loss = None if labels is None else _loss(logits, labels, num_items_in_batch)
        output = TokenClassifierOutput(loss=loss, logits=logits, hidden_states=hidden_states)  # type: ignore[arg-type]
        return output.to_tuple() if return_dict is False else output


def _of_8_bit_rows(name: Any, options: dict[str, Any]) -> dict[str, Tensor] | None:
    """Reads the biLM's weights if the file has 8-bit rows, which transformers would take for whole numbers."""
    of_the_hub = ("cache_dir", "force_download", "local_files_only", "token", "revision", "subfolder")
    given = {key: options[key] for key in of_the_hub if key in options}
    try:
        file = None if name is None else cached_file(name, native.WEIGHTS, **given)
    except OSError:  # transformers will report it
        return None
    return None if file is None else native.read_int8(Path(file))


def _sentence_begins(input_ids: Tensor, there: Tensor) -> Tensor:
    """Returns where sentences begin (B, T): first in a row, and where the row's `<S>` follows its `</S>`."""
    last = (there.sum(dim=1) - 1).clamp(min=0)
    end = input_ids[torch.arange(len(input_ids), device=last.device), last]
    is_end = (input_ids == end[:, None]).all(dim=-1)
    begins = (input_ids == input_ids[:, :1]).all(dim=-1)
    begins[:, 1:] &= is_end[:, :-1]
    return begins


def _loss(logits: Tensor, labels: Tensor, count: Tensor | int | None) -> Tensor:
    """Returns the mean loss over labels or, with `count`, the sum of their losses divided by it."""
    logits, labels = logits.flatten(0, 1), labels.flatten()
    if count is None:
        return nn.functional.cross_entropy(logits, labels)
    return nn.functional.cross_entropy(logits, labels, reduction="sum") / count


AutoConfig.register(ElmoConfig.model_type, ElmoConfig, exist_ok=True)
AutoModel.register(ElmoConfig, ElmoModel, exist_ok=True)
AutoModelForTokenClassification.register(ElmoConfig, ElmoForTokenClassification, exist_ok=True)
AutoTokenizer.register(ElmoConfig, slow_tokenizer_class=ElmoTokenizer, exist_ok=True)
