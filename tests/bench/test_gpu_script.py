"""`benchmarks/gpu.py` as far as it runs without a GPU: time on one is short, so it has to be right at the first run."""

import importlib.util
import os
import re
import subprocess
import sys

import pytest
from command import TIMEOUT
from places import ROOT

SCRIPT = ROOT / "benchmarks" / "gpu.py"
needs_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")


@needs_triton
@pytest.mark.slow
def test_all_parts_run_by_the_interpreter(tmp_path):
    (tmp_path / "text.txt").write_text(
        "A quiet harbour lay there .\nIt rained all night long .\n" * 30, encoding="utf-8"
    )
    (tmp_path / "curve.json").write_text('{"curve": [{"step": 35, "loss": 6.839, "lr": 0.00267}]}', encoding="utf-8")
    parts = ("right", "steps", "train", "resume", "embed", "recipe")
    done = subprocess.run(
        [sys.executable, SCRIPT, "--device", "cpu", "--tiny", "--seconds", "1000", "--text", tmp_path / "text.txt",
         "--curve", tmp_path / "curve.json", "--parts", *parts],
        env={**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=TIMEOUT, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    found = dict(re.findall(r"^(\w+) \(\d+ s\)\n(.*?)(?=\n\n)", done.stdout, re.MULTILINE | re.DOTALL))
    assert tuple(found) == parts
    assert "windows: 0 differences" in found["right"]
    for line in found["right"].splitlines()[1:]:
        assert float(line.rpartition(" ")[2]) < 0.1
    assert "| tiny | 2 x 2, 8 |" in found["steps"]
    assert "words/s" in found["train"]
    assert found["resume"].endswith("equal")
    assert found["embed"].count("tokens/s") == 2
    assert re.search(r"up to step 2: \d+\.\d+; the curve has 6\.839", found["recipe"])


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    return importlib.import_module("gpu")


def test_a_part_that_fails_does_not_stop_the_others(script, capsys):
    ran = []

    def failing() -> None:
        raise RuntimeError("out of memory")

    parts = {"one": failing, "two": lambda: ran.append("two")}
    assert script.run_parts(parts, script.time.perf_counter(), 100) == ["one"]
    assert ran == ["two"]
    assert "out of memory" in capsys.readouterr().out
    assert script.run_parts(parts, script.time.perf_counter() - 200, 100) == ["one", "two"]
    assert ran == ["two"]
