// Draws lines over layers.

import { range } from "./api.js";
import { s } from "./dom.js";
import { apart, mark, picture, room, SHAPES, wide } from "./marks.js";

/**
 * Draws lines from layer to layer over a band of usual values. The axis starts at 0, or lower if a value is negative.
 * @param {HTMLElement} box
 * @param {{
 *   label: string, names: string[], lines: {name: (most: number) => string, values: number[]}[],
 *   band: import("./unrelated.js").Band[], bandName: string,
 * }} what `name` returns the name of a line, with at most `most` letters of each word
 * @returns {SVGSVGElement}
 */
export function lineChart(box, { label, names, lines, band, bandName }) {
  const width = room(box, 560);
  const height = 300;
  const space = (/** @type {number} */ most) => 24 + Math.max(...lines.map((line) => wide(line.name(most))));
  // Long words are cut, so that names take at most 40 % of the width.
  const most = Math.max(
    3,
    range(20).findLastIndex((letters) => space(letters) <= 0.4 * width),
  );
  const [left, right, top, bottom] = [44, space(most), 14, 40];
  const least = Math.min(...lines.flatMap((line) => line.values), ...band.map((each) => each.low));
  const low = Math.min(0, Math.floor(least * 5) / 5);
  const x = (/** @type {number} */ i) => left + ((width - left - right) * i) / Math.max(1, names.length - 1);
  const y = (/** @type {number} */ value) => top + ((height - top - bottom) * (1 - value)) / (1 - low);
  const chart = picture(width, height, { role: "img", "aria-label": label });
  for (const tick of range(Math.round((1 - low) / 0.2) + 1).map((i) => low + i * 0.2)) {
    chart.append(s("line", { x1: left, x2: width - right, y1: y(tick), y2: y(tick), class: "grid" }));
    chart.append(s("text", { x: left - 8, y: y(tick) + 4, class: "tick end" }, tick.toFixed(1)));
  }
  names.forEach((name, i) => chart.append(s("text", { x: x(i), y: height - bottom + 24, class: "tick middle" }, name)));
  const edge = (/** @type {"low" | "high"} */ side) => band.map((each, i) => `${x(i)} ${y(each[side])}`);
  chart.append(s("path", { d: `M${[...edge("high"), ...edge("low").toReversed()].join("L")}Z`, class: "band" }));
  chart.append(s("path", { d: `M${band.map((each, i) => `${x(i)} ${y(each.mean)}`).join("L")}`, class: "usual" }));
  chart.append(s("text", { x: left + 6, y: y(low) - 6, class: "tick" }, bandName));
  const ends = apart(
    lines.map((line) => y(line.values[line.values.length - 1])),
    14,
    height - bottom,
  );
  lines.forEach((line, kind) => {
    const own = `kind-${kind % SHAPES}`;
    const points = line.values.map((value, i) => `${x(i)} ${y(value)}`);
    // The mix is not a layer above the others, so it stands apart.
    const round = kind >= SHAPES ? ` round-${Math.min(2, Math.floor(kind / SHAPES))}` : "";
    chart.append(s("path", { d: `M${points.slice(0, -1).join("L")}`, class: `line ${own}${round}` }));
    chart.append(s("path", { d: `M${points.slice(-2).join("L")}`, class: `line mixture ${own}` }));
    line.values.forEach((value, i) => chart.append(mark(kind, { transform: `translate(${x(i)} ${y(value)})` })));
    chart.append(s("text", { x: width - right + 12, y: ends[kind] + 4, class: `name ${own}` }, line.name(most)));
  });
  return chart;
}
