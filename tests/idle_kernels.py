"""Kernels that compute nothing, in place of Triton's: for what happens around their launches."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

NAMES = ("cell_forward", "cell_backward", "clip_forward", "clip_backward", "softmax_row")


class Idle:
    """Calls a function at every launch."""

    def __init__(self, launch: Callable[..., object]) -> None:
        self._launch = launch

    def __getitem__(self, grid: Any) -> Any:
        return self._launch


def use_idle_kernels(monkeypatch: pytest.MonkeyPatch, seen: Callable[..., Any] = lambda *_: None) -> list[Any]:
    """Has these kernels on all devices during a test; returns the list of what is `seen` of their launches."""
    found: list[Any] = []
    kernels = ModuleType("kernels")
    vars(kernels).update(dict.fromkeys(NAMES, Idle(lambda *arguments, **_: found.append(seen(*arguments)))))
    for place in ("elmo.ops", "elmo.ops.lstm", "elmo.ops.rows"):
        monkeypatch.setattr(f"{place}.has_kernels", lambda _: True)
    monkeypatch.setattr("elmo.ops.fused.kernels_for", lambda _: kernels)
    return found
