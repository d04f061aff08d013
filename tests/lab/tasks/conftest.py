"""What tests of tasks share."""

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def file(tmp_path: Path) -> Callable[..., Path]:
    """Writes a text or bytes to a file, whose name is `input` or the second argument."""

    def write(text: str | bytes, name: str = "input") -> Path:
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write
