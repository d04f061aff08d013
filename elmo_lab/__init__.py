"""The laboratory: the paper's task models and probes, built on the library `elmo`, which needs nothing of them."""

from pathlib import Path

RECIPES = Path(__file__).parent / "recipes"
"""The packaged recipes, in folders: `tasks` and `probes`."""
