"""docs/own-network.md: its blocks run as one program, as a reader would type them."""

from pathlib import Path

import pytest
from command import run_program
from pages import blocks, read


def test_what_the_page_says_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("lightning")
    monkeypatch.chdir(tmp_path)
    parts = blocks(read("docs/own-network.md"), "python")
    assert len(parts) >= 5
    done = run_program("\n".join(parts), {"HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"})
    assert done.returncode == 0, done.stderr
