// Saves numbers as CSV and pictures as SVG or PNG, and shows the tables behind pictures.

import { mark } from "./marks.js";
import { h, s, say } from "./dom.js";
import { csv } from "./numbers.js";
import { quoted } from "./texts.js";

/** @typedef {(string | number)[][]} Rows rows of a table, of which the first is the head */
/**
 * @typedef {{title?: string, legend?: [number, string][], ofWords?: boolean}} Caption the title and the legend of a saved
 *   picture, and whether the heads of the table's columns are words of the reader's text
 */

const TEXTS = new Set(["label", "sentence", "token", "word"]);
/** The heads of the columns that hold pieces of the reader's text. */
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
 * Shows a picture and, below it, buttons that save it, and its numbers as a table that is made when it is opened. A
 * table that the reader has opened stays open when the picture is drawn again.
 * @param {HTMLElement} figure @param {Node[]} shown the picture with what belongs to it, or nothing
 * @param {string} name the name of files, without a suffix
 * @param {() => Rows} rows @param {Caption} [caption] the caption of a saved picture
 */
export function takeaway(figure, shown, name, rows, caption = {}) {
  const wasOpen = figure.querySelector("details")?.open ?? false;
  figure.replaceChildren(...shown);
  figure.setAttribute("aria-label", caption.title ?? name.replaceAll("-", " "));
  const button = (/** @type {string} */ text, /** @type {() => void} */ onclick) =>
    h("button", { type: "button", onclick }, text);
  const row = h(
    "div",
    { class: "take" },
    button("Copy as CSV", () => copy(csv(rows()), name)),
  );
  const picture = figure.querySelector("svg");
  if (picture) {
    row.append(button("Save SVG", () => download(drawing(picture, caption), `${name}.svg`)));
    row.append(button("Save PNG", () => png(picture, name, caption)));
  }
  const table = h("details", {}, h("summary", {}, "The numbers as a table"));
  const open = () => {
    if (table.open && table.childElementCount === 1) table.append(asTable(rows(), name, caption.ofWords));
  };
  table.addEventListener("toggle", open);
  table.open = wasOpen;
  open(); // the event comes later than the next frame may
  figure.append(row, table);
}

/** @param {Rows} rows @param {string} name @param {boolean} [ofWords] */
function asTable(rows, name, ofWords = false) {
  const number = (/** @type {number} */ each) =>
    each !== 0 && Math.abs(each) < 0.001 ? each.toPrecision(2) : each.toFixed(3);
  const [head, ...body] = rows;
  const cell = (/** @type {string | number} */ each, /** @type {number} */ column) => {
    if (typeof each === "number") return h("td", { class: "number" }, number(each));
    return h("td", {}, TEXTS.has(String(head[column])) ? quoted({}, each) : each);
  };
  const title = (/** @type {string | number} */ each, /** @type {number} */ column) =>
    h("th", { scope: "col" }, ofWords && column > 0 ? quoted({}, String(each)) : String(each));
  const table = h(
    "table",
    {},
    h("thead", {}, h("tr", {}, ...head.map(title))),
    h("tbody", {}, ...body.map((row) => h("tr", {}, ...row.map(cell)))),
  );
  return h("div", { class: "scroll", role: "region", "aria-label": `Numbers: ${name}`, tabindex: "0" }, table);
}

/** Copies text, or saves it as a file if the browser lets no page copy. @param {string} text @param {string} name */
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

/**
 * Makes a file of the picture, below its title and legend, that needs no style sheet.
 * @param {SVGSVGElement} picture @param {Caption} [caption] @returns {Blob}
 */
export function drawing(picture, { title = "", legend = [] } = {}) {
  const copied = /** @type {SVGSVGElement} */ (picture.cloneNode(true));
  const [from, to] = [picture, copied].map((each) => [each, ...each.querySelectorAll("*")]);
  from.forEach((element, i) => {
    const style = getComputedStyle(element);
    for (const name of KEPT) to[i].setAttribute(name, style.getPropertyValue(name));
    for (const name of COLOURS) paint(to[i], name, style.getPropertyValue(name));
    for (const name of ["class", "style", "tabindex", "role"]) to[i].removeAttribute(name);
  });
  const top = title ? 24 : 4;
  const rows = legendRows(legend, top);
  if (title) rows.unshift(s("text", { x: 8, y: 16, "font-weight": "600" }, title));
  if (rows.length) {
    const [width, height] = [picture.width.baseVal.value, picture.height.baseVal.value];
    const room = top + 20 * legend.length + 6;
    const inner = s("svg", { width, height, y: room, viewBox: `0 0 ${width} ${height}` }, ...copied.childNodes);
    for (const row of rows) {
      row.setAttribute("font-size", "13");
      row.setAttribute("font-family", getComputedStyle(picture).fontFamily);
      paint(row, "fill", getComputedStyle(document.body).color);
    }
    copied.replaceChildren(...rows, inner);
    copied.setAttribute("height", String(height + room));
    copied.setAttribute("viewBox", `0 0 ${width} ${height + room}`);
  }
  const paper = document.createElementNS(copied.namespaceURI, "rect");
  paper.setAttribute("width", "100%");
  paper.setAttribute("height", "100%");
  paint(paper, "fill", getComputedStyle(document.body).backgroundColor);
  copied.prepend(paper);
  // Tokens may hold characters that XML may not.
  const text = new XMLSerializer().serializeToString(copied).replaceAll(/[^\P{Cc}\t\n\r]|[\ufffe\uffff]/gu, "\ufffd");
  return new Blob([text], { type: "image/svg+xml" });
}

/** @param {[number, string][]} legend @param {number} top @returns {SVGElement[]} */
function legendRows(legend, top) {
  const sample = document.body.appendChild(s("svg", { width: 0, height: 0 }));
  const rows = legend.map(([kind, name], i) => {
    const own = sample.appendChild(mark(kind, { transform: `translate(14 ${top + 10 + 20 * i})` }));
    paint(own, "fill", getComputedStyle(own).fill);
    own.removeAttribute("class");
    return s("g", {}, own, s("text", { x: 28, y: top + 14 + 20 * i }, name));
  });
  sample.remove();
  return rows;
}

/**
 * Sets a colour in a form that every program reads: as `rgb`, with its transparency in an attribute of its own.
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

/** @param {SVGSVGElement} picture @param {string} name @param {Caption} caption */
async function png(picture, name, caption) {
  const address = URL.createObjectURL(drawing(picture, caption));
  const image = new Image();
  image.src = address;
  try {
    await image.decode();
    const canvas = document.createElement("canvas");
    canvas.width = 2 * image.naturalWidth;
    canvas.height = 2 * image.naturalHeight;
    canvas.getContext("2d")?.drawImage(image, 0, 0, canvas.width, canvas.height);
    canvas.toBlob((blob) => (blob ? download(blob, `${name}.png`) : fail()));
  } catch {
    fail();
  } finally {
    URL.revokeObjectURL(address);
  }
}

const fail = () => say("This browser makes no PNG of the picture; save it as SVG.");
