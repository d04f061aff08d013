"""The tests of several integrations share these fixtures. Nothing of elmo is imported before a fixture needs it."""

from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small model in the native format."""
    from tiny import tiny_model

    from elmo.formats import native

    folder = tmp_path_factory.mktemp("model") / "model"
    native.save(tiny_model(), folder)
    return folder
