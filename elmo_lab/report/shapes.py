"""The expected shapes of result files, so that their values need no further checks.

A shape is a kind (`str`; `float`, any number; `object`, anything), a required value, a range of whole numbers, a list
with the shape of its members, an object with the shapes of its keys, or a tuple of shapes, one of which must fit. A key
with `?` is optional; the key `*` stands for all others, which without it may hold anything.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from elmo.errors import InputError
from elmo_lab.probes.weights import PLACES
from elmo_lab.tasks import task as tasks

NUMBER = (float, None)
SCORES = {"*": float}
MACHINE = {"date?": str}
BILM = {
    "words_read?": NUMBER, "cells?": NUMBER, "projection_dim?": NUMBER, "init_from?": ({"continues?": bool}, None),
}  # fmt: skip
VOCABULARY = ({"size?": float}, str, None)
LAYER = (str, float)
LAYERS = range(100)

RUN = {
    "task?": tasks.NAMES, "inputs?": {"elmo?": str}, "seeds?": ([float], None), "max_train?": NUMBER,
    "train_fraction?": float,
}  # fmt: skip
RESULT = {"seed": float, "seconds": float, "dev": SCORES, "test?": SCORES, "bilm?": (BILM, None), "machine?": MACHINE}
SUMMARY = {"version?": str}
ORIGIN = {"version?": str, "data?": {"*": str}}
ENSEMBLE = {"members": float, "dev": SCORES, "test?": SCORES}
TABLE = [{"row?": str, "title?": str, "arm?": str, "baseline?": str, "seeds_wanted?": float}]
POINT = {
    "step": float, "tokens?": float, "carry_mean?": NUMBER, "reset_mean?": NUMBER, "measured_on?": dict,
    "tokens_per_s?": float,
}  # fmt: skip
SESSIONS = [{"step": float, "settings": dict}]
CARD = {
    "words_read?": NUMBER, "heldout?": (list, None), "perplexity?": ({"*": ({"*": NUMBER}, None)}, None),
    "vocabulary?": VOCABULARY,
}  # fmt: skip
MODEL = {"card?": CARD}
PERPLEXITY = {
    "text": list, "vocabulary": VOCABULARY, "perplexity": {"*": {"*": NUMBER}},
    "bilm?": (BILM, None),
}  # fmt: skip
EVALUATION = {"task": str, "examples": float, "members": float}

PROBE = {
    "probe?": str,
    "config?": {"limit?": NUMBER, "seeds?": (list, None), "state?": str},
    "bilm?": (BILM, None),
    "machine?": MACHINE,
}
ARM = {"recipe": str, "task": str, "arm": str, "metric": str}
MEASURED = {
    **ARM, "dev": float, "dev_std": float, "test": NUMBER, "test_std": NUMBER, "seeds": [float], "steps": float,
    "stopped": [str],
}  # fmt: skip
PROBED: Mapping[str, dict[str, Any]] = {
    "ablate": {**MEASURED, "analysis": str, "dev_difference": NUMBER, "test_difference": NUMBER},
    "neighbors": {
        "query": str, "layer": str, "rank": float, "similarity": float, "neighbor": str, "published": bool,
        "candidates": NUMBER,
    },
    "pos": {"layer": LAYER, "dev": float, "test?": NUMBER, "differences?": {"*": [float]}},
    "senses": {"layer": LAYER, "accuracy": float, "occurrences?": float, "by_word?": SCORES},
    "weights": {
        "task": str, "run": str, "seed": float, "place": PLACES, "layer": LAYERS, "weight": float, "gamma": float,
        "encoder?": str,
    },
    "wsd": {
        "layer": LAYER, "all": float, "others?": float, "instances?": float, "differences?": {"*": [float]},
    },
}  # fmt: skip
"""The shape of a row, by probe; other probes' rows are shown as they are."""
EFFICIENCY: Mapping[str, dict[str, Any]] = {
    "score": {**MEASURED, "fraction": float, "examples": float},
    "point": {**ARM, "fraction": float, "seed": float, "step": float, "dev": float},
    "answer": {
        "recipe": str, "task": str, "question": str, "text": str, "value": NUMBER, "at_most": bool, "std?": NUMBER,
        "reached?": NUMBER, "seeds?": NUMBER, "sooner?": NUMBER,
    },
}  # fmt: skip
"""The shape of a row of the probe `efficiency`, by its kind."""
NAMES = {dict: "an object", list: "a list", str: "text", float: "a number", bool: "true or false"}


def read(path: Path, shape: Any) -> Any:
    """The values of a JSON file. Raises InputError if it is not JSON, or has another shape."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not valid JSON ({error}); remove it, or produce the result again") from error
    check(values, shape, str(path))
    return values


def check(value: Any, shape: Any, where: str) -> None:
    """Raises InputError, which starts with `where`, for a value of another shape."""
    found = wrong(value, shape)
    if found is not None:
        raise InputError(f"{where}: {found}; damaged, or of another version: remove it, or produce the result again")


def row_shape(probe: str, row: Mapping[str, Any]) -> Any:
    """The shape of a probe's row."""
    shape = EFFICIENCY.get(str(row.get("kind")), {"kind?": str}) if probe == "efficiency" else PROBED.get(probe, {})
    return shape | {"test_std": float} if "test_std" in shape and row.get("test") is not None else shape


def wrong(value: Any, shape: Any, key: str = "") -> str | None:
    """What does not fit, and at which key; None if all fits."""
    shapes = shape if isinstance(shape, tuple) else (shape,)
    fitting = [each for each in shapes if _is(value, each)]
    if not fitting:
        seen = json.dumps(value, ensure_ascii=False)
        seen = seen if len(seen) <= 40 else f"{seen[:40]}..."
        return f"{key or 'the value'} is {seen} where {' or '.join(map(_said, shapes))} is expected"
    if isinstance(fitting[0], list):
        members = (wrong(each, fitting[0][0], f"{key}[{number}]") for number, each in enumerate(value))
        return next((found for found in members if found is not None), None)
    return _wrong_inside(value, fitting[0], key) if isinstance(fitting[0], dict) else None


def _wrong_inside(values: dict[str, Any], shape: dict[str, Any], key: str) -> str | None:
    """The same for an object's keys."""
    prefix = f"{key}." if key else ""
    for name in shape:
        if name != "*" and not name.endswith("?") and name not in values:
            return f"{prefix}{name} is missing"
    for name, value in values.items():
        inside = shape.get(name, shape.get(f"{name}?", shape.get("*", object)))
        found = wrong(value, inside, prefix + name)
        if found is not None:
            return found
    return None


def _is(value: Any, shape: Any) -> bool:
    """Whether a value is of a shape's kind, whatever its content."""
    if isinstance(shape, dict | list):
        return isinstance(value, type(shape))
    if shape is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if isinstance(shape, range):
        return isinstance(value, int) and not isinstance(value, bool) and value in shape
    return isinstance(value, shape) if isinstance(shape, type) else value == shape


def _said(shape: Any) -> str:
    if isinstance(shape, dict | list):
        return NAMES[type(shape)]
    if isinstance(shape, range):
        return f"a whole number from {shape[0]} to {shape[-1]}"
    return NAMES[shape] if isinstance(shape, type) else json.dumps(shape)
