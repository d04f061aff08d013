// Draws points in the plane: those that are chosen, and those that move from layer to layer.

import { range } from "./api.js";
import { s } from "./dom.js";
import { apart, mark, picture, room, SHAPES, short, wide } from "./marks.js";
import { language } from "./texts.js";

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
        lang: language(),
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
