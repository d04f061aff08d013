"""The address of the page: it holds the view, and survives reload, Back and nonsense."""

import json

from tabs import TYPED, USES, numbers


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


def test_a_link_to_another_section_keeps_what_was_typed(tab):
    page = tab.go()
    page.fill("#word-word", "family")
    page.click("#word a[href='#at=senses']")
    tab.settle()
    assert page.evaluate("document.activeElement.id") == "senses-title"
    assert [page.input_value(f"#{field}") for field in ("word-word", "uses-text")] == ["family", "\n".join(USES)]


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
