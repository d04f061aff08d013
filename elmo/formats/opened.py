"""Opening a model: its weights, its name and the hash of everything that its vectors depend on."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from elmo import formats
from elmo.formats import Model, content_hash


@dataclass(frozen=True)
class OpenedModel:
    """A biLM, and the hash of its layers."""

    name: str
    """As given; the default model's own."""
    model: Model
    sha256: str
    """The hash of everything that its vectors depend on."""

    def card(self) -> dict[str, Any]:
        """The description of the biLM in a result: plain JSON values.

        `cells` are those of an LSTM in one direction, `projection_dim` is None without a projection: models of
        different sizes must not be compared by the words that they have read.
        """
        kept = ("date", "words_read", "init_from", "translation")
        said = {key: self.model.card[key] for key in kept if key in self.model.card}
        lstm = self.model.config.lstm
        size = {"cells": lstm.dim, "projection_dim": lstm.projection_dim if lstm.has_projection else None}
        return {"model": self.name, "sha256": self.sha256, **said, **size}


def is_bilm(card: Mapping[str, Any]) -> bool:
    """Whether a model, as a result describes it, is a biLM; the encoder of a translation model (CoVe) is not one."""
    return "translation" not in card


def open_model(name: str) -> OpenedModel:
    """The biLM at a path or of a name. Raises the errors of `elmo.formats.load`."""
    model = formats.load(name)
    return OpenedModel(formats.recorded_name(name), model, content_hash(model))
