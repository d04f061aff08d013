"""The section on what the model expects shows the surprisals and substitutes that the server gives."""

import numpy as np
from tabs import SENTENCES, TYPED, numbers


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
    page.focus("#substitutes-list li:nth-child(2) button")
    page.keyboard.press("Enter")
    tab.settle()
    assert page.evaluate("document.activeElement.dataset.word") == "0.3", "the focus is where the word went"
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
