// Reads text as the model on the server does: its language, its words and its sentences.

import { h } from "./dom.js";

/** @typedef {{language: string | null, tokens: "spacy" | "whitespace"}} Reading the language, and what separates tokens */

/** @type {Reading} */
let reading = { language: null, tokens: "spacy" };

/** Reads text as the model does from now on, and names the language of the fields. @param {Reading} of */
export function readAs(of) {
  reading = of;
  for (const field of document.querySelectorAll("[dir=auto]")) field.setAttribute("lang", language());
}

/** @returns {string} the language of the model's texts as HTML names it; empty if it is not known */
export const language = () => reading.language ?? "";

/**
 * Makes an element for a piece of the reader's text, in its language and direction. A `dir="auto"` around it ignores it.
 * @param {Record<string, any>} attributes @param {...(Node | string)} children @returns {HTMLElement}
 */
export const quoted = (attributes, ...children) => h("bdi", { lang: language(), ...attributes }, ...children);

/**
 * Returns a word for comparisons: words that look alike are equal, whatever their capitals, the form of their accents,
 * and the soft hyphens of copied pages. If spaces separate the model's tokens, "bank." is "bank", too.
 * @param {string} text @returns {string}
 */
export function folded(text) {
  const own = text.normalize("NFC").replaceAll("\u00ad", "").toLowerCase();
  return (reading.tokens === "whitespace" && own.replaceAll(/^\p{P}+|\p{P}+$/gu, "")) || own;
}

/** Returns the lines of a field that are not empty. @param {string} text @returns {string[]} */
export const lines = (text) =>
  text
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line);

const LONGEST_LINE = 160;
/** The letters of the longest line that is one sentence; a longer line is a paragraph. */

/**
 * Returns the sentences of a field: its lines, or the sentences of lines that are paragraphs.
 * @param {string} text @returns {string[]}
 */
export const sentences = (text) => lines(text).flatMap((line) => (line.length > LONGEST_LINE ? segments(line) : [line]));

/** @param {string} text @returns {string[]} its sentences, or the text itself if the browser cannot divide it */
export function segments(text) {
  if (!("Segmenter" in Intl)) return [text];
  const parts = new Intl.Segmenter(language() || "en", { granularity: "sentence" }).segment(text);
  return [...parts].map((part) => part.segment.trim()).filter((part) => part);
}

/** Joins words, without spaces before points and commas. @param {string[]} tokens @returns {string} */
export const joined = (tokens) => tokens.join(" ").replaceAll(/ (?=[.,;:!?])/g, "");
