"""The page of `elmo explore` in a tab of Chromium."""

import csv
import io
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import numpy as np

from elmo.cli.arguments import DEMO_TEXT

KEY = "a-key-of-some-length"
HEADERS = {"authorization": f"Bearer {KEY}"}
MOST = 30
"""Sentences of a request."""
SENTENCES = ["She wrote a play about her family .", "The actors rehearsed the play for a month .", "They play ."]
USES = [
    "money | The bank lost millions when the market fell.",
    "money | She asked the bank for a loan.",
    "river | They sat on the bank of the river. It rained.",
    "river | Ducks built a nest on the grassy bank of the pond.",
]
SMALL = {"s": "\n".join(SENTENCES), "w": "play", "e": SENTENCES[0], "place": "", "u": "\n".join(USES), "x": "bank"}
"""A state whose sentences are few, so that each test takes the model little time."""
INDEXED = Path(str(DEMO_TEXT)).read_text(encoding="utf-8").splitlines()[14:24]
TYPED = 400
"""Milliseconds: longer than the page waits for the next letter."""


def address(**state: str) -> str:
    return "/#" + urlencode(SMALL | state)


class Tab:
    """A page of its own, and what its console complains about."""

    def __init__(self, window, url: str, width: int, height: int, key: str = KEY, **context) -> None:
        size = {"width": width, "height": height}
        self.context = window.new_context(reduced_motion="reduce", viewport=size, **context)
        if key:
            self.context.add_init_script(f"sessionStorage.setItem('elmo-key', '{key}')")
        self.context.set_default_timeout(30_000)
        self.context.grant_permissions(["clipboard-read", "clipboard-write"])
        self.url, self.page = url, self.context.new_page()
        self.complaints: list[str] = []
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("console", lambda said: self.complaints.append(said.text) if said.type == "error" else None)

    def go(self, **state: str):
        self.page.mouse.move(0, 0)  # not over a picture, which would answer
        self.page.goto(self.url + address(**state))
        self.page.wait_for_selector("#uses .point")
        self.settle()
        return self.page

    def settle(self, wait: int = 50) -> None:
        """All that was asked for is there, by the clock of the page itself: `TYPED` after text was typed."""
        self.page.evaluate("(wait) => new Promise((done) => setTimeout(done, wait))", wait)
        self.page.wait_for_selector("[aria-busy]", state="detached")

    def ask(self, path: str, content: object = None) -> Any:
        """What the server says by itself."""
        method = "GET" if content is None else "POST"
        answer = httpx.request(method, self.url + path, json=content, headers=HEADERS, timeout=30)
        return answer.json() if "json" in answer.headers["content-type"] else answer.text


def numbers(page, figure: str) -> list[list[str]]:
    """What `Copy as CSV` copies."""
    page.click(f"{figure} button:text('Copy as CSV')")
    page.wait_for_selector("#said:has-text('Copied the numbers')", state="attached")
    return list(csv.reader(io.StringIO(page.evaluate("navigator.clipboard.readText()"))))


def call(page, function: str, *given: object) -> Any:
    """What a function of the page's modules returns, as in `numbers.csv`."""
    module, _, name = function.partition(".")
    return page.evaluate(f"async (given) => (await import('/static/{module}.js')).{name}(...given)", given)


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))
