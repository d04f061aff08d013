"""Loads a task's trained network, predicts and scores with it, and joins networks in ensembles (`tagger` takes text).

The folder of a network, `seed-N` in a run, holds `model.safetensors` with the weights, `task.json` with everything else
that the network was built from, and `result.json`. A frozen biLM is not included, but named with a hash.
"""

import json
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn

from elmo import __version__, formats
from elmo import config as configs
from elmo.disk.files import write_run_file
from elmo.disk.run import read_json
from elmo.errors import InputError
from elmo.formats.opened import OpenedModel, open_model
from elmo.machine import usable_device
from elmo.model.config import BiLMConfig
from elmo.text.given import token_lists
from elmo.text.tokenizer import TextConfig
from elmo.text.word_vectors import check_file
from elmo_lab.tasks import task as tasks
from elmo_lab.tasks import vectors as static
from elmo_lab.tasks.batches import BatchConfig, by_length
from elmo_lab.tasks.cache import CacheConfig
from elmo_lab.tasks.inputs import Collator, InputConfig, Inputs
from elmo_lab.tasks.source import make_collator
from elmo_lab.tasks.task import Task, TaskModel
from elmo_lab.tasks.vectors import StaticVectors, VectorsFile

RECORD, WEIGHTS, RESULT = "task.json", "model.safetensors", "result.json"
SEED = re.compile("seed-[0-9]+")
"""The form of the names of seeds' folders; other folders, such as a copy `seed-1.bak`, are ignored."""


@dataclass
class TrainedTask:
    """A network and its collator, which predicts when called with examples of its task.

    The static vectors of new words are added when they first occur in examples.
    """

    task: Task
    model: nn.Module
    collate: Collator
    device: torch.device
    labels: Any
    """The labels of the training data (`Task.labels`)."""
    batch: BatchConfig = field(default_factory=BatchConfig)
    origin: VectorsFile | None = None
    """The file with the static vectors of new words; None if there is none."""
    spellings: set[str] = field(default_factory=set, repr=False)
    """The words that were already looked up in that file."""
    text: TextConfig = field(default_factory=TextConfig)
    """The settings for splitting text: those of the biLM's training text, or spaCy's rules for English."""
    files: tuple[Path, ...] = ()
    """The files and folders that the network was read from, those of the biLM and of the static vectors included."""

    @classmethod
    def load(
        cls,
        folder: str | Path,
        bilm: str | None = None,
        cache: CacheConfig | None = None,
        device: str = "cpu",
        vectors: str | None = None,
    ) -> "TrainedTask":
        """Loads a network of `elmo task train`; `folder` is `output/seed-N`, or `output` if that has one seed.

        `bilm` and `vectors` are the paths of the frozen biLM and of the static vectors, if they have moved since
        training. Raises InputError if the folder has no trained task or is damaged, if the biLM is not that of the
        training, if the biLM or the file `vectors` is missing, or if there is no such device.
        """
        place, folder = usable_device(device), _folder(Path(folder))
        record = _read_record(folder)
        task = tasks.find(record["task"])
        if record["version"] != task.version:
            raise InputError(
                f"{folder / RECORD}: version {record['version']} of the task {task.name}; this program has"
                f" {task.version}; train it again, or use elmo-torch {record['elmo']}"
            )
        values = record["inputs"] | ({"model": bilm} if bilm is not None else {})
        inputs = configs.from_dict(InputConfig, values, "inputs.")
        source = _source(inputs, folder, bilm, record["bilm"])
        try:
            weights = load_file(folder / WEIGHTS)
            words = StaticVectors(tuple(record["words"]), weights["inputs.vectors.weight"])
            made = configs.from_dict(task.config, record["model"], "model.")
            labels = configs.from_dict(task.labels, record["labels"], "labels.")
            model = build_network(task, inputs, made, labels, words, source, load_bilm=False)
            model.load_state_dict(weights)
        except FileNotFoundError as error:
            raise InputError(
                f"{folder / WEIGHTS}: no such file, since no epoch is finished; wait for one, or continue with"
                " elmo task train --resume"
            ) from error
        except (SafetensorError, KeyError, RuntimeError) as error:
            raise InputError(f"{folder / WEIGHTS}: damaged, or not of this task ({error}); train it again") from error
        cache = cache or CacheConfig(dtype=record["cache_dtype"])
        origin = _origin(record, inputs, words, vectors)
        files = [] if source is None else formats.files_of(source.name)
        return cls(
            task,
            model.to(place).eval(),
            make_collator(inputs, words.words, source, cache),
            place,
            labels,
            origin=origin,
            spellings=set() if record["vectors"] is None else set(record["vectors"]["absent"]),
            text=TextConfig() if source is None or source.model.text is None else source.model.text,
            files=(folder, *files, *([] if origin is None else [origin.file])),
        )

    def __call__(self, examples: Sequence[Any], progress: Callable[[int], object] | None = None) -> list[Any]:
        """Does what `predict` does, also for token lists or, if a task has several sentences, lists of such lists."""
        return self.predict([example_of(self.task, each) for each in examples], progress)

    def predict(self, examples: Sequence[Any], progress: Callable[[int], object] | None = None) -> list[Any]:
        """Returns one prediction per example, in order, and ignores gold labels.

        Calls `progress` with the number of predictions.
        """
        if problem := self.look_up(examples):
            warnings.warn(problem, stacklevel=2)
        return predict(self.task, self.model, self.collate, examples, self.batch, self.device, progress, True)

    def look_up(self, examples: Sequence[Any]) -> str | None:
        """Adds the static vectors of new words from the file that training read. Calling the network does this, too.

        Each call with new words reads the whole file, which takes seconds, so pass many examples at once. If the file
        is missing or is not that of the training, these words are unknown to the network, and the problem is returned
        once, as one line. Raises InputError instead if `load` was given the file.
        """
        if self.origin is None:
            return None
        tokens = (token for sentence in tasks.sentences_of(self.task, examples) for token in sentence)
        words = set(static.spellings(tokens, self.collate.config.lowercase))
        unseen = words.difference(self.collate.words)
        wanted = unseen - self.spellings
        if not wanted:
            return None
        try:
            found = static.more_vectors(self.origin, wanted)
        except InputError as error:
            if self.origin.given:
                raise
            self.spellings |= wanted
            return f"{error}; words without vectors: {len(unseen):,} of {len(words):,}"
        self.spellings |= wanted
        static.extend_inputs(cast(TaskModel, self.model).inputs, found)
        self.collate = replace(self.collate, words=(*self.collate.words, *found.words))
        return None

    def score(self, examples: Sequence[Any]) -> dict[str, float]:
        """Returns the task's scores, in percent, on labelled examples."""
        return self.task.score(examples, self(examples))


def predict(
    task: Task,
    model: nn.Module,
    collate: Collator,
    examples: Sequence[Any],
    batch: BatchConfig,
    device: torch.device,
    progress: Callable[[int], object] | None = None,
    probable: bool = False,
) -> list[Any]:
    """Returns one prediction per example, in order; batches have similar lengths, and `model` is in evaluation mode.

    With `probable`, predictions have the probabilities of spans and links, which take some time.
    """
    network = cast(TaskModel, model)
    decode = getattr(network, "decode_probable", network.decode) if probable else network.decode
    predictions: list[Any] = [None] * len(examples)
    done = 0
    with torch.inference_mode():
        for numbers in by_length(sizes(task, examples), batch):
            members = [examples[number] for number in numbers]
            found = decode(tokens_of(task, collate, members, device), members)
            for number, prediction in zip(numbers, found, strict=True):
                predictions[number] = prediction
            done += len(numbers)
            if progress is not None:
                progress(done)
    return predictions


def tokens_of(task: Task, collate: Collator, examples: Sequence[Any], device: torch.device) -> Any:
    """Makes the batch of these examples' sentences."""
    return collate(tasks.sentences_of(task, examples)).to(device)


def sizes(task: Task, examples: Sequence[Any]) -> list[int]:
    """Returns the number of tokens of each example, with its sentences padded to the longest of them."""
    lengths = [[len(sentence) for sentence in task.sentences(example)] for example in examples]
    return [len(each) * max(each, default=0) for each in lengths]


def predict_jointly(
    members: Sequence[TrainedTask],
    examples: Sequence[Any],
    progress: Callable[[int, int], object] = lambda done, total: None,
) -> list[Any]:
    """Returns the joint predictions of several networks of one task, by mean probabilities or by the majority.

    Calls `progress` with the number of predictions of single networks, and their total.
    """
    check_one_task(members)
    size, total = len(examples), len(members) * len(examples)
    found = [
        member.predict(examples, lambda done, before=number * size: progress(before + done, total))
        for number, member in enumerate(members)
    ]
    return found[0] if len(found) == 1 else members[0].task.combine(found)


def check_one_task(members: Sequence[TrainedTask]) -> None:
    """Raises InputError if the networks have different tasks."""
    if len({member.task.name for member in members}) != 1:
        raise InputError(f"the {len(members)} networks have different tasks; give networks of one task")


def example_of(task: Task, given: Any) -> Any:
    """Makes an unlabelled example of token lists; an example is returned as it is. Raises InputError for a string."""
    if not isinstance(given, list | tuple | str):
        return given
    return task.unlabelled(token_lists(given if given and isinstance(given[0], list | tuple) else [given]))


def build_network(
    task: Task,
    inputs: InputConfig,
    config: Any,
    labels: Any,
    words: StaticVectors,
    source: OpenedModel | None,
    load_bilm: bool = True,
) -> nn.Module:
    """Builds the network with random weights, except for its static vectors and a biLM that is trained with it."""
    shape: BiLMConfig | None = None if source is None else source.model.config
    read = Inputs(inputs, words.table, shape)
    if read.bilm is not None and load_bilm:
        assert source is not None
        read.bilm.load_state_dict(source.model.weights)
    return task.network(config, read, labels)


def write_task(
    folder: Path,
    task: Task,
    inputs: InputConfig,
    config: Any,
    labels: Any,
    words: StaticVectors,
    source: OpenedModel | None,
    cache: CacheConfig,
) -> None:
    """Writes `task.json`, which has everything that `TrainedTask.load` needs apart from the weights."""
    model = Path(inputs.model)  # as an absolute path, so that the network finds it from any folder
    record: dict[str, Any] = {
        "task": task.name,
        "version": task.version,
        "elmo": __version__,
        "inputs": configs.to_dict(inputs) | {"model": str(model.absolute()) if model.exists() else inputs.model},
        "model": configs.to_dict(config),
        "labels": asdict(labels),
        "bilm": None if source is None else source.card(),
        "cache_dtype": cache.dtype,
        "words": words.words,
        "vectors": None,
    }
    if words.file is not None:  # by this, `_origin` finds the vectors of new words
        sha256 = static.content_hash(words.words, words.table[2:].numpy())
        record["vectors"] = {"file": str(words.file.absolute()), "sha256": sha256, "absent": words.absent}
    write_run_file(folder / RECORD, json.dumps(record).encode())


def _source(inputs: InputConfig, folder: Path, given: str | None, card: dict[str, Any] | None) -> OpenedModel | None:
    """Opens the biLM of the training; `given` is the user's path or name of it.

    If the user gives none, the biLM is searched where the training found it, at the same place beside the run, and by
    its hash among the models of the package and the cache. Raises InputError if it is not found.
    """
    if inputs.elmo == "none" or card is None:
        return None
    if given is not None:
        source = open_model(given)
        if source.sha256 != card["sha256"]:
            raise InputError(
                f"{folder}: was trained with a biLM of sha256 {card['sha256'][:12]} ({card['model']}), but that of"
                f" {source.name} is {source.sha256[:12]}; give the biLM of its training"
            )
        return source
    problem = None
    for name in dict.fromkeys([inputs.model, card["model"], *_beside(folder, card["model"]), *formats.local_names()]):
        try:
            source = open_model(name)
        except (FileNotFoundError, InputError) as error:
            problem = problem or error
            continue
        if source.sha256 == card["sha256"]:
            return source
        problem = problem or InputError(f"the biLM of {name} has the sha256 {source.sha256[:12]}")
    raise InputError(
        f"{folder}: cannot open the biLM of its training, {card['model']} of sha256 {card['sha256'][:12]} ({problem});"
        " if it has moved, give its path with --model"
    )


def _beside(folder: Path, name: str) -> list[str]:
    """Returns the places in the folders above a run where a model may be that has moved together with the run."""
    relative = Path(name).name if Path(name).is_absolute() else name
    places = (above / relative for above in folder.absolute().parents)
    return [str(place) for place in places if place.exists()]


def _origin(
    record: dict[str, Any], inputs: InputConfig, words: StaticVectors, vectors: str | None
) -> VectorsFile | None:
    """Returns the file of the static vectors, or None if there is no file or if training read all its words.

    Raises InputError if the file that the user gave is missing.
    """
    if not inputs.static or inputs.vectors is None or inputs.all_vectors:
        return None
    card = record["vectors"]
    file = Path(vectors or card["file"])
    if vectors is not None:
        check_file(file)
    return VectorsFile(file, words.words, words.table.shape[1], card["sha256"], vectors is not None)


def records_of(run: Path) -> list[Path]:
    """Returns the records of a run's seeds."""
    return sorted(file for file in run.glob(f"seed-*/{RECORD}") if SEED.fullmatch(file.parent.name))


def _folder(path: Path) -> Path:
    """Returns the folder of one seed, which is the path itself or the only seed in it."""
    if (path / RECORD).is_file():
        return path
    seeds = [record.parent for record in records_of(path)]
    if len(seeds) == 1:
        return seeds[0]
    if seeds:
        raise InputError(f"{path}: the networks of {len(seeds)} seeds; name one of them: {seeds[0]}")
    raise InputError(f"{path}: no trained task; give an output folder of elmo task train")


def _read_record(folder: Path) -> dict[str, Any]:
    record = read_json(folder / RECORD, "train the task again")
    needed = ("task", "version", "inputs", "model", "labels", "words", "vectors", "bilm", "cache_dtype")
    missing = [key for key in needed if key not in record]
    if missing:
        raise InputError(f"{folder / RECORD}: has no {', '.join(missing)}; train the task again")
    return record
