"""Sphinx: `make docs` builds the site with warnings as errors, and executes the tutorials."""

import os
import sys
from pathlib import Path
from typing import Any

import nbformat
from myst_nb.core import render
from myst_nb.core.read import read_myst_markdown_notebook

import elmo

HERE = Path(__file__).parent
NOTEBOOKS = HERE / "_build" / "notebooks"
"""Where the tutorials are notebooks, which their pages offer for download."""

# Commands in tutorials are those of this environment.
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"


def join_streams(outputs: list[Any]) -> list[Any]:
    """IPython passes output on in pieces of 100 bytes, and MyST-NB would end each with a line feed."""
    joined: list[Any] = []
    for output in outputs:
        before = joined[-1] if joined else {}
        if output["output_type"] == "stream" and output["name"] == before.get("name"):
            before["text"] += output["text"]
        else:
            joined.append(output)
    return joined


def write_notebook(page: Path, folder: Path = NOTEBOOKS) -> Path:
    """Writes a tutorial as a notebook, without outputs; the same page gives the same bytes."""
    notebook = read_myst_markdown_notebook(page.read_text(encoding="utf-8"))
    notebook.metadata.pop("file_format", None)
    notebook.cells = [cell for cell in notebook.cells if "remove-cell" not in cell.metadata.get("tags", ())]
    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{number}"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{page.stem}.ipynb"
    nbformat.write(notebook, path)
    return path


render.coalesce_streams = join_streams
for tutorial in sorted((HERE / "tutorials").glob("*.md")):
    write_notebook(tutorial)

project = "elmo"
copyright = "The elmo-torch authors"
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.viewcode", "sphinx_copybutton"]
html_theme = "furo"
version = release = elmo.__version__
html_title = f"elmo {version}"
exclude_patterns = ["_build", "runs", "variants"]
myst_heading_anchors = 4
nb_execution_mode = "cache"
nb_execution_raise_on_error = True
nb_execution_timeout = 600
nb_merge_streams = True
copybutton_prompt_text = "$ "
smartquotes = False  # they would make dashes of the options in plain text
default_role = "py:obj"  # `name` in docstrings is code, and a link where there is a page of it
python_maximum_signature_line_length = 88
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
autodoc_inherit_docstrings = False  # torch's page on `forward` is not ours
autodoc_default_options = {"undoc-members": True}
# Links to files of the repository (README, CONTRIBUTING) lie outside of the site.
# Several modules have a `load` or a `Row`; a docstring means that of its own.
suppress_warnings = ["myst.xref_missing", "ref.python"]
