// Draws pictures: lines over layers, a heat map, points in the plane. They fill their boxes; style.css has the colours.

import { range } from "./api.js";
import { s } from "./dom.js";

const SHAPES = 6;
/** The number of colours and of shapes. The seventh mark has the first colour and the second shape: 36 marks differ. */
const PATHS = [
  "M5 0A5 5 0 1 1-5 0A5 5 0 1 1 5 0Z",
  "M-4.5-4.5H4.5V4.5H-4.5Z",
  "M0-5.5L5.5 4.5H-5.5Z",
  "M0-6L6 0L0 6L-6 0Z",
  "M0 5.5L5.5-4.5H-5.5Z",
  "M-5-1.8H-1.8V-5H1.8V-1.8H5V1.8H1.8V5H-1.8V1.8H-5Z",
];

/**
 * @param {number} width @param {number} height @param {Record<string, any>} attributes @param {...(Node | string)} children
 * @returns {SVGSVGElement}
 */
function picture(width, height, attributes, ...children) {
  return s("svg", { width, height, viewBox: `0 0 ${width} ${height}`, ...attributes }, ...children);
}

/**
 * Draws the mark of a line or a label.
 * @param {number} kind @param {Record<string, any>} [attributes] @returns {SVGElement}
 */
export function mark(kind, attributes = {}) {
  const own = kind < 0 ? "plain" : `kind-${kind % SHAPES}`;
  const shape = kind < 0 ? 0 : (kind + Math.floor(kind / SHAPES)) % SHAPES;
  return s("path", { d: PATHS[shape], class: `mark ${own}`, ...attributes });
}

/** Draws a mark for a legend. @param {number} kind @returns {SVGSVGElement} */
export const badge = (kind) =>
  picture(16, 16, { "aria-hidden": "true", class: "badge" }, s("g", { transform: "translate(8 8)" }, mark(kind)));

/** Returns a box's width, from 260 to `most`. @param {HTMLElement} box @param {number} most @returns {number} */
const room = (box, most) => Math.max(260, Math.min(most, Math.floor(box.clientWidth || most)));

const segmenter = "Segmenter" in Intl ? new Intl.Segmenter() : null;

/** Cuts a name to at most `most` letters, each with its marks. @param {string} name @param {number} most @returns {string} */
export function short(name, most) {
  const letters = segmenter ? [...segmenter.segment(name)].map((part) => part.segment) : [...name];
  return letters.length > most ? `${letters.slice(0, most - 1).join("")}…` : name;
}

const pen = document.createElement("canvas").getContext("2d");

/** Estimates the width of a label in bold, before it is drawn. @param {string} text @returns {number} */
function wide(text) {
  if (!pen) return 12 * text.length;
  pen.font = `700 12px ${getComputedStyle(document.body).fontFamily}`;
  return Math.ceil(pen.measureText(text).width);
}

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

/**
 * Moves heights so that they are at least `gap` apart and none is below `lowest`.
 * @param {number[]} heights @param {number} gap @param {number} lowest @returns {number[]}
 */
function apart(heights, gap, lowest) {
  const order = range(heights.length).toSorted((a, b) => heights[a] - heights[b]);
  const moved = [...heights];
  order.forEach((i, rank) => {
    if (rank > 0) moved[i] = Math.max(moved[i], moved[order[rank - 1]] + gap);
  });
  order.toReversed().forEach((i, rank) => {
    moved[i] = Math.min(moved[i], lowest - rank * gap);
  });
  return moved;
}

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
    map.append(s("text", { x: margin - 6, y: middle + 4, class: `${own} end` }, short(name, 12)));
    const turned = `translate(${middle + 4} ${margin - 6}) rotate(-90)`;
    map.append(s("text", { transform: turned, class: own }, short(name, 12)));
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

/**
 * Draws points that are buttons: the arrow keys go from one to the next, and Enter chooses one.
 * @param {HTMLElement} box
 * @param {{
 *   label: string, points: [number, number][], kinds: number[], names: string[], chosen: number, near: number[],
 *   choose: (i: number) => void, seen: (i: number) => void,
 * }} what `kinds` are those of the points' marks; `seen` is called with the point that the reader points at
 * @returns {SVGSVGElement}
 */
export function scatter(box, { label, points, kinds, names, chosen, near, choose, seen }) {
  const width = room(box, 480);
  const height = Math.round(width * 0.8);
  const pad = 22;
  const isOne = points.flat().every((each) => Math.abs(each) < 1e-6);
  const [[west, east], [south, north]] = [0, 1].map((axis) => {
    const all = points.map((point) => point[axis]);
    return [Math.min(...all), Math.max(...all)];
  });
  const unit = isOne ? 0 : Math.min((width - 2 * pad) / (east - west), (height - 2 * pad) / (north - south));
  const place = (/** @type {[number, number]} */ [x, y]) => [
    width / 2 + (x - (west + east) / 2) * unit,
    height / 2 - (y - (south + north) / 2) * unit,
  ];
  const plane = picture(width, height, { role: "group", "aria-label": label });
  plane.append(s("rect", { x: 0.5, y: 0.5, width: width - 1, height: height - 1, class: "frame" }));
  const order = range(points.length).toSorted((a, b) => points[a][0] - points[b][0] || a - b);
  const first = chosen >= 0 ? chosen : order[0];
  const marks = points.map((point, i) => {
    const [x, y] = place(point);
    const kind = ["point", i === chosen ? "chosen" : "", near.includes(i) ? "near" : ""].join(" ");
    return s(
      "g",
      {
        role: "button",
        tabindex: i === first ? "0" : "-1",
        "aria-label": names[i],
        "aria-pressed": String(i === chosen),
        class: kind,
        transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})`,
        "data-use": i,
        onclick: () => choose(i),
        onpointerenter: () => seen(i),
        onfocus: () => seen(i),
        onkeydown: (/** @type {KeyboardEvent} */ event) => {
          const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
          if (event.key === "Enter" || event.key === " ") choose(i);
          else if (step) marks[order[(order.indexOf(i) + step + order.length) % order.length]].focus();
          else return;
          event.preventDefault();
        },
      },
      s("circle", { r: 12, class: "halo" }),
      mark(kinds[i]),
    );
  });
  // The chosen point lies above the others.
  const layers = [order.filter((i) => i !== chosen), order.filter((i) => i === chosen)].flat();
  plane.append(...layers.map((i) => marks[i]));
  if (isOne && points.length > 1)
    plane.append(s("text", { x: width / 2, y: height / 2 + 34, class: "tick middle" }, `all ${points.length} uses`));
  return plane;
}

/**
 * Draws points that move, beside a single point for the word's static vector.
 * @param {HTMLElement} box
 * @param {{
 *   label: string, points: [number, number][], extent: [number, number][][], kinds: number[], names: string[],
 *   title: string, seen: number, trails: [number, number][][],
 * }} what `extent` are all places, which fix the scale; `trails` are the points' paths; `seen` is the highlighted point
 * @returns {SVGSVGElement}
 */
export function drift(box, { label, points, extent, kinds, names, title, seen, trails }) {
  const width = room(box, 640);
  const isNarrow = width < 480;
  const [side, height, head] = [isNarrow ? 0 : 150, isNarrow ? 250 : 330, 30];
  const left = side ? side + 20 : 0;
  const [own, tall] = [width - left, height - head];
  const drawn = picture(width, height, { role: "img", "aria-label": label });
  const frame = (/** @type {number} */ x, /** @type {number} */ size, /** @type {string} */ name) =>
    drawn.append(
      s("text", { x, y: 18, class: "strong" }, name),
      s("rect", { x: x + 0.5, y: head + 0.5, width: size - 1, height: tall - 1, class: "frame" }),
    );
  if (side) {
    frame(0, side, "A static vector");
    drawn.append(
      mark(-1, { transform: `translate(${side / 2} ${head + tall / 2})`, class: "mark still" }),
      s("text", { x: side / 2, y: head + tall / 2 + 26, class: "tick middle" }, `${points.length} uses,`),
      s("text", { x: side / 2, y: head + tall / 2 + 42, class: "tick middle" }, "one point"),
    );
  }
  frame(left, own, title);
  const space = Math.min(0.36 * own, Math.max(...names.map(wide)) + 20);
  const fits = (/** @type {string} */ name) => range(40).findLastIndex((most) => wide(short(name, most)) <= space - 20);
  const labels = names.map((name) => short(name, Math.max(3, fits(name))));
  const reach = (/** @type {0 | 1} */ axis) => Math.max(1e-9, ...extent.flat().map((point) => Math.abs(point[axis])));
  const unit = Math.min((own / 2 - space) / reach(0), (tall / 2 - 26) / reach(1));
  const placed = (/** @type {[number, number][]} */ all) =>
    all.map(([x, y]) => [left + own / 2 + x * unit, head + tall / 2 - y * unit]);
  const place = placed(points);
  const toRight = place.map(([x]) => x >= left + own / 2 - 1);
  /** Moves the labels of one side apart. @param {boolean} isRight */
  const heights = (isRight) => {
    const which = range(points.length).filter((i) => toRight[i] === isRight);
    const moved = apart(which.map((i) => place[i][1]), 16, height - 12);
    return which.map((i, rank) => /** @type {[number, number]} */ ([i, moved[rank]]));
  };
  for (const [i, y] of [...heights(true), ...heights(false)]) {
    const [x, colour] = [place[i][0] + (toRight[i] ? 12 : -12), `kind-${kinds[i] % SHAPES}`];
    const group = s("g", { "data-use": i, class: i === seen ? "seen" : "" });
    const way = placed(trails[i]).map((point) => point.map((each) => each.toFixed(1)).join(" "));
    group.append(s("path", { d: `M${way.join("L")}`, class: `trail ${colour}` }));
    group.append(s("circle", { r: 11, cx: place[i][0], cy: place[i][1], class: "halo" }));
    const where = `translate(${place[i][0].toFixed(1)} ${place[i][1].toFixed(1)}) scale(1.3)`;
    group.append(mark(kinds[i], { transform: where }));
    group.append(s("text", { x, y: y + 4, class: `name ${colour}${toRight[i] ? "" : " end"}` }, labels[i]));
    drawn.append(group);
  }
  return drawn;
}
