"""Collects the weights that trained task models give the layers (Peters et al. 2018, Figure 2).

- The probe reads the results of `elmo task train` and `elmo task compare`: `seed-N/result.json`, at any depth.
- A row has a layer's share of a mix (softmax over the layers), and the mix's gamma.
- Runs without ELMo have no rows, and neither have mixes that are not learned: a single layer, the mean of all.
- For an arm that was tuned, the rows are of the trial that is best on dev.
"""

import os
import re
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from elmo.disk.run import read_json
from elmo.errors import InputError
from elmo.formats.opened import is_bilm
from elmo_lab import figures
from elmo_lab.document import Block, Figure, Figures
from elmo_lab.probes import blocks
from elmo_lab.probes.probe import Context, Probe
from elmo_lab.record import RunRecord
from elmo_lab.tasks import task as tasks
from elmo_lab.tasks.queue import TRIAL
from elmo_lab.tasks.train import CONFIG
from elmo_lab.tasks.trained import RECORD, RESULT, SEED

PLACES = ("input", "output")
"""The places where a task model uses the mix, in the order of the rows."""
BILM, TRANSLATION = "biLM", "translation"


@dataclass(frozen=True)
class WeightsConfig:
    """The runs to read."""

    runs: tuple[str, ...]
    """The folders to read, which are runs or contain runs."""


@dataclass(frozen=True)
class WeightRow:
    """The weight of one layer in one mix of one network."""

    task: str
    run: str
    """The run's folder, relative to the given one, such as `ner-wnut17/both`, a row and arm of a queue."""
    seed: int
    place: str
    layer: int
    """The layer's number, from 0 (the word without context)."""
    weight: float
    """The layer's weight, 0 to 1; the weights of a mix sum to 1."""
    gamma: float
    """The factor of the mix."""
    encoder: str = BILM
    """The encoder that has these layers: a biLM, or that of a translation model (CoVe)."""


@dataclass(frozen=True)
class MeanWeightRow(figures.LayerShare):
    """The mean over the seeds of a run, of one layer at one place."""

    seeds: int
    weight_std: float
    """The sample standard deviation of the weight; 0 for one seed."""


def collect(config: WeightsConfig, left_out: Callable[[str], object] = lambda mix: None) -> list[WeightRow]:
    """Collects the rows of all runs, sorted by run, place and layer, then by seed.

    `left_out` is called with the run, seed and place of every mix that is not learned. Raises InputError if a folder
    holds no network that mixes layers, or a result is damaged.
    """
    if not config.runs:
        raise InputError("no runs given; give folders of finished runs of elmo task train")
    roots = {name: Path(os.path.abspath(name)) for name in config.runs}  # noqa: PTH100 (this keeps the names of links)
    try:
        common = Path(os.path.commonpath(list(roots.values())))
    except ValueError:  # they are on several drives
        common = None
    rows: set[WeightRow] = set()
    for name in config.runs:
        base, found = common or roots[name].parent, set[WeightRow]()
        for run, files in _arms(roots[name]).items():
            named = run.relative_to(base).as_posix() if base in run.parents else run.name
            found.update(row for file in files for row in _rows(file, named, left_out))
        if not found:
            raise InputError(f"{name}: no network that mixes ELMo's layers; give finished runs of elmo task train")
        rows |= found
    return sorted(rows, key=lambda row: (_natural(row.run), PLACES.index(row.place), row.layer, row.seed))


def means(rows: Sequence[WeightRow]) -> list[MeanWeightRow]:
    """Computes the means over the seeds for every run, place and layer, in the order of the rows."""
    groups: dict[tuple[str, str, str, int], list[WeightRow]] = {}
    for row in rows:
        groups.setdefault((row.task, row.run, row.place, row.layer), []).append(row)
    return [
        MeanWeightRow(
            *key,
            weight=statistics.fmean(row.weight for row in members),
            gamma=statistics.fmean(row.gamma for row in members),
            seeds=len(members),
            weight_std=statistics.stdev(row.weight for row in members) if len(members) > 1 else 0.0,
        )
        for key, members in groups.items()
    ]


def _natural(name: str) -> tuple[tuple[int, str], ...]:
    """A sort key that puts run-10 after run-9."""
    return tuple((int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name))


def _arms(root: Path) -> dict[Path, list[Path]]:
    """Finds the results of every run below `root`; of an arm with trials (`arm/trial-1` ...), those of the best.

    A trial that is given directly counts as a run of its own. So do trials of different tasks or places of ELMo.
    """
    if not root.is_dir():
        raise InputError(f"{root}: no such folder; give folders of finished runs of elmo task train")
    runs: dict[Path, list[Path]] = {}
    for file in sorted(_results(root), key=lambda file: _natural(str(file))):
        runs.setdefault(file.parent.parent, []).append(file)
    arms: dict[Path, dict[Path, list[Path]]] = {}
    for run, files in runs.items():
        is_trial = TRIAL.fullmatch(run.name) and root in (run.parent, *run.parent.parents)
        arms.setdefault(run.parent if is_trial else run, {})[run] = files
    found: dict[Path, list[Path]] = {}
    for arm, tried in arms.items():
        if len(tried) == 1:
            (found[arm],) = tried.values()
        elif len({_kind(files[0].parent) for files in tried.values()}) == 1:
            found[arm] = max(tried.values(), key=_on_dev)
        else:
            found |= tried
    return found


def _results(root: Path) -> Iterator[Path]:
    """Yields the results below a folder, each once; links are followed."""
    seen: set[str] = set()
    for folder, inside, files in os.walk(root, followlinks=True):
        if CONFIG in files:
            inside[:] = [each for each in inside if SEED.fullmatch(each) or not each.startswith("seed-")]
        inside.sort()
        if (real := os.path.realpath(folder)) in seen:
            inside.clear()
            continue
        seen.add(real)
        if RESULT in files:
            yield Path(folder, RESULT)


def _kind(folder: Path) -> tuple[str, str, str]:
    """Returns what all trials of an arm have in common: the task, the training data and the place of ELMo."""
    said = _said(folder)
    return said["task"], str(said.get("train")), str(_inputs(said).get("elmo"))


def _on_dev(files: Sequence[Path]) -> float:
    """Returns the score of a trial's first seed on dev, as the queue computes it."""
    config = files[0].parent.parent / CONFIG
    seeds = (read_json(config).get("seeds") if config.is_file() else None) or ()
    first = next((file for seed in seeds[:1] for file in files if file.parent.name == f"seed-{seed}"), files[0])
    result, task = read_json(first), tasks.find(_said(first.parent)["task"])
    try:
        return float(result["dev"][task.metric])
    except (KeyError, TypeError, ValueError) as error:
        raise _no_result(first, error) from error


def _rows(file: Path, name: str, left_out: Callable[[str], object]) -> Iterator[WeightRow]:
    result = read_json(file)
    try:
        mixes, seed = result["mixes"], int(result["seed"])
        unknown = set(mixes) - set(PLACES)
        encoder = BILM if is_bilm(result.get("bilm") or {}) else TRANSLATION
        values = {place: ([float(w) for w in mix["weights"]], float(mix["gamma"])) for place, mix in mixes.items()}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _no_result(file, error) from error
    if unknown:
        raise InputError(f"{file}: has a mix at {', '.join(sorted(unknown))}; only input and output are expected")
    said = _said(file.parent) if values else {}
    is_mean = _inputs(said).get("layers") == "average"
    for place, (shares, gamma) in values.items():
        if is_mean or len(shares) == 1:
            left_out(f"{name}, seed {seed}, {place}")
            continue
        for layer, weight in enumerate(shares):
            yield WeightRow(said["task"], name, seed, place, layer, weight, gamma, encoder)


def _no_result(file: Path, error: Exception) -> InputError:
    return InputError(f"{file}: not the result of a trained task ({error!r}); train it again")


def _said(folder: Path) -> dict[str, Any]:
    """Reads a network's settings, at least its task, from its run's configuration or else from its own record."""
    for file in (folder.parent / CONFIG, folder / RECORD):
        if file.is_file():
            said = read_json(file)
            if isinstance(said.get("task"), str):
                return said
    raise InputError(f"{folder}: neither {CONFIG} nor {RECORD} names the task; give a complete run")


def _inputs(said: dict[str, Any]) -> dict[str, Any]:
    return inputs if isinstance(inputs := said.get("inputs"), dict) else {}


def _collect(config: WeightsConfig, context: Context) -> list[WeightRow]:
    """Collects the rows, and says how many mixes have none."""
    left_out: set[str] = set()
    rows = collect(config, left_out.add)
    if left_out:
        mixes = len({(row.run, row.seed, row.place) for row in rows}) + len(left_out)
        context.show(f"omitted, since they learn no layer weights: {len(left_out)} of {mixes} mixes")
    return rows


def _show(record: RunRecord) -> Iterator[Block]:
    """Shows Figure 2 and the means over the seeds."""
    found = means([WeightRow(**row) for row in record.rows])
    names = ", ".join(dict.fromkeys(f"{row.task} at the {row.place}" for row in found))
    alt = f"Weights of the biLM's layers in the mixes of {names}"
    figure = Figure("layer-weights", alt, lambda dark: figures.layer_weights(found, dark))
    yield Figures((figure,), "The weight of every layer in the mixes that the tasks learned, mean over the seeds.")
    yield from blocks.plain_tables(
        [asdict(row) | {"weight_std": row.weight_std if row.seeds > 1 else None} for row in found]
    )


PROBE = Probe("weights", "1", "The layer weights that the tasks learned", WeightsConfig, _collect, show=_show)
