"""`elmo.train`: a run of pretraining from Python, by the same settings as from the command line."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from elmo import config as configs
from elmo.pretraining import initial
from elmo.pretraining import train as training
from elmo.pretraining.settings import TrainConfig, read_record
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
    """The folder of the model; see `elmo.train`."""
    given: dict[str, Any] = {} if recipe is None else configs.load_toml(Path(recipe))
    flags: dict[str, Any] = {"train": _names(train), "output": str(output)}
    flags |= {"heldout": _names(heldout)} if heldout else {}
    flags |= {"init_from": str(init_from)} if init_from is not None else {}
    given = configs.merge(configs.merge(given, settings), flags)
    record = Path(output) / "train.json"
    if resume and record.is_file():
        given = configs.merge(configs.to_dict(read_record(record)), given)
    elif given.get("init_from") not in (None, "none"):
        given = configs.merge(initial.settings_of(given["init_from"]), given)
    done = training.main(configs.from_dict(TrainConfig, given), resume, quiet=quiet, loggers=loggers)
    return Path(done["model"])


def _names(files: Files) -> list[str]:
    return [str(files)] if isinstance(files, str | Path) else list(map(str, files))
