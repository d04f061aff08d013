"""docs/own-network.md: its blocks run as one program, as a reader would type them."""

import re
from pathlib import Path

import pytest
from command import run_program
from places import ROOT

BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_what_the_page_says_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("lightning")
    monkeypatch.chdir(tmp_path)
    blocks = BLOCK.findall((ROOT / "docs" / "own-network.md").read_text(encoding="utf-8"))
    assert len(blocks) >= 5
    done = run_program("\n".join(blocks), {"HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"})
    assert done.returncode == 0, done.stderr
