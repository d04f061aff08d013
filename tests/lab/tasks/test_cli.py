"""`elmo task`: every verb does its work on a small file, and what goes wrong is one line."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command import Command, printed, run, run_program
from refusals import refusal
from small_tasks import write_small
from tiny import write_tiny

from elmo import cli
from elmo import config as configs
from elmo.cli.arguments import run_in
from elmo_lab import RECIPES, record
from elmo_lab.tasks import ner
from elmo_lab.tasks import task as tasks
from elmo_lab.tasks.queue import read_queue
from elmo_lab.tasks.train import TaskConfig

SMALL = (
    "inputs.vectors_dim=6", "inputs.min_count=1", "inputs.characters.filters=[[2,4]]", "model.hidden_dims=[6]",
    "training.epochs=2", "batch.examples=3",
)  # fmt: skip


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two seeds, and what it read."""
    folder = tmp_path_factory.mktemp("cli")
    write_tiny(folder / "bilm")
    path = write_small(folder, "ner")
    done = run(
        "task", "train", "ner", "--train", path, "--dev", path, "--output", folder / "run", "--seeds", "1,2",
        "--model", folder / "bilm", "elmo=both", f"cache.folder={folder / 'cache'}", *SMALL,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "task ner, version 1" in done.stdout
    assert "epoch 2" in done.stderr
    return folder


def test_train_writes_its_record(trained: Path) -> None:
    found = record.read(trained / "run")
    assert [row["seed"] for row in found.rows] == [1, 2]
    assert found.settings["inputs"]["elmo"] == "both"
    assert (found.bilm or {})["model"] == str(trained / "bilm")
    assert found.argv[:3] == ["elmo", "task", "train"]


def test_seeds_are_added_to_those_of_a_run_done_or_not(trained: Path) -> None:
    flags = ["--output", trained / "run", "--resume", "--seeds", "3,1", "--print-config"]
    assert json.loads(run("task", "train", "ner", *flags).stdout)["seeds"] == [1, 2, 3]


def test_the_configuration_that_is_shown_is_whole_and_right(tmp_path: Path) -> None:
    flags = ["--train", "a", "--dev", "b", "--output", tmp_path / "run", "--print-config"]
    assert json.loads(run("task", "train", "sst5", *flags).stdout)["model"].keys() > {"head_dropout", "output_encoder"}
    refusal(run("task", "train", "sst5", *flags, "model.foo=1"), "unknown key 'model.foo'")
    bare = json.loads(run("task", "train", "ner", "--print-config").stdout)
    assert [bare[name] for name in ("train", "dev", "output")] == ["TRAIN", "DEV", "OUTPUT"], "only their names"


def test_a_recipe_of_ones_own_changes_the_default_settings(tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_text('train = "a"\ndev = "b"\n[training]\nminutes = "none"\n', encoding="utf-8")
    shown = [
        json.loads(run("task", "train", "ner", *given, "--output", "run", "--print-config").stdout)
        for given in ((tmp_path / "my.toml",), ("--train", "a", "--dev", "b", "training.minutes=none"))
    ]
    assert shown[0] == shown[1]
    assert (shown[0]["inputs"]["characters"]["filters"], shown[0]["training"]["minutes"]) == ([[3, 128]], None)


def test_a_training_that_its_limit_of_time_ended_says_so(tmp_path: Path) -> None:
    path = write_small(tmp_path, "ner")
    files = ("--train", path, "--dev", path, "--output", tmp_path / "run")
    shown = printed("task", "train", "ner", *files, *SMALL, "training.minutes=0.00001", "seeds=[1]")
    assert "time limit" in shown
    assert record.read(tmp_path / "run").rows[0]["steps"] == 1, "in the middle of an epoch"


def test_a_network_that_cannot_be_is_refused_before_the_bilm_reads(trained: Path, tmp_path: Path) -> None:
    path, cache = trained / "small.conll", tmp_path / "cache"
    files = ("--train", path, "--dev", path, "--output", tmp_path / "run", "--model", trained / "bilm", "elmo=input")
    wide = ("inputs.characters.filters=[[20,8]]", "inputs.characters.max_characters=10")
    refusal(run("task", "train", "ner", *files, f"cache.folder={cache}", *wide), "max_characters", "10")
    assert not cache.exists()


def test_a_queue_finds_the_recipes_beside_it_and_says_which_is_wrong(tmp_path: Path) -> None:
    queue, recipe = write_queue(tmp_path, 1, [1]), tmp_path / "recipe.toml"
    right = recipe.read_text(encoding="utf-8")
    recipe.write_text(right.replace("train = ", "# "), encoding="utf-8")
    wrong = run("task", "compare", queue, "--output", tmp_path / "out")
    refusal(wrong, "'x'", "'a'", "recipe.toml", "'train'")
    recipe.write_text(right, encoding="utf-8")
    done = run("task", "compare", queue, "--output", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert re.search(rf"{re.escape(str(tmp_path))}/out/x/b, seed 1: \d+ of \d+ steps", done.stderr)


def test_sentences_are_written_once_each_and_without_labels(trained: Path, tmp_path: Path) -> None:
    printed("task", "sentences", "ner", trained / "small.conll", tmp_path / "text.txt")
    sentences = [" ".join(example.tokens) for example in ner.read(trained / "small.conll")]
    assert (tmp_path / "text.txt").read_text(encoding="utf-8").splitlines() == list(dict.fromkeys(sentences))
    refusal(run("task", "sentences", "ner", trained / "small.conll", tmp_path / "text.txt"), "exists")
    printed("task", "sentences", "ner", trained / "small.conll", "--output", tmp_path / "other.txt")
    assert (tmp_path / "other.txt").read_bytes() == (tmp_path / "text.txt").read_bytes()
    refusal(run("task", "sentences", "ner", trained / "small.conll"), "small.conll", "--output")
    refusal(run("task", "sentences", "ner", "a", "b", "--output", tmp_path / "c.txt"), "2 inputs")


def test_sentences_of_an_empty_file_are_refused_and_no_file_is_made(tmp_path: Path) -> None:
    (tmp_path / "in.conll").touch()
    refusal(run("task", "sentences", "ner", tmp_path / "in.conll", tmp_path / "text.txt"), "in.conll: no examples")
    assert not (tmp_path / "text.txt").exists()


def test_white_space_in_a_token_separates_it_in_the_sentences(tmp_path: Path) -> None:
    (tmp_path / "in.conll").write_text("New  York\tB-LOC\nis\tO\n", encoding="utf-8")
    printed("task", "sentences", "ner", tmp_path / "in.conll", tmp_path / "text.txt")
    assert (tmp_path / "text.txt").read_text(encoding="utf-8") == "New York is\n"


def test_eval_of_one_and_of_an_ensemble(trained: Path) -> None:
    seeds = [trained / "run" / f"seed-{seed}" for seed in (1, 2)]
    one = run("task", "eval", seeds[0], trained / "small.conll", "--json")
    result = json.loads((seeds[0] / "result.json").read_text(encoding="utf-8"))
    assert json.loads(one.stdout)["f1"] == pytest.approx(result["dev"]["f1"])
    both = run("task", "eval", *seeds, trained / "small.conll", "--json")
    assert json.loads(both.stdout)["members"] == 2


def test_standard_input_may_follow_a_flag() -> None:
    for given in (["run/seed-1", "--text", "-", "out"], ["run/seed-1", "-", "out", "--text"]):
        assert cli.parse(["task", "predict", *given]).input == ["run/seed-1", "-", "out"]


def test_predict_files_and_text(trained: Path) -> None:
    seed, out = trained / "run" / "seed-1", trained / "out.conll"
    printed("task", "predict", seed, trained / "small.conll", out)
    tokens = [
        [line.split("\t")[0] for line in path.read_text(encoding="utf-8").splitlines() if line]
        for path in (out, trained / "small.conll")
    ]
    assert tokens[0] == tokens[1]
    refusal(run("task", "predict", seed, trained / "small.conll", out), "--overwrite")
    text = trained / "text.txt"
    text.write_text("Nora sings in Oslo\n\nRain\n", encoding="utf-8")
    command = ("task", "predict", seed, text, "--text", "--pretokenized")
    refusal(run(*command, "--output", out), out, "--overwrite")
    assert run(*command, "--output", out, "--overwrite").returncode == 0
    refusal(run("task", "predict", seed, text), seed, "--output")
    lines = out.read_text(encoding="utf-8").splitlines()
    assert [line.split("\t")[0] for line in lines] == ["Nora", "sings", "in", "Oslo", "", "", "Rain", ""]


def write_queue(folder: Path, epochs: int, seeds: list[int]) -> Path:
    """Two arms of a small network."""
    data = write_small(folder, "ner")
    recipe = f'task = "ner"\ntrain = "{data}"\ndev = "{data}"\n[model]\nhidden_dims = [4]\n'
    recipe += f"[training]\nepochs = {epochs}\npatience = 0\n"
    (folder / "recipe.toml").write_text(recipe, encoding="utf-8")
    row = f'[[rows]]\nname = "x"\nrecipe = "recipe.toml"\nseeds = {seeds}\n'
    (folder / "queue.toml").write_text(f'{row}arms = {{ a = [], b = ["training.lr=0.1"] }}\n', encoding="utf-8")
    return folder / "queue.toml"


def test_jobs_share_the_work_of_a_queue(tmp_path: Path) -> None:
    """Also in a folder with a program called elmo.py."""
    queue = write_queue(tmp_path, 1, [1, 2])
    (tmp_path / "elmo.py").write_text("raise SystemExit('this is not elmo')")
    arguments = ["task", "compare", str(queue), "--output", str(tmp_path / "out"), "--jobs", "2"]
    done = run_program(
        f"import os, sys; os.chdir({str(tmp_path)!r}); sys.argv += {arguments}; from elmo.cli import main; main()"
    )
    assert done.returncode == 0, done.stderr
    assert "| x | ner 1 | dev f1 | b |" in done.stdout
    assert sorted(path.parent.parent.name for path in (tmp_path / "out").rglob("result.json")) == ["a", "a", "b", "b"]


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_jobs_that_are_asked_to_stop_write_their_checkpoints(tmp_path: Path) -> None:
    queue = write_queue(tmp_path, 1_000_000, [1])
    command = Command("task", "compare", queue, "--output", tmp_path / "out", "--jobs", 2)
    scored: list[Path] = []
    while len(scored) < 2 and command.process.is_alive():
        time.sleep(0.01)
        scored = [path for path in (tmp_path / "out").rglob("metrics.jsonl") if path.stat().st_size]
    command.interrupt()
    stopped = command.wait()
    assert stopped.returncode == 130, stopped.stderr
    assert stopped.stderr.count("with a checkpoint; to continue, run the command again") == 2
    checkpoints = [path.parent.parent.parent.name for path in (tmp_path / "out").rglob("checkpoints/step-*")]
    assert sorted(checkpoints) == ["a", "b"]


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_a_job_that_is_being_started_hears_of_a_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[int] = []

    class Started:
        def __init__(self, *_: object, **__: object) -> None:
            os.kill(os.getpid(), signal.SIGTERM)

        send_signal, wait, terminate = heard.append, int, int

    monkeypatch.setattr(subprocess, "Popen", Started)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        run_in(2)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert heard == [signal.SIGTERM]


@pytest.mark.parametrize(("given", "threads"), [(None, "4"), ("8", "4"), ("3", "3"), ("0", "4"), ("2,1", "4")])
def test_jobs_share_the_cores_whatever_the_environment_says(given, threads, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    class Started:
        def __init__(self, *_: object, env: dict[str, str], **__: object) -> None:
            seen.append(env["OMP_NUM_THREADS"])

        wait, terminate = int, int

    monkeypatch.setattr(subprocess, "Popen", Started)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr("elmo.machine.usable_cores", lambda: 8)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if given is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", given)
    run_in(2)
    assert seen == [threads, threads]


@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc")
def test_jobs_that_are_killed_are_named(tmp_path: Path) -> None:
    queue = write_queue(tmp_path, 1_000_000, [1])
    command = Command("task", "compare", queue, "--output", tmp_path / "out", "--jobs", 2)
    children = Path(f"/proc/{command.process.pid}/task/{command.process.pid}/children")
    while len(running := children.read_text("utf-8").split()) < 2:
        time.sleep(0.01)
    for number in running:
        os.kill(int(number), signal.SIGKILL)
    refusal(command.wait(), "--jobs")


@pytest.mark.parametrize("name", [name for name in tasks.available() if name != "ner"])
def test_own_files_take_the_place_of_all_of_a_recipes(tmp_path: Path, name: str) -> None:
    """Its settings and seeds stay; its test data would be somebody else's. A run that goes on keeps its own files."""
    flags = ["--train", "mine", "--dev", "mine", "--output", tmp_path, "--print-config"]
    made = json.loads(run("task", "train", name, *flags).stdout)
    assert [made[part] for part in ("train", "dev", "test")] == ["mine", "mine", None]
    assert len(made["seeds"]) > 1
    assert json.loads(run("task", "train", name, *flags, "--test", "t").stdout)["test"] == "t"
    refusal(run("task", "train", name, "--train", "mine", "--output", tmp_path / "out"), "--dev is missing")
    (tmp_path / "config.json").write_text(json.dumps(made | {"test": "kept"}), encoding="utf-8")
    assert json.loads(run("task", "train", name, *flags, "--resume").stdout)["test"] == "kept"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "parsing", "--train", "a", "--dev", "b", "--output", "c"], "unknown task 'parsing'"),
        (["train", "ner", "--train", "a", "--dev", "b"], "--output is missing"),
        (["train", "ner", "--train", "a", "--dev", "b", "--output", "c"], "a: no such file"),
        (["train", "ner", "--resume"], "--resume needs --output"),
        (["train", "ner", "--output", "c", "--resume"], "no run to resume; omit --resume"),
        (
            ["train", "ner", "--train", "a", "--dev", "b", "--output", "c", "elmo=everywhere"],
            "inputs.elmo is 'everywhere'",
        ),
        (["train", "ner", "--train", "a", "--dev", "b", "--output", "c", "model.size=3"], "unknown key 'model.size'"),
        (["train", "snli", "ner-wnut17", "--output", "c"], "the task is ner, not snli"),
        (["eval", "nowhere", "a"], "nowhere: no trained task"),
        (["compare", "nothing", "--output", "c"], "nothing: no such file, and not a packaged recipe"),
    ],
)
def test_what_goes_wrong_is_one_line(tmp_path: Path, monkeypatch, arguments: list[str], message: str) -> None:
    monkeypatch.chdir(tmp_path)
    refusal(run("task", *arguments), message)
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize("record", ["{", "[]", "\x00"])
def test_a_damaged_run_is_not_gone_on_with(tmp_path: Path, record: str) -> None:
    (tmp_path / "config.json").write_text(record, encoding="utf-8")
    refusal(run("task", "train", "ner", "--output", tmp_path, "--resume"), f"{tmp_path / 'config.json'}: not ")


@pytest.mark.parametrize("path", sorted((RECIPES / "tasks").glob("*.toml")), ids=lambda path: path.stem)
def test_recipes_are_read(path: Path) -> None:
    """Every recipe is a configuration of its task, names no machine's paths, and every queue names recipes."""
    if path.stem.startswith("queue"):
        for row in read_queue(path).rows:
            assert (RECIPES / "tasks" / f"{row.recipe}.toml").is_file()
            for settings in row.arms.values():
                configs.from_dict(TaskConfig, BASE | {"task": "ner"} | configs.parse_overrides(settings))
        return
    config = configs.from_dict(TaskConfig, BASE | configs.load_toml(path))
    configs.from_dict(tasks.find(config.task).config, config.model)
    assert not any(Path(part).is_absolute() for part in (config.train, config.dev, config.test or ""))


BASE = {"train": "a", "dev": "b", "output": "c"}
