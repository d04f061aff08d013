"""ELMo in transformers: `import elmo.integrations.transformers`, then `AutoModel`, `AutoTokenizer`, `pipeline`.

A folder in the native format (`elmo convert`) is a folder of transformers, and one that transformers saved is opened by
`elmo.load`. Needs the extra `transformers`.
"""

from collections.abc import Sequence
from typing import Any, Self

import torch
from torch import Tensor, nn

from elmo.config import from_dict, to_dict
from elmo.errors import InputError
from elmo.formats import Mix, Model, native
from elmo.model.bilm import BiLM, BiLMConfig
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

    from elmo.integrations.transformers_tokenizer import ElmoTokenizer
except ImportError as error:  # pragma: no cover
    raise InputError(f"ElmoModel needs transformers ({error}): pip install 'elmo-torch[transformers]'") from error


class ElmoConfig(PretrainedConfig):
    """What is in the `config.json` of a native folder, and the settings of a network for tokens.

    `frozen` keeps the biLM's weights as they are; `dropout` is that of the mixed vectors.
    """

    model_type = native.MODEL_TYPE
    has_no_defaults_at_init = True  # so that nothing is left out of the file

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
        self.model = model or to_dict(BiLMConfig())
        self.text = text
        self.card = card or {}
        self.mixes = list(mixes)
        self.frozen = frozen
        self.dropout = dropout
        others.setdefault("dtype", "float32")  # a file of float16 is half as large, and is computed with in float32
        super().__init__(**others)

    @property
    def bilm(self) -> BiLMConfig:
        """The sizes of the network."""
        return from_dict(BiLMConfig, self.model)

    @property
    def hidden_size(self) -> int:
        """D."""
        return 2 * self.bilm.lstm.projection_dim

    @property
    def num_hidden_layers(self) -> int:
        """Layers above the token layer (N - 1)."""
        return self.bilm.lstm.n_layers


class ElmoModel(PreTrainedModel):
    """The biLM. `last_hidden_state` (B, T, D) is its top layer; `hidden_states` are all, the token layer first.

    `input_ids` (B, T, C) are those of `ElmoTokenizer`, the boundaries `<S>` and `</S>` first and last. Padding is what
    is 0 in them, and its vectors are 0; `attention_mask` says the same, and is not read.
    """

    config_class = ElmoConfig
    base_model_prefix = "elmo"
    main_input_name = "input_ids"
    # A softmax, and what a network for tokens has above the biLM.
    _keys_to_ignore_on_load_unexpected = [r"^lm_head\.", r"^mix\.", r"^classifier\."]  # noqa: RUF012

    def __init__(self, config: ElmoConfig) -> None:
        super().__init__(config)
        self.bilm = BiLM(config.bilm).requires_grad_(not config.frozen)
        self.post_init()

    @classmethod
    def of(cls, model: Model, **settings: Any) -> Self:
        """A loaded model as one of transformers, in evaluation mode; `settings` are those of `ElmoConfig`."""
        made = cls(ElmoConfig(**native.config_values(model), **settings))
        made.bilm.load_state_dict(model.weights)
        return made.eval()

    def stored(self) -> Model:
        """The model as every format of `elmo.formats` can save it; without its softmax and vocabulary."""
        config = self.config
        weights = {name: weight.detach().to("cpu", torch.float32) for name, weight in self.bilm.state_dict().items()}
        text = None if config.text is None else from_dict(TextConfig, config.text)
        mixes = tuple(from_dict(Mix, mix) for mix in config.mixes)
        return Model(config.bilm, weights, text=text, card=config.card, mixes=mixes)

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: Any, *arguments: Any, **options: Any) -> Any:
        """As in transformers. Raises InputError where weights of the biLM are missing; they would be random."""
        wants_info = options.pop("output_loading_info", False)
        options["output_loading_info"] = True
        load: Any = super().from_pretrained
        model, info = load(pretrained_model_name_or_path, *arguments, **options)
        missing = sorted(name for name in info["missing_keys"] if name.startswith("bilm."))
        if missing:
            raise InputError(f"{pretrained_model_name_or_path}: {missing[0]} is missing in its weights; copy it again")
        model.bilm.requires_grad_(not model.config.frozen)  # transformers 5 has made its parameters anew
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
        """All layers (N, B, T, D), and once more as transformers wants them, if it does."""
        size = self.config.bilm.ids_per_token
        if input_ids.ndim != 3 or input_ids.shape[-1] != size:
            raise InputError(
                f"input_ids has shape {tuple(input_ids.shape)}; (B, T, {size}) is expected: take those of ElmoTokenizer"
            )
        layers = self.bilm(Batch(input_ids, (input_ids[:, :, 0] != 0).sum(dim=1))).layers
        wanted = self.config.output_hidden_states if as_tuple is None else as_tuple
        return layers, tuple(layers) if wanted else None

    def _init_weights(self, module: nn.Module) -> None:
        """Of what is new; the biLM begins as it was made."""
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
        """As in transformers; `elmo.load(folder).elmo()` has the mix, too."""
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
        **_: Any,
    ) -> TokenClassifierOutput | tuple[Any, ...]:
        """`labels` (B, T) of -100 do not count in the loss."""
        layers, hidden_states = self._layers(input_ids, output_hidden_states)
        logits = self.classifier(self.dropout(self.mix(layers, input_ids[:, :, 0] != 0)))
        loss = None if labels is None else nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
        output = TokenClassifierOutput(loss=loss, logits=logits, hidden_states=hidden_states)  # type: ignore[arg-type]
        return output.to_tuple() if return_dict is False else output


AutoConfig.register(ElmoConfig.model_type, ElmoConfig, exist_ok=True)
AutoModel.register(ElmoConfig, ElmoModel, exist_ok=True)
AutoModelForTokenClassification.register(ElmoConfig, ElmoForTokenClassification, exist_ok=True)
AutoTokenizer.register(ElmoConfig, slow_tokenizer_class=ElmoTokenizer, exist_ok=True)
