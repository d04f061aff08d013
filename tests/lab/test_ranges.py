"""Senseless numbers in settings are refused in one line, or harmless, before anything is read or computed."""

import dataclasses
import inspect
import math
import typing
from collections.abc import Iterator
from typing import Any

import pytest
from refusals import refused

from elmo import config as configs
from elmo.errors import InputError
from elmo.pretraining.settings import TrainConfig, check_numbers
from elmo.text.clean import CleanConfig
from elmo_lab.probes import probe
from elmo_lab.tasks import task as tasks
from elmo_lab.tasks.cache import CacheConfig
from elmo_lab.tasks.train import TaskConfig
from elmo_lab.tasks.translation import CoveConfig

ROOTS: dict[str, Any] = {"train": TrainConfig, "cove": CoveConfig, "task": TaskConfig, "text": CleanConfig}
ROOTS |= {name: tasks.find(name).config for name in ("coref", "ner", "snli", "squad", "srl", "sst5")}
ROOTS |= {name: probe.find(name).config for name in ("ablate", "efficiency", "neighbors", "pos", "wsd")}
NEEDED: dict[str, dict[str, Any]] = {
    "train": {"train": ["t"], "output": "o"},
    "cove": dict.fromkeys(("source", "target", "heldout_source", "heldout_target", "output"), "t"),
    "task": {"task": "ner", "train": "t", "dev": "d", "output": "o"},
    "ablate": {"output": "o"},
    "efficiency": {"output": "o"},
    "neighbors": {"text": "t", "queries": [{"sentence": "They play .", "word": "play"}]},
    "pos": {"train": "t", "dev": "d"},
    "wsd": {"train": "t", "tests": ["t.data.xml"]},
}
"""Settings without a default."""
SENSELESS = (0, -1, 2**63, 1e40, math.nan, math.inf)
HUGE = 10**12
SIZES = {
    "streams", "shares", "window", "devices", "nodes", "accumulate", "negatives", "n_layers", "n_highway", "k",
    "n_best", "batch_tokens", "hidden_size", "hidden_dim", "vectors_dim", "predicate_dim", "feature_dim", "max_width",
}  # fmt: skip
"""Settings of which a huge number would take all memory, or a step without end."""


def numbers(kind: type, prefix: str = "") -> Iterator[str]:
    """The names of all settings that are numbers, with their sections."""
    hints = typing.get_type_hints(kind)
    for field in dataclasses.fields(kind):
        kinds = (hints[field.name], *typing.get_args(hints[field.name]))
        if {int, float} & set(kinds):
            yield prefix + field.name
        for each in kinds:
            if inspect.isclass(each) and dataclasses.is_dataclass(each):
                yield from numbers(each, f"{prefix}{field.name}.")


def made(root: str, setting: str, value: Any) -> Any:
    """The settings of a command, checked as it checks them."""
    values: dict[str, Any] = dict(NEEDED.get(root, {}))
    *sections, last = setting.split(".")
    inside = values
    for section in sections:
        inside = inside.setdefault(section, {})
    inside[last] = value
    config = configs.from_dict(ROOTS[root], values)
    if root == "train":
        check_numbers(config)
    return config


def refusal(root: str, setting: str, value: Any) -> str | None:
    """Returns what the command says of the value; None if it takes it."""
    try:
        made(root, setting, value)
    except InputError as error:
        return str(error)
    return None


CASES = [(root, setting) for root, kind in ROOTS.items() for setting in numbers(kind) if "word_cnn" not in setting]
"""Without those of models of words, which need several settings together."""


@pytest.mark.parametrize(("root", "setting"), CASES)
def test_a_senseless_number_is_refused_in_one_line_or_taken(root: str, setting: str) -> None:
    for value in SENSELESS:
        said = refusal(root, setting, value)
        if said is None:
            assert value in (0, -1, 2**63), f"{value} is taken"
        else:
            assert "\n" not in said
            assert setting.rpartition(".")[2] in said


@pytest.mark.parametrize(("root", "setting"), [case for case in CASES if case[1].rpartition(".")[2] in SIZES])
def test_a_size_beyond_every_memory_is_refused(root: str, setting: str) -> None:
    with pytest.raises(InputError, match=rf"{setting.rpartition('.')[2]} is {HUGE}; at most"):
        made(root, setting, HUGE)


@pytest.mark.parametrize("limit", ["nan", "-1GB", "1e40", -1])
def test_a_limit_of_the_cache_that_is_no_size_is_refused(limit: Any) -> None:
    with refused("cache.limit", "size"):
        CacheConfig(limit=limit)


@pytest.mark.parametrize(("name", "value"), [("heldout", math.nan), ("heldout", 1e40), ("seed", -1), ("seed", 10**30)])
def test_a_senseless_number_for_a_clean_text_is_refused(name: str, value: Any) -> None:
    with refused(name, str(value), error=configs.ConfigError):
        CleanConfig(**{name: value})
