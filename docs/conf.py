"""Sphinx: `make docs` builds the site with warnings as errors."""

project = "elmo"
copyright = "The elmo-torch authors"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode"]
html_theme = "furo"
html_title = "elmo"
exclude_patterns = ["_build", "runs"]
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
autodoc_inherit_docstrings = False  # torch's page on `forward` is not ours
autodoc_default_options = {"undoc-members": True}
# Links to files of the repository (README, CONTRIBUTING) lie outside of the site.
suppress_warnings = ["myst.xref_missing"]
