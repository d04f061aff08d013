"""`elmo.train`: a run of pretraining from Python, by the same settings as from the command line."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from elmo import config as configs
from elmo.pretraining import train as training
from elmo.pretraining.settings import TrainConfig, on_its_base
from elmo.training.monitor import Logger

Files = str | Path | Sequence[str | Path]


def train(
    train: Files,
    output: str | Path,
    heldout: Files,
    recipe: str | Path | None,
    init_from: str | Path | None,
    resume: bool,
    quiet: bool,
    loggers: Sequence[Logger],
    settings: dict[str, Any],
) -> Path:
    """Trains and returns the folder of the model; see `elmo.train`."""
    flags = {
        "train": _names(train),
        "heldout": _names(heldout) or None,
        "output": str(output),
        "init_from": None if init_from is None else str(init_from),
    }
    given = configs.combined({} if recipe is None else configs.load_toml(Path(recipe)), flags, settings)
    values, source = on_its_base(given, Path(output) / "train.json" if resume else None)
    done = training.pretrain(
        configs.from_dict(TrainConfig, values), resume, quiet=quiet, loggers=loggers, source=source
    )
    return Path(done["model"])


def _names(files: Files) -> list[str]:
    return [str(files)] if isinstance(files, str | Path) else list(map(str, files))
