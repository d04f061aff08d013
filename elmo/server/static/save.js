// Numbers as CSV, pictures as SVG or PNG; and the tables behind pictures.

import { h, say } from "./dom.js";
import { csv } from "./numbers.js";

/** @typedef {(string | number)[][]} Rows the first is the head */

const COLOURS = ["fill", "stroke"];
const KEPT = [
  "stroke-width",
  "stroke-dasharray",
  "opacity",
  "font-size",
  "font-family",
  "font-weight",
  "text-anchor",
];

/**
 * What is below a picture: buttons to take it along, and its numbers as a table that is made when it is opened.
 * @param {HTMLElement} figure holds the picture already, or nothing
 * @param {string} name of files
 * @param {() => Rows} rows
 */
export function takeaway(figure, name, rows) {
  const wasOpen = figure.querySelector("details")?.open ?? false;
  for (const old of figure.querySelectorAll(":scope > .take, :scope > details")) old.remove();
  const button = (/** @type {string} */ text, /** @type {() => void} */ onclick) =>
    h("button", { type: "button", onclick }, text);
  const row = h(
    "div",
    { class: "take" },
    button("Copy as CSV", () => copy(csv(rows()), name)),
  );
  const picture = figure.querySelector("svg");
  if (picture) {
    row.append(button("Save SVG", () => download(drawing(picture), `${name}.svg`)));
    row.append(button("Save PNG", () => png(picture, name)));
  }
  const table = h("details", {}, h("summary", {}, "The numbers as a table"));
  const open = () => {
    if (table.open && table.childElementCount === 1) table.append(asTable(rows(), name));
  };
  table.addEventListener("toggle", open);
  table.open = wasOpen;
  figure.append(row, table);
}

/** @param {Rows} rows @param {string} name */
function asTable(rows, name) {
  const number = (/** @type {number} */ each) =>
    each !== 0 && Math.abs(each) < 0.001 ? each.toPrecision(2) : each.toFixed(3);
  const cell = (/** @type {string | number} */ each) =>
    typeof each === "number" ? h("td", { class: "number" }, number(each)) : h("td", {}, each);
  const [head, ...body] = rows;
  const table = h(
    "table",
    {},
    h("thead", {}, h("tr", {}, ...head.map((each) => h("th", { scope: "col" }, String(each))))),
    h("tbody", {}, ...body.map((row) => h("tr", {}, ...row.map(cell)))),
  );
  return h("div", { class: "scroll", role: "region", "aria-label": `Numbers: ${name}`, tabindex: "0" }, table);
}

/** Copies, or saves a file where a browser lets no page copy. @param {string} text @param {string} name */
async function copy(text, name) {
  try {
    await navigator.clipboard.writeText(text);
    say("Copied the numbers.");
  } catch {
    download(new Blob([text], { type: "text/csv" }), `${name}.csv`);
  }
}

/** @param {Blob} blob @param {string} name */
function download(blob, name) {
  const address = URL.createObjectURL(blob);
  h("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
  say(`Saved ${name}.`);
}

/** The picture as a file that needs no style sheet. @param {SVGSVGElement} picture @returns {Blob} */
export function drawing(picture) {
  const copied = /** @type {SVGSVGElement} */ (picture.cloneNode(true));
  const [from, to] = [picture, copied].map((each) => [each, ...each.querySelectorAll("*")]);
  from.forEach((element, i) => {
    const style = getComputedStyle(element);
    for (const name of KEPT) to[i].setAttribute(name, style.getPropertyValue(name));
    for (const name of COLOURS) paint(to[i], name, style.getPropertyValue(name));
    for (const name of ["class", "style", "tabindex", "role"]) to[i].removeAttribute(name);
  });
  const paper = document.createElementNS(copied.namespaceURI, "rect");
  paper.setAttribute("width", "100%");
  paper.setAttribute("height", "100%");
  paint(paper, "fill", getComputedStyle(document.body).backgroundColor);
  copied.prepend(paper);
  // Tokens may hold characters that XML may not.
  const text = new XMLSerializer().serializeToString(copied).replaceAll(/[^\P{Cc}\t\n\r]|[\ufffe\uffff]/gu, "\ufffd");
  return new Blob([text], { type: "image/svg+xml" });
}

/**
 * Sets a colour as every program knows it: mixed already, and its transparency apart.
 * @param {Element} element @param {string} name @param {string} value
 */
function paint(element, name, value) {
  element.setAttribute(name, value);
  if (value === "none" || value.startsWith("rgb(")) return;
  const pen = document.createElement("canvas").getContext("2d");
  if (!pen) return;
  pen.fillStyle = value;
  pen.fillRect(0, 0, 1, 1);
  const [red, green, blue, alpha] = pen.getImageData(0, 0, 1, 1).data;
  element.setAttribute(name, `rgb(${red}, ${green}, ${blue})`);
  element.setAttribute(`${name}-opacity`, (alpha / 255).toFixed(3));
}

/** @param {SVGSVGElement} picture @param {string} name */
async function png(picture, name) {
  const address = URL.createObjectURL(drawing(picture));
  const image = new Image();
  image.src = address;
  try {
    await image.decode();
    const canvas = document.createElement("canvas");
    canvas.width = 2 * picture.width.baseVal.value;
    canvas.height = 2 * picture.height.baseVal.value;
    canvas.getContext("2d")?.drawImage(image, 0, 0, canvas.width, canvas.height);
    canvas.toBlob((blob) => (blob ? download(blob, `${name}.png`) : fail()));
  } catch {
    fail();
  } finally {
    URL.revokeObjectURL(address);
  }
}

const fail = () => say("This browser makes no PNG of the picture; save it as SVG.");
