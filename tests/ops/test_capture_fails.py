"""What is told of a capture that fails, with stand-ins for streams and graphs."""

from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

import pytest
import torch

from elmo import ops


@contextmanager
def graph(*_, **__):
    try:
        yield
    except Exception:  # as torch does
        raise RuntimeError("CUDA error: operation failed due to a previous error during capture")  # noqa: B904


def test_the_error_inside_a_capture_is_the_one_that_is_told(monkeypatch):
    """Such as a lack of memory; torch raises another one as the capture ends."""
    stream, runs = SimpleNamespace(wait_stream=lambda _: None), []
    monkeypatch.setattr("elmo.ops.captured.streams_of", lambda _: (stream, stream))
    for name, value in {
        "device": lambda _: nullcontext(),
        "stream": lambda _: nullcontext(),
        "current_stream": lambda: stream,
        "synchronize": lambda: None,
        "CUDAGraph": object,
        "graph": graph,
    }.items():
        monkeypatch.setattr(torch.cuda, name, value)

    def full():
        runs.append(len(runs))
        if runs[-1] == 2:  # after both runs of the warm-up
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    with pytest.raises(torch.OutOfMemoryError, match=r"2\.00 GiB"):
        ops.capture(full, torch.device("cuda", 0), lambda: [])
    assert runs == [0, 1, 2]
