"""Opens a model with its name and the hash of everything that its vectors depend on."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elmo import formats
from elmo.formats import Model, content_hash


@dataclass(frozen=True)
class OpenedModel:
    """A biLM with its name and hash."""

    name: str
    """The name or path as given; the default model has its own name."""
    model: Model
    sha256: str
    """The hash of everything that its vectors depend on."""

    def card(self) -> dict[str, Any]:
        """Returns the description of the biLM in a result, as plain JSON values.

        It has the sizes, since models of different sizes must not be compared by the words that they have read:
        `cells` are those of an LSTM in one direction, and `projection_dim` is None if there is no projection.
        """
        kept = ("date", "words_read", "init_from", "translation")
        said = {key: self.model.card[key] for key in kept if key in self.model.card}
        lstm = self.model.config.lstm
        size = {"cells": lstm.dim, "projection_dim": lstm.projection_dim if lstm.has_projection else None}
        return {"model": self.name, "sha256": self.sha256, **said, **size}


def is_bilm(card: Mapping[str, Any]) -> bool:
    """Returns whether the card is that of a biLM; the encoder of a translation model (CoVe) is not one."""
    return "translation" not in card


def open_model(name: str | Path | None) -> OpenedModel:
    """Opens the biLM with this path or name. Raises the errors of `elmo.formats.load`."""
    model = formats.load(name)
    return OpenedModel(formats.recorded_name(name), model, content_hash(model))
