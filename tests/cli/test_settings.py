"""Settings are shown to be edited, and whoever writes an option otherwise is told how."""

import dataclasses
import re
import tomllib
import typing

import pytest
from command import run

from elmo import config
from elmo.cli.settings import setting_comments, settings_of
from elmo.errors import InputError
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
    shown = run("train", "--settings", *given)
    assert shown.returncode == 0, shown.stderr
    made = config.from_dict(TrainConfig, tomllib.loads(shown.stdout))
    assert (made.train, made.optim.lr, made.model.lstm.dim, made.text.language) == (("a.txt",), 0.5, 7, "de")
    assert re.search(r"^# [^\n]*linear warm-up[^\n]*\nwarmup_steps = 100$", shown.stdout, re.MULTILINE)
    (tmp_path / "my.toml").write_text(shown.stdout, encoding="utf-8")
    again = run("train", tmp_path / "my.toml", "--settings")
    assert again.stdout == shown.stdout


def test_defaults_round_trip_through_toml():
    made = TrainConfig(train=("a",), output="b")
    text = config.to_toml(config.to_dict(made), setting_comments(settings_of(*HOME)))
    assert config.from_dict(TrainConfig, tomllib.loads(text)) == made


def test_help_of_train_lists_them_all():
    shown = run("train", "--help").stdout
    for setting in settings_of(*HOME):
        assert f"  {setting.name} " in shown


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (("train", "--epochs", "3"), "epochs=3"),
        (("train", "--lr=0.1"), "optim.lr=0.1"),
        (("train", "--lr", "--quiet"), "optim.lr=VALUE"),
        (("train", "--outptu", "run"), "did you mean --output?"),
        (("embed", "a.txt", "b.npz", "--layr", "top"), "did you mean --layers?"),
        (("embed", "a.txt", "b.npz", "--state", "ecko"), "did you mean echo?"),
        (("embd", "a.txt"), "did you mean embed?"),
        (("zzz",), "neighbors"),
        (("embed", "a.txt", "b.npz", "--zzz"), "--help"),
    ],
)
def test_a_wrong_option_is_told_what_was_meant(arguments, meant):
    done = run(*arguments)
    assert done.returncode == 2
    assert meant in done.stderr.splitlines()[-1]


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
    with pytest.raises(InputError, match=re.escape(meant)):
        config.from_dict(TrainConfig, {"train": ["a"], "output": "b", **values})


def test_help_groups_the_verbs_by_job_with_an_example_each():
    shown = run("--help").stdout
    verbs = re.findall(r"^    ([a-z]+)  ", shown, re.MULTILINE)
    examples = re.findall(r"^        \$ elmo ([a-z]+)", shown, re.MULTILINE)
    assert verbs == examples
    assert shown.index("text to vectors:") < shown.index("    embed ") < shown.index("a language model:")


def test_examples_are_commands_that_the_parser_accepts():
    import shlex

    from elmo.cli import parse

    for command in re.findall(r"^        \$ elmo (.*)$", run("--help").stdout, re.MULTILINE):
        parse(shlex.split(command.partition(" > ")[0]))
