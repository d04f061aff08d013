// Starts the page: asks what is served, starts the sections, and keeps them in step with the address.

import { card, hasKey, info, useKey } from "./api.js";
import { calm, complain, find, h, say } from "./dom.js";
import { expects } from "./expects.js";
import { senses } from "./senses.js";
import { get, link, set, watch } from "./state.js";
import { readAs } from "./texts.js";
import { uses } from "./uses.js";
import { word } from "./word.js";

/** @type {{show: () => Promise<void>, draw: () => void}[]} */
let sections = [];

async function start() {
  find("asks").hidden = false;
  /** @type {import("./api.js").Info} */
  let about;
  try {
    about = await info();
  } catch (error) {
    if (/** @type {any} */ (error).kind === "key") return askKey();
    return complain(find("trouble"), error, start);
  } finally {
    find("asks").hidden = true;
  }
  const hadForm = !find("key").hidden;
  find("trouble").hidden = find("key").hidden = true;
  const { layers, dim } = about.elmo;
  readAs(about.elmo);
  find("model").textContent = `The model here is ${about.model_id}: ${layers} layers of ${dim} numbers a word.`;
  find("main").hidden = false;
  if (hadForm) find("senses-title").focus(); // the field that had the focus is gone
  if (!sections.length) sections = [senses(about), word(about), expects(about), uses(about)];
  await shown();
}

/** Draws all sections, then scrolls to the one that the address names, which drawing the others would move. */
async function shown() {
  await Promise.all(sections.map((section) => section.show()));
  go();
}

function askKey() {
  find("key").hidden = false;
  find("key-wrong").hidden = !hasKey();
  find("key-field").focus();
}

/** Scrolls to the section that the address names. @param {boolean} [asked] whether the section gets the focus, too */
function go(asked = false) {
  const title = document.getElementById(`${get("at")}-title`);
  if (!title) return;
  title.scrollIntoView();
  if (asked) title.focus({ preventScroll: true });
}

find("key").addEventListener("submit", (/** @type {Event} */ event) => {
  event.preventDefault();
  useKey(find("key-field").value);
  find("key-field").value = "";
  start();
});
find("link").addEventListener("click", async () => {
  const address = link();
  if (!address) return say("The text is too long for an address.");
  try {
    await navigator.clipboard.writeText(address);
    say("Copied the address of this view.");
  } catch {
    say("The browser lets no page copy; take the address from its bar.");
  }
});
find("card").addEventListener("toggle", async () => {
  const box = find("card");
  if (!box.open || box.childElementCount > 1) return;
  try {
    const text = JSON.stringify(await card(), null, 2);
    if (box.childElementCount > 1) return; // the card was opened twice in the meantime
    box.append(h("pre", { class: "scroll", role: "region", "aria-label": "The model’s card", tabindex: "0" }, text));
  } catch (error) {
    box.open = false;
    say(/** @type {Error} */ (error).message);
  }
});
document.querySelector(".skip")?.addEventListener("click", (event) => {
  event.preventDefault(); // the address holds what was typed, so the link must not change it
  find("main").focus();
});
for (const each of document.querySelectorAll("a[href^='#at=']")) {
  each.addEventListener("click", (event) => {
    event.preventDefault(); // the address holds what was typed, too
    set({ at: /** @type {HTMLAnchorElement} */ (each).hash.slice("#at=".length) }, true);
    go(true);
  });
}
watch(shown);

let width = innerWidth;
const redraw = calm(() => {
  if (innerWidth === width) return; // on a phone, hiding the address bar is a resize, too
  width = innerWidth;
  for (const section of sections) section.draw();
}, 150);
addEventListener("resize", redraw);
start();
