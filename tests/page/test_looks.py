"""How the page looks: by keys, on a phone, in the dark, printed, and with wide or long words."""

import json
import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from places import ROOT
from tabs import MOST, call, numbers


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
    names = page.locator("figure").evaluate_all("(all) => all.map((each) => each.ariaLabel)")
    assert all(names)
    assert len(set(names)) == len(names), "buttons such as Save SVG belong to a figure that is named"
    found = json.loads(json.dumps(Axe().run(page).response))["violations"]
    assert not [(each["id"], [node["html"][:200] for node in each["nodes"]][:3]) for each in found]


def test_letters_twice_as_large_fit_a_narrow_screen(opened):
    tab = opened(320)
    page = tab.go(place="0.3")
    page.wait_for_selector("#substitutes-list li")
    page.evaluate("document.documentElement.style.fontSize = '200%'")
    beyond = """[...document.querySelectorAll("main *")].filter((each) => !each.closest("svg, .scroll, .unseen"))
      .filter((each) => each.getBoundingClientRect().right > innerWidth).map((each) => each.outerHTML.slice(0, 80))"""
    assert page.evaluate(beyond) == []
    assert all(each.bounding_box()["width"] > 150 for each in page.locator(".mix input").all())


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
        """Scrolls until the element is at the top of the screen, below all that may stick there."""
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


def test_long_texts_and_endless_words_leave_room_for_the_pictures(tab):
    page = tab.go(s="\n".join(["They play ."] * MOST), e="a" * 20_000)
    for selector in ("#word-sentences", "#expects .gloss"):
        box = page.locator(selector).bounding_box()
        assert box is not None
        assert box["height"] < 700
    tab.go(s="a" * 20_000)
    box = page.locator("#word .token").bounding_box()
    assert box is not None
    assert box["height"] < 200


@pytest.mark.parametrize(("language", "said"), [("de", "de"), (None, "")])
def test_what_the_reader_types_is_announced_in_the_language_of_the_model(opened, language, said):
    tab = opened()
    page = tab.page
    about = tab.ask("/info")
    about["elmo"]["language"] = language
    page.route("**/info", lambda route: route.fulfill(json=about))
    tab.go(
        s="Das Haus .\nEin Haus .", w="Haus", e="Das Haus .", u="a | Ein Haus .\nb | Das Haus .", x="Haus", place="0.1"
    )
    page.wait_for_selector("#substitutes-list li")
    for summary in page.locator("summary").all():
        summary.click()
    page.wait_for_selector("#uses-numbers td")
    page.focus("#word-heat svg")
    spoken = """() => {
      const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT, (text) =>
        /Haus/.test(text.data) && !text.parentElement.closest("[role=img]") ? 1 : 2);
      const found = [...document.querySelectorAll("textarea, #word-word, #uses-word, .point")];
      while (walker.nextNode()) found.push(walker.currentNode.parentElement);
      return found.map((each) => [each.closest("[lang]").getAttribute("lang"), each.outerHTML.slice(0, 200)]);
    }"""
    found = page.evaluate(spoken)
    assert len(found) > 20
    assert not [html for lang, html in found if lang != said]
    assert page.evaluate("document.querySelector('label').closest('[lang]').lang") == "en"
    assert not page.locator("#senses-list bdi:not([lang=en])").count()  # the page's own examples


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
    page.click("#word-heat summary")
    page.wait_for_selector("#word-heat td")
    page.emulate_media(media="print")
    page.evaluate("document.body.style.width = '400px'")  # as on paper, for which nothing is drawn again
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(33, 33, 38)"
    for colour in ("#senses .bar", "#word .token", "#expects .bits"):  # which browsers else leave out
        assert page.evaluate(f"getComputedStyle(document.querySelector('{colour}')).printColorAdjust") == "exact"
    overflows = "(all) => all.some((each) => each.scrollWidth > each.clientWidth)"
    assert not page.locator(".scroll:not(:has(table))").evaluate_all(overflows)
    assert page.evaluate("getComputedStyle(document.querySelector('.scroll:has(table)')).maxHeight") == "none"


def test_names_are_cut_between_letters(tab):
    page = tab.go(s="𝓗𝓮𝓵𝓵𝓸𝔀𝓸𝓻𝓵𝓭 𝓗𝓮𝓵𝓵𝓸𝔀𝓸𝓻𝓵𝓭𝓗𝓮𝓵𝓵𝓸𝔀𝓸𝓻𝓵𝓭")
    assert page.locator("#word-heat text").all_text_contents()[::2] == ["𝓗𝓮𝓵𝓵𝓸𝔀𝓸𝓻𝓵𝓭", "𝓗𝓮𝓵𝓵𝓸𝔀𝓸𝓻𝓵𝓭𝓗…"]
    assert call(page, "marks.short", "e\u0301" * 3 + "👩‍👩‍👧" * 2, 5) == "e\u0301" * 3 + "👩‍👩‍👧" * 2
    assert call(page, "marks.short", "e\u0301" * 3 + "👩‍👩‍👧" * 2, 4) == "e\u0301" * 3 + "…"


def test_no_script_looks_behind():
    """Safari before 16.4 refuses a whole script for such a regular expression."""
    scripts = sorted((ROOT / "elmo" / "server" / "static").glob("*.js"))
    assert scripts
    assert not [file.name for file in scripts if re.search(r"\(\?<[=!]", file.read_text(encoding="utf-8"))]
