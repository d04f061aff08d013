"""Plain values -> configurations: what is not tested with the configurations themselves."""

import json
import os
import tomllib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from links import link
from refusals import refused

from elmo.config import ConfigError, from_dict, load_json, load_toml, parse_overrides, to_json, to_toml
from elmo.disk.run import read_json
from elmo.pretraining.settings import SMALL, TrainConfig
from elmo.text.vocabulary import Vocabulary
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
    values = parse_overrides(["train=['a']", "output=b", f"optim.lr={value}"])
    with refused("optim.lr", "32 bits", error=ConfigError):
        from_dict(TrainConfig, values)


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
    with refused("limit", "'null'", "whole number", error=ConfigError):
        from_dict(Config, parse_overrides(["limit=null"]))


@pytest.mark.parametrize("name", ["2024-05-01", "07:32:00", "2024-05-01T07:32:00Z"])
def test_a_name_that_is_a_date_or_a_time_is_text(name: str) -> None:
    assert from_dict(Config, parse_overrides([f"path={name}", f"name={name}"])) == Config(path=name, name=name)


def test_an_override_of_several_lines_is_one_value() -> None:
    """The lines after the first were dropped without a word."""
    with refused("limit", "epochs=9", error=ConfigError):
        from_dict(Config, parse_overrides(["limit=1\nepochs=9"]))
    assert from_dict(Config, parse_overrides(["shares=[\n0.25,\n0.5]\n"])).shares == (0.25, 0.5)


def test_a_wrong_type_is_named_as_the_documentation_names_it_with_the_remedy() -> None:
    with refused("name", "2024", "string", "'\"2024\"'", error=ConfigError):
        from_dict(Config, parse_overrides(["name=2024"]))
    assert from_dict(Config, parse_overrides(['name="2024"'])).name == "2024"
    with refused("train", '["a.txt"]', error=ConfigError):
        from_dict(TrainConfig, parse_overrides(["train=a.txt", "output=b"]))
    with refused("prefetch", "true or false", error=ConfigError):
        from_dict(TrainConfig, parse_overrides(["train=['a']", "output=b", "prefetch=yes"]))


@given(text=st.text(st.characters(codec="utf-8")))
def test_toml_reads_back_every_text(text: str) -> None:
    """That of `--settings` is to be edited and read again; TOML has no DEL as it is."""
    assert tomllib.loads(to_toml({"name": text, "inner": {"name": text}}, {})) == {
        "name": text,
        "inner": {"name": text},
    }


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


@pytest.mark.parametrize(
    "text",
    ["a = " + "[" * 100_000, "epochs = " + "1" * 6000, ".".join("a" * 50_000) + " = 1", "a = " + "{a=" * 3000],
    ids=["lists", "digits", "keys", "tables"],
)
def test_a_recipe_that_the_parser_cannot_bear_is_named_at_once(tmp_path: Path, text: str) -> None:
    (tmp_path / "deep.toml").write_text(text)
    with refused("deep.toml", "TOML"):
        load_toml(tmp_path / "deep.toml")


@pytest.mark.parametrize("text", ["[" * 5000, "1" * 5000, "{a=" * 3000 + "1" + "}" * 3000])
def test_a_value_that_the_parser_cannot_bear_is_text(text: str) -> None:
    assert parse_overrides([f"optim.lr={text}"]) == {"optim": {"lr": text}}


def test_an_override_of_a_deep_key_is_refused_in_a_short_line() -> None:
    with refused("section.key") as caught:
        parse_overrides([".".join("a" * 3000) + "=1"])
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("read", [load_toml, load_json, Vocabulary.load])
def test_a_file_that_never_ends_is_refused_at_once(tmp_path: Path, read) -> None:
    os.mkfifo(tmp_path / "pipe")
    link(tmp_path / "zero", "/dev/zero")
    for name in ("pipe", "zero"):
        with refused(name, "regular file"):
            read(tmp_path / name)


def test_json_that_means_two_things_or_nothing(tmp_path: Path) -> None:
    for text, word in (('{"a": 1, "b": {"c": 1, "c": 2}}', "'c'"), ("[" * 100_000, "deep"), ("{", "JSON")):
        (tmp_path / "file.json").write_text(text)
        with refused("file.json", word, "again"):
            read_json(tmp_path / "file.json", "make it again")
