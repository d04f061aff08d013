// Draws a heat map, which the arrow keys walk.

import { range } from "./api.js";
import { s } from "./dom.js";
import { picture, room, short, wide } from "./marks.js";
import { language } from "./texts.js";

/**
 * Draws a heat map of values from 0 to 1; the arrow keys move from cell to cell.
 * @param {HTMLElement} box
 * @param {{
 *   label: string, names: string[], breaks: Set<number>, strong: Set<number>,
 *   value: (row: number, column: number) => number, seen: (row: number, column: number) => void,
 * }} what `breaks` are the rows that begin a sentence, `strong` the rows of the word; `seen` is called with the cell
 *   that the reader points at
 * @returns {SVGSVGElement}
 */
export function heatMap(box, { label, names, breaks, strong, value, seen }) {
  const n = names.length;
  const margin = 12 + Math.max(...names.map((name) => wide(short(name, 12))));
  const starts = names.map((_, i) => [...breaks].filter((each) => each <= i && each > 0).length * 4);
  const cell = Math.max(11, Math.min(26, Math.floor((room(box, 760) - margin - starts[n - 1] - 8) / n)));
  const at = (/** @type {number} */ i) => margin + i * cell + starts[i];
  const size = at(n - 1) + cell + 6;
  const map = picture(size, size, {
    tabindex: "0",
    role: "application",
    "aria-roledescription": "heat map",
    "aria-label": label,
    "aria-describedby": "word-cell",
  });
  names.forEach((name, i) => {
    const own = strong.has(i) ? "tick strong" : "tick";
    const middle = at(i) + cell / 2;
    map.append(s("text", { x: margin - 6, y: middle + 4, class: `${own} end`, lang: language() }, short(name, 12)));
    const turned = `translate(${middle + 4} ${margin - 6}) rotate(-90)`;
    map.append(s("text", { transform: turned, class: own, lang: language() }, short(name, 12)));
  });
  for (const row of range(n)) {
    for (const column of range(n)) {
      const share = `${(100 * Math.max(0, Math.min(1, value(row, column)))).toFixed(1)}%`;
      map.append(
        s("rect", { x: at(column), y: at(row), width: cell - 1, height: cell - 1, class: "cell", "--share": share }),
      );
    }
  }
  const cursor = s("rect", { width: cell + 1, height: cell + 1, class: "cursor", visibility: "hidden" });
  map.append(cursor);
  let here = [0, Math.min(1, n - 1)];
  const go = (/** @type {number} */ row, /** @type {number} */ column) => {
    here = [row, column].map((each) => Math.max(0, Math.min(n - 1, each)));
    cursor.setAttribute("x", String(at(here[1]) - 1));
    cursor.setAttribute("y", String(at(here[0]) - 1));
    cursor.setAttribute("visibility", "visible");
    seen(here[0], here[1]);
  };
  const cells = [...map.querySelectorAll(".cell")];
  map.addEventListener("pointerover", (event) => {
    const place = cells.indexOf(/** @type {Element} */ (event.target));
    if (place >= 0) go(Math.floor(place / n), place % n);
  });
  map.addEventListener("focus", () => go(here[0], here[1]));
  map.addEventListener("keydown", (event) => {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!step) return;
    event.preventDefault();
    go(here[0] + step[0], here[1] + step[1]);
    cursor.scrollIntoView({ block: "nearest", inline: "nearest" });
  });
  return map;
}
