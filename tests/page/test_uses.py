"""All uses of a word in a text and in the index."""

import numpy as np
from tabs import INDEXED, MOST, TYPED, USES, call, cosine, numbers


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
        return len(call(page, "concordance.fromText", "\n".join(lines), word, 200))

    assert [count(sentences, word) for word in ("ring", "$1.50", "ärgernis")] == [500, 500, 500]
    assert [count(sentences, word) for word in ("rin", "gernis")] == [1000, 500]  # which a tokenizer might split off
    assert count(["I cannot.", "I did not."], "not") == 2
    assert count(["ring", "a ring", "string ring", "rings"] * 60, "ring") == 180


def test_a_phrase_and_a_part_of_a_word_are_not_called_absent(tab):
    page = tab.go()
    page.fill("#uses-text", "I live in New York .\nNew York is big .")
    for sought, said in (("New York", "single word"), ("yor", "not as one word"), ("zebra", "does not stand")):
        page.fill("#uses-word", sought)
        tab.settle(TYPED)
        assert said in page.inner_text("#uses-note")


def test_of_too_many_sentences_and_uses_some_are_taken_evenly_and_the_rest_is_named(tab):
    page = tab.go(u="\n".join([f"Bank {number} ." for number in range(2 * MOST)]))
    assert page.is_hidden("#uses > .trouble")
    assert page.locator("#uses-plane-right .point").count() == MOST
    note = page.inner_text("#uses-note")
    assert note.startswith(f"{MOST} uses")
    assert f"{2 * MOST} sentences" in note
    tab.go(u="\n".join([f"{'Bank' if number % 2 else 'Embankment'} {number} ." for number in range(2 * MOST)]))
    assert page.locator("#uses-plane-right .point").count() == MOST  # a longer word takes the place of none
    tab.go(u=f"{'bank ' * 8}.\n" * MOST)
    assert page.locator("#uses-plane-right .point").count() == 200
    assert page.inner_text("#uses-note").startswith(f"200 of {8 * MOST} uses")
    sizes = "[...Array(400).keys()].map((n) => new Set(thinned([...Array(n).keys()], 30)).size)"
    found = page.evaluate(
        f"async () => {{ const {{ thinned }} = await import('/static/concordance.js'); return {sizes}; }}"
    )
    assert found == [min(n, 30) for n in range(400)]


def test_a_label_with_one_use_is_not_judged_by_its_nearest_use(tab):
    page = tab.go(u="money | A bank .\nmoney | The bank .\nriver | Some bank .")
    note = page.inner_text("#uses-note")
    assert "layer 0 50 %" in note, "both others are equally near to a use of money, and one of them is of money"
    assert "one use" in note
    tab.go(u="money | A bank .\nriver | Some bank .")
    assert "%" not in page.inner_text("#uses-note")


def test_a_word_with_its_point_is_the_word_where_text_is_split_at_spaces(opened):
    tab = opened()
    page = tab.page
    about = tab.ask("/info")
    about["elmo"]["tokens"] = "whitespace"

    def split(route) -> None:
        """Answers as a model that splits text at white space does."""
        given = route.request.post_data_json
        route.continue_(post_data={"sentences": [each.split() for each in given["sentences"]]})

    page.route("**/info", lambda route: route.fulfill(json=about))
    page.route("**/vectors", split)
    tab.go(
        h="1", s="They play.\nWe play, too.\nPlayers.", w="“play”, “we”", u="A bank.\nThe “bank” fell.\nEmbankments."
    )
    assert page.is_hidden("#senses > .trouble")
    assert page.locator("#word-sentences [aria-pressed=true]").all_inner_texts() == ["play.", "We", "play,"]
    assert page.inner_text("#uses-note") == "2 uses of “bank” in the text."
    page.unroute("**/vectors")


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
