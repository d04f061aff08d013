"""The laboratory's verbs show their settings to be edited, and tell how a setting is written, as `elmo train` does."""

import tomllib
from pathlib import Path

import pytest

from elmo import config
from elmo.cli import main
from elmo.cli.settings import config_of, settings_of
from elmo_lab.cli.probes import WITHOUT_SETTINGS
from elmo_lab.plugins import entry_points_of
from elmo_lab.probes import probe as probes
from elmo_lab.tasks import task as tasks

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
    found = config.combined(recipe, flags, ["b.d=3"], begun={"f": 0, "e": 0})
    assert found == {"a": 1, "b": {"c": 2, "d": 3}, "e": 2, "f": 0}
