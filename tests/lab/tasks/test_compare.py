"""The queue that compares: goes on where it stopped, and its table."""

import dataclasses
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from command import run
from refusals import refusal, refused
from small_results import plant, recipe_of, write
from small_tasks import as_toml, run_config, write_recipe
from tiny import write_tiny

from elmo import config as configs
from elmo.disk.lock import locked
from elmo.errors import InputError
from elmo_lab.tasks import compare, ner, train
from elmo_lab.tasks import task as tasks
from elmo_lab.tasks.queue import Queue, QueueRow, chosen_work, read_queue
from elmo_lab.tasks.table import write_tables
from elmo_lab.tasks.trained import TrainedTask, predict_jointly

QUEUE = """
[[rows]]
name = "small"
title = "NER, small"
recipe = "recipe"
seeds = [1, 2]
arms = { none = ["inputs.elmo=none"], input = [] }
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    """A recipe of a run that takes no time."""
    return write_recipe(tmp_path / "recipe.toml", training={"epochs": 2})


def compared(tmp_path: Path, recipe: Path, text: str, show: Any = lambda line: None) -> list[dict[str, Any]]:
    """Runs the queue, and reads its table."""
    path = tmp_path / "queue.toml"
    path.write_text(text, encoding="utf-8")
    compare.train_queue(read_queue(path), tmp_path / "out", lambda name: recipe, {}, True, show)
    return json.loads((tmp_path / "out" / "table.json").read_text(encoding="utf-8"))


def stopping(shown: list[str], lines: int) -> Callable[[str], None]:
    """Keeps what is shown, until there are so many lines and somebody presses Ctrl-C."""

    def show(line: str) -> None:
        shown.append(line)
        if len(shown) == lines:
            raise KeyboardInterrupt

    return show


def begun(shown: list[str]) -> list[str]:
    """The works that a queue said it began, without how many are done."""
    return [line.partition(" (")[0] for line in shown if ": " not in line]


@pytest.mark.parametrize("task", tasks.available())
def test_a_recipe_of_ones_own_changes_the_default_settings_of_its_task(tmp_path: Path, task: str) -> None:
    """Not its data and seeds. And all settings of a run are a recipe of the same run, what is unset among them."""
    own = tmp_path / "own.toml"

    def made(path: Path, *settings: str) -> train.TaskConfig:
        return compare.config_of(path, {}, settings, Path("out"), [1])

    own.write_text(f'task = "{task}"\ntrain = "a"\ndev = "b"\n[training]\nlr = 0.5\n', encoding="utf-8")
    named = ("train=a", "dev=b", "test=none", "training.lr=0.5")
    assert made(own) == made(recipe_of(task), *named)
    assert "seeds" not in train.read_recipe(own)
    for unset in ((), ("inputs.characters=none", "training.minutes=none", "inputs.vectors=none")):
        whole = made(recipe_of(task), *named, *unset)
        own.write_text(as_toml(configs.to_dict(whole)), encoding="utf-8")
        assert made(own) == whole


def test_a_queue_goes_on_where_it_stopped(tmp_path: Path, recipe: Path) -> None:
    shown: list[str] = []
    rest: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        compared(tmp_path, recipe, QUEUE, stopping(shown, 6))  # a third run is about to begin
    runs = ["small, none, seed 1", "small, input, seed 1", "small, none, seed 2"]
    done = [f"{run} ({count} of 4 runs done)" for count, run in enumerate(runs)]
    assert [line for line in shown if ": " not in line] == done
    read = [line.partition(" of ")[2] for line in shown if "the biLM has read" in line]
    tokens = sum(map(len, {tuple(example.tokens) for example in ner.read(tmp_path / "small.conll")}))
    assert read == [f"{tokens} tokens"], "by the second run, once for all"
    compared(tmp_path, recipe, QUEUE, rest.append)
    assert [line.partition(" (")[0] for line in rest[::2]] == ["small, none, seed 2", "small, input, seed 2"]
    assert ["2 of 4" in rest[0], "3 of 4" in rest[2]] == [True, True]
    rows = compared(tmp_path, recipe, QUEUE, rest.append)
    assert len(rest) == 4
    with refused("training", "{'epochs': 2}", "{'epochs': 3}"):
        compared(tmp_path, recipe, QUEUE.replace("input = []", 'input = ["training.epochs=3"]'))
    assert [(row["arm"], row["seeds"]) for row in rows] == [("none", [1, 2]), ("input", [1, 2])]
    base, ours = rows[0]["mean"], rows[1]["mean"]
    assert rows[1]["absolute"] == pytest.approx(ours - base)
    assert rows[1]["relative_error_reduction"] == pytest.approx(100 * (ours - base) / (100 - base))
    assert "| NER, small | ner 1 | test f1 | input |" in (tmp_path / "out" / "table.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("changed", ["small.conll", "bilm"])
def test_arms_of_other_data_of_the_same_name_are_not_compared(tmp_path: Path, recipe: Path, changed: str) -> None:
    """The first arm is done when the file, or the biLM, is replaced: the other would be of something else."""

    def until_the_other(line: str) -> None:
        if line.startswith("small, other, seed 1"):
            raise KeyboardInterrupt

    text = QUEUE.replace("none = [", "elmo = [] , other = [").replace('"inputs.elmo=none"', '"training.lr=0.1"')
    with pytest.raises(KeyboardInterrupt):
        compared(tmp_path, recipe, text, until_the_other)
    if changed == "bilm":
        shutil.rmtree(tmp_path / "bilm")
        write_tiny(tmp_path / "bilm", seed=5)
    else:
        data = tmp_path / changed
        data.write_text(data.read_text(encoding="utf-8") * 2, encoding="utf-8")
    with refused("elmo/origin.json", "sha256"):
        compared(tmp_path, recipe, text)
    assert not (tmp_path / "out" / "small" / "other").exists()


@pytest.mark.parametrize(
    ("setting", "said"),
    [("test=gone.conll", "gone.conll"), ("inputs.vectors=gone.txt", "gone.txt"),
     ("inputs.model=gone", "gone; folder")],
)  # fmt: skip
def test_what_a_later_arm_lacks_is_said_before_the_first_one_is_trained(
    tmp_path: Path, recipe: Path, setting: str, said: str
) -> None:
    """Unless it is done, and reads nothing any more."""
    shown: list[str] = []
    with refused(*said.split("; "), error=(InputError, FileNotFoundError)):
        compared(tmp_path, recipe, QUEUE.replace("input = []", f'input = ["{setting}"]'), shown.append)
    assert (shown, (tmp_path / "out").exists()) == ([], False)
    compared(tmp_path, recipe, QUEUE)
    (tmp_path / "small.conll").unlink()
    compared(tmp_path, recipe, QUEUE)


def test_a_damaged_table_is_made_anew(tmp_path: Path, recipe: Path) -> None:
    rows = compared(tmp_path, recipe, QUEUE.replace("[1, 2]", "[1]"))
    for seeds, damaged in enumerate(('{"a": 1}', "[3]", '[{"row": "x"}]', "{"), start=2):
        (tmp_path / "out" / "table.json").write_text(damaged, encoding="utf-8")
        again = compared(tmp_path, recipe, QUEUE.replace("[1, 2]", str([*range(1, seeds + 1)])))
        assert [row["scores"][:1] for row in again] == [row["scores"] for row in rows]


@pytest.mark.parametrize(
    ("name", "text"), [("table.json", '{"legs": 4}'), ("table.json", "[3]"), ("table.md", "# Oak")]
)
def test_somebody_elses_table_is_kept(tmp_path: Path, recipe: Path, name: str, text: str) -> None:
    other = tmp_path / "out" / name
    other.parent.mkdir()
    other.write_text(text, encoding="utf-8")
    with refused(str(other), "--output"):
        compared(tmp_path, recipe, QUEUE)
    assert [path.name for path in other.parent.iterdir()] == [name]
    assert other.read_text(encoding="utf-8") == text


def test_trials_are_chosen_on_dev_and_the_table_is_of_test(tmp_path: Path) -> None:
    """The first trial is better on dev, the second on test; of two seeds the spread is that of a sample."""
    row = QueueRow(
        "x", "ner-wnut17", {"none": [], "input": ["inputs.elmo=input"]}, (1, 2), tuning=((), ("training.lr=1",))
    )
    arm = tmp_path / "x" / "none"
    plant(arm / "trial-1", "ner-wnut17", 50.0, 40.0, 1)
    plant(arm / "trial-1", "ner-wnut17", 10.0, 42.0, 2)
    plant(arm / "trial-2", "ner-wnut17", 45.0, 90.0, 1)
    for trial in (1, 2):
        origin = {"version": "1", "bilm": None, "data": {}}
        (arm / f"trial-{trial}" / "origin.json").write_text(json.dumps(origin), encoding="utf-8")
    best = chosen_work(row, "none", tmp_path)
    assert best is not None
    assert best.folder == arm / "trial-1"
    write_tables(Queue((row,)), tmp_path)
    (measured,) = json.loads((tmp_path / "table.json").read_text(encoding="utf-8"))
    assert (measured["data"], measured["scores"], measured["mean"]) == ("test", [40.0, 42.0], 41.0)
    assert measured["std"] == pytest.approx(2**0.5)
    assert measured["minutes"] == 1.5


def test_a_table_needs_a_folder_of_runs(tmp_path: Path) -> None:
    refusal(run("task", "compare", "queue", "--table", "--output", tmp_path / "typo"), "typo")
    assert not (tmp_path / "typo").exists()


def test_a_title_is_one_cell(tmp_path: Path) -> None:
    row = QueueRow("x", "ner-wnut17", {"none": [], "input": []}, title="NER | all\nkinds")
    plant(tmp_path / "x" / "none", "ner-wnut17", 50.0, 40.0)
    write(tmp_path / "x" / "none" / "origin.json", {"version": "1", "bilm": None, "data": {}})
    assert r"| NER \| all kinds | ner 1 | test f1 | none | 40.00 |" in write_tables(Queue((row,)), tmp_path)


def test_every_arm_is_tried_with_all_settings_and_goes_on_with_the_best(tmp_path: Path, recipe: Path) -> None:
    """A rate of nearly nothing learns nothing; a high one does."""
    better = ["training.lr=0.05", "training.epochs=15", "training.patience=0"]
    tuning = f'tuning = [["training.lr=1e-9"], {json.dumps(better)}]\nensemble = true\n'
    shown: list[str] = []
    rows = compared(tmp_path, recipe, QUEUE + tuning, shown.append)
    assert len(begun(shown)) == 2 * (2 + 1 + 1), "two trials, the other seed of the better one, the ensemble"
    for row in rows:
        low, high = row["trials"]
        assert low["dev"] < high["dev"]
        assert high["settings"] == better
        assert row["settings"]["training"]["lr"] == 0.05
        assert row["seeds"] == [1, 2]
        folder = tmp_path / "out" / "small" / row["arm"]
        assert not (folder / "trial-1" / "seed-2").exists()
        members = [TrainedTask.load(folder / "trial-2" / f"seed-{seed}") for seed in (1, 2)]
        examples = members[0].task.read(Path(row["settings"]["test"]))
        assert row["ensemble"] == members[0].task.score(examples, predict_jointly(members, examples))["f1"]
        assert row["members_mean"] == pytest.approx(row["mean"])
    found = [f"| {row['arm']}, 2 joined (each alone: {row['mean']:.2f}) | {row['ensemble']:.2f} |" for row in rows]
    text = (tmp_path / "out" / "table.md").read_text(encoding="utf-8")
    assert all(line in text for line in found)


def test_an_ensemble_is_joined_again_when_there_are_more_seeds(tmp_path: Path, recipe: Path) -> None:
    """Until then, the mean of those that it joins stands beside it."""
    with_ensemble = QUEUE + "ensemble = true\n"
    assert [row["seeds_wanted"] for row in compared(tmp_path, recipe, with_ensemble)] == [2, 2]
    rows = compared(tmp_path, recipe, QUEUE.replace("[1, 2]", "[1, 2, 3]"))
    for row in rows:
        assert (row["members"], len(row["scores"])) == (2, 3)
        assert row["members_mean"] == pytest.approx(sum(row["scores"][:2]) / 2)
    more = with_ensemble.replace("[1, 2]", "[1, 2, 3]")
    shown: list[str] = []
    rows = compared(tmp_path, recipe, more, shown.append)
    assert begun(shown) == ["small, none, ensemble", "small, input, ensemble"]
    assert [row["members"] for row in rows] == [3, 3]
    compared(tmp_path, recipe, more, shown.append)
    assert len(shown) == 4


def test_an_ensemble_is_of_the_folder_that_is_named(tmp_path: Path, recipe: Path) -> None:
    """Not of that in which its networks were trained, which is not there any more, or holds others."""
    with_ensemble = QUEUE + "ensemble = true\n"
    joined = [row["ensemble"] for row in compared(tmp_path, recipe, with_ensemble)]
    moved = tmp_path / "moved"
    moved.mkdir()
    (tmp_path / "out").rename(moved / "out")
    for file in moved.rglob("ensemble.json"):
        file.unlink()
    assert [row["ensemble"] for row in compared(moved, recipe, with_ensemble)] == joined


def test_queues_on_one_folder_share_its_table(tmp_path: Path, recipe: Path) -> None:
    """Rows and arms of the other queue stay while their runs are there; arms are compared with the row's first."""
    one = QUEUE.replace("[1, 2]", "[1]")
    compared(tmp_path, recipe, one.replace('"small"', '"other"').replace("NER, small", "NER, other"))
    compared(tmp_path, recipe, one.replace("input = []", 'input = [], fast = ["training.lr=0.05"]'))
    rows = compared(tmp_path, recipe, QUEUE)
    seeds = {f"{row['row']} {row['arm']}": len(row["seeds"]) for row in rows}
    assert list(seeds.items()) == [
        ("small none", 2), ("small input", 2), ("small fast", 1), ("other none", 1), ("other input", 1)
    ]  # fmt: skip
    assert rows[2]["absolute"] == pytest.approx(rows[2]["mean"] - rows[0]["mean"])
    assert "| NER, other | ner 1 | test f1 | input |" in (tmp_path / "out" / "table.md").read_text(encoding="utf-8")
    shutil.rmtree(tmp_path / "out" / "other")
    assert "other" not in write_tables(read_queue(tmp_path / "queue.toml"), tmp_path / "out")


def test_a_row_says_what_is_open_and_of_which_version_it_is(tmp_path: Path, recipe: Path, monkeypatch) -> None:
    with pytest.raises(KeyboardInterrupt):
        compared(tmp_path, recipe, QUEUE, stopping([], 5))  # two runs are done
    younger = dataclasses.replace(ner.TASK, version="99")  # than the runs
    monkeypatch.setattr(ner, "TASK", younger)
    (tmp_path / "out" / "table.json").write_text("[{", encoding="utf-8")
    text = write_tables(read_queue(tmp_path / "queue.toml"), tmp_path / "out")
    assert text.count("| 1 of 2 |") == 2
    assert text.count("| NER, small | ner 1 |") == 2


def test_what_another_process_is_at_is_left_alone(tmp_path: Path, recipe: Path, monkeypatch) -> None:
    class Waited(Exception):
        """There was nothing else to do."""

    def waiting(seconds: float) -> None:
        raise Waited

    monkeypatch.setattr(compare.time, "sleep", waiting)
    shown: list[str] = []
    with locked(tmp_path / "out" / "small" / "none.lock"), pytest.raises(Waited):
        compared(tmp_path, recipe, QUEUE, shown.append)
    assert begun(shown) == ["small, input, seed 1", "small, input, seed 2"]
    assert len(compared(tmp_path, recipe, QUEUE)) == 2


def test_a_run_that_another_process_begins_meanwhile_is_one(tmp_path: Path, monkeypatch) -> None:
    config = run_config(tmp_path)
    folder, listed = Path(config.output), Path.iterdir
    folder.mkdir()

    def begun(path: Path) -> Iterator[Path]:
        (folder / "config.json").write_text(configs.to_json(config), encoding="utf-8")
        return listed(path)

    (folder / ".config.json.0.partial").touch()
    train.check_output(config, resume=True)
    monkeypatch.setattr(Path, "iterdir", begun)
    train.check_output(config, resume=True)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("arms = { none = [] }", "two"),
        ("arms = { none = [], None = [] }", "upper; lower"),
        ('arms = { none = [], "in/put" = [] }', "names; folders"),
        ('arms = { none = [], ".." = [] }', "names; folders"),
        ("arms = { none = [], trial-2 = [] }", "seed-N; trial-N"),
        ('arms = { none = [], input = "x" }', "list"),
        ("arms = { none = [], input = [] }\nseeds = []", "small.seeds; repeats"),
        ("arms = { none = [], input = [] }\nseeds = [1, 1]", "small.seeds; repeats"),
        ("arms = { none = [], input = [] }\ntuning = []", "small.tuning; repeats"),
        ('arms = { none = [], input = [] }\ntuning = [["a=1"], ["a=1"]]', "small.tuning; repeats"),
    ],
)
def test_queues_that_cannot_be(tmp_path: Path, change: str, said: str) -> None:
    path = tmp_path / "queue.toml"
    path.write_text(QUEUE[: QUEUE.index("seeds")] + change, encoding="utf-8")
    with refused(*said.split("; ")) as raised:
        read_queue(path)
    assert str(path) in str(raised.value)
