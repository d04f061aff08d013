"""The page of `elmo explore` in Chromium: by mouse, by keys, on a phone, in the dark, and when something is wrong.

What it shows is compared with the model, and what it computes itself with numpy.
"""

import argparse
import csv
import io
import json
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from xml.etree import ElementTree

import httpx
import numpy as np
import pytest
import torch
from axe_playwright_python.sync_playwright import Axe
from browser import Browser
from playwright.sync_api import sync_playwright
from served import kill, start

import elmo
from elmo.cli import serving
from elmo.cli.arguments import DEMO_TEXT
from elmo.formats.opened import open_model
from elmo.model.scalar_mix import ScalarMix
from elmo.search import index

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
STATIC = Path(serving.__file__).parents[1] / "server" / "static"


def address(**state: str) -> str:
    return "/#" + urlencode(SMALL | state)


@pytest.fixture(scope="module")
def embedder() -> elmo.Embedder:
    return elmo.load(device="cpu")


@pytest.fixture(scope="module")
def server(tmp_path_factory, embedder) -> Iterator[str]:
    """The address of a server with an index, a key and a small limit."""
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
    """Chromium, driven."""
    with sync_playwright() as driver:
        window = driver.chromium.launch(executable_path=chromium.program, args=["--no-sandbox"])
        yield window
        window.close()


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


@pytest.fixture(scope="module")
def tab(window, server) -> Iterator[Tab]:
    """One for all tests that need nothing special; another address in it changes the state, not the page."""
    tab = Tab(window, server, 1200, 900)
    yield tab
    assert not tab.complaints
    tab.context.close()


@pytest.fixture
def opened(window, server) -> Iterator[Callable[..., Tab]]:
    """Opens tabs of other sizes, about which nothing may be complained at the end of the test."""
    tabs: list[Tab] = []

    def open_one(width: int = 1000, height: int = 800, **context: Any) -> Tab:
        tabs.append(Tab(window, server, width, height, **context))
        return tabs[-1]

    yield open_one
    for tab in tabs:
        assert not tab.complaints
        tab.context.close()


def numbers(page, figure: str) -> list[list[str]]:
    """What `Copy as CSV` copies."""
    page.click(f"{figure} button:text('Copy as CSV')")
    page.wait_for_selector("#said:has-text('Copied the numbers')", state="attached")
    return list(csv.reader(io.StringIO(page.evaluate("navigator.clipboard.readText()"))))


def call(page, function: str, *given: object) -> Any:
    """What a function of the page's modules returns, as in `numbers.csv`."""
    module, _, name = function.partition(".")
    return page.evaluate(f"async (given) => (await import('/static/{module}.js')).{name}(...given)", given)


def trouble_with_scores(page, answer: Callable[[Any], None]) -> str:
    """Types a sentence, of which `answer` gives the scores, and returns what the page says of it."""
    page.route("**/score", answer)
    page.fill("#expects-text", "They play chess .")
    page.wait_for_selector("#expects > .trouble:visible")
    return page.inner_text("#expects > .trouble")


def ask_scores_again(page) -> None:
    """Lets the server answer again, and clicks the button beside the trouble."""
    page.unroute("**/score")
    page.click("#expects > .trouble button")
    page.wait_for_selector("#expects > .trouble", state="hidden")


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


# Without a browser


def test_page_and_its_files_need_no_key_but_the_rest_does(server):
    for path in ("/", *(f"/static/{file.name}" for file in STATIC.iterdir())):
        answer = httpx.get(server + path)
        assert answer.status_code == 200
        assert "unsafe" not in answer.headers["content-security-policy"]
        assert "script-src 'self'" in answer.headers["content-security-policy"]
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
    for path in ("/info", "/static/", "/static/nothing.js"):
        assert httpx.get(server + path).status_code == 401, path


@pytest.mark.parametrize(
    "path",
    ["/static/app.py", "/static/..%2fapp.py", "/static/%2e%2e/page.py", "/static//etc/passwd"],
)
def test_no_path_opens_a_file(server, path):
    assert httpx.get(server + path, headers=HEADERS).status_code == 404


def test_page_has_no_inline_script_or_style_and_loads_nothing_from_elsewhere():
    page = (STATIC / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"<script(?![^>]* src=)|<style|\sstyle=|\son\w+=", page)
    for file in STATIC.iterdir():
        text = file.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        text = re.sub(r'<a href="https://[^"]*"', "", text)  # a link, which loads nothing
        assert not re.search(r"https?://|innerHTML|\beval\b", text), file.name


def test_explore_opens_the_browser_unless_it_may_not(monkeypatch, capsys):
    opened, done = [], threading.Event()

    def serve(config, host, port, key, started) -> None:
        assert (host, port, key) == ("127.0.0.1", 0, None)
        started("http://127.0.0.1:1")

    monkeypatch.setattr("elmo.server.run.serve", serve)
    monkeypatch.setattr("webbrowser.open", lambda url: (opened.append(url), done.set()))
    for silent in (True, False):
        serving.explore_verb(argparse.Namespace(model="default", index=None, no_browser=silent))
        assert "http://127.0.0.1:1" in capsys.readouterr().out
        assert silent or done.wait(10)
        assert opened == ([] if silent else ["http://127.0.0.1:1"])


# What the page computes


def test_numbers_of_the_page_are_those_of_numpy(tab):
    page = tab.go()
    rng = np.random.default_rng(7)
    vectors = rng.normal(size=(23, 40)) * np.linspace(3, 0.1, 40)
    found = call(page, "numbers.plane", vectors.tolist())
    left, sizes, _ = np.linalg.svd(vectors - vectors.mean(0), full_matrices=False)
    expected = left[:, :2] * sizes[:2]
    points = np.array(found["points"])
    signs = np.sign((points * expected).sum(0))
    np.testing.assert_allclose(points, expected * signs, atol=1e-4)
    np.testing.assert_allclose(found["parts"], sizes[:2] ** 2 / (sizes**2).sum(), atol=1e-6)

    assert call(page, "numbers.plane", [[1, 2]] * 3) == {"points": [[0, 0]] * 3, "parts": [0, 0]}

    layers, weights = rng.normal(size=(3, 8)), [0.5, -1.0, 2.0]
    mix = ScalarMix(3)
    mix.load_state_dict({"scalars": torch.tensor(weights), "gamma": torch.tensor(1.5)})
    with torch.no_grad():
        read = torch.tensor(layers, dtype=torch.float32)[:, None, None]
        expected = mix(read, torch.ones(1, 1, dtype=torch.bool))[0, 0].numpy()
    mixed = page.evaluate(
        "async ([layers, weights]) => [...(await import('/static/numbers.js')).mixed(layers, weights, 1.5)]",
        [layers.tolist(), weights],
    )
    np.testing.assert_allclose(mixed, expected, atol=1e-5)

    rows = [["a,b", 'say "so"', "two\nlines"], ["", "0.5", "-1"]]
    assert list(csv.reader(io.StringIO(call(page, "numbers.csv", rows)))) == rows
    assert call(page, "numbers.csv", [[0, 1, 0.25, 6.08e-7, -12.3456789]]) == "0,1,0.25,6.08e-7,-12.34568\n"


# One word, two senses


def test_uses_are_one_point_at_layer_0_and_part_by_the_slider(tab, embedder):
    page = tab.go(h="0")
    places = "[...document.querySelectorAll('#senses-plane [data-use] circle')].map((c) => [c.cx, c.cy])"
    places = places.replace("c.cx, c.cy", "c.cx.baseVal.value, c.cy.baseVal.value")
    texts = [each.partition(" ")[2] for each in page.locator("#senses-list .use").all_inner_texts()]
    assert len(texts) == 4
    read = tab.ask("/vectors", {"sentences": texts})["sentences"]
    vectors = np.array([np.array(each["vectors"])[:, each["tokens"].index("play")] for each in read])
    head, *rows = numbers(page, "#senses-plane")
    assert head[1:3] == ["mean cosine, same sense", "other sense"]
    for layer, row in enumerate(rows):
        found = [[cosine(a[layer], b[layer]) for a in vectors] for b in vectors]
        same = (found[0][1] + found[2][3]) / 2
        other = float(np.mean([found[i][j] for i in (0, 1) for j in (2, 3)]))
        np.testing.assert_allclose([float(row[1]), float(row[2])], [same, other], atol=1e-4)
        assert 0 < float(row[3]) < 0.9
    page.click("#senses-plane summary")
    page.wait_for_selector("#senses-plane td")
    page.focus("#senses-layer")
    page.keyboard.press("End")
    apart = np.ptp(page.evaluate(places), axis=0).max()
    page.keyboard.press("ArrowLeft")
    assert "between layers 1 and 2" in page.inner_text("#senses-at")
    page.keyboard.press("Home")
    assert np.ptp(page.evaluate(places), axis=0).max() < 5 < 60 < apart
    assert page.inner_text("#senses-at") == "layer 0"
    assert page.inner_text("#senses-mean") == "Mean cosine at layer 0"
    assert page.is_visible("#senses-plane td"), "the table stays open"
    page.click("#senses-plane summary")


def test_a_picture_has_the_names_of_its_own_numbers_while_another_is_on_its_way(tab):
    page = tab.go(h="0")
    waiting: list = []
    page.route("**/vectors", lambda route: waiting.append(route))
    page.click("#senses-examples button:nth-of-type(2)")
    page.focus("#senses-layer")
    page.keyboard.press("Home")
    assert "play" in (page.text_content("#senses-plane .name") or "")
    assert page.is_hidden("#senses-numbers")
    assert page.is_hidden("#senses-note")
    for route in waiting:
        route.continue_()
    page.unroute("**/vectors")
    tab.settle()
    assert "plant" in (page.text_content("#senses-plane .name") or "")
    assert page.is_visible("#senses-numbers")


def test_the_card_is_shown_where_the_key_is_known(tab):
    page = tab.go()
    page.click("#card summary")
    page.wait_for_selector("#card pre")
    assert json.loads(page.text_content("#card pre") or "") == tab.ask("/card")
    page.click("#card summary")


def test_back_returns_to_the_choice_before(tab):
    page = tab.go(h="0")
    page.click("#senses-examples button:nth-of-type(2)")
    tab.settle()
    page.click("#word-sentences li:nth-child(3) >> text=They")
    page.go_back()
    page.wait_for_function("document.getElementById('word-word').value === 'play'")
    assert page.get_attribute("#senses-examples button:nth-of-type(2)", "aria-pressed") == "true"
    page.go_back()
    page.wait_for_selector("#senses-examples button:nth-of-type(1)[aria-pressed=true]")
    tab.settle()


# A word in two sentences


def test_a_word_is_compared_at_every_layer_and_in_the_mix(tab, embedder):
    page = tab.go(w="nothing")
    assert "nowhere" in page.inner_text("#word-note")
    page.click("#word-sentences >> text=rehearsed")
    assert "only once" in page.inner_text("#word-note")
    page.click("#word-sentences li:nth-child(3) >> text=play")
    assert page.input_value("#word-word") == "play"
    assert page.locator('#word-sentences [aria-pressed="true"]').count() == 3

    page.focus("#mix-2")
    page.keyboard.press("Home")  # -4
    page.focus("#mix-0")
    page.keyboard.press("End")
    page.keyboard.press("ArrowLeft")
    tab.settle()
    weights = np.array([3.9, 0, -4])
    shares = np.exp(weights) / np.exp(weights).sum()
    vectors = [
        array[:, tokens.index("play")]
        for array, tokens in zip(
            embedder.embed([each.split() for each in SENTENCES]), map(str.split, SENTENCES), strict=True
        )
    ]
    vectors = [np.concatenate([each, (shares @ each)[None]]) for each in vectors]
    head, *rows = numbers(page, "#word-chart")
    assert head == ["pair", "layer 0", "layer 1", "layer 2", "mix"]
    *rows, unrelated = rows
    assert unrelated[0] == "unrelated words, mean"
    assert all(0 < float(value) < 0.9 for value in unrelated[1:])
    assert [row[0] for row in rows] == ["1–2", "1–3", "2–3"]
    for row, (i, j) in zip(rows, ((0, 1), (0, 2), (1, 2)), strict=True):
        expected = [cosine(a, b) for a, b in zip(vectors[i], vectors[j], strict=True)]
        np.testing.assert_allclose(list(map(float, row[1:])), expected, atol=1e-4)
    page.click("text=Even weights")
    assert page.input_value("#mix-0") == "0"


def test_a_token_with_a_comma_is_a_word(tab):
    page = tab.go(s="I paid 1,000 dollars .\nShe paid 1,000 euros .", w="")
    page.click("#word-sentences li:first-child >> text=1,000")
    assert "“1,000”: each line is a pair" in page.inner_text("#word-note")
    assert page.locator('#word-sentences [aria-pressed="true"]').count() == 2
    page.fill("#word-word", "paid,dollars, I")
    assert page.locator('#word-sentences [aria-pressed="true"]').count() == 4


def test_occurrences_in_one_sentence_have_names_of_their_own(tab):
    page = tab.go(s="They play a play .\nA play .", w="play")
    assert [row[0] for row in numbers(page, "#word-chart")[1:-1]] == [
        "play 1a–play 1b",
        "play 1a–play 2",
        "play 1b–play 2",
    ]


def test_words_that_look_alike_are_one_word(tab):
    alike = ["caf\u00e9", "Cafe\u0301", "ca\u00adf\u00e9"]  # composed, decomposed, and hyphenated by a PDF
    text = "\n".join(f"A {word} opened ." for word in alike)
    page = tab.go(s=text, w=alike[1], u=text, x=alike[0])
    assert page.locator('#word-sentences [aria-pressed="true"]').count() == 3
    assert page.locator("#uses-plane-right .point").count() == 3


def test_without_a_text_nothing_of_an_earlier_one_is_left(tab):
    page = tab.go()
    assert "lengths" in page.inner_text("#word-length")
    for field in ("#word-text", "#expects-text"):
        page.fill(field, "")
    tab.settle(TYPED)
    assert page.inner_text("#word-length") == page.inner_text("#word-cell") == ""
    assert "Type sentences" in page.inner_text("#word-note")
    assert "Type a sentence" in page.inner_text("#expects-note")
    assert page.is_hidden("#expects-numbers")
    assert page.is_hidden("#expects-key")


def test_a_paragraph_becomes_sentences(tab):
    long = (
        "The actors rehearsed the play for a month before the theatre opened its doors again to the people of the town."
    )
    page = tab.go(s=f"{long} They play football in the park beside the river every Sunday.", e=f"{long} {long}")
    assert page.locator("#word-sentences li").count() == 2
    assert page.locator("#expects .glosses").count() == 2


def test_text_from_right_to_left_stands_so(tab):
    hebrew = ["הוא", "קרא", "ספר"]
    text = " ".join(hebrew)
    page = tab.go(s=text, w=hebrew[1], e=text, u=text, x=hebrew[1])
    for field in ("word-text", "word-word", "expects-text", "uses-text", "uses-word"):
        assert page.evaluate(f"getComputedStyle(document.getElementById('{field}')).direction") == "rtl"
    for tokens in ("#word-sentences button", "#expects .gloss"):
        left = [each.bounding_box()["x"] for each in page.locator(tokens).all()]
        assert len(left) == 3
        assert left == sorted(left, reverse=True)
    assert page.evaluate("getComputedStyle(document.querySelector('#uses-sentence bdi')).direction") == "rtl"
    assert page.text_content("#uses-sentence bdi") == text


def test_the_heat_map_is_walked_by_keys_and_its_table_has_every_pair(tab, embedder):
    page = tab.go(heat="1")
    assert page.is_checked("#word-layers input[value='1']")
    page.focus("#word-heat svg")
    for key in ("ArrowDown", "ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
    vectors = np.concatenate([each[1] for each in embedder.embed([each.split() for each in SENTENCES])])
    said = page.inner_text("#word-cell")
    assert said.startswith("wrote (1) and play (1), layer 1: ")
    np.testing.assert_allclose(float(said.rpartition(" ")[2]), cosine(vectors[1], vectors[3]), atol=1e-3)
    page.click("#word-heat summary")
    page.wait_for_selector("#word-heat td")
    cells = page.locator("#word-heat tbody td").all_inner_texts()
    side = len(vectors)
    seen = np.array(cells).reshape(side, side + 1)[:, 1:].astype(float)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    np.testing.assert_allclose(seen, unit @ unit.T, atol=2e-3)


def test_pictures_are_saved_so_that_they_need_no_style_sheet(tab):
    from PIL import Image

    page = tab.go()
    with page.expect_download() as saved:
        page.click("#word-heat >> text=Save SVG")
    tree = ElementTree.fromstring(Path(saved.value.path()).read_text(encoding="utf-8"))
    cells = [each for each in tree.iter("{http://www.w3.org/2000/svg}rect") if each.get("class") is None]
    assert len({each.get("fill") for each in cells}) > 20
    assert all(re.fullmatch(r"rgba?\([\d., ]+\)|none", each.get("fill", "")) for each in cells)
    with page.expect_download() as saved:
        page.click("#word-chart >> text=Save PNG")
    with Image.open(saved.value.path()) as image:
        assert len(image.convert("RGB").getcolors(1 << 20) or []) > 20
    with page.expect_download() as saved:
        page.click("#uses-plane-right >> text=Save SVG")
    tree = ElementTree.fromstring(Path(saved.value.path()).read_text(encoding="utf-8"))
    halos = [each for each in tree.iter("{http://www.w3.org/2000/svg}circle") if each.get("fill-opacity") != "0.000"]
    assert [each.get("fill-opacity") for each in halos] == ["0.220"] * (len(USES) - 1)
    words = [each.text or "" for each in tree.iter("{http://www.w3.org/2000/svg}text")]
    assert words[0].startswith("Uses of “bank”, layer 2")
    assert words[1:3] == ["money", "river"]


def test_any_token_can_be_saved_and_a_png_that_fails_is_said(tab):
    page = tab.go()
    broken = page.evaluate(
        """async () => {
          const picture = document.querySelector("#word-heat svg").cloneNode(true);
          picture.querySelector("text").textContent = "a\\u0001b\\uffff";
          return (await import("/static/save.js")).drawing(picture).text();
        }"""
    )
    (first, *_) = ElementTree.fromstring(broken).iter("{http://www.w3.org/2000/svg}text")
    assert first.text == "a\ufffdb\ufffd"
    page.evaluate(
        """() => {
          window.decode = HTMLImageElement.prototype.decode;
          HTMLImageElement.prototype.decode = () => Promise.reject(new Error("no"));
        }"""
    )
    page.click("#word-heat >> text=Save PNG")
    page.wait_for_selector("#said:has-text('no PNG')", state="attached")
    page.evaluate("() => { HTMLImageElement.prototype.decode = decode; }")


# What the model expects


def test_surprisals_are_those_of_the_server_and_substitutes_come_by_key(tab):
    page = tab.go(e="She wrote a blorfk .")
    assert page.locator("#expects .gloss").nth(3).locator(".hatched").count() == 2
    assert "no surprisal of its own" in page.inner_text("#expects-note")
    assert numbers(page, "#expects-numbers")[4][2:] == ["", "", "no"]
    page = tab.go()
    (scores,) = tab.ask("/score", {"sentences": [SENTENCES[0]]})["sentences"]
    rows = numbers(page, "#expects-numbers")[1:]
    assert [row[1] for row in rows] == scores["tokens"]
    for column, side in ((2, "forward"), (3, "backward")):
        expected = -np.array(scores[side]) / np.log(2)
        np.testing.assert_allclose([float(row[column]) for row in rows], expected, atol=1e-4)

    assert page.is_hidden("#substitutes")
    page.focus("[data-word='0.3']")
    page.keyboard.press("Enter")
    page.wait_for_selector("#said.unseen:has-text('Substitutes for play')", state="attached")  # they are seen anyway
    asked = {"sentence": SENTENCES[0], "position": 3, "k": 12}
    best = tab.ask("/substitutes", asked)["substitutes"]
    assert page.locator("#substitutes-list li button").all_inner_texts() == [each["word"] for each in best]
    assert page.evaluate("document.activeElement.dataset.word") == "0.3"

    page.check("#substitutes-side input[value='backward']")
    tab.settle()
    best = tab.ask("/substitutes", asked | {"side": "backward"})["substitutes"]
    assert page.locator("#substitutes-list li button").all_inner_texts() == [each["word"] for each in best]
    page.click("#substitutes-list li:nth-child(2) button")
    tab.settle()
    assert page.input_value("#expects-text").split()[3] == best[1]["word"]
    page.click("[data-word='0.3']")
    page.wait_for_selector("#substitutes", state="hidden")


def test_what_stands_in_the_examples_is_their_best_substitute(tab):
    page = tab.go()
    examples = page.evaluate("async () => (await import('/static/examples.js')).EXAMPLES.expects")
    for text, word in ((examples[0].split("\n")[0], "letter"), (examples[-1], "river")):
        (scores,) = tab.ask("/score", {"sentences": [text]})["sentences"]
        asked = {"sentence": scores["tokens"], "position": scores["tokens"].index(word), "k": 1}
        assert [each["word"] for each in tab.ask("/substitutes", asked)["substitutes"]] == [word]


def test_a_substitute_leaves_the_other_tokens_and_what_was_typed_meanwhile(tab):
    page = tab.go(e="Call the U.S .\nThey play .", place="1.1")
    tokens = page.locator("#expects .gloss .text").all_inner_texts()
    word = page.inner_text("#substitutes-list li:first-child button")
    page.click("#substitutes-list li:first-child button")
    tab.settle()
    assert tokens.count("play") == 1
    expected = [word if each == "play" else each for each in tokens]
    assert page.locator("#expects .gloss .text").all_inner_texts() == expected
    page.evaluate(
        """() => {
          const field = document.getElementById("expects-text");
          field.value += "\\nMore .";
          field.dispatchEvent(new Event("input"));
          document.querySelector("#substitutes-list li button").click();
        }"""
    )
    assert page.input_value("#expects-text").endswith("\nMore .")
    tab.settle(TYPED)
    assert page.locator("#expects .gloss .text").all_inner_texts() == [*expected, "More", "."]


def test_numbers_of_another_place_or_mix_are_taken_away(tab):
    page = tab.go(place="0.3")
    page.wait_for_selector("#substitutes-list li")
    page.route("**/substitutes", lambda route: route.fulfill(status=429, json={"error": "too many requests"}))
    page.click("[data-word='0.2']")
    page.wait_for_selector("#substitutes .trouble:visible")
    assert "“a”" in page.inner_text("#substitutes-title")
    assert page.is_hidden("#substitutes-list")
    page.unroute("**/substitutes")
    page.click("#substitutes .trouble button")
    page.wait_for_selector("#substitutes-list li")
    tab.complaints.clear()  # of the console, about 429

    hint = page.inner_text("#word-cell")
    page.focus("#word-heat svg")
    assert "mix: " in page.inner_text("#word-cell")
    page.focus("#mix-2")
    page.keyboard.press("End")
    tab.settle()
    assert page.inner_text("#word-cell") == hint


def test_probabilities_near_1_and_near_0_are_legible(opened):
    tab = opened()
    found = [("be", 0.9996), ("make", 0.0401), ("a", 6.08e-7)]
    rows = [{"word": word, "log_probability": np.log(p), "forward": -1, "backward": -1} for word, p in found]
    tab.page.route("**/substitutes", lambda route: route.fulfill(json={"substitutes": rows}))
    page = tab.go(place="0.3")
    assert page.locator("#substitutes-list .number").all_inner_texts() == ["100 %", "4.0 %", "0.000061 %"]
    page.click("#substitutes-list summary")
    page.wait_for_selector("#substitutes-list td")
    assert page.locator("#substitutes-list td:nth-child(2)").all_inner_texts() == ["1.000", "0.040", "6.1e-7"]


# All uses of a word


def test_uses_of_a_text_lie_in_planes_and_are_chosen_by_mouse_and_keys(tab):
    page = tab.go()
    points = page.locator("#uses-plane-right .point")
    assert points.count() == len(USES)
    assert page.locator("#uses-legend li").all_inner_texts() == ["money", "river"]
    sentences = [each.partition("| ")[2].partition("It")[0].strip() for each in USES]
    asked = {"sentences": sentences, "layers": "top"}
    read = tab.ask("/vectors", asked)["sentences"]
    vectors = [np.array(each["vectors"][each["tokens"].index("bank")]) for each in read]

    def check_nearest(use: int) -> None:
        found = page.locator("#uses-near li").all()
        near = sorted(((cosine(vectors[use], each), n) for n, each in enumerate(vectors) if n != use), reverse=True)
        for item, (value, number) in zip(found, near, strict=True):
            assert item.locator("button").get_attribute("title") == sentences[number]
            assert item.locator("strong").text_content().endswith("bank")
            np.testing.assert_allclose(float(item.locator(".number").inner_text()), value, atol=2e-3)

    check_nearest(0)
    nearest = [max((cosine(a, b), n) for n, b in enumerate(vectors) if b is not a)[1] for a in vectors]
    share = np.mean([n // 2 == other // 2 for n, other in enumerate(nearest)])  # two uses of each label
    said = page.inner_text("#uses-note")
    assert "layer 0 33 %" in said, "all others are equally near, and one of three has the label"
    assert f"layer 2 {100 * share:.0f} %" in said
    points.nth(1).hover()
    assert "Use" in page.inner_text("#uses-sentence")
    page.click("#uses-plane-right [data-use='2']")
    check_nearest(2)
    assert "river" in page.inner_text("#uses-sentence")
    assert page.get_attribute("#uses-plane-left [data-use='2']", "aria-pressed") == "true"

    page.focus("#uses-plane-right [data-use='2']")
    page.keyboard.press("ArrowRight")
    other = int(page.evaluate("document.activeElement.dataset.use"))
    assert other != 2
    page.keyboard.press("Enter")
    check_nearest(other)
    assert page.evaluate("document.activeElement.dataset.use") == str(other)
    page.select_option("#uses-left", "1")
    tab.settle()
    rows = numbers(page, "#uses-plane-left")
    assert rows[0] == ["use", "label", "sentence", "x", "y"]
    assert len({row[3] for row in rows[1:]}) == len(USES)


def test_a_long_text_is_searched_for_the_word_not_its_letters(tab):
    page = tab.go()
    sentences = [f"{'A bird sat there in spring' if i % 2 else 'She lost a ring'}." for i in range(1000)]
    sentences += ["It costs $1.50.", "Ein Ärgernis!"] * 500

    def count(lines: list[str], word: str) -> int:
        return len(call(page, "uses.fromText", "\n".join(lines), word, 200))

    assert [count(sentences, word) for word in ("ring", "$1.50", "ärgernis")] == [500, 500, 500]
    assert [count(sentences, word) for word in ("rin", "gernis")] == [1000, 500]  # which a tokenizer might split off
    assert count(["I cannot.", "I did not."], "not") == 2


def test_a_phrase_and_a_part_of_a_word_are_not_called_absent(tab):
    page = tab.go()
    page.fill("#uses-text", "I live in New York .\nNew York is big .")
    for sought, said in (("New York", "single word"), ("yor", "not as one word"), ("zebra", "does not stand")):
        page.fill("#uses-word", sought)
        tab.settle(TYPED)
        assert said in page.inner_text("#uses-note")


def test_a_text_of_more_sentences_than_a_request_may_have_is_thinned(tab):
    page = tab.go(u="\n".join([f"Bank {number} ." for number in range(2 * MOST)]))
    assert page.is_hidden("#uses > .trouble")
    assert page.locator("#uses-plane-right .point").count() == MOST
    assert f"evenly over {2 * MOST} sentences" in page.inner_text("#uses-note")
    tab.go(u="\n".join([f"{'Bank' if number % 2 else 'Embankment'} {number} ." for number in range(2 * MOST)]))
    assert page.locator("#uses-plane-right .point").count() == MOST  # a longer word takes the place of none


def test_uses_come_from_the_index(tab):
    page = tab.go()
    page.check("#uses-from input[value='index']")
    tab.settle()
    assert page.is_hidden("#uses-text")
    uses = sum(each.split().count("bank") for each in INDEXED)
    assert page.locator("#uses-plane-right .point").count() == uses > 5
    assert f"{uses} uses of “bank” in the index." in page.inner_text("#uses-note")
    for word, most in (("the", sum(each.split().count("the") for each in INDEXED)), ("bank", 2)):
        answer = tab.ask("/uses", {"word": word, "most": most})
        assert answer["count"] == sum(each.split().count(word) for each in INDEXED)
        assert len(answer["uses"]) == most
        assert all(use["sentence"][use["position"]] == word for use in answer["uses"])
    page.fill("#uses-word", "zebra")
    tab.settle(TYPED)
    assert "does not stand in the index" in page.inner_text("#uses-note")
    assert page.locator("#uses .point").count() == 0


# The address, widths, colours, what reads the screen


def test_a_view_is_in_its_address(tab, opened):
    page = tab.go()
    page.fill("#word-word", "the, play")
    page.check("#word-layers input[value='2']")
    page.focus("#mix-1")
    page.keyboard.press("End")
    page.click("[data-word='0.1']")
    page.click("#uses-plane-right [data-use='3']")
    page.select_option("#uses-right", "1")
    page.focus("#senses-layer")
    page.keyboard.press("Home")
    page.click("nav >> text=All uses of a word")
    tab.settle()
    assert page.evaluate("document.activeElement.id") == "uses-title"
    page.click("#link")
    page.wait_for_selector("#said:has-text('Copied the address')", state="attached")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == page.url
    fields = "[...document.querySelectorAll('input:not([type=radio]), textarea, select')].map((each) => each.value)"
    chosen = "[...document.querySelectorAll('[aria-pressed=true], input:checked')].map((each) => each.outerHTML)"
    shown = (
        "[document.getElementById('word-chart'), document.getElementById('uses-near')].map((each) => each.innerText)"
    )
    expected = [page.evaluate(each) for each in (fields, chosen, shown)]
    assert numbers(page, "#word-chart")[1][0] == "play 1–The 2a"  # of several words each has its name

    again = opened(1200, 900)
    again.page.goto(copied)
    again.page.wait_for_selector("#uses .point")
    again.settle()
    assert [again.page.evaluate(each) for each in (fields, chosen, shown)] == expected
    assert again.page.evaluate("scrollY") > 500


def test_an_address_of_nonsense_is_harmless(tab):
    page = tab.go(
        mix="x,Infinity", gamma="-7", heat="99", place="7.99", use="1e9", left="0.5", right="q", at="nowhere", side="q"
    )
    page.click("[data-word='0.3']")
    page.wait_for_selector("#substitutes-list li")
    assert page.is_checked("#substitutes-side input[value='both']")
    page.click("[data-word='0.3']")
    assert [page.input_value(f"#mix-{each}") for each in (0, 1, "gamma")] == ["0", "0", "0.1"]
    assert page.locator("#uses-plane-right .point").count() == len(USES)
    assert page.is_hidden("#substitutes")
    assert page.is_hidden("#uses > .trouble")


def test_a_copied_link_needs_none_of_its_servers_examples(tab, opened):
    page = tab.page
    page.goto(tab.url)
    page.reload()
    tab.settle(500)
    expected = [page.input_value(field) for field in ("#word-text", "#word-word", "#expects-text", "#uses-text")]
    page.click("#link")
    page.wait_for_selector("#said:has-text('Copied the address')", state="attached")
    copied = page.evaluate("navigator.clipboard.readText()")
    other = opened()
    own = {"senses": page.evaluate("async () => (await import('/static/examples.js')).EXAMPLES.senses")}
    own |= {"word": [{"word": "I", "text": "I ."}], "expects": ["I ."], "uses": [{"word": "I", "text": "I ."}]}
    script = f"export const EXAMPLES = {json.dumps(own)};"
    other.page.route("**/examples.js", lambda route: route.fulfill(body=script, content_type="text/javascript"))
    other.page.goto(copied)
    other.page.wait_for_selector("#uses .point")
    other.settle()
    found = [other.page.input_value(field) for field in ("#word-text", "#word-word", "#expects-text", "#uses-text")]
    assert found == expected


def test_a_text_too_long_for_an_address_survives_reload_and_back(tab):
    page = tab.go()
    long = "\n".join([f"river | The bank {number} {'a' * 400} ." for number in range(24)])
    page.fill("#uses-text", long)
    tab.settle(TYPED)
    page.focus("#uses-plane-right [data-use='3']")
    page.keyboard.press("Enter")
    assert "#" not in page.url
    page.reload()
    page.wait_for_selector("#uses .point")
    tab.settle()
    assert page.input_value("#uses-text") == long
    assert page.get_attribute("#uses-plane-right [data-use='3']", "aria-pressed") == "true"
    page.go_back()
    page.wait_for_selector("#uses-plane-right [data-use='0'][aria-pressed=true]")
    tab.settle()
    assert page.input_value("#uses-text") == long


def test_skipping_to_the_sections_keeps_what_was_typed(tab):
    page = tab.go()
    page.fill("#word-word", "family")
    page.focus(".skip")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.evaluate("location.hash = 'main'")  # no state either
    tab.settle()
    assert page.input_value("#word-word") == "family"
    tab.go(w="They")
    assert page.input_value("#word-word") == "They"


def test_a_slider_writes_few_addresses_and_a_browser_may_refuse_one(tab):
    page = tab.go()
    value = page.evaluate(
        """() => new Promise((done) => {
          const slider = document.getElementById("mix-1");
          history.replaceState = () => {
            done(slider.value);
            throw new DOMException("too many", "SecurityError");
          };
          for (let i = 0; i <= 300; i++) {
            slider.value = (i % 80) / 20;
            slider.dispatchEvent(new Event("input"));
          }
        })"""
    )
    assert value == page.input_value("#mix-1")  # nothing was written before the last step
    page.evaluate("delete history.replaceState")
    page.click("#link")
    page.wait_for_selector("#said:not(.unseen):has-text('Copied the address')")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert f"mix={page.input_value('#mix-0')}%2C{page.input_value('#mix-1')}%2C" in copied
    assert copied == page.url


@pytest.mark.parametrize(
    ("width", "scheme", "forced"), [(1200, "light", "none"), (360, "dark", "none"), (1200, "light", "active")]
)
def test_it_fits_and_axe_finds_nothing(opened, width, scheme, forced):
    tab = opened(width, color_scheme=scheme, forced_colors=forced)
    page = tab.go(s="They play .\nWe play .", place="0.3")
    for summary in page.locator("summary").all():
        summary.click()
    page.wait_for_selector("#uses-numbers td")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", background))) < 200) == (scheme == "dark")
    found = json.loads(json.dumps(Axe().run(page).response))["violations"]
    assert not [(each["id"], [node["html"][:200] for node in each["nodes"]][:3]) for each in found]


def test_by_keys_one_comes_to_every_section_and_sees_where_one_is(opened):
    tab = opened(1200)
    page = tab.go(s="They play .\nWe play .", place="0.3")
    walked = []
    for _ in range(200):
        page.keyboard.press("Tab")
        seen = page.evaluate(
            """() => {
              const own = document.activeElement;
              if (!own || own === document.body) return null;
              const box = own.getBoundingClientRect();
              const hit = document.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2);
              const section = own.closest("section, nav, footer")?.id || own.closest("section, nav, footer")?.localName;
              const isSeen = own.contains(hit) || !!hit?.closest(".point");
              return [section ?? "", own.id || own.outerHTML.slice(0, 60), isSeen];
            }"""
        )
        if seen is None:
            break
        walked.append(seen)
    sections = list(dict.fromkeys(section for section, _, _ in walked))
    assert sections == ["", "nav", "senses", "word", "expects", "uses", "footer"]
    assert not [name for _, name, is_seen in walked if not is_seen]


def test_on_a_phone_the_answer_to_a_tap_is_on_the_screen(opened):
    tab = opened(390, 844, is_mobile=True, has_touch=True)
    page = tab.go()

    def is_seen(selector: str) -> bool:
        box = page.locator(selector).bounding_box()
        assert box is not None
        middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        own = "([where, x, y]) => document.querySelector(where).contains(document.elementFromPoint(x, y))"
        return page.evaluate(own, [selector, *middle])

    def end_up(selector: str) -> None:
        """What is tapped lies at the top of the screen, below what may stick there."""
        page.evaluate(
            "(where) => scrollBy(0, document.querySelector(where).getBoundingClientRect().top - 90)", selector
        )

    end_up("#uses-plane-right [data-use='3']")
    page.tap("#uses-plane-right [data-use='3']")
    assert "Ducks" in page.inner_text("#uses-sentence")
    assert is_seen("#uses-sentence")
    end_up("#word-heat .cell:nth-last-of-type(2)")
    page.tap("#word-heat .cell:nth-last-of-type(2)")
    assert "and" in page.inner_text("#word-cell")
    assert is_seen("#word-cell")
    end_up("[data-word='0.3']")
    page.tap("[data-word='0.3']")
    page.wait_for_selector("#substitutes-list li")
    tab.settle(500)
    assert is_seen("#substitutes-title")
    page.evaluate("document.getElementById('word-title').scrollIntoView()")
    assert is_seen("#word-title")


INSIDE = """(figure) => [...document.querySelectorAll(`${figure} text`)].every((each) => {
  const [own, all] = [each, each.ownerSVGElement].map((of) => of.getBoundingClientRect());
  return own.left >= all.left && own.right <= all.right && own.top >= all.top && own.bottom <= all.bottom;
})"""
"""Whether all labels are inside of their pictures."""


@pytest.mark.parametrize("words", ["WWW MMM", "東京都渋谷区神南 大阪府大阪市北区", "𝓗𝓮𝓵𝓵𝓸𝔀𝓸𝓻𝓵𝓭𝓗𝓮𝓵𝓵𝓸 WWWWWWWWWWWWWW"])
def test_wide_letters_stay_in_the_picture(tab, words):
    page = tab.go(s=words, w=words)
    for figure in ("#word-heat", "#word-chart"):
        assert page.locator(f"{figure} text").count() > 3
        assert page.evaluate(INSIDE, figure)


def test_long_words_and_many_lines_stay_in_the_picture(opened):
    tab = opened(360)
    url = "https://example.org/" + "a" * 80
    address = f"See {url} here ."
    page = tab.go(s="The international government\n" + address, w="international government", e=address, place="0.1")
    width = "document.documentElement.scrollWidth"
    assert page.evaluate(width) <= 360
    assert page.evaluate(INSIDE, "#word-chart")
    ticks = "[...document.querySelectorAll('#word-chart .middle')].map((each) => each.getBoundingClientRect())"
    assert page.evaluate(f"{ticks}.every((each, i, all) => i === 0 || each.left > all[i - 1].right)")
    name = page.text_content("#word-chart .name")
    assert re.fullmatch(r"int\w*… 1–gov\w*… 1", name)
    assert numbers(page, "#word-chart")[1][0] == "international 1–government 1"

    page = tab.go(s="the cat and a dog is of .", w="the cat and dog of is", x="bank", u=f"My bank {url}\nA bank .")
    assert page.locator("#word-chart .name").count() == 15
    assert page.evaluate(INSIDE, "#word-chart")
    assert page.evaluate(width) <= 360


def test_a_cell_that_keys_reach_is_on_the_screen(opened):
    tab = opened(360)
    page = tab.go(s="one two three four five six seven eight nine ten " * 3)
    page.focus("#word-heat svg")
    for _ in range(28):
        page.keyboard.press("ArrowRight")
    seen, box = (page.locator(f"#word-heat {each}").bounding_box() for each in (".cursor", ".scroll"))
    assert seen
    assert box
    assert box["x"] <= seen["x"] <= box["x"] + box["width"] - seen["width"]


def test_print_is_dark_on_white_and_cuts_no_picture_off(opened):
    tab = opened(1000, color_scheme="dark")
    page = tab.go(s="one two three four five six seven eight nine ten " * 3)
    page.emulate_media(media="print")
    page.evaluate("document.body.style.width = '400px'")  # as on paper, for which nothing is drawn again
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(33, 33, 38)"
    overflows = "(all) => all.some((each) => each.scrollWidth > each.clientWidth)"
    assert not page.locator(".scroll").evaluate_all(overflows)


def test_names_are_cut_between_letters(tab):
    page = tab.go(s="𝓗𝓮𝓵𝓵𝓸𝔀𝓸𝓻𝓵𝓭 𝓗𝓮𝓵𝓵𝓸𝔀𝓸𝓻𝓵𝓭𝓗𝓮𝓵𝓵𝓸𝔀𝓸𝓻𝓵𝓭")
    assert page.locator("#word-heat text").all_text_contents()[::2] == ["𝓗𝓮𝓵𝓵𝓸𝔀𝓸𝓻𝓵𝓭", "𝓗𝓮𝓵𝓵𝓸𝔀𝓸𝓻𝓵𝓭𝓗…"]
    assert call(page, "charts.short", "e\u0301" * 3 + "👩‍👩‍👧" * 2, 5) == "e\u0301" * 3 + "👩‍👩‍👧" * 2
    assert call(page, "charts.short", "e\u0301" * 3 + "👩‍👩‍👧" * 2, 4) == "e\u0301" * 3 + "…"


# What goes wrong


def test_what_a_server_does_not_have_is_said(opened):
    tab = opened()
    page = tab.page
    bare = tab.ask("/info")
    bare["elmo"] |= {"scores": False, "index_tokens": None}
    page.route("**/info", lambda route: route.fulfill(json=bare))
    tab.go()
    assert "no softmax" in page.inner_text("#expects")
    assert page.is_hidden("#uses-from")


def test_the_page_asks_for_the_key_and_says_what_the_server_refuses(opened):
    tab = opened(key="")
    page = tab.page
    page.goto(tab.url + address())
    page.wait_for_selector("#key-field:focus")
    assert page.is_hidden("#main")
    page.keyboard.type("wrong")
    page.keyboard.press("Enter")
    page.wait_for_selector("#key-wrong")
    page.fill("#key-field", f"“{KEY}”")  # which no header can carry
    page.keyboard.press("Enter")
    tab.settle()
    page.reload()
    page.wait_for_selector("#key-wrong")
    assert page.is_hidden("#trouble")
    page.fill("#key-field", f" {KEY} ")
    page.keyboard.press("Enter")
    page.wait_for_selector("#uses .point")
    tab.settle()
    assert page.is_hidden("#key")
    assert KEY not in page.url
    page.fill("#word-text", "\n".join(["They play ."] * (MOST + 1)))
    page.wait_for_selector("#word > .trouble:visible")
    assert f"at most {MOST}" in page.inner_text("#word > .trouble")
    page.fill("#word-text", "They play .\nWe play .")
    page.wait_for_selector("#word > .trouble", state="hidden")
    tab.complaints.clear()  # of the console, about 401 and 413


def test_a_browser_that_stores_nothing_has_the_page_too(opened):
    tab = opened(key="")
    page = tab.page
    page.add_init_script(
        "Object.defineProperty(window, 'sessionStorage', { get() { throw new DOMException('no', 'SecurityError'); } })"
    )
    page.goto(tab.url + address())
    page.fill("#key-field", KEY)
    page.keyboard.press("Enter")
    page.wait_for_selector("#uses .point")
    tab.settle()
    assert page.is_hidden("#trouble")
    tab.complaints.clear()  # of the console, about 401


def test_an_answer_that_is_cut_or_of_another_program_is_no_error_of_the_page(opened):
    tab = opened()
    page = tab.go()
    broken = {"status": 200, "body": b"\x10\0\0\0\0\0\0\0{", "content_type": "application/x-safetensors"}
    page.route("**/vectors", lambda route: route.fulfill(**broken))
    page.route("**/score", lambda route: route.fulfill(status=502, json={"error": {"message": "bad gateway"}}))
    page.fill("#word-text", "They play chess .")
    page.fill("#expects-text", "They play chess .")
    page.wait_for_selector("#word > .trouble:visible")
    page.wait_for_selector("#expects > .trouble:visible")
    assert "broke off" in page.inner_text("#word > .trouble")
    assert "502" in page.inner_text("#expects > .trouble")
    assert not [each for each in tab.complaints if "502" not in each]
    tab.complaints.clear()


def test_numbers_of_another_model_are_not_mixed_with_those_of_this_one(opened):
    tab = opened()
    page = tab.go()
    another = {"json": {"sentences": []}, "headers": {"x-model-sha": "another"}}
    assert "another model" in trouble_with_scores(page, lambda route: route.fulfill(**another))
    ask_scores_again(page)
    page.wait_for_selector("#uses .point")
    tab.settle()
    assert page.locator("#expects .gloss .text").all_inner_texts() == ["They", "play", "chess", "."]
    shas = {httpx.post(tab.url + path, json=body, headers=HEADERS).headers.get("x-model-sha") for path, body in (
        ("/vectors", {"sentences": ["a"]}), ("/score", {"sentences": ["a"]}), ("/uses", {"word": "a"}),
        ("/substitutes", {"sentence": "a", "position": 0}),
    )}  # fmt: skip
    assert shas == {tab.ask("/info")["model_sha"]}


def test_a_word_with_its_point_is_found_where_text_is_split_at_spaces(opened):
    tab = opened()
    page = tab.page

    def joined(route) -> None:
        """Answers as a model that splits text at white space does."""
        given = route.request.post_data_json
        route.continue_(post_data={"sentences": [each.split() for each in given["sentences"]]})

    page.route("**/vectors", joined)
    tab.go(h="1")
    assert page.is_hidden("#senses > .trouble")
    page.unroute("**/vectors")


def test_a_slow_model_is_said(opened):
    tab = opened()
    page = tab.page
    waiting: list = []
    page.route("**/vectors", lambda route: waiting.append(route))
    page.goto(tab.url + address(t="0"))
    page.wait_for_selector("#main:visible")
    assert page.input_value("#senses-layer") == "0"
    said = "getComputedStyle(document.getElementById('word-chart'), '::before')"
    page.wait_for_function(f"() => {said}.visibility === 'visible' && {said}.content.includes('model')")
    for route in waiting:
        route.continue_()
    page.unroute("**/vectors")
    page.wait_for_selector("#uses .point")
    tab.settle()


def test_a_server_that_is_gone_is_said_and_asked_again(opened):
    tab = opened()
    page = tab.go()
    assert "does not answer" in trouble_with_scores(page, lambda route: route.abort())
    ask_scores_again(page)
    assert page.locator("#expects .gloss .text").all_inner_texts() == ["They", "play", "chess", "."]
    page.route("**/info", lambda route: route.abort())
    page.reload()
    page.wait_for_selector("#trouble:visible")
    assert "does not answer" in page.inner_text("#trouble")
    tab.complaints.clear()  # of the console, about what was not answered
