"""Tests of downloads share these fixtures. Nothing of elmo is imported before a fixture needs it."""

from collections.abc import Iterator

import pytest
from bad_server import BadServer, serving


@pytest.fixture
def direct(monkeypatch: pytest.MonkeyPatch) -> None:
    """No proxies, and no pauses between tries."""
    from elmo.formats import download

    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(download, "PAUSE", 0.0)


@pytest.fixture
def server(direct: None) -> Iterator[BadServer]:
    with serving() as bad:
        yield bad
