"""`elmo.train`: a run of pretraining from Python, by the same settings as from the command line."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from elmo import config as configs
from elmo.errors import InputError, path_of, shown
from elmo.pretraining import train as training
from elmo.pretraining.settings import TrainConfig, on_its_base
from elmo.text.given import check_outer
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
        "train": _names("train", train),
        "heldout": (None if heldout is None else _names("heldout", heldout)) or None,
        "output": str(path_of("output", output)),
        "init_from": None if init_from is None else str(init_from),
    }
    for logger in (loggers := list(check_outer(loggers, "a list of loggers is expected"))):
        if not (hasattr(logger, "log_metrics") and hasattr(logger, "finalize")):
            raise InputError(f"a logger is {shown(logger)}; an object with log_metrics and finalize is expected")
    file = None if recipe is None else configs.find_recipe(str(path_of("recipe", recipe)))
    given = configs.combined({} if file is None else configs.load_toml(file), flags, settings)
    values, source = on_its_base(given, Path(output) / "train.json" if resume else None)
    done = training.pretrain(
        configs.from_dict(TrainConfig, values), resume, quiet=quiet, loggers=loggers, source=source
    )
    return Path(done["model"])


def _names(name: str, files: Files) -> list[str]:
    is_one = isinstance(files, str | bytes | Path) or not isinstance(files, Iterable)
    given = [files] if is_one else check_outer(files, f"{name}: a file, or a list of files, is expected")
    return [str(path_of(name, each)) for each in given]
