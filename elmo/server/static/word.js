// Shows a word in two sentences: cosines of its uses by layer, a mix of the layers by hand, and all words against all.

import { range, vectors } from "./api.js";
import { calm, check, choices, examples, find, h, latest, waits } from "./dom.js";
import { EXAMPLES } from "./examples.js";
import { heatMap } from "./heat.js";
import { lineChart } from "./lines.js";
import { short } from "./marks.js";
import { cosine, mixed, norm, softmax } from "./numbers.js";
import { takeaway } from "./save.js";
import { get, set } from "./state.js";
import { folded, quoted, sentences } from "./texts.js";
import { unrelated, unrelatedMix } from "./unrelated.js";

/** @typedef {import("./api.js").Info} Info */
/** @typedef {{sentence: number, token: number, text: string}} Place a token of all sentences */

const MOST_USES = 6;
const MOST_CELLS = 60;
const MIX = "mix";

/** @param {Info} info @returns {{show: () => Promise<void>, draw: () => void}} */
export function word(info) {
  const nLayers = info.elmo.layers;
  const names = [...range(nLayers).map((i) => `layer ${i}`), MIX];
  const section = find("word");
  const hint = find("word-cell").textContent;
  /** @type {import("./api.js").Read[]} */
  let read = [];
  /** @type {import("./unrelated.js").Unrelated} */
  let base;

  const weights = () => {
    const given = get("mix").split(",").map(Number);
    return range(nLayers).map((i) => (Number.isFinite(given[i]) ? Math.max(-4, Math.min(4, given[i])) : 0));
  };
  const gamma = () => Math.max(0.1, Math.min(3, Number(get("gamma")) || 1));
  const heatLayer = () => (range(nLayers).map(String).includes(get("heat")) ? Number(get("heat")) : nLayers);

  /** Returns the vector of a token at a layer, or its mix of all layers. @param {Place} place @param {number} layer */
  const vector = ({ sentence, token }, layer) => {
    const all = read[sentence].layers.map((of) => of[token]);
    return layer < nLayers ? all[layer] : mixed(all, weights(), gamma());
  };

  /** @returns {Place[]} all tokens */
  const places = () => read.flatMap(({ tokens }, sentence) => tokens.map((text, token) => ({ sentence, token, text })));
  /** Returns the words to compare, folded. The text of the field is one token ("1,000") or several. */
  const sought = () => {
    const whole = folded(get("w").trim());
    const isToken = places().some(({ text }) => folded(text) === whole);
    return new Set(isToken ? [whole] : (whole.match(/^,$|[^\s,]+/g) ?? []).map(folded));
  };

  const load = latest(section.querySelector(".trouble"), async (signal) => {
    const given = sentences(get("s"));
    const [found, usual] = await Promise.all([given.length ? vectors(given, signal) : [], unrelated()]);
    if (signal.aborted) return;
    [read, base] = [found, usual];
    draw();
  });

  function drawSentences() {
    const chosen = sought();
    const focused = /** @type {HTMLElement | null} */ (document.activeElement)?.dataset?.place;
    const button = (/** @type {string} */ text, /** @type {string} */ place) =>
      h(
        "button",
        {
          type: "button",
          class: "token",
          "aria-pressed": String(chosen.has(folded(text))),
          "data-place": place,
          onclick: () => {
            set({ w: text }, true);
            find("word-word").value = text;
            draw();
          },
        },
        text,
      );
    const row = (/** @type {string[]} */ tokens, /** @type {number} */ i) =>
      quoted({}, ...tokens.map((text, j) => button(text, `${i}.${j}`)));
    const items = read.map(({ tokens }, i) => h("li", {}, row(tokens, i)));
    find("word-sentences").replaceChildren(...items);
    if (focused) section.querySelector(`[data-place="${focused}"]`)?.focus();
  }

  function drawChart() {
    const words = sought();
    const all = places().filter(({ text }) => words.has(folded(text)));
    const uses = all.slice(0, MOST_USES);
    const figure = find("word-chart");
    const shown = ["“", quoted({}, get("w").trim()), "”"];
    const note = find("word-note");
    if (uses.length < 2) {
      figure.replaceChildren();
      find("word-length").textContent = "";
      const where = uses.length ? "only once" : "nowhere";
      if (!read.length) note.textContent = "Type sentences in which a word stands twice.";
      else if (!words.size) note.textContent = "Choose a word that stands in two sentences.";
      else note.replaceChildren(...shown, ` stands ${where} in these sentences: choose a word that stands in two.`);
      return;
    }
    const more = all.length > uses.length ? `; the first ${uses.length} of ${all.length} are compared` : "";
    note.replaceChildren(
      ...shown,
      `: each line is a pair of occurrences, named by the numbers of their sentences${more}. `,
      "The band holds nine tenths of the pairs of unrelated words.",
    );
    const isPlain = words.size === 1 && new Set(uses.map((use) => use.sentence)).size === uses.length;
    const named = (/** @type {Place} */ use, /** @type {number} */ most) => {
      const { text, sentence, token } = use;
      const again = all.filter((other) => other.sentence === sentence && folded(other.text) === folded(text));
      const letter = again.length > 1 ? String.fromCodePoint(97 + again.findIndex((other) => other.token === token)) : "";
      return isPlain ? `${sentence + 1}` : `${short(text, most)} ${sentence + 1}${letter}`;
    };
    const pairs = uses.flatMap((a, i) => uses.slice(i + 1).map((b) => [a, b]));
    const chart = {
      label: `Cosine of the occurrences of ${get("w")} at each layer and in the mix; the table below has the numbers`,
      names,
      band: [...base.layers, unrelatedMix(base, weights())],
      bandName: "two unrelated words",
      lines: pairs.map(([a, b]) => ({
        name: (/** @type {number} */ most) => `${named(a, most)}–${named(b, most)}`,
        values: range(names.length).map((layer) => cosine(vector(a, layer), vector(b, layer))),
      })),
    };
    takeaway(figure, [lineChart(figure, chart)], "cosine-by-layer", () => [
      ["pair", ...names],
      ...chart.lines.map((line) => [line.name(Infinity), ...line.values]),
      ["unrelated words, mean", ...chart.band.map((each) => each.mean)],
    ], { title: `Cosines of “${get("w").trim()}”` });
    const lengths = uses.map((use) => norm(vector(use, nLayers)).toFixed(2)).join(", ");
    find("word-length").textContent = `γ changes the lengths of the mixed vectors (${lengths}), not their cosines.`;
  }

  function drawHeat() {
    const all = places().slice(0, MOST_CELLS);
    const words = sought();
    const figure = find("word-heat");
    const layer = heatLayer();
    const more = `The heat map shows the first ${MOST_CELLS} of ${places().length} words.`;
    find("word-cell").textContent = places().length > all.length ? more : all.length ? hint : "";
    if (!all.length) return figure.replaceChildren();
    const of = all.map((place) => vector(place, layer));
    const value = (/** @type {number} */ i, /** @type {number} */ j) => cosine(of[i], of[j]);
    const named = (/** @type {number} */ i) => `${all[i].text} (${all[i].sentence + 1})`;
    const breaks = new Set(range(all.length).filter((i) => i > 0 && all[i].sentence !== all[i - 1].sentence));
    const hadFocus = figure.contains(document.activeElement) && document.activeElement?.localName === "svg";
    const map = heatMap(figure, {
      label: `Cosine of every word with every word, ${names[layer]}; arrow keys move`,
      names: all.map((place) => place.text),
      breaks,
      strong: new Set(range(all.length).filter((i) => words.has(folded(all[i].text)))),
      value,
      seen: (i, j) => {
        const told = (/** @type {number} */ at) => [quoted({}, all[at].text), ` (${all[at].sentence + 1})`];
        find("word-cell").replaceChildren(...told(i), " and ", ...told(j), `, ${names[layer]}: ${value(i, j).toFixed(3)}`);
      },
    });
    takeaway(figure, [h("div", { class: "scroll" }, map)], "cosine-of-all-words", () => [
      ["word", ...range(all.length).map(named)],
      ...range(all.length).map((i) => [named(i), ...range(all.length).map((j) => value(i, j))]),
    ], { title: `Cosine of every word with every word, ${names[layer]}`, ofWords: true });
    if (hadFocus) map.focus();
  }

  function drawMix() {
    const own = weights();
    const shares = softmax(own);
    range(nLayers).forEach((i) => {
      const [weight, percent] = [own[i].toFixed(1), (100 * shares[i]).toFixed(0)];
      find(`mix-${i}`).value = weight;
      find(`mix-${i}`).setAttribute("aria-valuetext", `weight ${weight}, ${percent} percent of the mix`);
      find(`share-${i}`).textContent = `${weight} → ${percent} %`;
    });
    find("mix-gamma").value = String(gamma());
    find("share-gamma").textContent = gamma().toFixed(1);
  }

  function draw() {
    if (!base) return;
    drawMix();
    drawSentences();
    drawChart();
    drawHeat();
  }

  function show() {
    find("word-text").value = get("s");
    find("word-word").value = get("w");
    check(find("word-layers"), heatLayer() < nLayers ? String(heatLayer()) : MIX);
    drawMix();
    return load();
  }

  /** @param {string} id @param {string} text @param {[number, number]} limits @param {() => void} moved */
  function slider(id, text, [min, max], moved) {
    const input = h("input", { type: "range", id: `mix-${id}`, min, max, step: 0.1, oninput: moved });
    return h(
      "div",
      {},
      h("label", { for: `mix-${id}` }, text),
      input,
      h("output", { id: `share-${id}`, for: `mix-${id}`, "aria-live": "off" }), // the slider itself is read aloud
    );
  }
  const remix = () => {
    set({
      mix: range(nLayers)
        .map((i) => find(`mix-${i}`).value)
        .join(","),
      gamma: find("mix-gamma").value,
    });
    drawMix();
    drawSoon();
  };
  const drawSoon = calm(() => {
    drawChart();
    if (heatLayer() === nLayers) drawHeat();
  }, 30);
  find("word-sliders").append(
    ...range(nLayers).map((i) => slider(String(i), `w, layer ${i}`, [-4, 4], remix)),
    slider("gamma", "γ", [0.1, 3], remix),
  );
  find("word-reset").addEventListener("click", () => {
    set({ mix: "", gamma: "1" });
    draw();
  });
  choices(
    find("word-layers"),
    [...range(nLayers).map(String), MIX].map((each) => [each, each]),
    (heat) => {
      set({ heat: heat === MIX ? "" : heat }, true);
      drawHeat();
    },
  );
  const typed = calm(load);
  find("word-text").addEventListener("input", () => {
    set({ s: find("word-text").value });
    waits(section);
    typed();
  });
  find("word-word").addEventListener("input", () => {
    set({ w: find("word-word").value });
    draw();
  });
  examples(
    find("word-examples"),
    EXAMPLES.word,
    (each) => each.word,
    (each) => {
      set({ s: each.text, w: each.word }, true);
      show();
    },
  );
  return { show, draw };
}
