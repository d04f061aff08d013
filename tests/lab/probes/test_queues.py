"""The probes that train tasks: what is trained once, what is compared with what, and what the curves are read for."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command import printed, run
from refusals import names, refusal, refused
from small_results import plant, recipe_of
from small_tasks import SMALL, write_recipe

from elmo import config as configs
from elmo_lab import RECIPES, record
from elmo_lab.document import Table
from elmo_lab.probes import ablate, efficiency, queues
from elmo_lab.probes.efficiency import CurvePoint, PartScore
from elmo_lab.probes.probe import Context
from elmo_lab.tasks import compare
from elmo_lab.tasks.trained import RESULT

# Ablations


def test_equal_settings_are_one_run() -> None:
    """SNLI's recipe has Table 2's lambda of 0.001, NER's has another; names do not depend on what is asked for."""
    config = ablate.AblateConfig("out", ("snli", "ner-wnut17"))
    queue, runs = ablate.plan(config, recipe_of, {})
    snli, ner = (set(row.arms) for row in queue.rows)
    assert ner - snli == {"lambda-0.001"}
    assert len(snli) == 10
    assert runs["snli", "layers", "lambda-0.001"] == runs["snli", "types", "static-elmo"] == "both", (
        "its place in the paper"
    )
    assert runs["ner-wnut17", "layers", "top"] == "top"
    assert runs["ner-wnut17", "types", "static-elmo"] == "input"
    assert runs["snli", "types", "static"] == runs["ner-wnut17", "types", "static"] == "none"
    assert runs["snli", "gamma", "top-gamma-learned"] == "top"
    for analysis, arms in ablate.ARMS.items():
        alone, named = ablate.plan(ablate.AblateConfig("out", ("snli",), (analysis,)), recipe_of, {})
        assert named == {key: name for key, name in runs.items() if key[:2] == ("snli", analysis)}
        assert len(alone.rows[0].arms) == len(arms)
    other = ablate.plan(ablate.AblateConfig("out", ("snli",), place="input"), recipe_of, {})[1]
    assert other["snli", "layers", "lambda-0.001"] == other["snli", "types", "static-elmo"] == "input"


def test_a_recipe_may_have_settings_of_its_own_over_those_of_all() -> None:
    own = (ablate.OwnSettings("srl", ("training.lr=0.5", "inputs.dropout=0.25")),)
    config = ablate.AblateConfig("out", ("snli", "srl"), ("types",), settings=("training.lr=0.125",), own_settings=own)
    given = queues.common_settings(config.settings, None, None, None)
    queue, _ = ablate.plan(config, recipe_of, given)
    for row, lr in zip(queue.rows, (0.125, 0.5), strict=True):
        assert set(row.arms) == {"none", "layer-0", "elmo", "both" if row.recipe == "snli" else "input"}
        for settings in row.arms.values():
            made = compare.config_of(recipe_of(row.recipe), given, settings, Path(), row.seeds)
            assert (made.training.lr, made.inputs.dropout == 0.25) == (lr, lr == 0.5)


def test_settings_of_a_recipe_that_is_not_in_the_queue_are_refused(tmp_path: Path) -> None:
    """Not those of the package, which names a recipe that the user may leave out."""
    packaged = configs.load_toml(RECIPES / "probes" / "ablate.toml") | {"output": "out", "recipes": ["srl"]}
    ablate.plan(configs.from_dict(ablate.AblateConfig, packaged), recipe_of, {})
    (tmp_path / "my-ner.toml").write_text('task = "ner"\ntrain = "a"\ndev = "b"\n', encoding="utf-8")
    for name, lr in ((str(tmp_path / "my-ner.toml"), 0.5), ("my-ner", 0.5), ("my-nr.toml", None), ("ner-wnut17", None)):
        own = (ablate.OwnSettings(name, ("training.lr=0.5",)),)
        config = ablate.AblateConfig("out", (str(tmp_path / "my-ner.toml"),), ("places",), own_settings=own)
        if lr is None:
            with refused("own_settings", f"'{name}'", "recipes"):
                ablate.plan(config, recipe_of, {})
        else:
            assert ablate.plan(config, recipe_of, {})[0].rows[0].arms["both"] == ["training.lr=0.5", "inputs.elmo=both"]


def test_ablations_are_compared_with_their_first_arm(tmp_path: Path) -> None:
    scores = {"input": (80.0, 78.0), "both": (82.0, 77.0), "none": (70.0, 71.0), "top": (75.0, 74.0)}
    for arm, (dev, test) in scores.items():
        plant(tmp_path / "snli" / arm, "snli", dev, test)
        plant(tmp_path / "snli" / arm, "snli", dev + 2, test, seed=2)
    config = ablate.AblateConfig(str(tmp_path), ("snli",), seeds=(1, 2))
    rows = ablate.write(config, *ablate.plan(config, recipe_of, {}))
    found = {(row.analysis, row.arm): row for row in rows}
    assert list(found) == [
        ("places", "input"), ("places", "both"),
        ("layers", "none"), ("layers", "top"), ("layers", "lambda-0.001"),
        ("gamma", "gamma-learned"), ("gamma", "top-gamma-learned"),
        ("types", "static"), ("types", "static-elmo"),
    ]  # fmt: skip
    top = found["layers", "top"]
    assert (top.dev, top.dev_std, top.test) == (76.0, pytest.approx(math.sqrt(2)), 74.0)
    assert (top.dev_scores, top.test_scores) == ((75.0, 77.0), (74.0, 74.0))
    assert (top.dev_difference, top.test_difference) == (5.0, 3.0)
    assert (found["places", "both"].dev_difference, found["places", "both"].test_difference) == (2.0, -1.0)
    assert found["layers", "none"].dev_difference is None
    assert found["layers", "lambda-0.001"].run == found["types", "static-elmo"].run == "snli/both"
    kept = record.read(tmp_path)
    assert (kept.name, kept.seconds, len(kept.rows)) == ("ablate", 8 * 90.0, 9)
    assert kept.rows[3] == json.loads(json.dumps(vars(top)))


def test_an_arm_whose_first_is_missing_has_no_difference(tmp_path: Path) -> None:
    plant(tmp_path / "snli" / "both", "snli", 82.0, 77.0)
    config = ablate.AblateConfig(str(tmp_path), ("snli",), ("places",))
    (row,) = ablate.write(config, *ablate.plan(config, recipe_of, {}))
    assert (row.arm, row.dev_difference, row.test_difference) == ("both", None, None)


# Sample efficiency


@pytest.mark.parametrize(
    ("score", "x", "at_most"),
    [(10.0, 1.0, True), (9.0, 1.0, True), (15.0, 2.0, False), (20.0, 3.0, False), (35.0, 5.75, False)],
)
def test_reached_is_where_a_line_between_two_points_has_it(score: float, x: float, at_most: bool) -> None:
    curve = [(1.0, 10.0), (3.0, 20.0), (5.0, 20.0), (6.0, 40.0), (7.0, 15.0)]
    assert efficiency.first_reached(curve, score) == (x, at_most)
    assert efficiency.first_reached(curve, 40.1) == (None, False)


def score(arm: str, fraction: float, test: float | None, dev: float = 50.0) -> PartScore:
    run: dict[str, Any] = {"recipe": "srl", "task": "srl", "metric": "f1", "seeds": (1,), "steps": 1}
    scores = {"dev": dev, "dev_std": 0.0, "test": test, "test_std": 0.0}
    return PartScore(arm=arm, fraction=fraction, examples=1, stopped=("epochs",), **run, **scores)


def point(arm: str, step: int, dev: float, seed: int = 1) -> CurvePoint:
    return CurvePoint("srl", "srl", arm, 1.0, "f1", seed, step, dev)


def test_answers_are_those_of_the_paper() -> None:
    """Planted so that ELMo with 1 % is the baseline with 10 %, and reaches all of it halfway between 10 and 100."""
    scores = [
        score("none", 0.01, 20.0), score("none", 0.1, 40.0), score("none", 1.0, 60.0),
        score("elmo", 0.01, 40.0), score("elmo", 0.1, 55.0), score("elmo", 1.0, 65.0),
    ]  # fmt: skip
    points = [point("none", 100, 30.0), point("none", 200, 50.0), point("none", 300, 50.0), point("none", 400, 45.0)]
    points += [point("elmo", 100, 40.0), point("elmo", 200, 60.0)]
    updates, data, baseline = efficiency.answer_questions(scores, points)
    assert updates.value == pytest.approx(150 / 200)
    assert "75 %" in updates.text
    assert (updates.reached, updates.seeds, updates.std, updates.sooner) == (1, 1, None, 1)
    assert data.value == pytest.approx(10**-0.5)
    assert "31.6 %" in data.text
    assert baseline.value == pytest.approx(0.1)
    assert "10 %" in baseline.text
    assert [updates.at_most, data.at_most, baseline.at_most] == [False] * 3


def test_answers_say_what_was_not_reached_and_what_was_at_once() -> None:
    scores = [score("none", 0.1, None, 40.0), score("none", 1.0, None, 60.0)]
    points = [point("none", 100, 60.0), point("none", 100, 60.0, seed=2)]
    never = [score("elmo", 0.1, None, 30.0), score("elmo", 1.0, None, 50.0)]
    late = [point("elmo", 100, 50.0), point("elmo", 100, 50.0, seed=2)]
    found = list(efficiency.answer_questions([*scores, *never], [*points, *late]))
    assert [answer.value for answer in found] == [None, None, pytest.approx(0.1)]
    assert "0 of 2 seeds" in found[0].text
    assert (found[0].reached, found[0].seeds, found[0].std, found[0].sooner) == (0, 2, None, 0)
    assert found[2].at_most
    early = [point("elmo", 50, 61.0), point("elmo", 100, 50.0, seed=2)]
    text = next(efficiency.answer_questions([*scores, *never], [*points, *early])).text
    names(text, "at most 50 %", "1 of 2 seeds")
    assert list(efficiency.answer_questions(scores, points)) == []


def test_updates_are_the_mean_of_the_seeds_that_reached_the_score() -> None:
    scores = [score("none", 1.0, None), score("elmo", 1.0, None)]
    points = [point("none", 100, 50.0, seed) for seed in (1, 2, 3)]
    points += [
        point("elmo", 20, 40.0, 1), point("elmo", 40, 60.0, 1), point("elmo", 40, 30.0, 2), point("elmo", 60, 70.0, 2),
        point("elmo", 90, 49.0, 3),
    ]  # fmt: skip
    (updates,) = efficiency.answer_questions(scores, points)
    assert (updates.value, updates.reached, updates.seeds, updates.sooner) == (pytest.approx(0.4), 2, 3, 2)
    assert updates.std == pytest.approx(0.1 * math.sqrt(2))
    names(updates.text, "40 %", "std 14.1 %", "2 of 3 seeds")
    (as_late,) = efficiency.answer_questions(scores, [point("none", 100, 50.0), point("elmo", 100, 50.0)])
    assert (as_late.value, as_late.reached, as_late.sooner) == (1.0, 1, 0)


def test_nothing_is_said_of_updates_before_the_largest_part_is_done(tmp_path: Path) -> None:
    """Nor while one of the arms has none of the other's seeds there."""
    config = efficiency.EfficiencyConfig(str(tmp_path), ("srl",), (0.01, 0.1, 1.0))
    for arm, fraction, dev in (("none", 0.01, 30.0), ("elmo", 0.01, 45.0), ("none", 0.1, 40.0), ("elmo", 0.1, 50.0)):
        plant(tmp_path / "srl" / f"{arm}-{fraction:g}", "srl", dev, dev, curve=((10, dev),))
    plan = efficiency.plan(config, recipe_of)

    def asked() -> list[str]:
        return [row.question for row in efficiency.write(config, plan) if isinstance(row, efficiency.EfficiencyAnswer)]

    assert asked() == ["data", "baseline"]
    plant(tmp_path / "srl" / "none-1", "srl", 60.0, 60.0, curve=((10, 60.0),))
    assert asked() == ["baseline"]
    plant(tmp_path / "srl" / "elmo-1", "srl", 70.0, 70.0, curve=((10, 70.0),))
    assert asked() == ["updates", "data", "baseline"]


def test_efficiency_reads_what_the_runs_wrote(tmp_path: Path) -> None:
    config = efficiency.EfficiencyConfig(str(tmp_path), ("srl",), (1.0, 0.1))
    for arm, fraction, dev, test in (("none", 0.1, 30.0, 20.0), ("none", 1, 60.0, 50.0), ("elmo", 0.1, 40.0, 50.0)):
        plant(tmp_path / "srl" / f"{arm}-{fraction:g}", "srl", dev, test, curve=((10, dev - 5), (20, dev)))
    plant(tmp_path / "srl" / "elmo-1", "srl", 70.0, 60.0, curve=((10, 50.0), (20, 70.0)))
    rows = efficiency.write(config, efficiency.plan(config, recipe_of))
    kinds = [row.kind for row in rows]
    assert kinds == ["score"] * 4 + ["point"] * 4 + ["answer"] * 3
    answers = {row.question: row for row in rows if isinstance(row, efficiency.EfficiencyAnswer)}
    assert answers["updates"].value == pytest.approx(15 / 20)
    assert (answers["data"].value, answers["data"].at_most) == (pytest.approx(0.1), True)
    assert answers["baseline"].value == pytest.approx(1.0)
    assert len(record.read(tmp_path).rows) == len(rows)
    scores = [row for row in rows if isinstance(row, PartScore)]
    assert [row.test_scores for row in scores] == [(20.0,), (50.0,), (50.0,), (60.0,)]


def test_tables_say_what_one_seed_does_not_show() -> None:
    rows = [score("none", 0.0001, 20.0), replace(score("elmo", 1.0, None), seeds=(1, 2), dev_std=0.25)]
    *_, table = efficiency.PROBE.blocks(
        record.probe_record("efficiency", "1", efficiency.EfficiencyConfig("out"), rows)
    )
    assert isinstance(table, Table)
    assert [row[1] for row in table.rows] == ["0.01 %", "100 %"]
    place = table.head.index("std")
    assert [row[place - 1 : place + 1] for row in table.rows] == [("50.00", ""), ("50.00", "0.250")]


def test_efficiency_plans_the_smallest_part_first() -> None:
    config = efficiency.EfficiencyConfig(
        "out", ("snli",), (1.0, 0.01), place="both", small_settings=("training.epochs=9",)
    )
    (row,) = efficiency.plan(config, recipe_of).rows
    assert row.arms == {
        "none-0.01": ["inputs.elmo=none", "training.epochs=9", "train_fraction=0.01"],
        "elmo-0.01": ["inputs.elmo=both", "training.epochs=9", "train_fraction=0.01"],
        "none-1": ["inputs.elmo=none", "train_fraction=1.0"],
        "elmo-1": ["inputs.elmo=both", "train_fraction=1.0"],
    }


# Both, really run


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> list[object]:
    """What the runs of both probes are given: a recipe of a tiny task, a tiny biLM."""
    folder = tmp_path_factory.mktemp("queues")
    recipes = f'recipes=["{write_recipe(folder / "small.toml", training={"epochs": 2})}"]'
    return [recipes, "settings=[]", "small_settings=[]", "--model", folder / "bilm", "--quiet", "--json"]


def test_ablate_trains_once_and_goes_on(small: list[Any], tmp_path: Path) -> None:
    given = [argument for argument in small if not str(argument).startswith("small_settings")]
    shown = printed("probe", "ablate", 'analyses=["gamma"]', "--output", tmp_path, *given)
    first = [json.loads(line) for line in shown.splitlines()]
    assert [row["arm"] for row in first] == ["gamma-learned", "gamma-1", "top-gamma-learned", "top-gamma-1"]
    times = {path: path.stat().st_mtime_ns for path in tmp_path.rglob(RESULT)}
    assert len(times) == 4
    shown = printed("probe", "ablate", 'analyses=["gamma", "types"]', "--output", tmp_path, *given)
    rows = [json.loads(line) for line in shown.splitlines()]
    assert rows[:4] == first
    assert [row["run"] for row in rows[4:]] == ["small/none", "small/layer-0", "small/elmo", "small/input"]
    assert {path: path.stat().st_mtime_ns for path in times} == times  # nothing was trained again
    assert len(list(tmp_path.rglob(RESULT))) == 7
    assert str((record.read(tmp_path).bilm or {})["model"]).endswith("bilm")
    other = run("probe", "ablate", 'analyses=["gamma"]', "inputs.gamma=fixed", "--output", tmp_path, *given)
    refusal(other, "unknown key 'inputs'")
    changed = [argument if argument != "settings=[]" else 'settings=["training.lr=0.5"]' for argument in given]
    refusal(run("probe", "ablate", 'analyses=["gamma"]', "--output", tmp_path, *changed), "{'lr': 0.5}")
    refusal(run("probe", "efficiency", "--output", tmp_path, *small), "'ablate'")


def test_efficiency_trains_on_parts(small: list[Any], tmp_path: Path) -> None:
    done = run("probe", "efficiency", "fractions=[0.25, 1]", "--output", tmp_path, *small)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    scores = [row for row in rows if row["kind"] == "score"]
    assert [(row["arm"], row["fraction"], row["examples"]) for row in scores] == [
        ("none", 0.25, 2), ("none", 1.0, 8), ("elmo", 0.25, 2), ("elmo", 1.0, 8),
    ]  # fmt: skip
    assert sum(row["kind"] == "point" for row in rows) == 4
    assert SMALL["ner"].file in json.loads((tmp_path / "small" / "none-1" / "config.json").read_text())["train"]
    shown = run("probe", "efficiency", "fractions=[0.25, 1]", "--output", tmp_path, *small[:-1])
    assert shown.returncode == 0, shown.stderr
    assert "what ELMo saves" in shown.stdout


@pytest.mark.parametrize(
    ("probe", "argument", "message"),
    [
        ("ablate", "", "--output is missing"),
        ("ablate", "recipes=[]", "recipes is []"),
        ("ablate", 'analyses=["depth"]', "analyses[0] is 'depth'; allowed: 'places', 'layers', 'gamma', 'types'"),
        ("ablate", 'recipes=["nothing"]', "nothing: no such file, and not a packaged recipe"),
        ("efficiency", "fractions=[0, 1]", "fractions is [0.0, 1.0]"),
        ("efficiency", "seeds=[1,1]", "seeds is [1, 1]"),
    ],
)
def test_what_goes_wrong_is_one_line(tmp_path: Path, probe: str, argument: str, message: str) -> None:
    given = [argument, "--output", tmp_path / "out"] if argument else []
    refusal(run("probe", probe, *given), message)
    assert not (tmp_path / "out").exists()


def test_recipes_are_those_of_tasks() -> None:
    for name, kind in (("ablate", ablate.AblateConfig), ("efficiency", efficiency.EfficiencyConfig)):
        values = configs.load_toml(RECIPES / "probes" / f"{name}.toml")
        config = configs.from_dict(kind, values | {"output": "out"})
        assert all(recipe_of(recipe).is_file() for recipe in config.recipes)
    config = configs.from_dict(
        ablate.AblateConfig, configs.load_toml(RECIPES / "probes" / "ablate.toml") | {"output": "o"}
    )
    queue, _ = ablate.plan(config, recipe_of, queues.common_settings(config.settings, None, None, None))
    assert sum(len(row.arms) for row in queue.rows) == 31  # as the recipe says


@pytest.mark.parametrize(("probe", "kind"), [(ablate, ablate.AblateConfig), (efficiency, efficiency.EfficiencyConfig)])
def test_a_queue_without_its_rows_goes_on(tmp_path: Path, probe: Any, kind: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(compare, "work_off", lambda *_: iter(()))
    plant(tmp_path / "snli" / "none", "snli", 70.0, 71.0)
    plant(tmp_path / "snli" / "none-1", "snli", 70.0, 71.0)
    config = kind(str(tmp_path), ("snli",))
    context = Context(find_recipe=recipe_of)
    first = probe.PROBE.run(config, context)
    assert first
    (tmp_path / record.RECORD).unlink()
    assert probe.PROBE.run(config, context) == first
    assert record.read(tmp_path).rows == json.loads(json.dumps([vars(row) for row in first]))


def test_another_probes_folder_is_refused(tmp_path: Path) -> None:
    record.write(tmp_path, record.probe_record("senses", "1", ablate.AblateConfig("out"), []))
    with refused("'senses'", "--output"):
        ablate.train_arms(ablate.AblateConfig(str(tmp_path)), Context(find_recipe=recipe_of))
