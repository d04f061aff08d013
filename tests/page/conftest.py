"""A server for all tests of the page, and a browser for each file.

Like the conftest above, this one imports nothing of elmo.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from browser import Browser

if TYPE_CHECKING:
    from tabs import Tab

    import elmo


@pytest.fixture(scope="session")
def embedder() -> elmo.Embedder:
    import elmo

    return elmo.load(device="cpu")


@pytest.fixture(scope="session")
def server(tmp_path_factory, embedder) -> Iterator[str]:
    """The address of a server with an index, a key and a small limit."""
    from served import kill, start
    from tabs import INDEXED, KEY, MOST

    from elmo.formats.opened import open_model
    from elmo.search import index

    folder = tmp_path_factory.mktemp("server")
    card = open_model("default").card()
    index.build_index(
        embedder,
        [each.split() for each in INDEXED],
        folder / "index",
        index.IndexRecord(card, ("text.txt",), "0", (2,)),
    )
    flags = "--most-sentences", str(MOST), "--index", str(folder / "index")
    served = start(folder / "log", *flags, ELMO_API_KEY=KEY)
    yield served.url
    kill(served)  # how a server ends well is tested in test_server
    assert KEY not in (folder / "log").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def window(chromium: Browser) -> Iterator:
    """Chromium, driven. Its event loop would stop the tests of other files that have one of their own."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        window = driver.chromium.launch(executable_path=chromium.program, args=["--no-sandbox"])
        yield window
        window.close()


@pytest.fixture(scope="module")
def tab(window, server) -> Iterator[Tab]:
    """One for all tests of a file that need nothing special; another address in it changes the state, not the page."""
    from tabs import Tab

    tab = Tab(window, server, 1200, 900)
    yield tab
    assert not tab.complaints
    tab.context.close()


@pytest.fixture
def opened(window, server) -> Iterator[Callable[..., Tab]]:
    """Opens tabs of other sizes, about which nothing may be complained at the end of the test."""
    from tabs import Tab

    tabs: list[Tab] = []

    def open_one(width: int = 1000, height: int = 800, **context: Any) -> Tab:
        tabs.append(Tab(window, server, width, height, **context))
        return tabs[-1]

    yield open_one
    for tab in tabs:
        assert not tab.complaints
        tab.context.close()
