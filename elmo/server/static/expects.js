// Shows what the model expects: the surprisal of every token in both directions, and substitutes for a token.

import { scores, substitutes } from "./api.js";
import { calm, check, choices, examples, find, h, latest, say, waits } from "./dom.js";
import { EXAMPLES } from "./examples.js";
import { takeaway } from "./save.js";
import { get, set } from "./state.js";
import { language, lines, quoted, sentences } from "./texts.js";

/** @typedef {import("./api.js").Info} Info */

const MOST_BITS = 20;
/** The surprisal from which on a token has the strongest colour. */
const SIDES = /** @type {[string, string][]} */ ([
  ["both", "both sides"],
  ["forward", "the words before it (→)"],
  ["backward", "the words after it (←)"],
]);

/** @param {number} logProbability the natural logarithm of a probability @returns {number} */
const bits = (logProbability) => Math.max(0, -logProbability / Math.LN2);

/** @param {Info} info @returns {{show: () => Promise<void>, draw: () => void}} */
export function expects(info) {
  const section = find("expects");
  const panel = find("substitutes");
  /** @type {import("./api.js").Scores[]} */
  let scored = [];
  let text = ""; // the text that was scored
  let isAsked = false; // whether the reader has just asked for substitutes

  const load = latest(section.querySelector(".trouble"), async (signal) => {
    const now = get("e");
    const given = sentences(now);
    const found = given.length ? await scores(given, signal) : [];
    if (signal.aborted) return;
    [scored, text] = [found, now];
    draw();
    await ask();
  });

  const ask = latest(panel.querySelector(".trouble"), async (signal) => {
    const place = chosen();
    panel.hidden = !place;
    if (!place) return;
    const [sentence, token] = place;
    const { tokens, sentence_ends: ends } = scored[sentence];
    const end = ends.find((each) => each > token) ?? tokens.length;
    const begin = Math.max(0, ...ends.filter((each) => each <= token));
    find("substitutes-title").replaceChildren("In the place of “", quoted({}, tokens[token]), "”");
    find("substitutes-list").hidden = true; // the list is of another place until the answer comes
    const found = await substitutes(tokens.slice(begin, end), token - begin, side(), signal);
    if (signal.aborted) return;
    drawSubstitutes(sentence, token, found);
    find("substitutes-list").hidden = false;
    if (isAsked) panel.scrollIntoView({ block: "nearest" }); // on a phone, the panel lies below the screen
    isAsked = false;
    const best = found.slice(0, 5).map(({ word }) => word);
    say(["Substitutes for ", quoted({}, tokens[token]), ": ", quoted({}, best.join(", "))], false);
  });

  const side = () => SIDES.map(([value]) => value).find((value) => value === get("side")) ?? "both";

  /** @returns {[number, number] | null} the chosen sentence and token, if there are any */
  function chosen() {
    const [sentence, token] = get("place").split(".").map(Number);
    return get("place") && scored[sentence]?.tokens[token] !== undefined ? [sentence, token] : null;
  }

  function draw() {
    const focused = /** @type {HTMLElement | null} */ (document.activeElement)?.dataset?.word;
    find("expects-sentences").replaceChildren(...scored.map(drawn));
    if (focused) section.querySelector(`[data-word="${focused}"]`)?.focus();
    const unknown = scored.some(({ known }) => known.includes(false));
    const words = scored.reduce((sum, { tokens }) => sum + tokens.length, 0);
    const read = `${scored.length} ${scored.length === 1 ? "sentence" : "sentences"}, ${words} tokens.`;
    const hatched =
      " A hatched word is not in the model’s vocabulary. The model gives all unknown words one probability together, so it " +
      "has no surprisal of its own.";
    find("expects-note").textContent = scored.length ? read + (unknown ? hatched : "") : "Type a sentence.";
    find("expects-key").hidden = find("expects-numbers").hidden = !scored.length;
    takeaway(find("expects-numbers"), [], "surprisal", () => [
      ["sentence", "token", "forward bits", "backward bits", "in vocabulary"],
      ...scored.flatMap(({ tokens, forward, backward, known }, i) =>
        tokens.map((token, j) => {
          const both = [forward[j], backward[j]].map((value) => (known[j] ? bits(value) : ""));
          return [String(i + 1), token, ...both, known[j] ? "yes" : "no"];
        }),
      ),
    ]);
  }

  /** Draws each word between its two surprisals. @param {import("./api.js").Scores} scores @param {number} number */
  function drawn({ tokens, forward, backward, known }, number) {
    const cell = (/** @type {string} */ arrow, /** @type {number} */ value, /** @type {boolean} */ isKnown) =>
      isKnown
        ? h(
            "span",
            { class: "bits", dir: "ltr", "aria-hidden": "true", "--share": `${Math.min(100, (100 * value) / MOST_BITS).toFixed(0)}%` },
            `${arrow} ${value.toFixed(1)}`,
          )
        : h("span", { class: "bits hatched", dir: "ltr", "aria-hidden": "true" }, `${arrow} ?`);
    const items = tokens.map((token, i) => {
      const [before, after] = [bits(forward[i]), bits(backward[i])];
      const place = `${number}.${i}`;
      const said = known[i]
        ? `: ${before.toFixed(1)} bits forward, ${after.toFixed(1)} bits backward`
        : ": not in the vocabulary, so without a surprisal";
      return h(
        "li",
        {},
        h(
          "button",
          {
            type: "button",
            class: "gloss",
            "data-word": place,
            "aria-pressed": String(get("place") === place),
            onclick: () => {
              set({ place: get("place") === place ? "" : place }, true);
              isAsked = get("place") !== "";
              draw();
              ask();
            },
          },
          cell("→", before, known[i]),
          h("span", { class: known[i] ? "text" : "text unknown", lang: language() }, token),
          h("span", { class: "unseen" }, said),
          cell("←", after, known[i]),
        ),
      );
    });
    return h("ol", { class: "glosses", dir: "auto", "aria-label": `Sentence ${number + 1}` }, ...items);
  }

  /** @param {number} sentence @param {number} token @param {import("./api.js").Substitute[]} found */
  function drawSubstitutes(sentence, token, found) {
    const most = Math.exp(found[0]?.log_probability ?? 0);
    const put = (/** @type {string} */ word) => {
      if (get("e") !== text) return; // the text has changed and is being scored again
      const all = scored.map(({ tokens }, i) => (i === sentence ? tokens.with(token, word) : tokens).join(" "));
      set({ e: all.join("\n") });
      find("expects-text").value = get("e");
      section.querySelector(`[data-word="${sentence}.${token}"]`)?.focus(); // the list makes way for another
      load();
    };
    const items = found.map(({ word, log_probability }) => {
      const share = Math.exp(log_probability);
      const bar = h("span", {
        class: "bar",
        "--share": `${((100 * share) / most).toFixed(1)}%`,
        "aria-hidden": "true",
      });
      const percent = `${(100 * share).toPrecision(share < 0.995 ? 2 : 3)} %`;
      return h(
        "li",
        {},
        h("button", { type: "button", title: "put it into the sentence", onclick: () => put(word) }, quoted({}, word)),
        bar,
        h("span", { class: "number" }, percent),
      );
    });
    const hint = h("p", { class: "hint" }, "Choose one to put it into the sentence.");
    takeaway(find("substitutes-list"), [h("ol", { class: "substitutes" }, ...items), hint], "substitutes", () => [
      ["word", "probability", "log probability", "forward", "backward"],
      ...found.map((each) => [
        each.word,
        Math.exp(each.log_probability),
        each.log_probability,
        each.forward,
        each.backward,
      ]),
    ]);
  }

  function show() {
    find("expects-text").value = get("e");
    check(find("substitutes-side"), side());
    return load();
  }

  if (!info.elmo.scores) {
    const said = "This model has no softmax over words, so it expects nothing: serve one that elmo train made.";
    section.replaceChildren(find("expects-title"), h("p", { class: "note" }, said));
    return { show: async () => {}, draw: () => {} };
  }
  choices(find("substitutes-side"), SIDES, (next) => {
    set({ side: next }, true);
    ask();
  });
  const typed = calm(load);
  find("expects-text").addEventListener("input", () => {
    set({ e: find("expects-text").value, place: "" });
    waits(section);
    typed();
  });
  examples(
    find("expects-examples"),
    EXAMPLES.expects,
    (each) => lines(each)[0].split(" ").slice(0, 3).join(" ") + " …",
    (each) => {
      set({ e: each, place: "" }, true);
      show();
    },
  );
  return { show, draw };
}
