"""Settings are shown to be edited, and whoever writes one otherwise is told how."""

import dataclasses
import re
import tomllib
import typing

import pytest
from command import printed
from refusals import refused

from elmo import config
from elmo.cli.settings import settings_of
from elmo.pretraining.settings import TrainConfig

HOME = ("elmo.pretraining.settings", "TrainConfig")


def names(kind, where=""):
    """What Python itself says of the dataclasses, which the parser of their source does not import."""
    for name, hint in typing.get_type_hints(kind).items():
        inner = [part for part in (hint, *typing.get_args(hint)) if dataclasses.is_dataclass(part)]
        yield from names(inner[0], f"{where}{name}.") if inner else [where + name]


def test_all_settings_are_found_in_the_source():
    assert [setting.name for setting in settings_of(*HOME)] == list(names(TrainConfig))


def test_shown_settings_are_a_recipe_with_comments(tmp_path):
    given = ("--train", "a.txt", "--output", "run", "optim.lr=0.5", "model.lstm.dim=7", "text.language=de")
    shown = printed("train", "--settings", *given)
    made = config.from_dict(TrainConfig, tomllib.loads(shown))
    assert (made.train, made.optim.lr, made.model.lstm.dim, made.text.language) == (("a.txt",), 0.5, 7, "de")
    assert re.search(r"^# [^\n]*linear warm-up[^\n]*\nwarmup_steps = 100$", shown, re.MULTILINE)
    (tmp_path / "my.toml").write_text(shown, encoding="utf-8")
    assert printed("train", tmp_path / "my.toml", "--settings") == shown


def test_help_of_train_lists_them_all():
    shown = printed("train", "--help")
    for setting in settings_of(*HOME):
        assert f"  {setting.name} " in shown


@pytest.mark.parametrize(
    ("values", "meant"),
    [
        ({"model": {"lstm": {"dimm": 3}}}, "did you mean model.lstm.dim?"),
        ({"lr": 3}, "did you mean optim.lr?"),
        ({"warmup_step": 3}, "did you mean optim.warmup_steps?"),
        ({"lstm": {"dim": 3}}, "did you mean model.lstm?"),
        ({"model": {"dim": 3}}, "did you mean model.lstm.dim?"),
        ({"optim": {"zzz": 3}}, "optim.lr, optim.betas"),
    ],
)
def test_an_unknown_key_is_told_its_full_name(values, meant):
    with refused(meant):
        config.from_dict(TrainConfig, {"train": ["a"], "output": "b", **values})


def test_help_groups_the_verbs_by_job():
    shown = printed("--help")
    assert shown.index("text to vectors:") < shown.index("    embed ") < shown.index("a language model:")
