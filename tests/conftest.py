"""What all tests share. Nothing of elmo is imported here: jaxtyping's checks must see each module's first import."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import jaxtyping
import pytest
import torch
import typechecker
from browser import Browser
from hypothesis import settings
from other_device import DEVICE, Lists, OtherDevice

jaxtyping.jaxtyped = typechecker.sparing(jaxtyping.jaxtyped)  # by that name its hook decorates what is imported

settings.register_profile("local", deadline=None, max_examples=25)
settings.register_profile("ci", deadline=None, max_examples=25, derandomize=True, database=None)
settings.load_profile("ci" if os.environ.get("CI") else "local")

torch.set_num_threads(1)  # the workers of pytest-xdist share the cores; and sums in one order


@pytest.fixture(autouse=True)
def _seed() -> None:
    """Every test draws the same numbers, and has one thread, whatever ran before it."""
    torch.manual_seed(20180216)
    torch.set_num_threads(1)


@pytest.fixture
def doubles() -> Iterator[None]:
    """New tensors are float64 unless they are told otherwise."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of data that cannot be committed, for tests marked `shared`.

    Skips where the variable ELMO_SHARED is not set; fails where it is set and names no folder.
    """
    root = os.environ.get("ELMO_SHARED")
    if not root:
        pytest.skip("ELMO_SHARED is not set: not run without the data that cannot be committed")
    if not Path(root).is_dir():
        pytest.fail(f"ELMO_SHARED is {root!r}, which is no folder")
    return Path(root)


@pytest.fixture(scope="session")
def chromium() -> Browser:
    """A browser, for tests that open pages.

    Skips where there is none and the variable ELMO_CHROMIUM is not set; fails where it is set and names no program.
    """
    named = os.environ.get("ELMO_CHROMIUM")
    program = shutil.which(named or "chromium")
    if program is None and named:
        pytest.fail(f"ELMO_CHROMIUM is {named!r}, which is no program; install it, or name another")
    if program is None:
        pytest.skip("chromium is not installed: pages are not opened")
    return Browser(program)


@pytest.fixture(params=["simulated", *(["cuda"] if torch.cuda.is_available() else [])])
def there(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[torch.device]:
    """Another device; something is computed on it during the test."""
    if request.param == "cuda":
        monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)  # as when elmo trains
        torch.cuda.reset_peak_memory_stats()
        yield torch.device("cuda")
        assert torch.cuda.max_memory_allocated()
        return
    known = torch.is_autocast_enabled
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda kind: kind != DEVICE.type and known(kind))
    with Lists(), OtherDevice() as mode:
        yield DEVICE
    assert mode.operations


def pytest_runtest_logstart() -> None:
    """Every test checks annotations anew, those of its fixtures included."""
    typechecker.calls.clear()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Whoever asks for the fixture `shared`, or for a browser, carries the marker. Engines have a run of their own."""
    for item in items:
        for kind in ("engines", "processes"):
            if item.get_closest_marker(kind) and kind not in config.option.markexpr:
                item.add_marker(pytest.mark.skip(reason=f"run by `make test-{kind}`"))
        for fixture, marker in (("shared", "shared"), ("chromium", "browser")):
            if fixture in getattr(item, "fixturenames", ()):
                item.add_marker(marker)
