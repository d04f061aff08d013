"""Starting a run from another model: its settings, vocabulary and weights.

`init_vocab` chooses the vocabulary:

- "keep" takes the model's own, with its softmax.
- "replace" takes that of the new text; words that the model knows keep their rows of the softmax, other rows are new.
- "extend" takes the model's own, then the new words of the new text.

A run may have more cells or a wider projection than the model, and begins with what that computes. The idea is that of
Net2Net (Chen et al. 2016), with new units instead of copies: weights into a new cell or dimension are random, weights
from it to old ones are zero. The outputs equal the narrow model's to the last bits, and every zero has a gradient from
the first step.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from elmo import config as configs
from elmo import formats
from elmo.errors import InputError
from elmo.formats import Description, Model
from elmo.model.bilm import BiLM
from elmo.model.config import BiLMConfig
from elmo.pretraining.objective import LanguageModel
from elmo.text import corpus
from elmo.text.vocabulary import Vocabulary

InitVocab = Literal["keep", "replace", "extend"]
CHOICES: tuple[InitVocab, ...] = get_args(InitVocab)


def settings_of(found: Description) -> dict[str, Any]:
    """Returns the settings that a run takes from the model it starts from: `model` and, if known, `text`."""
    values = {"model": configs.to_dict(found.config)}
    return values if found.text is None else values | {"text": configs.to_dict(found.text)}


def check_source(
    found: Description | Model, path: str, init_vocab: InitVocab, config: BiLMConfig, vocab: str | None
) -> None:
    """Raises InputError if a run of `config` cannot start from the model `found` at `path`."""
    if found.config != config and (problem := growth_obstacle(found.config, config)):
        was, now = configs.differing_parts(configs.to_dict(found.config), configs.to_dict(config))
        raise InputError(f"{path}: its model has {was!r}, but model is set to {now!r}; {problem}")
    if init_vocab == "keep" and vocab is not None:
        raise InputError(f"vocab is {vocab!r}, but init_vocab is keep; to use that file: --vocab replace, or extend")
    if init_vocab != "replace" and (found.vocabulary is None or found.lm_head is None):
        raise InputError(f"{path}: has no softmax to {init_vocab}; give the new text's words one: --vocab replace")


def names_of(patterns: Sequence[str]) -> list[str]:
    """Returns file names for a card, without folders."""
    return [Path(pattern).name for pattern in patterns]


def origin_of(
    found: Description, path: str, init_vocab: InitVocab, train: Sequence[str], fingerprint: str, config: BiLMConfig
) -> dict[str, Any]:
    """Returns the entry of a model card on the model that the run started from; `fingerprint` is that of its files.

    `continues` says that the model had read the same files and nothing else, so this run continues its pretraining.
    `grown_from` has the model's sizes, if this run's `config` is wider; `license` that of the model, if it is known.
    """
    card = found.card
    words, before = card.get("words_read"), card.get("init_from")
    read = card.get("fingerprint")  # the cards of english-small and english-large have none
    is_same = corpus.is_fingerprint(read, fingerprint) if read is not None else card.get("train") == names_of(train)
    is_first = before is None or (isinstance(before, dict) and before.get("continues") is True)
    origin = {
        "model": Path(formats.recorded_name(path)).name,
        "vocab": init_vocab,
        "words_read": words,
        "continues": words is not None and is_same and is_first,
    }
    if found.config != config:
        lstm = found.config.lstm
        origin["grown_from"] = {"dim": lstm.dim, "projection_dim": lstm.projection_dim}
    if isinstance(license := card.get("license"), str):
        origin["license"] = license
    return origin


def initial_vocabulary(own: Vocabulary | None, counted: Vocabulary, init_vocab: InitVocab) -> Vocabulary:
    """Returns the vocabulary of the run, from the model's and the counted or given one."""
    if own is None or init_vocab == "replace":
        return counted
    if init_vocab == "keep":
        return own
    return Vocabulary(own.words + tuple(word for word in counted.words if word not in own))


@torch.no_grad()
def begin_from(language_model: LanguageModel, vocabulary: Vocabulary, source: Model) -> None:
    """Copies the weights of `source` into a new model, which may be wider.

    The softmax has its rows for the words of `vocabulary` that it knows; the rows of other words stay random.
    """
    grow_into(language_model.bilm, source.weights)
    if source.lm_head is None or source.vocabulary is None:
        return
    rows = [row for row, word in enumerate(vocabulary.words) if word in source.vocabulary]
    theirs = source.vocabulary.ids(vocabulary.words[row] for row in rows)
    for name, parameter in language_model.lm_head.named_parameters():
        values = source.lm_head[name][theirs].to(parameter.dtype)
        parameter[rows] = widen_last(values, parameter.shape[-1]) if values.dim() == 2 else values


def growth_obstacle(narrow: BiLMConfig, wide: BiLMConfig) -> str:
    """Returns why a model of `narrow` cannot become one of `wide`, with the remedy, or an empty text if it can."""
    lstm = replace(wide.lstm, dim=narrow.lstm.dim, projection_dim=narrow.lstm.projection_dim)
    is_wider = wide.lstm.dim >= narrow.lstm.dim and wide.lstm.projection_dim >= narrow.lstm.projection_dim
    if replace(wide, lstm=lstm) != narrow or not is_wider:
        return "only model.lstm.dim and model.lstm.projection_dim may be larger: omit the others"
    if not narrow.lstm.has_projection:
        return "a model without a projection, its dim equal to its projection_dim, does not grow: omit both"
    if not wide.lstm.has_projection:
        return "a dim equal to projection_dim leaves no room for the model's projection: give another dim"
    filters = None if wide.char_cnn is None else wide.char_cnn.n_filters
    if wide.lstm.projection_dim == filters != narrow.lstm.projection_dim:
        return (
            f"a projection_dim of {filters}, the number of character filters, leaves no room for the model's"
            " projection of its tokens: give another"
        )
    return ""


@torch.no_grad()
def grow_into(bilm: BiLM, weights: Mapping[str, Tensor]) -> None:
    """Copies the weights of a biLM that is at most as wide into a new one, in place; see `growth_obstacle`."""
    weights = _identity(bilm.config) | dict(weights)
    for name, wide in bilm.state_dict().items():
        narrow = weights[name].to(wide.dtype)
        if name.endswith((".weight_input", ".weight_state", ".bias")) and name.startswith("layers."):
            # The four gates are stacked, and each of them grows separately.
            wide, narrow = (t.view(2, 4, -1, *t.shape[2:]) for t in (wide, narrow))
        wide[tuple(slice(size) for size in narrow.shape[:-1])] = widen_last(narrow, wide.shape[-1])


def _identity(config: BiLMConfig) -> dict[str, Tensor]:
    """The token projection of a model that has none, since it is as wide as its filters."""
    if config.char_cnn is None:
        return {}
    filters = config.char_cnn.n_filters
    parts = {"weight": torch.eye(filters), "bias": torch.zeros(filters)}
    return {f"token_encoder.projection.{name}": part for name, part in parts.items()}


def widen_last(narrow: Tensor, size: int) -> Tensor:
    """Pads the last dimension of `narrow` with zeros to `size`."""
    return torch.nn.functional.pad(narrow, (0, size - narrow.shape[-1]))
