"""The laboratory: the paper's task models and probes, built on the library `elmo`, which does not depend on them."""

from pathlib import Path

RECIPES = Path(__file__).parent / "recipes"
"""The packaged recipes, in the folders `tasks` and `probes`."""
