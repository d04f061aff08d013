"""Sphinx: `make docs` builds the site with warnings as errors, and executes the tutorials."""

import os
import sys
from pathlib import Path
from typing import Any

from myst_nb.core import render

import elmo

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


render.coalesce_streams = join_streams

project = "elmo"
copyright = "The elmo-torch authors"
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.viewcode", "sphinx_copybutton"]
html_theme = "furo"
version = release = elmo.__version__
html_title = f"elmo {version}"
exclude_patterns = ["_build", "runs", "variants"]
myst_heading_anchors = 3
nb_execution_mode = "cache"
nb_execution_raise_on_error = True
nb_execution_timeout = 600
nb_merge_streams = True
copybutton_prompt_text = "$ "
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
autodoc_inherit_docstrings = False  # torch's page on `forward` is not ours
autodoc_default_options = {"undoc-members": True}
# Links to files of the repository (README, CONTRIBUTING) lie outside of the site.
suppress_warnings = ["myst.xref_missing"]
