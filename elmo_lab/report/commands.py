"""The command that reproduces a result, from its stored configuration.

A command has the packaged recipe that is closest to the configuration, and the settings that differ.
"""

import json
import shlex
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from elmo import config as configs
from elmo.errors import InputError
from elmo.pretraining.settings import TrainConfig
from elmo_lab import RECIPES
from elmo_lab.tasks.train import MAY_CHANGE, TaskConfig, completed

FLAGS = {
    **{part: f"--{part}" for part in ("train", "dev", "test", "vectors", "model")},
    "inputs.vectors": "--vectors",
    "inputs.model": "--model",
}
Settings = list[tuple[str, Any]]


def of_task(values: Mapping[str, Any], seeds: Sequence[int], output: str) -> str | None:
    """`elmo task train ...`; None if there is none."""
    name = str(values.get("task"))

    def complete(given: Mapping[str, Any]) -> dict[str, Any]:
        return configs.to_dict(completed(configs.from_dict(TaskConfig, given)))

    recipes = {each: recipe for each, recipe in _recipes(RECIPES / "tasks").items() if recipe.get("task") == name}
    found = _nearest(recipes, values, complete, ("train", "dev"), MAY_CHANGE)
    if found is None:
        return None
    recipe, settings = found
    if "train" in dict(settings):  # which drops the recipe's other files
        settings = [each for each in settings if each[0] not in ("dev", "test")]
        settings += [(part, values[part]) for part in ("dev", "test") if values.get(part) is not None]
    at_home = values.get("data") or not {key for key, _ in settings} & {"train", "dev"}
    words = ["elmo", "task", "train", name, recipe, *_words(settings, FLAGS)]
    words += [*(["--data", "DATA"] if at_home else []), "--seeds", ",".join(map(str, seeds)), "--output", output]
    return shlex.join(words)


def of_probe(name: str, values: Mapping[str, Any], output: str) -> str | None:
    """`elmo probe ...` for a probe with a recipe and a `Config`; otherwise None."""
    if not name.isidentifier() or find_spec(f"elmo_lab.probes.{name}") is None:
        return None
    probe = import_module(f"elmo_lab.probes.{name}")
    kind = getattr(probe, "Config", None)
    recipes = {each: recipe for each, recipe in _recipes(RECIPES / "probes").items() if each == name}
    if kind is None or not recipes:
        return None
    found = _nearest(
        recipes, values, lambda given: configs.to_dict(configs.from_dict(kind, given)), (), MAY_CHANGE - {"seeds"}
    )
    if found is None:
        return None
    settings, given = dict(found[1]), {key for key, _ in found[1]}
    for key, others in getattr(probe, "GOES_WITH", {}).items():
        if others <= given and values.get(key) is not None:
            settings[key] = values[key]  # even if the recipe has the same, since the command then drops it
    words = ["elmo", "probe", name, *_words(list(settings.items()), {})]
    return shlex.join([*words, *(["--data", "DATA"] if "data" in values else []), "--output", output])


def of_pretraining(values: Mapping[str, Any], output: str) -> str | None:
    """`elmo train ...`; None if there is none."""
    inherited = () if values.get("init_from") is None else ("model", "text")  # from that model, unless given
    found = _nearest(
        {"": {}, **_recipes(configs.RECIPES)},
        values,
        lambda given: configs.to_dict(configs.from_dict(TrainConfig, given)),
        ("train", *inherited),
        {"output", "accelerator", "devices", "nodes"},
    )
    if found is None:
        return None
    recipe, settings = found
    return shlex.join(["elmo", "train", *([recipe] if recipe else []), *_words(settings, {}), "--output", output])


def cached(values: Mapping[str, Any]) -> dict[str, Any]:
    """The cache settings that affect results: how numbers are rounded."""
    dtype = (values.get("cache") or {}).get("dtype")
    return {} if dtype is None else {"cache": {"dtype": dtype}}


def model_name(bilm: Mapping[str, Any] | None) -> str:
    """The name of a biLM, as a result describes it, without folders of this machine; empty if unknown."""
    return str(shown((bilm or {}).get("model", "")))


def shown(value: Any) -> Any:
    """A value without folders of this machine: absolute paths become their last part."""
    if isinstance(value, Mapping):
        return {key: shown(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [shown(each) for each in value]
    if isinstance(value, str):
        for kind in (PurePosixPath, PureWindowsPath):  # the result may come from another system
            if kind(value).is_absolute():
                return kind(value).name
    return value


def _recipes(folder: Path) -> dict[str, dict[str, Any]]:
    return {path.stem: configs.load_toml(path) for path in sorted(folder.glob("*.toml"))}


def _nearest(
    recipes: Mapping[str, Mapping[str, Any]],
    values: Mapping[str, Any],
    complete: Callable[[Mapping[str, Any]], dict[str, Any]],
    required: Sequence[str],
    left_out: set[str],
) -> tuple[str, Settings] | None:
    """The recipe that needs the fewest settings to give `values`, and these settings; None if none does.

    `complete` fills in the defaults. `required` values that the recipe lacks, also those inside a table, are always
    settings.
    """
    found: list[tuple[str, Settings]] = []
    for name, recipe in recipes.items():
        try:
            wanted = _plain(complete(values))
            base = _plain(complete({key: values[key] for key in (*required, "output") if key in values} | dict(recipe)))
        except (InputError, KeyError):
            continue
        base |= {key: recipe.get(key) for key in required}
        kept = {key: value for key, value in wanted.items() if key not in left_out} | cached(wanted)
        settings = list(_settings(base, kept))
        found.append((name, settings))
    return min(found, key=lambda each: len(each[1])) if found else None


def _settings(base: Any, wanted: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The differences, by name."""
    for key, value in wanted.items():
        old = base.get(key) if isinstance(base, Mapping) else None
        if isinstance(value, Mapping) and value:
            yield from _settings(old, value, f"{prefix}{key}.")
        elif value != old:
            yield prefix + key, value


def _words(settings: Settings, flags: Mapping[str, str]) -> Iterator[str]:
    """The settings as words of a command, then those with flags."""
    for key, value in settings:
        if value is None:
            yield f"{key}=none"
        elif key not in flags:
            yield f"{'elmo' if key == 'inputs.elmo' else key}={_spelled(shown(value))}"
    for key, value in settings:
        if key in flags and value is not None:
            yield from (flags[key], str(shown(value)))


def _spelled(value: Any) -> str:
    """A value as in an override: TOML, or text that is not TOML."""
    if not isinstance(value, str):
        return _toml(value)
    try:
        tomllib.loads(f"value = {value}")
    except tomllib.TOMLDecodeError:
        return value
    return _toml(value)


def _toml(value: Any) -> str:
    """A value as TOML, which has no null: "none" instead."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}={_toml(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps("none" if value is None else value, ensure_ascii=False)


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """The value as read back from a file: lists for tuples."""
    return json.loads(json.dumps(values))
