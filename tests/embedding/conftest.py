"""Tests of vectors share these fixtures. Nothing of elmo is imported before a fixture needs it."""

from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def embedder() -> Any:
    """Of a random model of a few numbers, which does not say how its text was split."""
    from tiny import tiny_model

    from elmo.embedding.embedder import Embedder

    return Embedder(tiny_model().bilm(), device="cpu")


@pytest.fixture(scope="session")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A text of some hundred sentences, one a line."""
    from small_corpus import write_corpus

    return write_corpus(tmp_path_factory.mktemp("text") / "text.txt", documents=16)
