"""Writes the model of a run, with a card that says how it was made, and reads what a run has written."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from elmo import config as configs
from elmo.formats import Model, native
from elmo.pretraining.initial import names_of
from elmo.pretraining.objective import LanguageModel
from elmo.pretraining.perplexity import Perplexity, Policy
from elmo.pretraining.settings import TrainConfig, read_record
from elmo.text.vocabulary import Vocabulary


def write_model(
    model: LanguageModel,
    vocabulary: Vocabulary,
    config: TrainConfig,
    folder: Path,
    words: int,
    measured: dict[Policy, Perplexity],
    origin: dict[str, Any] | None,
    fingerprint: str,
) -> None:
    """Writes `folder/model`, with a card that says how it was made; `origin` is from `initial.origin_of`."""
    card = {
        "made_by": "elmo train",
        "date": datetime.now(UTC).date().isoformat(),
        "words_read": _words_read(words, origin),
        "train": names_of(config.train),
        "fingerprint": fingerprint,
        "vocabulary": {"size": len(vocabulary), "sha256": vocabulary.sha256},
        "heldout": names_of(config.heldout),
        "perplexity": {policy: perplexity.summary() for policy, perplexity in measured.items()},
    }
    if origin is not None:
        card["init_from"] = origin
        if "license" in origin:  # what is made from a model keeps its terms
            card["license"] = origin["license"]
    stored = Model(config.model, model.bilm.state_dict(), model.lm_head.state_dict(), vocabulary, config.text, card)
    native.save(stored, folder / "model", overwrite=True, store=config.store)


def _words_read(words: int, origin: dict[str, Any] | None) -> int:
    """The number of words of this text that were read, those by the first model included if the run continues it."""
    return words + (origin["words_read"] if origin is not None and origin["continues"] else 0)


def is_exported(config: TrainConfig, words: int, origin: dict[str, Any] | None) -> bool:
    """Returns whether the folder's model has read `words` of the run's text, was measured on this held-out text, and is
    stored as the settings say.
    """
    path = Path(config.output) / "model"
    before = read_record(Path(config.output) / "train.json")
    if any(getattr(before, name) != getattr(config, name) for name in ("heldout", "evaluate_words", "store")):
        return False
    if not native.recognizes(path):
        return False
    card = native.describe(path).card
    return card["words_read"] == _words_read(words, origin) and card["heldout"] == names_of(config.heldout)


def is_recorded(folder: Path, numbers: dict[str, Any]) -> bool:
    """Returns whether the last line of `metrics.jsonl` has these numbers."""
    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8", errors="replace").splitlines()
    try:
        last = json.loads(lines[-1]) if lines else {}
        return all(last.get(name) == value for name, value in configs.without_nonfinite(numbers).items())
    except (ValueError, AttributeError, RecursionError):  # the line is damaged
        return False


def perplexities_in(model: Path) -> str:
    """Returns the perplexities in the model's card, of each state policy."""
    measured = native.describe(model).card["perplexity"]
    found = ", ".join(f"{numbers['mean']:,.1f} (state {policy})" for policy, numbers in measured.items())
    return found or "not measured: give held-out text, --heldout"


def other_file(model: Path) -> str | None:
    """Returns the name of a file in the model's folder that is not the model's; such a folder is not replaced."""
    names = sorted(path.name for path in model.iterdir()) if model.is_dir() else []
    return next((name for name in names if name not in native.FILES), None)
