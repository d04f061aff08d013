// Shows all uses of a word: its occurrences in the plane at two layers, and which are nearest to one another.

import { indexed, range, vectors } from "./api.js";
import { fromText, inContext, inSentence, nearest, thinned, usesIn } from "./concordance.js";
import { calm, check, choices, examples, find, h, latest, waits } from "./dom.js";
import { EXAMPLES } from "./examples.js";
import { badge } from "./marks.js";
import { alike, plane } from "./numbers.js";
import { scatter } from "./points.js";
import { takeaway } from "./save.js";
import { get, set } from "./state.js";
import { folded, joined, quoted } from "./texts.js";

/** @typedef {import("./api.js").Info} Info */
/** @typedef {import("./concordance.js").Line} Line */
/** @typedef {import("./concordance.js").Use} Use */

const MOST = 200;
/** The most uses that are shown, and the most sentences that are read. */
const MOST_LABELS = 36;
/** The number of different marks; uses with further labels have a plain one. */
/** @param {number} of @returns {string} */
const number = (of) => of.toLocaleString("en");
const SIDES = /** @type {const} */ (["left", "right"]);

/** @param {Info} info @returns {{show: () => Promise<void>, draw: () => void}} */
export function uses(info) {
  const nLayers = info.elmo.layers;
  const section = find("uses");
  /** @type {Use[]} */
  let found = [];
  let all = 0; // the number of uses of which those in `found` are some
  let [readable, wereRead] = [0, 0]; // the numbers of sentences of the text that may hold a use, and that were read
  /** @type {Map<number, ReturnType<typeof plane>>} */
  const planes = new Map(); // the planes of the uses in `found`, by layer

  const layer = (/** @type {"left" | "right"} */ side) => {
    const given = range(nLayers).map(String).indexOf(get(side));
    return given >= 0 ? given : side === "left" ? 0 : nLayers - 1;
  };
  const most = Math.min(MOST, info.max_client_batch_size);
  const word = () => folded(get("x").trim());
  const isIndexed = () => info.elmo.index_tokens !== null && get("from") === "index";

  const load = latest(section.querySelector(".trouble"), async (signal) => {
    const answer = word() && isIndexed() ? await indexed(get("x").trim(), most, signal) : null;
    /** @type {Line[]} */
    const given = answer
      ? answer.uses.map((use) => ({ label: "", ...use }))
      : word() && !isIndexed()
        ? fromText(get("u"), word(), most)
        : [];
    const kept = thinned(given, most);
    const read = kept.length ? await vectors(kept.map((line) => line.sentence), signal) : [];
    if (signal.aborted) return;
    const inRead = usesIn(kept, read, word());
    found = thinned(inRead, MOST);
    [all, readable, wereRead] = [answer?.count ?? inRead.length, given.length, kept.length];
    planes.clear();
    drawNote();
    draw();
  });

  const labels = () => [...new Set(found.map((use) => use.label))].filter((label) => label).slice(0, MOST_LABELS);
  const kind = (/** @type {Use} */ use) => labels().indexOf(use.label);
  const chosen = () => (found[Number(get("use"))] && get("use") !== "" ? Number(get("use")) : found.length ? 0 : -1);

  /** @returns {[number, number][]} */
  const nearChosen = () => (chosen() < 0 ? [] : nearest(found, chosen(), layer("right")));

  /** @param {number} at a layer */
  function planeOf(at) {
    const known = planes.get(at) ?? plane(found.map((use) => use.layers[at]));
    planes.set(at, known);
    return known;
  }

  function draw() {
    const near = nearChosen().map(([j]) => j);
    for (const side of SIDES) {
      const figure = find(`uses-plane-${side}`);
      const focused = figure.contains(document.activeElement) && document.activeElement?.localName === "g";
      if (!found.length) {
        figure.replaceChildren();
        continue;
      }
      const { points, parts: own } = planeOf(layer(side));
      const parts = own.map((part) => `${(100 * part).toFixed(0)} %`).join(" and ");
      const caption =
        own[0] > 0 ? `layer ${layer(side)}: ${parts} of the variance` : `layer ${layer(side)}: all uses are one point`;
      const picture = scatter(figure, {
        label: `Uses of ${get("x")} at layer ${layer(side)}; arrow keys go from one to the next`,
        points,
        kinds: found.map(kind),
        names: found.map((use) => (use.label ? `${use.label}: ` : "") + joined(use.tokens)),
        chosen: chosen(),
        near,
        choose,
        seen,
      });
      takeaway(
        figure,
        [h("figcaption", {}, caption), picture],
        `uses-layer-${layer(side)}`,
        () => [
          ["use", "label", "sentence", "x", "y"],
          ...found.map((use, j) => [String(j + 1), use.label, joined(use.tokens), ...points[j]]),
        ],
        { title: `Uses of “${get("x").trim()}”, ${caption}`, legend: labels().map((label, j) => [j, label]) },
      );
      if (focused) /** @type {SVGElement | null} */ (picture.querySelector('[tabindex="0"]'))?.focus();
    }
    drawNear();
    seen(chosen());
  }

  function drawNote() {
    const from = isIndexed() ? "the index" : "the text";
    const sought = ["“", quoted({}, get("x").trim()), "”"];
    /** @type {(Node | string)[]} */
    let said = ["Type a word."];
    if (found.length) {
      const isAll = found.length === all;
      const some = isAll ? "" : `${number(found.length)} of `;
      said = [`${some}${number(all)} ${all === 1 ? "use" : "uses"} of `, ...sought, ` in ${from}`];
      said.push(isAll ? "." : " are shown, taken evenly.");
      if (wereRead < readable)
        said.push(` Of the ${number(readable)} sentences with it, ${number(wereRead)} were read, taken evenly.`);
      said.push(judged());
    } else if (word()) {
      const isPart = !isIndexed() && readable > 0;
      said = [...sought, isPart ? ` stands in ${from}, but not as one word.` : ` does not stand in ${from}.`];
      if (/\s/.test(word())) said.push(" Type a single word.");
    }
    if (isIndexed() && word()) said.push(" Only this spelling is sought: one with a capital is another.");
    find("uses-note").replaceChildren(...said);
    find("uses-legend").replaceChildren(...labels().map((label, i) => h("li", {}, badge(i), quoted({}, label))));
  }

  /** Returns how often the nearest use has the same label, if all uses have labels. @returns {string} */
  function judged() {
    const own = found.map((use) => use.label);
    const count = (/** @type {string} */ label) => own.filter((each) => each === label).length;
    const lone = [...new Set(own)].filter((label) => count(label) === 1).length;
    if (own.includes("") || new Set(own).size < 2 || lone === own.length) return "";
    const parts = range(nLayers).map((at) => 100 * alike(found.map((use) => use.layers[at]), own));
    const shown = parts.map((part, at) => `layer ${at} ${part.toFixed(0)} %`).join(", ");
    const without =
      lone === 0 ? "" : lone === 1 ? " A label with one use is not counted." : ` ${lone} labels with one use are not counted.`;
    return ` The nearest use has the same label: ${shown}.${without}`;
  }

  function drawNear() {
    const i = chosen();
    find("uses-near-title").hidden = i < 0;
    if (i < 0) {
      find("uses-near").replaceChildren();
      return find("uses-numbers").replaceChildren();
    }
    find("uses-near-title").textContent = `Nearest to use ${i + 1}, layer ${layer("right")}`;
    const items = nearChosen().map(([j, value]) =>
      h(
        "li",
        {},
        h("span", { class: "number" }, value.toFixed(3)),
        h(
          "button",
          { type: "button", dir: "auto", "data-near": j, title: joined(found[j].tokens), onclick: () => choose(j) },
          ...inContext(found[j], kind(found[j])),
        ),
      ),
    );
    find("uses-near").replaceChildren(...items);
    takeaway(find("uses-numbers"), [], "nearest-uses", () => [
      ["use", "cosine", "label", "sentence"],
      [String(i + 1), 1, found[i].label, joined(found[i].tokens)],
      ...nearChosen().map(([j, value]) => [String(j + 1), value, found[j].label, joined(found[j].tokens)]),
    ]);
  }

  /** @param {number} i */
  function seen(i) {
    find("uses-sentence").replaceChildren(...(i >= 0 ? [`Use ${i + 1}. `, ...inSentence(found[i], kind(found[i]))] : []));
    for (const point of section.querySelectorAll(".point"))
      point.classList.toggle("seen", Number(point.dataset.use) === i);
  }

  /** @param {number} i */
  function choose(i) {
    const inList = find("uses-near").contains(document.activeElement);
    set({ use: String(i) }, true);
    draw();
    if (inList) find("uses-near").querySelector("button")?.focus();
  }

  function show() {
    find("uses-text").value = get("u");
    find("uses-word").value = get("x");
    for (const side of SIDES) find(`uses-${side}`).value = String(layer(side));
    check(find("uses-from"), isIndexed() ? "index" : "text");
    hideText();
    return load();
  }

  const hideText = () => {
    find("uses-text").parentElement.hidden = isIndexed();
    find("uses-examples").hidden = isIndexed();
  };

  if (info.elmo.index_tokens !== null) {
    const tokens = number(info.elmo.index_tokens);
    find("uses-from").hidden = false;
    choices(
      find("uses-from"),
      [
        ["text", "a text of yours"],
        ["index", `the server’s index (${tokens} tokens)`],
      ],
      (from) => {
        set({ from, use: "" }, true);
        hideText();
        load();
      },
    );
  }
  for (const side of SIDES) {
    find(`uses-${side}`).append(...range(nLayers).map((i) => h("option", { value: i }, String(i))));
    find(`uses-${side}`).addEventListener("change", () => {
      set({ [side]: find(`uses-${side}`).value }, true);
      draw();
    });
  }
  const typed = calm(load);
  for (const [id, name] of [
    ["uses-text", "u"],
    ["uses-word", "x"],
  ]) {
    find(id).addEventListener("input", () => {
      set({ [name]: find(id).value, use: "" });
      waits(section);
      typed();
    });
  }
  examples(
    find("uses-examples"),
    EXAMPLES.uses,
    (each) => each.word,
    (each) => {
      set({ u: each.text, x: each.word, use: "" }, true);
      show();
    },
  );
  return { show, draw };
}
