"""The tutorials are notebooks that Jupyter opens. `make docs` runs their cells; the extra `docs` writes them."""

import importlib.util
from pathlib import Path

import pytest
from places import ROOT

TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_a_tutorial_offers_itself_as_a_notebook(page: Path, tmp_path: Path) -> None:
    pytest.importorskip("myst_nb", reason="the extra docs is not installed")
    nbformat = pytest.importorskip("nbformat")
    spec = importlib.util.spec_from_file_location("conf", ROOT / "docs" / "conf.py")
    assert spec is not None
    assert spec.loader is not None
    conf = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(conf)
    written = conf.write_notebook(page, tmp_path)
    notebook = nbformat.read(written, 4)
    nbformat.validate(notebook)
    for cell in notebook.cells:
        if cell.cell_type == "code" and not cell.source.startswith("%%"):
            compile(cell.source, page.name, "exec")
    assert f"</_build/notebooks/{written.name}>" in page.read_text(encoding="utf-8")
