"""Several processes (gloo) train what one process trains, started by the command itself or by torchrun."""

import time
from pathlib import Path

import pytest
from command import TIMEOUT, run
from small_run import LEARNS, TINY, metrics, texts
from training_processes import SAMPLED, SETTINGS, check_curve, finish, kill, start

pytestmark = pytest.mark.processes
EXACT = ("objective.negatives=0", *SAMPLED)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> tuple[str, ...]:
    return texts(tmp_path_factory.mktemp("texts"))


@pytest.fixture(scope="module")
def single(corpus, tmp_path_factory) -> Path:
    """One process, and nothing random in the objective."""
    output = tmp_path_factory.mktemp("single") / "run"
    done = run("train", *corpus, *SETTINGS, *EXACT, "--output", output)
    assert done.returncode == 0, done.stderr
    return output


def check_printed(printed: str, errors: str) -> None:
    assert printed.count("steps") == 1  # one of the two speaks
    assert "Warning" not in errors
    assert "Traceback" not in errors


@pytest.mark.slow
def test_two_processes_have_the_loss_curve_of_one_also_killed_and_resumed(corpus, single, tmp_path):
    """Started by torchrun, killed after a checkpoint, resumed by the command alone."""
    output = tmp_path / "run"
    process = start(*corpus, *SETTINGS, *EXACT, "--output", output, launcher="torchrun")
    deadline = time.monotonic() + TIMEOUT
    while not list(output.glob("checkpoints/step-*")) and time.monotonic() < deadline:
        time.sleep(0.01)
    kill(process)
    process.communicate()
    code, printed, errors = finish(start("--resume", "--output", output))
    assert code == 0, errors
    check_printed(printed, errors)
    check_curve(output, single)
    steps = [line["step"] for line in metrics(output) if "loss" in line]
    assert steps == list(range(1, 41))
    newest = max((output / "checkpoints").iterdir())
    assert {path.name for path in newest.glob("rank-*.json")} == {"rank-0.json", "rank-1.json"}


@pytest.mark.slow
@pytest.mark.parametrize("processes", [2, 4])
@pytest.mark.parametrize(
    "more", [(), ("optim.name=muon",), ("loop.accumulate=2", "optim.name=adagrad", "optim.lr=0.1")]
)
def test_rows_of_a_sampled_softmax_are_averaged_as_one_process_has_them(corpus, tmp_path, processes, more):
    """All processes draw the same negatives, those of one process; only rows that one of them touched are sent."""
    arguments = (*corpus, *SETTINGS, *SAMPLED, *more)
    assert run("train", *arguments, "--output", tmp_path / "one").returncode == 0
    started = start(*arguments, "--output", tmp_path / "more", launcher="torchrun", processes=processes)
    code, printed, errors = finish(started)
    assert code == 0, errors
    check_printed(printed, errors)
    check_curve(tmp_path / "more", tmp_path / "one")


@pytest.mark.slow
def test_two_processes_train_as_well_as_one_with_sampling_and_dropout(corpus, tmp_path):
    """Other random numbers, the same quality: the perplexity falls from 28, that of chance, to about the same."""
    noisy = ("objective.negatives=8", "objective.dropout=0.1", "objective.reset_probability=0.5")
    settings = (*noisy, *LEARNS, "loop.evaluate_steps=100")
    assert run("train", *corpus, *TINY, *settings, "--output", tmp_path / "one").returncode == 0
    arguments = (*corpus, *TINY, *settings, "--output", tmp_path / "two")
    code, printed, errors = finish(start(*arguments, launcher="torchrun"))
    assert code == 0, errors
    check_printed(printed, errors)
    assert len(list((tmp_path / "two" / "tensorboard").iterdir())) == 1
    one, two = (metrics(tmp_path / name)[-1]["reset_mean"] for name in ("one", "two"))
    assert two == pytest.approx(one, rel=0.5)


@pytest.mark.slow
def test_error_of_the_user_ends_both_processes_with_one_line(tmp_path):
    empty = tmp_path / "empty.txt"
    empty.write_text("\n\n", encoding="utf-8")
    code, printed, errors = finish(start("--train", empty, *TINY, "devices=2", "--output", tmp_path / "run"))
    assert (code, printed) == (2, "")
    assert errors.count("\n") == 1
    assert str(empty) in errors
    assert not (tmp_path / "run").exists()
