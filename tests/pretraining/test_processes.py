"""Several processes (gloo) train what one process trains, started by the command itself, by torchrun or by hand.

They are killed, hang, disagree, and more or fewer of them go on with a run.
"""

import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from command import TIMEOUT, printed
from safetensors.torch import load_file
from small_run import LEARNS, TINY, losses, metrics, steps_done, texts

pytestmark = pytest.mark.processes
SAMPLED = ("objective.dropout=0.0", "objective.reset_probability=0.0")
SETTINGS = (*TINY, "max_words=800", "loop.log_steps=1", "loop.evaluate_steps=20", "loop.checkpoint_steps=15")
EXACT = ("objective.negatives=0", *SAMPLED)
ENDLESS = ("epochs=100000", "max_words=100_000_000", "loop.log_steps=1", "loop.checkpoint_steps=20")
TRAIN = [sys.executable, "-m", "elmo", "train"]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]

Process = subprocess.Popen[str]


def launched(command: list[str], **variables: str) -> Process:
    """A command in a session of its own, so that all of its processes can be killed together."""
    return subprocess.Popen(
        command, env=os.environ | {"OMP_NUM_THREADS": "1"} | variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, start_new_session=True,
    )  # fmt: skip


def start(*arguments: object, processes: int = 2) -> Process:
    """`elmo train` by torchrun."""
    return launched([*TORCHRUN, str(processes), *TRAIN[1:], *map(str, arguments)])


def by_itself(*arguments: object) -> Process:
    """`elmo train`, which starts its processes."""
    return launched([*TRAIN, *map(str, arguments)])


def by_hand(commands: list[tuple]) -> list[Process]:
    """`elmo train` with other arguments in every process, set up as torchrun does it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    world = str(len(commands))
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": world, "LOCAL_WORLD_SIZE": world}
    common |= {"TORCHELASTIC_RUN_ID": "by hand", "GROUP_RANK": "0"}
    return [
        launched([*TRAIN, *map(str, arguments)], **common, RANK=str(rank), LOCAL_RANK=str(rank))
        for rank, arguments in enumerate(commands)
    ]


def finish(process: Process) -> tuple[int, str, str]:
    try:
        printed, errors = process.communicate(timeout=TIMEOUT)
    finally:
        kill(process)
    return process.returncode, printed, errors


def succeed(process: Process) -> tuple[str, str]:
    code, printed, errors = finish(process)
    assert code == 0, errors
    return printed, errors


def kill(process: Process) -> None:
    """With all of its processes."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def check_printed(printed: str, errors: str) -> None:
    assert printed.count("steps") == 1  # one of the two speaks
    assert "Warning" not in errors
    assert "Traceback" not in errors


def check_curve(one: Path, other: Path) -> None:
    assert losses(one) == pytest.approx(losses(other), rel=1e-5)
    for line, expected in zip(metrics(one), metrics(other), strict=True):
        assert line.pop("measured_on", None) == expected.pop("measured_on", None)  # approx refuses nested dictionaries
        assert line == pytest.approx(expected, rel=1e-4)
    weights, others = (load_file(run / "model" / "model.safetensors") for run in (one, other))
    for name, weight in weights.items():
        torch.testing.assert_close(weight, others[name], rtol=1e-3, atol=2e-5)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> tuple[str, ...]:
    return texts(tmp_path_factory.mktemp("texts"))


@pytest.fixture(scope="module")
def single(corpus, tmp_path_factory) -> Path:
    """One process, and nothing random in the objective."""
    output = tmp_path_factory.mktemp("single") / "run"
    printed("train", *corpus, *SETTINGS, *EXACT, "--output", output)
    return output


@pytest.mark.slow
def test_two_processes_have_the_loss_curve_of_one_also_killed_and_resumed(corpus, single, tmp_path):
    """Started by torchrun, killed after a checkpoint, resumed by the command alone."""
    output = tmp_path / "run"
    process = start(*corpus, *SETTINGS, *EXACT, "--output", output)
    deadline = time.monotonic() + TIMEOUT
    while not list(output.glob("checkpoints/step-*")) and time.monotonic() < deadline:
        time.sleep(0.01)
    kill(process)
    process.communicate()
    check_printed(*succeed(by_itself("--resume", "--output", output)))
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
    printed("train", *arguments, "--output", tmp_path / "one")
    check_printed(*succeed(start(*arguments, "--output", tmp_path / "more", processes=processes)))
    check_curve(tmp_path / "more", tmp_path / "one")


@pytest.mark.slow
def test_two_processes_train_as_well_as_one_with_sampling_and_dropout(corpus, tmp_path):
    """Other random numbers, the same quality: the perplexity falls from 28, that of chance, to about the same."""
    noisy = ("objective.negatives=8", "objective.dropout=0.1", "objective.reset_probability=0.5")
    settings = (*noisy, *LEARNS, "loop.evaluate_steps=100")
    printed("train", *corpus, *TINY, *settings, "--output", tmp_path / "one")
    check_printed(*succeed(start(*corpus, *TINY, *settings, "--output", tmp_path / "two")))
    assert len(list((tmp_path / "two" / "tensorboard").iterdir())) == 1
    one, two = (metrics(tmp_path / name)[-1]["reset_mean"] for name in ("one", "two"))
    assert two == pytest.approx(one, rel=0.5)


@pytest.mark.slow
def test_error_of_the_user_ends_both_processes_with_one_line(tmp_path):
    empty = tmp_path / "empty.txt"
    empty.write_text("\n\n", encoding="utf-8")
    code, said, errors = finish(by_itself("--train", empty, *TINY, "devices=2", "--output", tmp_path / "run"))
    assert (code, said) == (2, "")
    assert errors.count("\n") == 1
    assert str(empty) in errors
    assert not (tmp_path / "run").exists()


# Processes that are lost


def ranks(mark: str, count: int) -> dict[int, int]:
    """Process numbers of the workers with a mark among their variables, by rank; waits until all are there."""
    deadline = time.monotonic() + TIMEOUT
    while time.monotonic() < deadline:
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                named = dict(part.split("=", 1) for part in (folder / "environ").read_text().split("\0") if "=" in part)
                command = (folder / "cmdline").read_text()
            except OSError:
                continue
            if named.get("MARK") != mark:
                continue
            if "multiprocessing" not in command and "torch.distributed.run" not in command and is_worker(folder):
                found[int(named.get("LOCAL_RANK", 0))] = int(folder.name)
        if len(found) == count:
            return found
        time.sleep(0.05)
    raise TimeoutError


def is_worker(folder: Path) -> bool:
    """Not one that reads ahead for a worker, which is forked from it."""
    parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    try:
        return (folder / "cmdline").read_text() != Path("/proc", str(parent), "cmdline").read_text(encoding="utf-8")
    except OSError:
        return True


def wait_for_step(output: Path, step: int) -> None:
    deadline = time.monotonic() + TIMEOUT
    while steps_done(output) < step:
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("victim", "how"), [(0, signal.SIGKILL), (1, signal.SIGKILL), (2, signal.SIGSTOP)], ids=["0", "1", "hangs"]
)
def test_a_lost_process_is_named(corpus, tmp_path, victim, how):
    """Started by hand: torchrun and lightning end the others themselves."""
    wait = () if how == signal.SIGKILL else ("wait_minutes=0.05",)
    arguments = (*corpus, *TINY, "streams=6", *ENDLESS, *wait, "--output", tmp_path / "run")
    processes = by_hand([arguments] * 3)
    wait_for_step(tmp_path / "run", 3)
    processes[victim].send_signal(how)
    ended = {rank: finish(process) for rank, process in enumerate(processes) if rank != victim}
    kill(processes[victim])
    processes[victim].communicate()
    assert {code for code, _, _ in ended.values()} == {1}, ended
    assert [rank for rank, (_, _, errors) in ended.items() if "elmo: error" in errors] == [min(ended)]
    (last,) = (line for line in ended[min(ended)][2].splitlines() if line.startswith("elmo: error"))
    named = rf"elmo: error: process(es)? .*\b{victim}\b.* of 3 \(the first is 0\) no longer answers?"
    assert re.match(named, last), last
    assert "--resume" in last


LONG = (*SETTINGS, *SAMPLED, "max_words=4000", "loop.checkpoint_steps=1000", "--output")


@pytest.fixture(scope="module")
def unharmed(corpus, tmp_path_factory) -> Path:
    output = tmp_path_factory.mktemp("unharmed") / "run"
    succeed(by_itself("devices=2", *corpus, *LONG, output))
    return output


@pytest.mark.parametrize(("asked", "how"), [(0, signal.SIGINT), (1, signal.SIGTERM)])
def test_all_stop_with_a_checkpoint_when_one_is_asked_to(corpus, unharmed, tmp_path, asked, how):
    processes = by_hand([(*corpus, *LONG, tmp_path / "run")] * 2)
    wait_for_step(tmp_path / "run", 5)
    processes[asked].send_signal(how)
    ended = [finish(process) for process in processes]
    assert [code for code, _, _ in ended] == [130, 130], ended
    assert ["elmo: error: stopped after step" in errors for _, _, errors in ended] == [True, False]
    assert len(list((tmp_path / "run" / "checkpoints").iterdir())) == 1
    succeed(by_itself("devices=2", "--resume", "--output", tmp_path / "run"))
    check_curve(tmp_path / "run", unharmed)


@pytest.mark.parametrize(
    ("change", "seen"),
    [
        (("seed=9",), "seed is 1 in process 0 and 9 in process 1"),
        (("optim.lr=0.5",), r"optim is \{'lr': 0.004\} in process 0 and \{'lr': 0.5\} in process 1"),
        (("--train", "OTHER"), "process 1 has different files for --train"),
        (("--train", "NONE"), "process 1: .*matches no file"),
        (("streams=3",), "process 1: streams is 3"),
    ],
)
def test_processes_that_disagree_do_nothing(corpus, tmp_path, change, seen):
    other = tmp_path / "other.txt"
    other.write_text("Other words .\n", encoding="utf-8")
    change = tuple(str(other) if part == "OTHER" else part for part in change)
    arguments = (*corpus, *SETTINGS, "--output", tmp_path / "run")
    ended = [finish(process) for process in by_hand([arguments, (*arguments, *change)])]
    assert [code for code, _, _ in ended] == [2, 2]
    assert [errors.count("\n") for _, _, errors in ended] == [1, 0]
    assert re.search(seen, ended[0][2]), ended[0][2]
    assert not (tmp_path / "run").exists()


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="asks Linux for the processes")
def test_killed_at_random_under_torchrun_it_is_the_same_run(corpus, tmp_path):
    """Five times a process is killed, torchrun starts the command again, and the curve is that of a run unharmed."""
    moments = ("loop.evaluate_steps=100", "loop.log_steps=1", "loop.checkpoint_steps=7")
    arguments = (*corpus, *TINY, "objective.negatives=8", *LEARNS, *moments, "--output")
    succeed(by_itself("devices=2", *arguments, tmp_path / "unharmed"))
    command = [*TORCHRUN, "2", "--max-restarts", "5", *TRAIN[1:], *map(str, arguments), f"{tmp_path}/run"]
    process = launched(command, MARK=str(tmp_path))
    rng, gone = random.Random(4), set()
    for number in range(5):
        while set((found := ranks(str(tmp_path), 2)).values()) & gone:
            time.sleep(0.05)
        if number:  # the first one before anything is there
            wait_for_step(tmp_path / "run", 15 * number)
        time.sleep(rng.random() / 5)
        os.kill(found[rng.randrange(2)], signal.SIGKILL)
        gone |= set(found.values())
    assert succeed(process)[1].count("exitcode: -9") >= 5
    assert [line["step"] for line in metrics(tmp_path / "run") if "loss" in line] == list(range(1, 101))
    check_curve(tmp_path / "run", tmp_path / "unharmed")


@pytest.mark.parametrize(("before", "after"), [(2, 1), (1, 2), (2, 4)])
@pytest.mark.parametrize("sharded", [False, True])
def test_other_processes_go_on_with_a_run(corpus, tmp_path, before, after, sharded):
    """With nothing random in a process, the curve is that of one process from the beginning to the end."""
    settings = (*corpus, *SETTINGS, *SAMPLED, "optim.decay=0.0", f"optim.sharded={sharded}".lower())
    printed("train", *settings, "--output", tmp_path / "one")
    succeed(by_itself(f"devices={before}", *settings, "max_words=400", "--output", tmp_path / "run"))
    newest = max((tmp_path / "run" / "checkpoints").iterdir())
    assert len(list(newest.glob("table-*"))) == (before if sharded and before > 1 else 0)
    succeed(by_itself(f"devices={after}", "--resume", "max_words=800", "--output", tmp_path / "run"))
    check_curve(tmp_path / "run", tmp_path / "one")
