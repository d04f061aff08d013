"""The laboratory's verbs show their settings to be edited, tell how one is written, and refuse senseless numbers."""

import dataclasses
import inspect
import math
import tomllib
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from refusals import refused

from elmo import config as configs
from elmo.cli import main
from elmo.cli.settings import config_of, settings_of
from elmo.errors import InputError
from elmo.pretraining.settings import TrainConfig, check_numbers
from elmo.text.clean import CleanConfig
from elmo_lab.cli.probes import WITHOUT_SETTINGS
from elmo_lab.plugins import entry_points_of
from elmo_lab.probes import probe as probes
from elmo_lab.tasks import task as tasks
from elmo_lab.tasks.cache import CacheConfig
from elmo_lab.tasks.train import TaskConfig
from elmo_lab.tasks.translation import CoveConfig

VERBS = [("cove",), ("task", "train", "ner"), ("task", "train", "squad"), ("probe", "neighbors"), ("probe", "ablate")]


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[object, str, str]:
    """The exit code of a command, and what it prints."""
    with pytest.raises(SystemExit) as end:
        main(arguments)
    return end.value.code, *capsys.readouterr()


@pytest.mark.parametrize("verb", VERBS)
def test_shown_settings_are_a_recipe(verb: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, shown, _ = said(capsys, *verb, "--settings", "--output", "here")
    assert (code, tomllib.loads(shown)["output"] if verb[1:] != ("neighbors",) else "here") == (0, "here")
    (tmp_path / "my.toml").write_text(shown, encoding="utf-8")
    assert said(capsys, *verb, str(tmp_path / "my.toml"), "--settings", "--output", "here") == (0, shown, "")


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (("cove", "--min-count", "3"), "min_count=3"),
        (("task", "train", "ner", "--epochs=3"), "training.epochs=3"),
        (("task", "train", "ner", "--hidden-dims", "[3]"), "model.hidden_dims=[3]"),
        (("task", "train", "none-such", "--epochs", "3"), "training.epochs=3"),
        (("probe", "wsd", "--limit", "9"), "limit=9"),
        (("probe", "efficiency", "--fractions", "[0.1]"), "fractions=[0.1]"),
        (("probe", "senses", "--sate", "echo"), "did you mean --state?"),
    ],
)
def test_a_setting_written_as_an_option_is_told_how(
    arguments: tuple[str, ...], meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, error = said(capsys, *arguments)
    assert code == 2
    assert meant in error.splitlines()[-1]


@pytest.mark.parametrize(("group", "module"), [("elmo.tasks", tasks), ("elmo.probes", probes)])
def test_the_settings_of_tasks_and_probes_are_found_without_importing_them(group: str, module: object) -> None:
    for name, point in entry_points_of(group).items():
        if group == "elmo.probes" and name in WITHOUT_SETTINGS:
            continue
        home, kind = config_of(point.value), module.find(name).config  # type: ignore[attr-defined]
        assert home is not None
        assert home[1] == kind.__name__
        assert len(settings_of(*home)) >= len(kind.__dataclass_fields__)


def test_the_later_wins_and_what_is_none_was_not_given() -> None:
    recipe, flags = {"a": 1, "b": {"c": 1, "d": 1}}, {"a": None, "b": {"c": 2, "d": None}, "e": 2}
    found = configs.combined(recipe, flags, ["b.d=3"], begun={"f": 0, "e": 0})
    assert found == {"a": 1, "b": {"c": 2, "d": 3}, "e": 2, "f": 0}


# Senseless numbers are refused in one line, or harmless, before anything is read or computed

ROOTS: dict[str, Any] = {"train": TrainConfig, "cove": CoveConfig, "task": TaskConfig, "text": CleanConfig}
ROOTS |= {name: tasks.find(name).config for name in ("coref", "ner", "snli", "squad", "srl", "sst5")}
ROOTS |= {name: probes.find(name).config for name in ("ablate", "efficiency", "neighbors", "pos", "wsd")}
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
