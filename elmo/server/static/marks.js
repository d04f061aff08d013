// What all pictures share: their marks, their size, and the width and the place of labels.

import { range } from "./api.js";
import { s } from "./dom.js";

export const SHAPES = 6;
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
export function picture(width, height, attributes, ...children) {
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
export const room = (box, most) => Math.max(260, Math.min(most, Math.floor(box.clientWidth || most)));

const segmenter = "Segmenter" in Intl ? new Intl.Segmenter() : null;

/** Cuts a name to at most `most` letters, each with its marks. @param {string} name @param {number} most @returns {string} */
export function short(name, most) {
  const letters = segmenter ? [...segmenter.segment(name)].map((part) => part.segment) : [...name];
  return letters.length > most ? `${letters.slice(0, most - 1).join("")}…` : name;
}

const pen = document.createElement("canvas").getContext("2d");

/** Estimates the width of a label in bold, before it is drawn. @param {string} text @returns {number} */
export function wide(text) {
  if (!pen) return 12 * text.length;
  pen.font = `700 12px ${getComputedStyle(document.body).fontFamily}`;
  return Math.ceil(pen.measureText(text).width);
}

/**
 * Moves heights so that they are at least `gap` apart and none is below `lowest`.
 * @param {number[]} heights @param {number} gap @param {number} lowest @returns {number[]}
 */
export function apart(heights, gap, lowest) {
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
