// Shows all uses of a word: its occurrences in the plane at two layers, and which are nearest to one another.

import { indexed, range, vectors } from "./api.js";
import { badge, scatter } from "./charts.js";
import { calm, check, choices, examples, find, folded, h, joined, latest, lines, segments, waits } from "./dom.js";
import { EXAMPLES } from "./examples.js";
import { alike, cosine, plane } from "./numbers.js";
import { takeaway } from "./save.js";
import { get, set } from "./state.js";

/** @typedef {import("./api.js").Info} Info */
/**
 * A sentence with a label; `position` is that of the use, if it is known.
 * @typedef {{label: string, sentence: string | string[], position?: number}} Line
 */
/** @typedef {{label: string, tokens: string[], token: number, layers: Float32Array[]}} Use */

const MOST_USES = 200;
const NEAREST = 8;
const CONTEXT = 7;
/** The number of words that are shown on either side of a use. */
const MOST_LABELS = 36;
/** The number of different marks; uses with further labels have a plain one. */
const SIDES = /** @type {const} */ (["left", "right"]);

/** @param {Info} info @returns {{show: () => Promise<void>, draw: () => void}} */
export function uses(info) {
  const nLayers = info.elmo.layers;
  const section = find("uses");
  /** @type {Use[]} */
  let found = [];
  let count = 0; // the number of all uses, or of all sentences that may hold one
  /** @type {Map<number, ReturnType<typeof plane>>} */
  const planes = new Map(); // the planes of the uses in `found`, by layer

  const layer = (/** @type {"left" | "right"} */ side) => {
    const given = range(nLayers).map(String).indexOf(get(side));
    return given >= 0 ? given : side === "left" ? 0 : nLayers - 1;
  };
  const most = Math.min(MOST_USES, info.max_client_batch_size);
  const word = () => folded(get("x").trim());
  const isIndexed = () => info.elmo.index_tokens !== null && get("from") === "index";

  const load = latest(section.querySelector(".trouble"), async (signal) => {
    const all = word() === "" ? [] : isIndexed() ? await fromIndex(signal) : fromText(get("u"), word(), most);
    const kept = isIndexed() ? all : thinned(all, most);
    const read = kept.length ? await vectors(/** @type {string[]} */ (kept.map((line) => line.sentence)), signal) : [];
    if (signal.aborted) return;
    found = read.flatMap(({ tokens, layers }, i) =>
      tokens.flatMap((text, token) =>
        (kept[i].position ?? token) === token && (isIndexed() || folded(text) === word())
          ? [{ label: kept[i].label, tokens, token, layers: layers.map((of) => of[token]) }]
          : [],
      ),
    );
    if (!isIndexed()) count = all.length;
    planes.clear();
    drawNote();
    draw();
  });

  /** @param {AbortSignal} signal @returns {Promise<Line[]>} */
  async function fromIndex(signal) {
    const answer = await indexed(get("x").trim(), most, signal);
    count = answer.count;
    return answer.uses.map(({ sentence, position }) => ({ label: "", sentence, position }));
  }

  const labels = () => [...new Set(found.map((use) => use.label))].filter((label) => label).slice(0, MOST_LABELS);
  const kind = (/** @type {Use} */ use) => labels().indexOf(use.label);
  const chosen = () => (found[Number(get("use"))] && get("use") !== "" ? Number(get("use")) : found.length ? 0 : -1);

  /** Returns the uses that are nearest to a use, and their cosines. @param {number} i @returns {[number, number][]} */
  function nearest(i) {
    const at = layer("right");
    const near = /** @type {[number, number][]} */ (
      range(found.length).map((j) => [j, i < 0 ? 0 : cosine(found[i].layers[at], found[j].layers[at])])
    );
    return near
      .filter(([j]) => j !== i)
      .toSorted((a, b) => b[1] - a[1] || a[0] - b[0])
      .slice(0, NEAREST);
  }

  /** @param {number} at a layer */
  function planeOf(at) {
    const known = planes.get(at) ?? plane(found.map((use) => use.layers[at]));
    planes.set(at, known);
    return known;
  }

  function draw() {
    const near = nearest(chosen()).map(([j]) => j);
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
    const number = (/** @type {number} */ of) => of.toLocaleString("en");
    const isAll = isIndexed() ? found.length === count : count <= most;
    const more = isAll ? "" : `, evenly over ${isIndexed() ? `all ${number(count)}` : `${number(count)} sentences`}`;
    const several = labels().length > 1 && found.every((use) => use.label);
    const right = several
      ? range(nLayers).map((at) => {
          const part = alike(
            found.map((use) => use.layers[at]),
            found.map((use) => use.label),
          );
          return `layer ${at} ${(100 * part).toFixed(0)} %`;
        })
      : [];
    const judged = several ? ` The nearest use has the same label: ${right.join(", ")}.` : "";
    const isPart = !isIndexed() && count > 0;
    const missing = isPart ? `stands in ${from}, but not as one word` : `does not stand in ${from}`;
    find("uses-note").textContent = found.length
      ? `${found.length} ${found.length === 1 ? "use" : "uses"} of “${get("x").trim()}” in ${from}${more}.${judged}`
      : word()
        ? `“${get("x").trim()}” ${missing}.${/\s/.test(word()) ? " Type a single word." : ""}`
        : "Type a word.";
    if (isIndexed() && word()) find("uses-note").textContent += " Only this spelling is sought: one with a capital is another.";
    const legend = labels().map((label, i) => h("li", {}, badge(i), label));
    find("uses-legend").replaceChildren(...legend);
  }

  function drawNear() {
    const i = chosen();
    find("uses-near-title").hidden = i < 0;
    if (i < 0) {
      find("uses-near").replaceChildren();
      return find("uses-numbers").replaceChildren();
    }
    find("uses-near-title").textContent = `Nearest to use ${i + 1}, layer ${layer("right")}`;
    const items = nearest(i).map(([j, value]) =>
      h(
        "li",
        {},
        h("span", { class: "number" }, value.toFixed(3)),
        h("button", { type: "button", dir: "auto", "data-near": j, title: joined(found[j].tokens), onclick: () => choose(j) }, ...contextOf(j)),
      ),
    );
    find("uses-near").replaceChildren(...items);
    takeaway(find("uses-numbers"), [], "nearest-uses", () => [
      ["use", "cosine", "label", "sentence"],
      [String(i + 1), 1, found[i].label, joined(found[i].tokens)],
      ...nearest(i).map(([j, value]) => [String(j + 1), value, found[j].label, joined(found[j].tokens)]),
    ]);
  }

  /** Returns a use as a keyword in its context. @param {number} i @returns {(Node | string)[]} */
  function contextOf(i) {
    const { tokens, token, label } = found[i];
    const [begin, end] = [Math.max(0, token - CONTEXT), Math.min(tokens.length, token + CONTEXT + 1)];
    const before = (begin > 0 ? "… " : "") + joined(tokens.slice(begin, token));
    const after = joined(tokens.slice(token + 1, end)) + (end < tokens.length ? " …" : "");
    const mark = label ? [h("span", { class: "unseen" }, `${label}: `), badge(kind(found[i]))] : [];
    return [h("bdi", { class: "before" }, before), " ", h("strong", {}, ...mark, tokens[token]), " ", h("bdi", {}, after)];
  }

  /** Returns a sentence with its word highlighted. @param {number} i @returns {(Node | string)[]} */
  function sentenceOf(i) {
    const { tokens, token, label } = found[i];
    const [before, after] = [tokens.slice(0, token), tokens.slice(token + 1)].map(joined);
    const mark = label ? [badge(kind(found[i])), `${label}: `] : [];
    const gap = /^[.,;:!?]/.test(after) ? "" : " ";
    const use = h("strong", {}, tokens[token]);
    return [...mark, h("bdi", {}, before ? `${before} ` : "", use, after ? gap + after : "")];
  }

  /** @param {number} i */
  function seen(i) {
    find("uses-sentence").replaceChildren(...(i >= 0 ? [`Use ${i + 1}. `, ...sentenceOf(i)] : []));
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
    const tokens = info.elmo.index_tokens.toLocaleString("en");
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

/**
 * Returns the sentences of a text that hold a word, with the labels of their lines. If there are more than are shown,
 * it keeps those in which the word is not a part of a longer one, if there are any.
 * @param {string} text @param {string} word the word, folded @param {number} most the number that is shown
 * @returns {Line[]}
 */
export function fromText(text, word, most) {
  const all = lines(text).flatMap((line) => {
    const [, label, rest] = /^([^|]{1,40})\|(.*)$/.exec(line) ?? [null, "", line];
    const sentences = segments(rest.trim()).filter((sentence) => folded(sentence).includes(word));
    return sentences.map((sentence) => ({ label: label.trim(), sentence }));
  });
  if (all.length <= most) return all; // all are read, and the tokenizer knows that "cannot" has a "not"
  const letter = String.raw`[\p{L}\p{M}\p{N}]`;
  const edge = `(?!(?<=${letter})(?=${letter}))`;
  const whole = new RegExp(edge + word.replaceAll(/[\\^$.*+?()[\]{}|/]/g, String.raw`\$&`) + edge, "u");
  const found = all.filter(({ sentence }) => whole.test(folded(sentence)));
  return found.length ? found : all;
}

/** Returns at most `most` lines, taken evenly over the text. @param {Line[]} all @param {number} most */
function thinned(all, most) {
  const step = Math.max(1, all.length / most);
  return range(Math.ceil(all.length / step)).map((i) => all[Math.floor(i * step)]);
}
