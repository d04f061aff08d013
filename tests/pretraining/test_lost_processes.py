"""Processes that are killed, that hang, that disagree, and runs resumed by more or fewer of them."""

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
from command import TIMEOUT, run
from small_run import LEARNS, TINY, metrics, texts
from training_processes import SAMPLED, SETTINGS, check_curve, finish, kill, start

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(not Path("/proc/self").exists(), reason="asks Linux for the processes"),
]
ENDLESS = ("epochs=100000", "max_words=100_000_000", "loop.log_steps=1", "loop.checkpoint_steps=20")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> tuple[str, ...]:
    return texts(tmp_path_factory.mktemp("texts"))


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
    while time.monotonic() < deadline:
        if (output / "metrics.jsonl").exists() and any(line["step"] >= step for line in metrics_so_far(output)):
            return
        time.sleep(0.02)
    raise TimeoutError


def metrics_so_far(output: Path) -> list[dict]:
    try:
        return metrics(output)
    except ValueError:  # a line that is being written
        return []


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
    assert re.match(rf"elmo: error: process(es)? .*\b{victim}\b.* of 3 \(the first is 0\) no longer answers?", last), (
        last
    )
    assert "--resume" in last


LONG = (*SETTINGS, *SAMPLED, "max_words=4000", "loop.checkpoint_steps=1000", "--output")


@pytest.fixture(scope="module")
def unharmed(corpus, tmp_path_factory) -> Path:
    output = tmp_path_factory.mktemp("unharmed") / "run"
    code, _, errors = finish(by_count(2, *corpus, *LONG, output))
    assert code == 0, errors
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
    code, _, errors = finish(by_count(2, "--resume", "--output", tmp_path / "run"))
    assert code == 0, errors
    check_curve(tmp_path / "run", unharmed)


def by_hand(commands: list[tuple]) -> list["subprocess.Popen[str]"]:
    """`elmo train` with other arguments in every process, set up as torchrun does it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    world = str(len(commands))
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": world, "LOCAL_WORLD_SIZE": world}
    common |= {"TORCHELASTIC_RUN_ID": "by hand", "OMP_NUM_THREADS": "1", "GROUP_RANK": "0"}
    return [
        subprocess.Popen(
            [sys.executable, "-m", "elmo", "train", *map(str, arguments)],
            env={**os.environ, **common, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )
        for rank, arguments in enumerate(commands)
    ]  # fmt: skip


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


def test_killed_at_random_under_torchrun_it_is_the_same_run(corpus, tmp_path):
    """Five times a process is killed, torchrun starts the command again, and the curve is that of a run unharmed."""
    settings = (
        "objective.negatives=8",
        *LEARNS,
        "loop.evaluate_steps=100",
        "loop.log_steps=1",
        "loop.checkpoint_steps=7",
    )
    arguments = (*corpus, *TINY, *settings, "--output", tmp_path / "run")
    code, _, errors = finish(by_count(2, *arguments[:-1], tmp_path / "unharmed"))
    assert code == 0, errors
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command += ["--max-restarts", "5", "-m", "elmo", "train", *map(str, arguments)]
    process = subprocess.Popen(
        command, env={**os.environ, "OMP_NUM_THREADS": "1", "MARK": str(tmp_path)}, text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    rng, gone = random.Random(4), set()
    for number in range(5):
        while set((found := ranks(str(tmp_path), 2)).values()) & gone:
            time.sleep(0.05)
        if number:  # the first one before anything is there
            wait_for_step(tmp_path / "run", 15 * number)
        time.sleep(rng.random() / 5)
        os.kill(found[rng.randrange(2)], signal.SIGKILL)
        gone |= set(found.values())
    code, _, errors = finish(process)
    assert code == 0, errors
    assert errors.count("exitcode: -9") >= 5
    assert [line["step"] for line in metrics(tmp_path / "run") if "loss" in line] == list(range(1, 101))
    check_curve(tmp_path / "run", tmp_path / "unharmed")


@pytest.mark.parametrize(("before", "after"), [(2, 1), (1, 2), (2, 4)])
@pytest.mark.parametrize("sharded", [False, True])
def test_other_processes_go_on_with_a_run(corpus, tmp_path, before, after, sharded):
    """With nothing random in a process, the curve is that of one process from the beginning to the end."""
    settings = (*corpus, *SETTINGS, *SAMPLED, "optim.decay=0.0", f"optim.sharded={sharded}".lower())
    assert run("train", *settings, "--output", tmp_path / "one").returncode == 0
    code, _, errors = finish(by_count(before, *settings, "max_words=400", "--output", tmp_path / "run"))
    assert code == 0, errors
    newest = max((tmp_path / "run" / "checkpoints").iterdir())
    assert len(list(newest.glob("table-*"))) == (before if sharded and before > 1 else 0)
    code, _, errors = finish(by_count(after, "--resume", "max_words=800", "--output", tmp_path / "run"))
    assert code == 0, errors
    check_curve(tmp_path / "run", tmp_path / "one")


def by_count(processes: int, *arguments: object) -> "subprocess.Popen[str]":
    return start(*arguments, f"devices={processes}", launcher="elmo")
