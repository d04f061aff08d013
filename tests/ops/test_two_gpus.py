"""A second GPU computes while the first is the current one. Both are simulated."""

import gc
import threading
import time
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import torch
from idle_kernels import use_idle_kernels
from other_device import DEVICE, Elsewhere, Lists, OtherDevice
from refusals import refused

from elmo import ops
from elmo.ops.packed_lstm import Clips

SECOND = torch.device("cuda", 1)
CLIPS = Clips(3.0, 3.0, 1.0)


@pytest.fixture
def current(monkeypatch):
    """The current device, in a list of one; the other of two is `SECOND`."""
    current = [0]

    @contextmanager
    def on(device):
        current[0], before = device, current[0]
        yield
        current[0] = before

    monkeypatch.setattr(torch.cuda, "device", lambda device: on(device.index))
    monkeypatch.setattr(torch.cuda, "device_of", lambda tensor: on(1 if isinstance(tensor, Elsewhere) else current[0]))
    return current


@pytest.mark.parametrize("learns", [False, True])
def test_kernels_are_launched_on_the_device_of_the_tensors(learns, current, monkeypatch):
    devices = use_idle_kernels(monkeypatch, lambda *_: current[0])
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda _: False)
    with Lists(), OtherDevice():
        shapes = (2, 3, 4, 5), (2, 24, 5), (2, 24, 4), (2, 24), (2, 4, 6), (2, 4, 4), (2, 4, 6)
        inputs, *others = [torch.zeros(shape, device=DEVICE, requires_grad=learns) for shape in shapes]
        ops.bi_lstm(inputs, *others, clips=CLIPS)
        rows, bias = (torch.zeros(shape, device=DEVICE, requires_grad=learns) for shape in ((20, 4), (20,)))
        words = torch.arange(6, device=DEVICE)
        ops.sampled_loss(rows[:6], rows, bias, words, words, bias)
    assert devices == [1] * (2 * 3 + 1)


@pytest.fixture
def seen(current, monkeypatch):
    """Returns a list that fills with what happens to stand-ins for streams and graphs, and on which device."""
    seen = []

    class Stream(torch.cuda.Stream):
        def __new__(cls, device):
            return object.__new__(cls)

        def __init__(self, device):
            self.device = device
            seen.append(("stream", device))

        def wait_stream(self, stream):
            assert stream.device == self.device

    class Graph:
        def replay(self):
            seen.append("replay")

    @contextmanager
    def graph(made, pool, stream, capture_error_mode):
        seen.append(("graph", current[0], stream))
        assert not gc.isenabled()  # an older graph that is collected here would break the capture
        try:
            yield
        except torch.OutOfMemoryError:  # as torch does at the end of a capture
            raise RuntimeError("CUDA error: operation failed due to a previous error during capture")  # noqa: B904

    for name, value in {
        "Stream": Stream,
        "stream": lambda stream: torch.cuda.device(stream.device),
        "current_stream": lambda: SimpleNamespace(device=torch.device("cuda", current[0]), wait_stream=lambda _: None),
        "synchronize": lambda: None,
        "CUDAGraph": Graph,
        "graph": graph,
        "graph_pool_handle": lambda: "memory",
    }.items():
        monkeypatch.setattr(torch.cuda, name, value)
    return seen


def test_the_error_inside_a_capture_is_the_one_that_is_told(seen):
    def full():
        if any(each[0] == "graph" for each in seen):
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    with refused("2.00 GiB", error=torch.OutOfMemoryError):
        ops.capture(full, SECOND, lambda: [])


def test_threads_capture_in_turns(seen):
    """A thread that waits for the whole GPU, as each does before it captures, breaks the capture of another."""
    inside, most = [], []

    def function():
        inside.append(threading.get_ident())
        most.append(len(inside))
        time.sleep(0.01)
        inside.pop()

    threads = [threading.Thread(target=ops.capture, args=(function, SECOND, lambda: [])) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(most) > len(threads)
    assert max(most) == 1


def test_a_graph_is_captured_on_its_device(current, seen):
    shared = ops.new_pool(SECOND)
    assert shared is not None
    for pool in (None, shared, None, shared):
        ops.capture(lambda: seen.append(("run", current[0])), SECOND, lambda: [], pool)()
    assert gc.isenabled()
    assert seen.count("replay") == 4
    assert {run for run in seen if run[0] == "run"} == {("run", 1)}
    captured = [made for made in seen if made[0] == "graph"]
    assert {(where, stream.device) for _, where, stream in captured} == {(1, SECOND)}
    # cuBLAS keeps memory for every stream, until one of the graphs that were captured on it ends.
    alone, first, other, second = (stream for _, _, stream in captured)
    assert first is second is shared.stream
    assert len({id(stream) for stream in (alone, first, other)}) == 3
    assert seen.count(("stream", SECOND)) == 3
