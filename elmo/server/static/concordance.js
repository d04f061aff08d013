// Finds the uses of a word in a text, and writes each in its context.

import { range } from "./api.js";
import { h } from "./dom.js";
import { badge } from "./marks.js";
import { cosine } from "./numbers.js";
import { folded, joined, language, lines, quoted, segments } from "./texts.js";

/**
 * A sentence with a label; `position` is that of the use, if it is known.
 * @typedef {{label: string, sentence: string | string[], position?: number}} Line
 */
/** @typedef {{label: string, tokens: string[], token: number, layers: Float32Array[]}} Use */

const NEAREST = 8;
const CONTEXT = 7;
/** The number of words that are shown on either side of a use. */

/**
 * Returns the sentences of a text that hold a word, with the labels of their lines. If there are more than are shown,
 * it keeps those in which the word is not a part of a longer one, if there are any.
 * @param {string} text @param {string} word the word, folded @param {number} most the number that is shown
 * @returns {Line[]}
 */
export function fromText(text, word, most) {
  const all = lines(text).flatMap((line) => {
    const [, label, rest] = /^([^|]{1,40})\|(.*)$/.exec(line) ?? [null, "", line];
    const sentences = segments(rest.trim()).filter((sentence) => folded(sentence).includes(word));
    return sentences.map((sentence) => ({ label: label.trim(), sentence }));
  });
  if (all.length <= most) return all; // all are read, and the tokenizer knows that "cannot" has a "not"
  const letters = String.raw`\p{L}\p{M}\p{N}`;
  const begin = new RegExp(`^[${letters}]`, "u").test(word) ? `(?:^|[^${letters}])` : "";
  const end = new RegExp(`[${letters}]$`, "u").test(word) ? `(?![${letters}])` : "";
  const whole = new RegExp(begin + word.replaceAll(/[\\^$.*+?()[\]{}|/]/g, String.raw`\$&`) + end, "u");
  const found = all.filter(({ sentence }) => whole.test(folded(sentence)));
  return found.length ? found : all;
}

/**
 * Returns at most `most` of the elements, taken evenly.
 * @template T
 * @param {T[]} all @param {number} most @returns {T[]}
 */
export function thinned(all, most) {
  const n = Math.min(most, all.length);
  return range(n).map((i) => all[Math.floor((i * all.length) / n)]);
}

/**
 * Returns the uses of a word in sentences that the model has read.
 * @param {Line[]} given the sentences @param {import("./api.js").Read[]} read the same @param {string} word folded
 * @returns {Use[]}
 */
export function usesIn(given, read, word) {
  return read.flatMap(({ tokens, layers }, i) => {
    const { label, position } = given[i];
    const places = position === undefined ? range(tokens.length).filter((at) => folded(tokens[at]) === word) : [position];
    return places.map((token) => ({ label, tokens, token, layers: layers.map((of) => of[token]) }));
  });
}

/**
 * Returns the uses that are nearest to a use at a layer, and their cosines.
 * @param {Use[]} uses @param {number} i @param {number} layer @returns {[number, number][]}
 */
export function nearest(uses, i, layer) {
  const others = range(uses.length).filter((j) => j !== i);
  return others
    .map((j) => /** @type {[number, number]} */ ([j, cosine(uses[i].layers[layer], uses[j].layers[layer])]))
    .toSorted((a, b) => b[1] - a[1] || a[0] - b[0])
    .slice(0, NEAREST);
}

/** Returns a use as a keyword in its context. @param {Use} use @param {number} kind that of its mark @returns {Node[]} */
export function inContext({ tokens, token, label }, kind) {
  const [begin, end] = [Math.max(0, token - CONTEXT), Math.min(tokens.length, token + CONTEXT + 1)];
  const before = (begin > 0 ? "… " : "") + joined(tokens.slice(begin, token));
  const after = joined(tokens.slice(token + 1, end)) + (end < tokens.length ? " …" : "");
  const use = h("strong", { lang: language() }, ...(label ? [badge(kind)] : []), tokens[token]);
  const named = label ? [quoted({ class: "unseen" }, `${label}: `)] : [];
  return [...named, quoted({ class: "before" }, before), " ", use, " ", quoted({}, after)];
}

/**
 * Returns a sentence with its word highlighted.
 * @param {Use} use @param {number} kind that of its mark @returns {(Node | string)[]}
 */
export function inSentence({ tokens, token, label }, kind) {
  const [before, after] = [tokens.slice(0, token), tokens.slice(token + 1)].map(joined);
  const mark = label ? [badge(kind), quoted({}, label), ": "] : [];
  const gap = /^[.,;:!?]/.test(after) ? "" : " ";
  const use = h("strong", {}, tokens[token]);
  return [...mark, quoted({}, before ? `${before} ` : "", use, after ? gap + after : "")];
}
