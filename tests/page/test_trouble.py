"""When something is wrong: no key, a server that is gone, slow or another, and answers that are broken."""

from collections.abc import Callable
from typing import Any

import httpx
from tabs import HEADERS, KEY, MOST, address


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
    assert page.evaluate("document.activeElement.id") == "senses-title"
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


def test_a_slow_model_or_server_is_said(opened):
    tab = opened()
    page = tab.page
    waiting: list = []
    page.route("**/info", lambda route: waiting.append(route))
    page.goto(tab.url + address())
    page.wait_for_function("() => getComputedStyle(document.getElementById('asks')).visibility === 'visible'")
    waiting.pop().continue_()
    page.unroute("**/info")
    page.wait_for_selector("#asks", state="hidden")
    page.route("**/vectors", lambda route: waiting.append(route))
    page.goto(tab.url + address(t="0"))
    page.wait_for_selector("#main:visible")
    assert page.input_value("#senses-layer") == "0"
    said = "getComputedStyle(document.querySelector('#word .fields'), '::after')"
    page.wait_for_function(f"() => {said}.visibility === 'visible' && {said}.content.includes('model')")
    for route in waiting:
        route.continue_()
    page.unroute("**/vectors")
    page.wait_for_selector("#uses .point")
    tab.settle()


def test_a_server_that_is_gone_is_said_and_asked_again(opened):
    tab = opened()
    page = tab.go()
    opacity = "getComputedStyle(document.getElementById('expects-sentences')).opacity"
    assert "does not answer" in trouble_with_scores(page, lambda route: route.abort())
    assert float(page.evaluate(opacity)) < 1, "an earlier answer does not look like one to this text"
    ask_scores_again(page)
    assert page.evaluate(opacity) == "1"
    assert page.locator("#expects .gloss .text").all_inner_texts() == ["They", "play", "chess", "."]
    page.route("**/info", lambda route: route.abort())
    page.reload()
    page.wait_for_selector("#trouble:visible")
    assert "does not answer" in page.inner_text("#trouble")
    tab.complaints.clear()  # of the console, about what was not answered
