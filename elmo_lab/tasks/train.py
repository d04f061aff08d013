"""Trains a task's network, one seed after another, and writes the results: `train_task`.

- The biLM's layers are computed before the first step, once for all runs of that biLM.
- Each seed has a folder, `seed-N`, and resumes with the same result; finished seeds are not repeated.
- `record.json` has each seed's numbers and all that they depend on; it is written after every seed.
"""

import dataclasses
import json
import random
import shutil
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from safetensors.torch import load_file
from torch import Tensor, nn

from elmo import config as configs
from elmo import formats, machine
from elmo.disk.files import real_path, write_run_file
from elmo.disk.run import check_same, holds_run, lock_folder, read_json, read_settings
from elmo.disk.sums import sha256_of
from elmo.errors import InputError
from elmo.formats.opened import OpenedModel
from elmo.training.distributed import Fabric, launch
from elmo.training.epochs import EpochConfig, EpochState, fit_epochs
from elmo.training.loop import seed_step
from elmo.training.memory import keep_few_programs
from elmo_lab import RECIPES, record
from elmo_lab.record import RunRecord
from elmo_lab.tasks import batches, source, vectors
from elmo_lab.tasks import task as tasks
from elmo_lab.tasks.batches import BatchConfig
from elmo_lab.tasks.cache import CacheConfig
from elmo_lab.tasks.files import find_file, resolve_data
from elmo_lab.tasks.inputs import Collator, InputConfig, Inputs
from elmo_lab.tasks.readers import with_noun
from elmo_lab.tasks.task import Task, TaskModel
from elmo_lab.tasks.trained import RESULT, WEIGHTS, build_network, predict, records_of, sizes, tokens_of, write_task
from elmo_lab.tasks.vectors import StaticVectors

CONFIG = "config.json"
ORIGIN = "origin.json"
"""The file of a run's origins, which its settings only name: the task's version, the biLM, and hashes of the files."""
OF_DATA = {"train", "dev", "test", "seeds"}
"""The settings of a packaged recipe that belong to its own data; its others are the defaults of its task."""
MAY_CHANGE = {"output", "data", "seeds", "cache", "accelerator"}
"""The settings that a resumed run may change, since no result depends on them; `cache.dtype` must stay the same."""


@dataclass(frozen=True)
class TaskConfig:
    """The settings of a run: a task, its data, the network and how it is trained."""

    task: str
    """The name of the task."""
    train: str
    """The file of examples to train on."""
    dev: str
    """The file of examples that choose the epoch."""
    output: str
    """The folder of the run."""
    test: str | None = None
    """A file of examples to test on."""
    data: str | None = None
    """The folder for `train`, `dev`, `test` and `inputs.vectors`, if they are not in the working directory."""
    inputs: InputConfig = field(default_factory=InputConfig)
    model: dict = field(default_factory=dict)
    """The network's settings that differ from the defaults of the task."""
    training: EpochConfig = field(default_factory=EpochConfig)
    batch: BatchConfig = field(default_factory=BatchConfig)
    cache: CacheConfig = field(default_factory=CacheConfig)
    seeds: tuple[int, ...] = (1,)
    """The seeds; each trains a network of its own."""
    max_train: int | None = None
    """The most examples to train on, drawn at random, the same for all seeds. A smaller number draws a subset."""
    train_fraction: float = 1.0
    """The fraction of the examples to train on, drawn in the same way; the lower of both limits counts."""
    accelerator: str = "auto"
    """The kind of device as Lightning names it, `cpu` or `cuda`; `auto` takes a GPU if there is one."""

    def __post_init__(self) -> None:
        configs.check_lists(self, ("seeds",))
        configs.check_range(self, ("seeds",), 0, configs.SEEDS)
        configs.check_range(self, ("max_train",), 1)
        configs.check_above(self, ("train_fraction",), 1)


@dataclass(frozen=True)
class _Job:
    """The settings, data and biLM that all seeds of a run share."""

    task: Task
    config: TaskConfig
    model_config: Any
    examples: dict[str, list[Any]]
    """The examples by the name of the part: train, dev and, if given, test."""
    labels: Any
    words: StaticVectors
    source: OpenedModel | None
    collate: Collator
    origin: dict[str, Any]
    """The content of `origin.json`."""


def train_task(
    config: TaskConfig,
    resume: bool = False,
    quiet: bool = False,
    progress: source.Progress | None = None,
    beside: Sequence[Path] = (),
) -> RunRecord:
    """Trains all unfinished seeds, and returns the record of the run, with one row per seed.

    Calls `progress` with the number of tokens that the biLM has read, and their total. `beside` has the folders of the
    runs with which this one is compared. Raises InputError if data or settings are invalid, if the output holds another
    run, or if one of those runs used another file, biLM or version of the same name.
    """
    folder = Path(config.output)
    task, config = tasks.find(config.task), with_defaults(config)
    check_output(config, resume)
    with lock_folder(folder):
        check_output(config, resume)  # another process may have worked here before the lock
        begun = read_config(folder / CONFIG).seeds if (folder / CONFIG).is_file() else ()
        done = (seed for seed in begun if (seed_folder(config, seed) / RESULT).is_file())  # new seeds are added to them
        config = dataclasses.replace(config, seeds=tuple(dict.fromkeys([*done, *config.seeds])))
        left = [seed for seed in config.seeds if not (seed_folder(config, seed) / RESULT).is_file()]
        if left:
            keep_few_programs()
            fabric = launch(config.accelerator, 1, 1, "32-true")
            job = _prepare(task, config, progress, beside)
            for seed in left:
                _run_seed(fabric, job, seed, quiet)
                record.write(folder, _record(task, config))
        found = _record(task, config)
        record.write(folder, found)
    return found


def seed_folder(config: TaskConfig, seed: int) -> Path:
    """Returns the folder of a seed's network."""
    return Path(config.output) / f"seed-{seed}"


def version_of(folder: Path) -> str:
    """Returns the version of the task that trained and scored a run's networks."""
    return read_json(folder / ORIGIN)["version"]


def summarize(results: Sequence[dict[str, Any]]) -> dict[str, dict[str, dict[str, float]]]:
    """Returns mean and sample standard deviation (0 for one seed) of every score over the seeds, by part of data."""
    parts = [part for part in ("dev", "test") if all(part in result for result in results)]
    return {
        part: {
            name: {
                "mean": statistics.fmean(result[part][name] for result in results),
                "std": statistics.stdev(result[part][name] for result in results) if len(results) > 1 else 0.0,
            }
            for name in results[0][part]
        }
        for part in parts
    }


def read_recipe(path: Path, task: str | None = None) -> dict[str, Any]:
    """Reads the values of a recipe. A recipe that is not packaged gets its task's defaults for what it does not set.

    These defaults are the packaged recipe of the task's name, without its data; `task` is the task of a recipe that
    names none. Raises ConfigError if the file is not valid TOML.
    """
    values = configs.load_toml(path)
    name = values.get("task", task)
    packaged = RECIPES / "tasks"
    if real_path(path.parent) == real_path(packaged) or not (packaged / f"{name}.toml").is_file():
        return values
    defaults = configs.load_toml(packaged / f"{name}.toml")
    return configs.merge_tables({key: value for key, value in defaults.items() if key not in OF_DATA}, values)


def with_defaults(config: TaskConfig) -> TaskConfig:
    """Adds the default settings of the network. Raises ConfigError for an unknown setting."""
    model = configs.from_dict(tasks.find(config.task).config, config.model, "model.")
    return dataclasses.replace(config, model=configs.to_dict(model))


def check_files(config: TaskConfig) -> dict[str, Path]:
    """Returns the files of examples, by part of the data.

    Raises InputError if one of them or the file of word vectors is missing, and FileNotFoundError if the biLM is.
    """
    named = {part: path for part in ("train", "dev", "test") if (path := getattr(config, part)) is not None}
    files = {part: find_file(path, config.data) for part, path in named.items()}
    inputs = config.inputs
    if inputs.static and inputs.vectors is not None:
        find_file(inputs.vectors, config.data)
    if inputs.elmo != "none":
        formats.find(inputs.model)
    return files


def _prepare(task: Task, config: TaskConfig, progress: source.Progress | None, beside: Sequence[Path]) -> _Job:
    """Reads all files, and computes the missing layers of the biLM."""
    model_config = configs.from_dict(task.config, config.model, "model.")
    files = check_files(config)
    examples = {part: tasks.read_examples(task, path) for part, path in files.items()}
    labels = task.labels_of(examples["train"])  # from all examples, whatever the subset
    for part, path in files.items():
        task.check(examples[part], labels, path)
    examples["train"] = training_subset(examples["train"], config)
    known = tasks.sentences_of(task, examples["train"])
    drawn, examples["train"] = examples["train"], task.training(examples["train"], model_config)
    if not examples["train"]:
        raise InputError(
            f"{files['train']}: nothing can be learned from {with_noun(len(drawn), 'example')}, such as questions whose"
            " passages lack their answers; give other examples, or more of them (max_train, train_fraction)"
        )
    texts = {part: tasks.sentences_of(task, members) for part, members in examples.items()}
    other = (token for part in ("dev", "test") for sentence in texts.get(part, ()) for token in sentence)
    inputs = config.inputs
    if inputs.vectors is not None:
        inputs = dataclasses.replace(inputs, vectors=str(resolve_data(inputs.vectors, config.data)))
    words = vectors.make_vectors(inputs, known, other)
    found = source.open_source(inputs)
    read = {} if inputs.vectors is None or not inputs.static else {"vectors": Path(inputs.vectors)}
    hashes = {part: sha256_of(path) for part, path in (files | read).items()}
    origin = {"version": task.version, "bilm": None if found is None else found.card(), "data": hashes}
    _check_origin(config, origin, beside)
    collate = source.make_collator(inputs, words.words, found, config.cache)
    # Wrong settings fail here, before the biLM reads for hours.
    build_network(task, inputs, model_config, labels, words, found, load_bilm=False)
    source.store_layers(collate, [sentence for part in texts.values() for sentence in part], config.cache, progress)
    return _Job(task, config, model_config, examples, labels, words, found, collate, origin)


def _check_origin(config: TaskConfig, origin: dict[str, Any], beside: Sequence[Path]) -> None:
    """Raises InputError if a run to continue, or one beside it, used another file, biLM or version of the same name.

    Only origins that both runs have are compared.
    """
    new, own = _origins(origin, config), Path(config.output)
    for folder in (own, *(each for each in beside if each != own and (each / CONFIG).is_file())):
        settings = config if folder == own else read_config(folder / CONFIG)
        for file in filter(Path.is_file, (folder / ORIGIN, *records_of(folder))):  # of unfinished seeds, too
            for what, (name, old) in _origins(read_json(file), settings).items():
                if what in new and name == new[what][0] and old != new[what][1]:
                    raise InputError(
                        f"{file}: {what} was {old[:12]}, now it is {new[what][1][:12]}; their results are not"
                        " comparable: give what the run started with, or name another --output"
                    )


def _origins(record: dict[str, Any], config: TaskConfig) -> dict[str, tuple[str | None, str]]:
    """Returns the name in the settings, and the version or hash, of each origin in `origin.json` or a seed's record."""
    files = {"train": config.train, "dev": config.dev, "test": config.test, "vectors": config.inputs.vectors}
    found: dict[str, tuple[str | None, str]] = {"version of the task": (config.task, record["version"])}
    if record.get("bilm"):
        found["sha256 of the biLM"] = config.inputs.model, record["bilm"]["sha256"]
    data = record.get("data", {}).items()
    return found | {f"sha256 of the file of {part}": (files.get(part), sha256) for part, sha256 in data}


def training_subset(examples: list[Any], config: TaskConfig) -> list[Any]:
    """Draws the examples to train on, and keeps file order. A smaller subset is always part of a larger one."""
    most = min(config.max_train or len(examples), max(1, round(config.train_fraction * len(examples))))
    if most >= len(examples):
        return examples
    rng = random.Random(0)
    keys = [rng.random() for _ in examples]
    return [examples[place] for place in sorted(sorted(range(len(examples)), key=keys.__getitem__)[:most])]


def _run_seed(fabric: Fabric, job: _Job, seed: int, quiet: bool) -> None:
    """Trains one seed, or continues it, and writes its result."""
    task, config = job.task, job.config
    folder = seed_folder(config, seed)
    seed_step(seed, -1, 0)
    model = build_network(task, config.inputs, job.model_config, job.labels, job.words, job.source).to(fabric.device)
    # The files are written only now, so that settings that cannot build a network leave no run behind.
    write_run_file(folder.parent / CONFIG, configs.to_json(config).encode())
    write_run_file(folder.parent / ORIGIN, (json.dumps(job.origin, indent=2) + "\n").encode())
    folder.mkdir(exist_ok=True)
    write_task(folder, task, config.inputs, job.model_config, job.labels, job.words, job.source, config.cache)
    network = cast(TaskModel, model)
    train = job.examples["train"]
    lengths = sizes(task, train)

    def batches_of(epoch: int) -> list[list[Any]]:
        found = batches.shuffled_batches(lengths, config.batch, seed, epoch)
        return [[train[number] for number in batch] for batch in found]

    def loss_of(batch: list[Any]) -> Tensor:
        return network.loss(tokens_of(task, job.collate, batch, fabric.device), batch) + network.inputs.penalty()

    def scores(part: str) -> dict[str, float]:
        found = predict(task, model, job.collate, job.examples[part], config.batch, fabric.device)
        return task.score(job.examples[part], found)

    model.train()
    state = fit_epochs(
        fabric, model, batches_of, loss_of, lambda: scores("dev"), task.metric, folder, config.training, seed, quiet,
        f"{config.output}, seed {seed}", _undecayed(model, network.inputs),
    )  # fmt: skip
    model.load_state_dict(load_file(folder / WEIGHTS))
    model.eval()
    result = {
        "seed": seed,
        **{part: scores(part) for part in ("dev", "test") if part in job.examples},
        **_numbers(state, model, network.inputs),
        "examples": {part: len(examples) for part, examples in job.examples.items()},
        "bilm": None if job.source is None else job.source.card(),
        "machine": machine.card(str(fabric.device)),
    }
    write_run_file(folder / RESULT, (json.dumps(result, indent=2) + "\n").encode())
    shutil.rmtree(folder / "checkpoints", ignore_errors=True)


def _undecayed(model: nn.Module, inputs: Inputs) -> list[Tensor]:
    """Returns the matrices without weight decay: the biLM's, and embeddings, whose rare rows would only shrink."""
    embeddings = [module.weight for module in model.modules() if isinstance(module, nn.Embedding)]
    characters = [] if inputs.characters is None else [inputs.characters.embedding]
    return [*embeddings, *characters, *(() if inputs.bilm is None else inputs.bilm.parameters())]


def _numbers(state: EpochState, model: nn.Module, inputs: Inputs) -> dict[str, Any]:
    """Returns the numbers that describe the training, as plain JSON values."""
    mixes = {"input": inputs.input_mix, "output": inputs.output_mix}
    return {
        "epochs": state.epoch,
        "best_epoch": state.best_epoch,
        "stopped": state.stopped,
        "steps": state.step,
        "seconds": round(state.seconds, 1),
        "train_seconds": round(state.train_seconds, 1),
        "parameters": sum(p.numel() for p in model.parameters() if p.requires_grad),
        "mixes": {
            place: {"weights": mix.weights().tolist(), "gamma": float(mix.gamma.detach())}
            for place, mix in mixes.items()
            if mix is not None
        },
    }


def _record(task: Task, config: TaskConfig) -> RunRecord:
    """Makes the record of a run: its finished seeds, and all that they depend on."""
    origin = read_json(Path(config.output) / ORIGIN)
    files = [seed_folder(config, seed) / RESULT for seed in config.seeds]
    rows = [read_json(file) for file in files if file.is_file()]
    settings, seconds = configs.to_dict(config), sum(row["seconds"] for row in rows)
    return RunRecord("task", task.name, origin["version"], settings, rows, rows[0]["bilm"], origin["data"], seconds)


def check_output(config: TaskConfig, resume: bool) -> None:
    """Raises InputError instead of overwriting a run, or continuing it with settings that would change its results."""
    record = Path(config.output) / CONFIG
    seeds = [seed_folder(config, seed).name for seed in config.seeds]
    if not holds_run(record, inside=[*seeds, *(f"{seed}/checkpoints" for seed in seeds)]):
        return
    if not resume:
        raise InputError(f"{record.parent}: holds a run; add --resume to continue it, or name another --output")
    old, new = (configs.to_dict(with_defaults(each)) for each in (read_config(record), config))
    was, now = (
        {key: each[key] for key in each if key not in MAY_CHANGE} | {"cache": {"dtype": each["cache"]["dtype"]}}
        for each in (old, new)
    )
    check_same(record, was, now)


def read_config(path: Path) -> TaskConfig:
    """Reads the configuration of a run from its `config.json`. Raises InputError if the file is not a configuration."""
    return read_settings(TaskConfig, path)
