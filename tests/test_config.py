"""Plain values -> configurations: what is not tested with the configurations themselves."""

import json
import os
from dataclasses import dataclass
from typing import Literal

import pytest

from elmo.config import ConfigError, from_dict, parse_overrides, to_json


@dataclass(frozen=True)
class Config:
    """One field a kind of annotation."""

    path: str | None = "a.txt"
    limit: int | None = 3
    shares: tuple[float, ...] | None = (0.5,)
    place: Literal["none", "input"] = "input"
    name: str = "b"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_numbers_are_finite(value: float) -> None:
    with pytest.raises(ConfigError, match=r"shares\[1\] is -?(nan|inf); a finite number is expected"):
        from_dict(Config, {"shares": [0.5, value]})


def test_none_leaves_out_what_is_optional() -> None:
    """Elsewhere it is a text or a choice like any other."""
    made = from_dict(Config, parse_overrides(["path=none", "limit=none", "shares=none", "place=none", "name=none"]))
    assert made == Config(None, None, None, "none", "none")
    assert from_dict(Config, {"path": "./none"}).path == "./none"
    with pytest.raises(ConfigError, match=r"limit is 'null'; int is expected"):
        from_dict(Config, parse_overrides(["limit=null"]))


def test_names_of_files_that_are_no_utf8_are_stored() -> None:
    made = Config(path=os.fsdecode(b"caf\xe9.txt"), name="caf\u00e9")
    stored = to_json(made).encode()
    assert from_dict(Config, json.loads(stored)) == made
    assert "caf\u00e9" in stored.decode()
