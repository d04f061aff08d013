"""`elmo serve --workers`: processes behind one port."""

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest
from command import run
from refusals import refusal
from served import Served, kill, start_tiny

import elmo

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere ports are not shared")
TEXT = [["a", "b", "c"], ["d"]]


@pytest.fixture
def served(tmp_path) -> Iterator[Served]:
    served = start_tiny(tmp_path, "--workers", "2")
    yield served
    kill(served)


def workers(served: Served) -> list[int]:
    """The workers' process ids, when all listen."""
    pid = served.process.pid
    found = [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()]
    port = f":{served.address[1]:04X}"
    end = time.monotonic() + 30
    while True:
        rows = [line.split() for line in Path("/proc/net/tcp").read_text(encoding="utf-8").splitlines()[1:]]
        if sum(row[1].endswith(port) and row[3] == "0A" for row in rows) == len(found):
            return found
        assert time.monotonic() < end
        time.sleep(0.05)


def test_two_workers_give_the_same_vectors_and_stop_as_one(served, tmp_path):
    first, second = workers(served)
    expected = elmo.load(tmp_path / "model", device="cpu").embed(TEXT, "average")
    for _ in range(10):  # each a connection of its own
        answer = served.post("/vectors", {"sentences": TEXT, "layers": "average"}).raise_for_status().json()
        for one, vectors in zip(answer["sentences"], expected, strict=True):
            np.testing.assert_allclose(np.array(one["vectors"]), vectors, rtol=0, atol=1e-6)
    refusal(run("serve", "--model", tmp_path / "model", "--workers", "2", "--port", served.address[1]), "in use")
    served.process.terminate()
    assert served.process.wait(15) == 0
    assert not any(Path(f"/proc/{pid}").exists() for pid in (first, second))
    assert "Traceback" not in (tmp_path / "log").read_text(encoding="utf-8")


def test_the_other_worker_goes_on_where_one_is_killed(served):
    first, _ = workers(served)
    os.kill(first, signal.SIGKILL)
    time.sleep(0.2)
    assert {httpx.get(served.url + "/health").status_code for _ in range(10)} == {200}
    served.process.terminate()
    assert served.process.wait(15) != 0  # the end says that not all went well


def test_workers_end_with_the_command_that_started_them(served):
    pids = workers(served)
    served.process.kill()
    end = time.monotonic() + 30
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.parametrize(("flags", "named"), [(["--workers", "0"], "--workers"), (["--model", "nowhere"], "nowhere")])
def test_what_cannot_be_served_is_said_once(flags, named):
    done = run("serve", "--port", "0", "--workers", "2", *flags)
    refusal(done, named)
