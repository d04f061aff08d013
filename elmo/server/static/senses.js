// Shows one word in two senses: its four uses are one point at layer 0 and part at higher layers, as a slider moves.

import { range, Trouble, vectors } from "./api.js";
import { badge } from "./marks.js";
import { drift } from "./points.js";
import { examples, find, h, latest } from "./dom.js";
import { EXAMPLES } from "./examples.js";
import { aligned, cosine, mean, plane, toUnit } from "./numbers.js";
import { takeaway } from "./save.js";
import { get, set } from "./state.js";
import { folded, language, quoted } from "./texts.js";
import { unrelated } from "./unrelated.js";

/** @typedef {import("./api.js").Info} Info */
/** @typedef {[number, number]} Point */
/** @typedef {{same: number, other: number, unrelated: number}} Row the mean cosines at a layer */

const STEPS = 20;
/** The positions of the slider from one layer to the next. */

/** @param {Info} info @returns {{show: () => Promise<void>, draw: () => void}} */
export function senses(info) {
  const top = info.elmo.layers - 1;
  const section = find("senses");
  const slider = find("senses-layer");
  let shown = EXAMPLES.senses[0]; // the example that is drawn; another may be loading
  /** @type {Point[][]} */
  let places = []; // the place of every use, by layer
  /** @type {Row[]} */
  let rows = []; // one row per layer
  let seenUse = -1;
  let playing = 0;

  const chosen = () => EXAMPLES.senses[Number(get("h"))] ?? EXAMPLES.senses[0];
  const uses = (/** @type {typeof shown} */ of) =>
    of.senses.flatMap(({ sentences }, kind) => sentences.map((text) => ({ kind, text })));
  const at = () => (get("t") === "" ? top : Math.max(0, Math.min(top, Number(get("t")) || 0)));

  const load = latest(section.querySelector(".trouble"), async (signal) => {
    const asked = chosen();
    const own = uses(asked);
    const [read, base] = await Promise.all([
      vectors(own.map(({ text }) => text), signal),
      unrelated(),
    ]);
    if (signal.aborted) return;
    const word = folded(asked.word);
    const found = read.map(({ tokens, layers }) => {
      const token = tokens.findIndex((each) => folded(each) === word);
      if (token < 0) throw new Trouble(`The model does not read “${asked.word}” as one word here.`, "refused");
      return layers.map((of) => toUnit(of[token]));
    });
    const planes = range(top + 1).map((layer) => plane(found.map((use) => use[layer])).points);
    shown = asked;
    places = aligned(planes);
    rows = range(top + 1).map((layer) => {
      const pairs = own.flatMap((a, i) =>
        own.slice(i + 1).map((b, j) => ({ isSame: a.kind === b.kind, value: cosine(found[i][layer], found[i + 1 + j][layer]) })),
      );
      const values = (/** @type {boolean} */ same) => mean(pairs.filter((pair) => pair.isSame === same).map(({ value }) => value));
      return { same: values(true), other: values(false), unrelated: base.layers[layer].mean };
    });
    draw();
  });

  /** Returns the place of every use at the slider's position between two layers. @returns {Point[]} */
  function now() {
    const low = Math.floor(at());
    const part = at() - low;
    const next = places[Math.min(top, low + 1)];
    return places[low].map(([x, y], i) => [x + part * (next[i][0] - x), y + part * (next[i][1] - y)]);
  }

  function draw() {
    if (!places.length) return;
    const figure = find("senses-plane");
    const own = uses(shown);
    const near = Math.round(at());
    const between = Math.abs(at() - near) > 0.01;
    const names = own.map(({ text }, i) => `${i + 1} ${context(text, shown.word)}`);
    const said = between ? `between layers ${Math.floor(at())} and ${Math.floor(at()) + 1}` : `layer ${near}`;
    const picture = drift(figure, {
      label: `Four uses of “${shown.word}”, ${said}; a static vector is one point`,
      points: now(),
      extent: places,
      kinds: own.map(({ kind }) => kind),
      names,
      title: `In context, ${said}`,
      seen: seenUse,
      trails: own.map((_, i) => [...places.slice(0, Math.floor(at()) + 1).map((of) => of[i]), now()[i]]),
    });
    takeaway(
      figure,
      [picture],
      `senses-${shown.word}`,
      () => [
        ["layer", "mean cosine, same sense", "other sense", "two unrelated words"],
        ...rows.map((row, layer) => [String(layer), row.same, row.other, row.unrelated]),
      ],
      { title: `“${shown.word}”, ${said}`, legend: shown.senses.map(({ name }, kind) => [kind, name]) },
    );
    slider.value = String(at() * STEPS);
    slider.setAttribute("aria-valuetext", said);
    find("senses-at").textContent = said;
    drawNumbers(near);
  }

  /** @param {number} layer */
  function drawNumbers(layer) {
    const { same, other, unrelated: base } = rows[layer];
    const bar = (/** @type {string} */ name, /** @type {number} */ value) => [
      h("dt", {}, name),
      h(
        "dd",
        {},
        h("span", { class: "bar", "--share": `${(100 * Math.max(0, value)).toFixed(1)}%`, "aria-hidden": "true" }),
        h("span", { class: "number" }, value.toFixed(2)),
      ),
    ];
    find("senses-numbers").replaceChildren(
      ...bar("the same sense", same),
      ...bar("the other sense", other),
      ...bar("two unrelated words", base),
    );
    find("senses-mean").textContent = `Mean cosine at layer ${layer}`;
  }

  function drawList() {
    const { word, senses: groups } = chosen();
    let number = 0;
    const parts = groups.flatMap(({ name, sentences }, kind) => [
      h("li", { class: "sense" }, badge(kind), name),
      ...sentences.map((text) => {
        const i = number++;
        const [before, after] = split(text, word);
        const enter = () => mark(i);
        return h(
          "li",
          { class: "use", onpointerenter: enter, onpointerleave: () => mark(-1) },
          h("span", { class: "soft" }, `${i + 1} `),
          quoted({ lang: EXAMPLES.language ?? language() }, before, h("strong", {}, word), after),
        );
      }),
    ]);
    find("senses-list").replaceChildren(...parts);
    find("senses-note").textContent = chosen().note;
    for (const [i, button] of [...find("senses-examples").querySelectorAll("button")].entries())
      button.setAttribute("aria-pressed", String(EXAMPLES.senses[i] === chosen()));
  }

  /** @param {number} i */
  function mark(i) {
    seenUse = i;
    for (const each of section.querySelectorAll("[data-use]"))
      each.classList.toggle("seen", Number(/** @type {SVGElement} */ (each).dataset.use) === i);
  }

  async function show() {
    drawList();
    slider.value = String(at() * STEPS);
    await load();
  }

  slider.max = String(top * STEPS);
  find("senses-dim").textContent = String(info.elmo.dim);
  find("senses-ticks").append(...range(top + 1).map((i) => h("span", {}, i === 0 ? "0: the word" : String(i))));
  slider.addEventListener("input", () => {
    cancelAnimationFrame(playing);
    set({ t: String(Number(slider.value) / STEPS) });
    draw();
  });
  find("senses-play").addEventListener("click", () => {
    cancelAnimationFrame(playing);
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) {
      set({ t: at() > 0 ? "0" : String(top) });
      return draw();
    }
    const began = performance.now();
    const step = (/** @type {number} */ time) => {
      const part = Math.max(0, Math.min(1, (time - began) / (1500 * top)));
      set({ t: (part * top).toFixed(2) });
      draw();
      if (part < 1) playing = requestAnimationFrame(step);
    };
    playing = requestAnimationFrame(step);
  });
  examples(
    find("senses-examples"),
    EXAMPLES.senses,
    (each) => each.title,
    (each) => {
      cancelAnimationFrame(playing);
      set({ h: String(EXAMPLES.senses.indexOf(each)), t: "" }, true);
      show();
    },
  );
  return { show, draw };
}

/** Returns the text before and after the word. @param {string} text @param {string} word @returns {[string, string]} */
function split(text, word) {
  const begin = new RegExp(`\\b${word}\\b`, "i").exec(text)?.index ?? 0;
  return [text.slice(0, begin), text.slice(begin + word.length)];
}

/** Returns the word with one word on either side. @param {string} text @param {string} word @returns {string} */
function context(text, word) {
  const [before, after] = split(text, word);
  const words = [before.trim().split(" ").at(-1), word, after.trim().split(" ")[0]];
  return words.filter((each) => each).join(" ").replace(/[.,]$/, "");
}
