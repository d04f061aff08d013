"""Ablations, which measure what parts of ELMo a task needs. They are a resumable queue of task runs.

Each analysis compares some arms, and has a table: `places` (Table 3 of the paper), `layers` (Table 2), `gamma`
(supplement A.2) and `types` (Table 7). Arms with the same settings are trained once, and shown in each analysis.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from elmo import config as configs
from elmo.errors import InputError
from elmo_lab import RECIPES, record
from elmo_lab.document import Block, Heading, Text, table
from elmo_lab.probes import blocks, queues
from elmo_lab.probes.probe import Context, Probe
from elmo_lab.record import RunRecord
from elmo_lab.tasks import compare, train
from elmo_lab.tasks.queue import Queue
from elmo_lab.tasks.queue import QueueRow as TaskRow
from elmo_lab.tasks.task import Place

NAME, VERSION = "ablate", "1"
Analysis = Literal["places", "layers", "gamma", "types"]

ARMS: dict[Analysis, dict[str, tuple[str, ...]]] = {
    "places": {"input": ("inputs.elmo=input",), "output": ("inputs.elmo=output",), "both": ("inputs.elmo=both",)},
    "layers": {
        "none": ("inputs.elmo=none",),
        "top": ("inputs.elmo=PLACE", "inputs.layers=top"),
        "lambda-1": ("inputs.elmo=PLACE", "inputs.layers=mix", "inputs.penalty=1.0"),
        "lambda-0.001": ("inputs.elmo=PLACE", "inputs.layers=mix", "inputs.penalty=0.001"),
    },
    "gamma": {
        "gamma-learned": ("inputs.elmo=PLACE", "inputs.gamma=learned"),
        "gamma-1": ("inputs.elmo=PLACE", "inputs.gamma=fixed"),
        "top-gamma-learned": ("inputs.elmo=PLACE", "inputs.layers=top", "inputs.gamma=learned"),
        "top-gamma-1": ("inputs.elmo=PLACE", "inputs.layers=top", "inputs.gamma=fixed"),
    },
    "types": {
        "static": ("inputs.elmo=none",),
        "layer-0": ("inputs.elmo=PLACE", "inputs.layers=types", "inputs.static=false"),
        "elmo": ("inputs.elmo=PLACE", "inputs.layers=mix", "inputs.static=false"),
        "static-elmo": ("inputs.elmo=PLACE", "inputs.layers=mix"),
    },
}
"""The arms of every analysis; each is compared with the first. PLACE stands for the setting `AblateConfig.place`."""

Runs = Mapping[tuple[str, Analysis, str], str]
"""The name of the run for a recipe's folder, an analysis and an arm."""


@dataclass(frozen=True)
class OwnSettings:
    """Settings for the runs of one recipe; they override the settings for all runs."""

    recipe: str
    """The recipe, as `AblateConfig.recipes` or the rows name it."""
    settings: tuple[str, ...]


@dataclass(frozen=True)
class AblateConfig:
    """The analyses, the tasks, and what all runs have in common."""

    output: str
    """The folder for the runs and the tables."""
    recipes: tuple[str, ...] = ("snli", "srl", "ner-wnut17")
    """The task recipes, which are names of packaged ones, or files."""
    analyses: tuple[Analysis, ...] = ("places", "layers", "gamma", "types")
    """The parts of ELMo to leave out: places, layers, the scale `gamma`, or static vectors (`types`)."""
    seeds: tuple[int, ...] = (1,)
    """The seeds of each arm, whose scores are means over them."""
    place: Place = "paper"
    """The place where the analyses `layers`, `gamma` and `types` use ELMo."""
    settings: tuple[str, ...] = ()
    """Settings for all runs, as `section.key=value`; they override the recipes."""
    own_settings: tuple[OwnSettings, ...] = ()
    """Settings for the runs of one recipe, as tables of `recipe` and `settings`; they override `settings`."""
    data: str | None = None
    """The folder of the recipes' data files."""
    vectors: str | None = None
    """The file of static word vectors for all runs."""
    model: str | None = None
    """The biLM for all runs."""

    def __post_init__(self) -> None:
        configs.check_lists(self, ("recipes", "analyses", "seeds"))
        configs.check_range(self, ("seeds",), 0, configs.SEEDS)


@dataclass(frozen=True, kw_only=True)
class AblationRow(queues.ArmScores):
    """The scores of an arm of an analysis for one task."""

    analysis: Analysis
    run: str
    """The folder of the arm's runs, inside the output folder; arms with the same settings share it."""
    place: str
    """The place where the arm has ELMo: `none`, `input`, `output` or `both`."""
    dev_difference: float | None = None
    """The difference from the analysis' first arm; None for that arm itself."""
    test_difference: float | None = None


def train_arms(config: AblateConfig, context: Context) -> list[AblationRow]:
    """Trains what is missing, and writes the record to `config.output` after every run.

    Raises InputError if settings or data cannot be used.
    """
    output = Path(config.output)
    record.check_replaced(output, NAME)
    given = queues.common_settings(config.settings, config.data, config.vectors, config.model)
    queue, runs = plan(config, context.find_recipe, given)
    return queues.train_all(queue, output, given, context, lambda: write(config, queue, runs))


def plan(
    config: AblateConfig, find_recipe: Callable[[str], Path], given: Mapping[str, Any]
) -> tuple[Queue, dict[tuple[str, Analysis, str], str]]:
    """Returns what to train, with each combination of settings once, and the `Runs`.

    A run is named after the first of all arms with its settings, even if that arm's analysis is not requested. It is
    then found again when more analyses are requested. Raises InputError for own settings of a recipe that is not in
    the queue.
    """
    _check_own(config)
    rows = []
    runs: dict[tuple[str, Analysis, str], str] = {}
    for recipe in config.recipes:
        arms: dict[str, list[str]] = {}
        known: list[tuple[train.TaskConfig, str]] = []
        place = queues.place_for(find_recipe(recipe), config.place)
        own = [setting for each in config.own_settings if each.recipe in _names(recipe) for setting in each.settings]
        for analysis, arm, of_arm in ((one, *each) for one, arms_of in ARMS.items() for each in arms_of.items()):
            settings = own + [setting.replace("PLACE", place) for setting in of_arm]
            made = compare.config_of(find_recipe(recipe), given, settings, Path(), config.seeds)
            name = next((name for other, name in known if other == made), arm)
            known.append((made, name))
            if analysis in config.analyses:
                runs[queues.folder_of(recipe), analysis, arm] = name
                arms.setdefault(name, settings)
        rows.append(TaskRow(queues.folder_of(recipe), recipe, arms, config.seeds))
    return Queue(tuple(rows)), runs


def _check_own(config: AblateConfig) -> None:
    """Refuses own settings of a recipe that is not in the queue, except for those of the packaged recipe."""
    names = {name for recipe in config.recipes for name in _names(recipe)}
    recipe = configs.load_toml(RECIPES / "probes" / f"{NAME}.toml")
    packaged = configs.from_dict(AblateConfig, recipe | {"output": config.output}).own_settings
    for own in config.own_settings:
        if own.recipe not in names and own not in packaged:
            raise InputError(
                f"own_settings has settings for {own.recipe!r}, which is not in recipes; name one of"
                f" {', '.join(config.recipes)}"
            )


def _names(recipe: str) -> tuple[str, str]:
    """The names of a recipe: in `AblateConfig.recipes`, and in the rows."""
    return recipe, queues.folder_of(recipe)


def write(config: AblateConfig, queue: Queue, runs: Runs) -> list[AblationRow]:
    """Writes the record of finished runs, and returns their rows, by analysis and task."""
    output = Path(config.output)
    found = {
        (row.name, name): done
        for row in queue.rows
        for name in row.arms
        if (done := queues.finished_runs(row, output / row.name / name)) is not None
    }
    rows = []
    for analysis in config.analyses:
        for row in queue.rows:
            rows += _rows(analysis, row.name, runs, found)
    results = [result for done in found.values() for result in done.results]
    queues.write_record(output, NAME, VERSION, config, rows, results)
    return rows


def _rows(
    analysis: Analysis, recipe: str, runs: Runs, found: Mapping[tuple[str, str], queues.FinishedRuns]
) -> Iterator[AblationRow]:
    """Yields the rows of finished arms, compared with the first arm if that is finished."""
    first: AblationRow | None = None
    for number, arm in enumerate(ARMS[analysis]):
        name = runs[recipe, analysis, arm]
        if (recipe, name) not in found:
            continue
        done = found[recipe, name]
        own = {"analysis": analysis, "recipe": recipe, "arm": arm, "run": f"{recipe}/{name}", "place": done.place}
        row = AblationRow(**own, **done.numbers())
        if first is not None:
            test = None if row.test is None or first.test is None else row.test - first.test
            row = replace(row, dev_difference=row.dev - first.dev, test_difference=test)
        elif number == 0:
            first = row
        yield row


TITLES = {
    "places": "Where ELMo is added",
    "layers": "Which layers are used",
    "gamma": "The scale of the mix",
    "types": "Static vectors and ELMo",
}


def _show(record: RunRecord) -> Iterator[Block]:
    """Shows one table per analysis."""
    head = ("task", "arm", "place", "dev", "std", "difference", "test", "std", "difference", "seeds", "ended by")
    for analysis in dict.fromkeys(row["analysis"] for row in record.rows):
        yield Heading(TITLES[analysis])
        rows = [row for row in record.rows if row["analysis"] == analysis]
        yield table(head, [_cells(row) for row in rows], groups=True)
    yield Text("Percent; differences are to the first arm of each table.")


def _cells(row: Mapping[str, Any]) -> list[str]:
    """Formats an arm as a row of its analysis' table."""
    parts = [
        (blocks.cell(row[part]), blocks.seed_deviation(row, part), blocks.signed_difference(row[f"{part}_difference"]))
        for part in ("dev", "test")
    ]
    numbers = [number for part in parts for number in part]
    names = row["recipe"], row["arm"], row["place"]
    return [*names, *numbers, str(len(row["seeds"])), blocks.stop_reasons(row["stopped"])]


PROBE = Probe(
    name=NAME,
    version=VERSION,
    title="Ablations",
    config=AblateConfig,
    run=train_arms,
    show=_show,
    recipe=RECIPES / "probes" / f"{NAME}.toml",
    trains=True,
)
