"""The tutorials are notebooks that Jupyter opens. `make docs` runs their cells; the extra `docs` writes them."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from places import ROOT

TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
PROGRAM = """
import sys
from pathlib import Path
sys.path.insert(0, "docs")
import conf, nbformat
for page in sorted(Path("docs/tutorials").glob("*.md")):
    nbformat.validate(nbformat.read(conf.write_notebook(page, Path(sys.argv[1])), 4))
"""
"""In a process of its own: a package that myst_nb imports replaces classes of importlib.metadata for all."""


@pytest.mark.skipif(find_spec("myst_nb") is None, reason="the extra docs is not installed")
def test_tutorials_offer_themselves_as_notebooks(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for page in TUTORIALS:
        notebook = json.loads((tmp_path / f"{page.stem}.ipynb").read_text(encoding="utf-8"))
        sources = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
        assert sources
        for source in sources:
            source.startswith("%%") or compile(source, page.name, "exec")
        assert f"</_build/notebooks/{page.stem}.ipynb>" in page.read_text(encoding="utf-8")
