"""Reads and writes frozen dataclasses as TOML and JSON. Unknown keys are errors; overrides are `section.key=value`.

A job's configuration is a tree of frozen dataclasses. It is read from a recipe, changed by overrides, and saved as
JSON beside the job's output.
"""

import dataclasses
import json
import math
import tomllib
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, time
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

from elmo.errors import InputError, did_you_mean, shown

T = TypeVar("T")

LARGEST = 3.4028234e38
"""The largest 32-bit floating-point number; networks compute in 32 bits."""
LARGEST_WEIGHT = 1e6
"""The largest magnitude of a biLM's weights. Training stays far below; products of larger weights could overflow."""
LARGEST_SIZE = 2**24
"""The largest size of a layer or batch. With more, a computer runs out of memory, or a single step never ends."""
MOST_TABLES = 1000
"""The most tables or lists in a list of settings, such as filters."""
MOST_LAYERS = 1000
SEEDS = 2**32
"""The number of seeds, from 0, that all random generators take."""
MOST_BYTES, MOST_TOML = 1 << 30, 1 << 20
"""The most bytes of a file that is read as a whole, and of a recipe."""
MOST_DOTS = 100
"""The most dots in a key of TOML, whose parser takes seconds for ten thousand of them."""
KINDS = {str: "a string", int: "a whole number", float: "a number", bool: "true or false", dict: "a table"}
"""The types of settings, as errors name them."""
RECIPES = Path(__file__).parent / "recipes"
"""The packaged recipes of pretraining."""


class ConfigError(InputError):
    """A configuration has an unknown key, a value of the wrong type or NaN; the message says which."""


def to_dict(config: Any) -> dict[str, Any]:
    """Returns the configuration as JSON values: what would be read back from a file, with lists for tuples."""
    return json.loads(json.dumps(dataclasses.asdict(config)))


def to_json(config: Any) -> str:
    """Returns the configuration as JSON text, one key per line."""
    return as_json(to_dict(config))


def as_json(values: Mapping[str, Any]) -> str:
    """Returns JSON text, one key per line. What UTF-8 cannot express, as in some files' names, is escaped."""
    text = json.dumps(without_nonfinite(values), indent=2, ensure_ascii=False) + "\n"
    return text.encode("utf-8", "backslashreplace").decode()


def without_nonfinite(value: Any) -> Any:
    """Replaces NaN and infinite numbers, which a diverged network gives and JSON lacks, by None."""
    if isinstance(value, Mapping):
        return {key: without_nonfinite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [without_nonfinite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def from_dict(kind: type[T], values: Mapping[str, Any], where: str = "") -> T:
    """Builds `kind` from plain values. Missing keys get their defaults; unknown keys are an error.

    A table with some of its keys gets the others from the default of the field, not from that of the table's class.
    Where None is allowed, the text "none" means None, since TOML and the command line have no null.
    """
    hints = typing.get_type_hints(kind)
    known = {field.name: field for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    for key in values:
        if key not in known:
            full = {name.rpartition(".")[2]: name for name in reversed([*_names(kind, where)])}
            close = get_close_matches(str(key).lower(), full, 1, 0.75)
            names = ", ".join(where + name for name in known)
            meant = f"did you mean {full[close[0]]}?" if close else f"known keys: {names}"
            raise ConfigError(f"unknown key {where + str(key)!r}; {meant}")
    for name, field in known.items():
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if required and name not in values:
            raise ConfigError(f"missing key {where + name!r}; set it")
    whole = {key: _with_default(known[key], value) for key, value in values.items()}
    return kind(**{key: _convert(hints[key], value, where + key) for key, value in whole.items()})


def _names(kind: Any, where: str) -> Iterator[str]:
    """Yields the full names of the fields of a dataclass and of the dataclasses in its fields."""
    for name, hint in typing.get_type_hints(kind).items():
        inner = next((part for part in (hint, *typing.get_args(hint)) if dataclasses.is_dataclass(part)), None)
        yield where + name
        if inner is not None:
            yield from _names(inner, f"{where}{name}.")


def _with_default(field: dataclasses.Field[Any], value: Any) -> Any:
    """Fills the keys that a table lacks from the field's default."""
    if not isinstance(value, Mapping):
        return value
    made = field.default_factory is not dataclasses.MISSING
    default = field.default_factory() if made else field.default  # type: ignore[operator]
    return merge_tables(to_dict(default), value) if dataclasses.is_dataclass(type(default)) else value


def check_regular(path: Path) -> None:
    """Raises InputError for a pipe, a device or another thing that is no file, which may never end."""
    if path.exists() and not path.is_file():
        raise InputError(f"{path}: is not a regular file; copy what it gives into one")


def read_regular(path: Path, most: int = MOST_BYTES) -> bytes:
    """Reads a file that is kept in memory as a whole.

    Raises InputError for a folder, a pipe or a device, which may never end, and a file of more than `most` bytes.
    """
    if path.is_dir():
        raise InputError(f"{path}: is a folder; name a file")
    check_regular(path)
    with path.open("rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise InputError(f"{path}: has more than {most:,} bytes, too many for such a file; name another")
    return content


def load_json(path: Path) -> Any:
    """Reads a file of JSON. Raises the errors of `parse_json` and `read_regular`."""
    return parse_json(read_regular(path))


def parse_json(content: bytes) -> Any:
    """Parses the content of a file of JSON. Raises ValueError if it is none, or an object has a key twice."""
    try:
        return json.loads(content, object_pairs_hook=_without_repeats)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {next(key for key in keys if keys.count(key) > 1)!r} occurs twice")
    return values


def load_toml(path: Path) -> dict[str, Any]:
    """Reads a recipe as plain values; a byte-order mark, as some editors write, is skipped."""
    content = read_regular(path, MOST_TOML)
    try:
        text = content.decode("utf-8-sig")
        if any(line.partition("=")[0].count(".") > MOST_DOTS for line in text.split("\n")):
            raise ValueError("it is nested too deeply")
        return tomllib.loads(text)
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 ({error.reason} at byte {error.start}); convert it to UTF-8") from error
    except (ValueError, RecursionError) as error:
        problem = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise ConfigError(f"{path}: not valid TOML ({problem}); fix it") from error


def find_recipe(name: str, folder: Path = RECIPES) -> Path:
    """Returns the file of a recipe, which is given as a path or as a name in a package's folder of recipes."""
    path = Path(name)
    if path.is_file():
        if path.suffix != ".toml":
            raise InputError(
                f"{name}: a recipe (.toml) is expected here; put patterns of files in quotes, as in"
                " --train 'corpus/*.txt'"
            )
        return path
    return packaged_recipe(name, folder)


def packaged_recipe(name: str, folder: Path = RECIPES) -> Path:
    """Returns the file of the recipe `name` in a package's folder of recipes."""
    packaged = folder / f"{name.removesuffix('.toml')}.toml"
    if packaged.is_file():
        return packaged
    names = sorted(recipe.stem for recipe in folder.glob("*.toml"))
    meant = did_you_mean(name, names)
    raise FileNotFoundError(f"{name}: no such file, and not a packaged recipe (available: {', '.join(names)}){meant}")


def to_toml(values: Mapping[str, Any], comments: Mapping[str, Sequence[str]], where: str = "") -> str:
    """Writes plain values as TOML that `load_toml` reads; `comments` are the lines above a key, by its full name.

    A key without a value, None, is "none".
    """
    tables = {key: value for key, value in values.items() if isinstance(value, Mapping)}
    lines: list[str] = []
    for key, value in values.items():
        if key not in tables:
            lines += [f"# {line}".rstrip() for line in comments.get(where + key, ())]
            lines.append(f"{key} = {_toml_value(value)}")
    parts = ["\n".join(lines) + "\n"] if lines else []
    for key, table in tables.items():
        inner = to_toml(table, comments, f"{where}{key}.")
        parts.append(
            inner if all(isinstance(value, Mapping) for value in table.values()) else f"[{where}{key}]\n{inner}"
        )
    return "\n".join(parts)


def _toml_value(value: Any) -> str:
    """Writes a value on one line; a table in a list becomes an inline table."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_toml_value(inner)}" for key, inner in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml_value, value)) + "]"
    return json.dumps("none" if value is None else value, ensure_ascii=False).replace("\x7f", "\\u007f")


def merge_tables(values: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Returns `values` with `changes` applied; tables are merged key by key."""
    merged = dict(values)
    for key, value in changes.items():
        old = merged.get(key)
        both_tables = isinstance(value, Mapping) and isinstance(old, Mapping)
        merged[key] = merge_tables(old, value) if both_tables else value  # type: ignore[arg-type]
    return merged


def combined(
    recipe: Mapping[str, Any],
    flags: Mapping[str, Any],
    overrides: Iterable[str] | Mapping[str, Any] = (),
    begun: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Combines the settings of a command: a recipe, then flags, then overrides, of which the last wins.

    Flags that are None were not given. `overrides` are `section.key=value`, or what these are parsed to. A run that
    goes on starts from the settings with which it has `begun`.
    """
    given = overrides if isinstance(overrides, Mapping) else parse_overrides(overrides)
    return merge_tables(merge_tables(merge_tables(begun or {}, recipe), _without_none(flags)), given)


def _without_none(flags: Mapping[str, Any]) -> dict[str, Any]:
    given = {key: value for key, value in flags.items() if value is not None}
    return {key: _without_none(value) if isinstance(value, Mapping) else value for key, value in given.items()}


def differing_parts(old: Any, new: Any) -> tuple[Any, Any]:
    """Returns the parts of two configurations that differ, as plain values."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return old, new
    parts = {key: differing_parts(old.get(key), new.get(key)) for key in new if new[key] != old.get(key)}
    return {key: was for key, (was, _) in parts.items()}, {key: now for key, (_, now) in parts.items()}


def parse_overrides(overrides: Iterable[str]) -> dict[str, Any]:
    """Parses `["optim.lr=0.1", "output=run"]` as `{"optim": {"lr": 0.1}, "output": "run"}`; values are TOML or text.

    A date or time is text, too: no setting is one, but a folder may have such a name.
    """
    values: dict[str, Any] = {}
    for override in overrides:
        key, equals, text = override.partition("=")
        if not equals or not key:
            raise ConfigError(f"{override!r}: section.key=value is expected")
        if key.count(".") > MOST_DOTS:
            raise ConfigError(f"{shown(key)}: is nested too deeply; section.key=value is expected")
        try:
            parsed: dict[str, Any] = tomllib.loads(f"value = {text}")
        except (ValueError, RecursionError):  # also of a number with thousands of digits
            parsed = {}
        value: Any = parsed.get("value")
        if len(parsed) != 1 or isinstance(value, date | time):  # a text of several lines may parse as several keys
            value = text
        for part in reversed(key.split(".")):
            value = {part: value}
        values = merge_tables(values, value)
    return values


def check_range(config: Any, names: Iterable[str], least: float, below: float = math.inf, where: str = "") -> None:
    """Raises ConfigError if a number with one of these names is not in [least, below).

    This and the following functions check each number of a tuple, and take None, which is no number.
    """
    expected = f"at least {least}" if below == math.inf else f"from {least} to less than {below}"
    _check_all(config, names, lambda number: least <= number < below, expected, where)


def check_sizes(config: Any, names: Iterable[str], where: str = "", least: int = 1, most: int = LARGEST_SIZE) -> None:
    """Raises ConfigError if a number with one of these names is not in [least, most]."""
    _check_all(config, names, lambda number: number >= least, f"at least {least}", where)
    _check_all(config, names, lambda number: number <= most, f"at most {most}", where)


def check_above(config: Any, names: Iterable[str], most: float = LARGEST, where: str = "") -> None:
    """Raises ConfigError if a number with one of these names is not in (0, most], or is infinite."""
    expected = "a number above 0" + ("" if most == LARGEST else f" and at most {most:,}")
    _check_all(config, names, lambda number: 0 < number <= most, expected, where)


def check_lists(config: Any, names: Iterable[str], where: str = "") -> None:
    """Raises ConfigError if a tuple with one of these names is empty or has something twice."""
    for name in names:
        values = getattr(config, name)
        if not values or len(set(values)) != len(values):
            raise ConfigError(f"{where}{name} is {list(values)}; at least one value, without repeats, is expected")


def _check_all(config: Any, names: Iterable[str], is_good: Callable[[float], bool], expected: str, where: str) -> None:
    for name in names:
        value = getattr(config, name)
        numbers = value if isinstance(value, tuple) else (value,)
        if not all(number is None or is_good(number) for number in numbers):
            seen = list(value) if isinstance(value, tuple) else value
            raise ConfigError(f"{where}{name} is {seen}; {expected} is expected")


def _convert(hint: Any, value: Any, where: str) -> Any:
    """Checks `value` against the annotation `hint`, building nested dataclasses and tuples."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        if types.NoneType in arguments and value in (None, "none"):
            return None
        *others, last = (kind for kind in arguments if kind is not types.NoneType)
        for kind in others:
            with suppress(ConfigError):
                return _convert(kind, value, where)
        return _convert(last, value, where)
    if origin is typing.Literal:
        if value in arguments:
            return value
        raise ConfigError(f"{where} is {shown(value)}; allowed: {', '.join(map(repr, arguments))}")
    if dataclasses.is_dataclass(hint):
        if isinstance(value, Mapping):
            return from_dict(typing.cast(type, hint), value, where + ".")
        raise ConfigError(f"{where} is {shown(value)}; a table is expected")
    if origin is tuple:
        if not isinstance(value, list | tuple):
            how = f": [{_toml_value(value)}]" if isinstance(value, str) and len(value) < 60 else ""
            raise ConfigError(f"{where} is {shown(value)}; a list is expected{how}")
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            if arguments[0] not in (str, int, float) and len(value) > MOST_TABLES:
                raise ConfigError(f"{where} has {len(value):,} items; at most {MOST_TABLES:,} are expected")
            return tuple(_convert(arguments[0], item, f"{where}[{i}]") for i, item in enumerate(value))
        if len(value) != len(arguments):
            raise ConfigError(f"{where} has {len(value)} items; {len(arguments)} are expected")
        return tuple(
            _convert(kind, item, f"{where}[{i}]") for i, (kind, item) in enumerate(zip(arguments, value, strict=True))
        )
    if hint is float and isinstance(value, int | float) and not isinstance(value, bool):
        return _float(value, where)
    if hint is int and isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ConfigError(f"{where} is {shown(value)}; a number that 64 bits hold is expected")
    if isinstance(value, hint) and (hint is bool or not isinstance(value, bool)):
        return value
    how = f", with its own quotes: '\"{_toml_value(value)}\"'" if hint is str and isinstance(value, int | float) else ""
    raise ConfigError(f"{where} is {shown(value)}; {KINDS.get(hint, hint.__name__)} is expected{how}")


def _float(value: float, where: str) -> float:
    """Returns a number that a 32-bit tensor can hold; a larger one would overflow in the midst of training."""
    if abs(value) <= LARGEST:
        return float(value)
    if abs(value) < math.inf:
        raise ConfigError(f"{where} is larger than 32 bits hold; a number up to {LARGEST:.1e} is expected")
    raise ConfigError(f"{where} is {value}; a finite number is expected")
