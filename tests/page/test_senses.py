"""One word in two senses, the card, and what the page computes, which numpy checks."""

import csv
import io
import json

import numpy as np
import torch
from tabs import call, cosine, numbers

from elmo.model.scalar_mix import ScalarMix


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
