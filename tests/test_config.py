"""Plain values -> configurations: what is not tested with the configurations themselves."""

import json
import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import pytest
from refusals import refused

from elmo.config import ConfigError, from_dict, load_toml, parse_overrides, to_json
from elmo.pretraining.settings import SMALL, TrainConfig
from elmo_lab.tasks.translation import CoveConfig


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
    with refused("shares[1]", "finite", error=ConfigError):
        from_dict(Config, {"shares": [0.5, value]})


@pytest.mark.parametrize("value", ["1e39", "-1e308", "1" + "0" * 400])
def test_numbers_fit_in_floats_of_32_bits(value: str) -> None:
    """Otherwise the optimizer overflows in the midst of a run."""
    given = parse_overrides(["train=['a']", "output=b", f"optim.lr={value}"])
    with refused("optim.lr", "32 bits", error=ConfigError):
        from_dict(TrainConfig, given)


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1])
def test_numbers_fit_in_64_bits(value: int) -> None:
    """Others are an OverflowError wherever they are used first."""
    with refused("limit", "64 bits", error=ConfigError):
        from_dict(Config, {"limit": value})
    assert from_dict(Config, {"limit": 2**63 - 1}).limit == 2**63 - 1


def test_none_leaves_out_what_is_optional() -> None:
    """Elsewhere it is a text or a choice like any other."""
    made = from_dict(Config, parse_overrides(["path=none", "limit=none", "shares=none", "place=none", "name=none"]))
    assert made == Config(None, None, None, "none", "none")
    assert from_dict(Config, {"path": "./none"}).path == "./none"
    with refused("limit", "'null'", "int", error=ConfigError):
        from_dict(Config, parse_overrides(["limit=null"]))


@pytest.mark.parametrize("name", ["2024-05-01", "07:32:00", "2024-05-01T07:32:00Z"])
def test_a_name_that_is_a_date_or_a_time_is_text(name: str) -> None:
    assert from_dict(Config, parse_overrides([f"path={name}", f"name={name}"])) == Config(path=name, name=name)


def test_a_byte_order_mark_is_no_part_of_a_recipe(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text('path = "a"\n', encoding="utf-8-sig")
    assert load_toml(tmp_path / "a.toml") == {"path": "a"}
    (tmp_path / "a.toml").write_bytes(b'path = "\xe9"\n')
    with refused("a.toml", "UTF-8", "byte 8", error=ConfigError):
        load_toml(tmp_path / "a.toml")


def test_names_of_files_that_are_no_utf8_are_stored() -> None:
    made = Config(path=os.fsdecode(b"caf\xe9.txt"), name="caf\u00e9")
    stored = to_json(made).encode()
    assert from_dict(Config, json.loads(stored)) == made
    assert "caf\u00e9" in stored.decode()


@dataclass(frozen=True)
class Nested:
    """Tables whose defaults are not those of their class."""

    one: Config = Config(limit=9, name="c")
    made: Config | None = field(default_factory=lambda: Config(limit=7))


def test_a_table_with_some_keys_keeps_the_other_defaults() -> None:
    made = from_dict(Nested, parse_overrides(["one.name=d", "made.path=e", "made.limit=none"]))
    assert made == Nested(Config(limit=9, name="d"), Config("e", None))
    assert from_dict(Nested, {"made": None}).made is None


def test_one_setting_of_a_model_changes_no_other() -> None:
    """`model.lstm.dim=64` had made the rest of the model that of the published one."""
    train = from_dict(TrainConfig, parse_overrides(["train=['a']", "output=b", "model.lstm.dim=64"]))
    assert train.model == replace(SMALL, lstm=replace(SMALL.lstm, dim=64))
    files = [f"{name}=a" for name in ("source", "target", "heldout_source", "heldout_target", "output")]
    cove = from_dict(CoveConfig, parse_overrides([*files, "source_text.language=fr", "encoder.dim=600"]))
    assert (cove.source_text.sentences, cove.encoder.projection_dim) == ("line", 100)
