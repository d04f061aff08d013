"""The reader's own sentences: a word at every layer, the mix by hand, the heat map, and what is saved."""

import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
from tabs import SENTENCES, TYPED, USES, cosine, numbers


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
    for sought, found in (("paid,dollars, I", 4), (", paid ,", 2), (" , ", 0)):
        page.fill("#word-word", sought)
        assert page.locator('#word-sentences [aria-pressed="true"]').count() == found


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
    page = tab.go(s=text, w=hebrew[1], e=text, u=f"{text}\n{text}", x=hebrew[1])
    for field in ("word-text", "word-word", "expects-text", "uses-text", "uses-word"):
        assert page.evaluate(f"getComputedStyle(document.getElementById('{field}')).direction") == "rtl"
    for tokens in ("#word-sentences button", "#expects .gloss"):
        left = [each.bounding_box()["x"] for each in page.locator(tokens).all()]
        assert len(left) == 3
        assert left == sorted(left, reverse=True)
    for answer in ("#uses-sentence bdi", "#uses-near button"):
        assert page.evaluate(f"getComputedStyle(document.querySelector('{answer}')).direction") == "rtl"
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
