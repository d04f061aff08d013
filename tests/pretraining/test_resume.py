"""`elmo train` killed at any moment and resumed is the run that was never interrupted, bit for bit."""

import json
import os
import random
import re
import shutil
import signal
import time
from pathlib import Path

import pytest
from command import Command, printed, run
from refusals import refusal, refused
from small_run import TINY, last_checkpoint, losses, metrics, model_bytes, steps_done, texts

from elmo import config as configs
from elmo import formats
from elmo.pretraining.checks import check_output
from elmo.pretraining.settings import TrainConfig
from elmo_lab.report.collect import collect

STEPS = 80
SETTINGS = (*TINY, f"max_words={STEPS * 20}", "loop.log_steps=3", "loop.evaluate_steps=20", "loop.checkpoint_steps=7")


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """A run that nothing interrupted, beside the texts."""
    folder = tmp_path_factory.mktemp("whole")
    printed("train", *texts(folder), *SETTINGS, "--output", folder / "run")
    return folder / "run"


def flags(whole: Path) -> tuple[object, ...]:
    return ("--train", whole.parent / "train.txt", "--heldout", whole.parent / "heldout.txt", *SETTINGS)


def check_same(one: Path, other: Path) -> None:
    assert metrics(one) == metrics(other)
    assert model_bytes(one) == model_bytes(other)
    assert last_checkpoint(one) == last_checkpoint(other)


def begun(arguments: tuple[object, ...], output: Path, at_step: int) -> Command:
    """A run that is at `at_step`, or has ended."""
    command = Command("train", *arguments)
    deadline = time.monotonic() + 120
    while steps_done(output) < at_step and command.process.is_alive():
        assert time.monotonic() < deadline
        time.sleep(0.002)
    return command


def killed(arguments: tuple[object, ...], output: Path, at_step: int, delay: float) -> int:
    """Starts a run, waits until it is at `at_step` and a little longer, and kills it; its exit code."""
    command = begun(arguments, output, at_step)
    time.sleep(delay)
    return command.kill().returncode


@pytest.mark.parametrize(("prefetch", "seed"), [("true", 1), ("false", 2)])
def test_run_killed_several_times_is_the_run_that_was_not(whole, tmp_path, prefetch, seed):
    rng = random.Random(seed)
    output = tmp_path / "run"
    moments = sorted(rng.randrange(5, STEPS - 20) for _ in range(2))
    codes = []
    for number, moment in enumerate(moments):
        begin = flags(whole) if number == 0 else ("--resume",)
        arguments = (*begin, f"prefetch={prefetch}", "--output", output)
        codes.append(killed(arguments, output, moment, rng.random() / 20))
    assert codes.count(-signal.SIGKILL) >= 1, codes  # one may have come to its end first
    printed("train", "--resume", "--output", output)
    steps = [line["step"] for line in metrics(output) if "loss" in line]
    assert steps == [*range(3, STEPS, 3), STEPS]
    assert len(losses(output)) == len(steps)
    check_same(whole, output)


@pytest.mark.parametrize(("prefetch", "how"), [("true", signal.SIGINT), ("false", signal.SIGTERM)])
def test_a_run_asked_to_stop_writes_a_checkpoint_first(whole, tmp_path, prefetch, how):
    rare = ("loop.checkpoint_steps=1000", f"prefetch={prefetch}", "--quiet")
    arguments = (*flags(whole), *rare, "--output", tmp_path / "run")
    command = begun(arguments, tmp_path / "run", 10)
    for process in (command.process.pid, *children(command)):  # as a terminal and pkill do
        assert process is not None
        os.kill(process, how)
    stopped = command.wait()
    assert stopped.returncode == 130
    notice, error = stopped.stderr.strip().split("\n")
    assert "checkpoint" in notice
    step = re.match(r"elmo: error: .*step (\d+) of 80.*--resume", error)
    assert step is not None, stopped.stderr
    assert max(each.name for each in (tmp_path / "run" / "checkpoints").iterdir()) == f"step-{int(step[1]):09}"
    printed("train", "--resume", "--output", tmp_path / "run")
    assert metrics(tmp_path / "run") == metrics(whole)
    assert model_bytes(tmp_path / "run") == model_bytes(whole)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="asks Linux for the processes")
def test_killed_run_leaves_no_process_behind(whole, tmp_path):
    """Also where the windows that nobody takes any more are larger than a pipe."""
    large = ("streams=64", "window=50", "epochs=10000", "max_words=100_000_000")
    command = begun((*flags(whole), *large, "--output", tmp_path / "run"), tmp_path / "run", 1)
    (child,) = children(command)
    command.kill()
    deadline = time.monotonic() + 10
    while is_running(child) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not is_running(child)


def children(command: Command) -> list[int]:
    """Where Linux tells them."""
    file = Path(f"/proc/{command.process.pid}/task/{command.process.pid}/children")
    return [int(pid) for pid in file.read_text(encoding="utf-8").split()] if file.exists() else []


def is_running(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.parametrize("delay", [0.0, 0.2])
def test_run_killed_before_its_first_checkpoint(whole, tmp_path, delay):
    """While it counts, or between two files of the run's record: one of the two commands goes on with what is there."""
    output = tmp_path / "run"
    arguments = (*flags(whole), "loop.checkpoint_steps=1000", "--output", output)
    command = Command("train", *arguments)
    deadline = time.monotonic() + 60
    while not output.exists() and time.monotonic() < deadline:
        time.sleep(0.001)
    time.sleep(delay)
    command.kill()
    began = (output / "train.json").exists()
    printed("train", *arguments, *(["--resume"] if began else []))
    assert metrics(output) == metrics(whole)
    assert model_bytes(output) == model_bytes(whole)


def test_another_seed_gives_another_run(whole, tmp_path):
    printed("train", *flags(whole), "seed=2", "max_words=200", "--output", tmp_path / "run")
    assert all(ours != theirs for ours, theirs in zip(losses(tmp_path / "run")[:3], losses(whole), strict=False))


def test_finished_run_can_be_made_longer(whole, tmp_path):
    """The plateau of the learning rate does not depend on how long the run is to be."""
    constant = (*flags(whole), "optim.decay=0.0", "loop.log_steps=1")
    long, short = tmp_path / "long", tmp_path / "short"
    printed("train", *constant, "max_words=800", "--output", long)
    printed("train", *constant, "max_words=500", "--output", short)
    printed("train", "--resume", "--output", short, "max_words=800")
    assert losses(short) == losses(long)
    assert model_bytes(short) == model_bytes(long)
    sessions = json.loads((short / "sessions.json").read_text(encoding="utf-8"))
    assert [(each["step"], each["settings"]["max_words"]) for each in sessions] == [(0, 500), (25, 800)]
    assert not (long / "sessions.json").exists()


def test_resuming_a_finished_run_changes_nothing(whole):
    before = {path: path.read_bytes() for path in whole.rglob("*") if path.is_file() and "tensorboard" not in str(path)}
    done = run("train", "--resume", "--output", whole)
    assert done.returncode == 0
    assert str(whole / "model") in done.stdout
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.parametrize(
    ("change", "seen"),
    [
        ("streams=8", "streams was 4, now it is 8"),
        ("model.lstm.dim=16", "model was {'lstm': {'dim': 8}}, now it is {'lstm': {'dim': 16}}"),
        ("seed=9", "seed was 1, now it is 9"),
        ("text.language=de", "text was {'language': 'en'}"),
        ("optim.name=adagrad", "optim.name was 'adamw', now it is 'adagrad'"),
        ("loop.accumulate=2", "loop.accumulate was 1, now it is 2"),
    ],
)
def test_resumed_run_cannot_change_what_its_data_depend_on(whole, change, seen):
    refusal(run("train", "--resume", "--output", whole, change), whole / "train.json", seen, "another --output")


def test_a_damaged_run_is_named_and_no_checkpoint_sacrificed(whole, tmp_path):
    """A cut vocabulary was told as a checkpoint that does not fit, to be removed, one after the other."""
    copy = tmp_path / "run"
    shutil.copytree(whole, copy)
    words = (copy / "vocab.txt").read_text(encoding="utf-8").splitlines()
    for left in (words[:-1], []):
        (copy / "vocab.txt").write_text("\n".join(left) + "\n", encoding="utf-8")
        done = run("train", "--resume", "--output", copy)
        refusal(done, copy / "vocab.txt", "restore it")
        assert "step-" not in done.stderr
    shutil.copy(copy / "model" / "vocab.txt", copy / "vocab.txt")
    (newest,) = sorted((copy / "checkpoints").iterdir())[-1:]
    (newest / "rank-0.json").unlink()
    refusal(run("train", "--resume", "--output", copy), newest.name, "rank-0.json", "remove this folder")


def test_output_that_holds_a_run_needs_resume(whole):
    refusal(run("train", *flags(whole), "--output", whole), whole, f"step-{STEPS:09d}", "--resume")


def test_a_run_that_is_to_end_at_its_checkpoint_ends_with_a_model(whole, tmp_path):
    """Of a run that was killed before it ever measured: nothing is left to train, but the model is to be written."""
    output = tmp_path / "run"
    printed("train", *flags(whole), "max_words=400", "--output", output)
    (output / "model").rename(output / ".model.12.partial")
    shutil.rmtree(output / "checkpoints" / "step-000000020")
    printed("train", "--resume", "--output", output, "max_words=280")
    card = formats.describe(output).card
    assert card["words_read"] == 280
    assert card["perplexity"]
    assert not list(output.glob(".model.*"))


def test_a_finished_run_measures_other_held_out_text_and_only_that(whole, tmp_path):
    output = shutil.copytree(whole, tmp_path / "run")
    other = tmp_path / "other.txt"
    shutil.copy(whole.parent / "heldout.txt", other)
    before = (output / "model" / "config.json").stat().st_mtime_ns
    printed("train", "--resume", "--output", output)
    assert (output / "model" / "config.json").stat().st_mtime_ns == before
    printed("train", "--resume", "--output", output, "--heldout", other)
    cards = [formats.describe(folder).card for folder in (output, whole)]
    assert cards[0] == cards[1] | {"heldout": ["other.txt"]}


def test_a_finished_run_measures_a_text_of_the_same_name_and_less_of_a_text(whole, tmp_path):
    output = shutil.copytree(whole, tmp_path / "run")
    other = tmp_path / "heldout.txt"
    other.write_text("The judge waits .\n" * 400, encoding="utf-8")
    before = metrics(output)
    seen = [formats.describe(output).card["perplexity"]["reset"]]
    for change in (("--heldout", other), ("evaluate_words=10",)):
        printed("train", "--resume", "--output", output, *change)
        seen.append(formats.describe(output).card["perplexity"]["reset"])
        (point,) = collect([output]).pretrainings[0].curve
        assert (point["step"], point["tokens"], point["measured_on"]["words"]) == (STEPS, 1_600, seen[-1]["tokens"])
        assert point["reset_mean"] == seen[-1]["mean"]
    assert [each["tokens"] for each in seen] == [300, 2_000, 50]
    assert metrics(output)[: len(before)] == before


def test_a_model_whose_checkpoints_are_gone_is_not_begun_anew(whole, tmp_path):
    """To save room they were removed: a run from the beginning would replace the model."""
    output = shutil.copytree(whole, tmp_path / "run")
    shutil.rmtree(output / "checkpoints")
    before = {path: path.read_bytes() for path in output.rglob("*") if path.is_file()}
    for arguments in (flags(whole), ("--resume",)):
        done = run("train", *arguments, "--output", output)
        refusal(done, output, "holds a model but no checkpoint", "--init-from")
    assert {path: path.read_bytes() for path in output.rglob("*") if path.is_file()} == before


def test_a_run_that_never_leaves_its_warmup_says_so(whole, tmp_path):
    few = (*flags(whole), "max_words=100", "optim.warmup_steps=100", "--output", tmp_path / "run")
    for more in (("--dry-run",), ()):
        done = run("train", *few, *more)
        assert done.returncode == 0, done.stderr
        assert "100 steps" in done.stdout + done.stderr


@pytest.mark.parametrize("name", ["model", "checkpoints", "tensorboard"])
def test_a_file_in_the_place_of_a_folder_is_refused_before_the_work(tmp_path, name):
    config = TrainConfig(train=("absent.txt",), heldout=(), output=str(tmp_path))
    (tmp_path / "train.json").write_text(configs.to_json(config), encoding="utf-8")
    (tmp_path / name).write_text("mine", encoding="utf-8")
    with refused(tmp_path / name, "move"):
        check_output(config, True)
    (tmp_path / name).unlink()
    (tmp_path / name).mkdir()
    check_output(config, True)


def test_resume_without_a_run_or_of_a_damaged_record(whole, tmp_path):
    done = run("train", *flags(whole), "--resume", "--output", tmp_path / "none")
    refusal(done, tmp_path / "none" / "train.json", "no run to resume", "omit --resume")
    assert not (tmp_path / "none").exists()
    (tmp_path / "train.json").write_text('{"train": ["a.txt"], "outp', encoding="utf-8")
    done = run("train", "--resume", "--output", tmp_path)
    refusal(done, tmp_path / "train.json", "not the record of a run", "--output")
