"""The six task models of the paper, each in one file, with and without ELMo (Peters et al. 2018, sec. 4)."""

from typing import Any


def load(*runs: Any, **options: Any) -> Any:
    """Loads trained networks as a `Tagger`, which takes texts; see `elmo_lab.tasks.tagger.load`."""
    from elmo_lab.tasks import tagger

    return tagger.load(*runs, **options)
