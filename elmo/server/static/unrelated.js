// Computes the cosines of unrelated words, which are rarely 0; charts show them as a band.

import { range, vectors } from "./api.js";
import { EXAMPLES } from "./examples.js";
import { cosine, mean, mixed } from "./numbers.js";
import { folded } from "./texts.js";

/** @typedef {{low: number, mean: number, high: number}} Band the limits of the middle 90 %, and the mean */
/** @typedef {{pairs: [Float32Array[], Float32Array[]][], layers: Band[]}} Unrelated */

const PAIRS = 300;
/** @type {Promise<Unrelated> | null} */
let known = null;

/**
 * Returns the cosines of pairs of different words from different example sentences, always the same.
 * @returns {Promise<Unrelated>}
 */
export function unrelated() {
  known ??= measured().catch((error) => {
    known = null;
    throw error;
  });
  return known;
}

/** @returns {Promise<Unrelated>} */
async function measured() {
  const texts = EXAMPLES.senses.flatMap((each) => each.senses.flatMap(({ sentences }) => sentences));
  const read = await vectors(texts);
  const words = read.flatMap(({ tokens, layers }, sentence) =>
    tokens
      .map((text, i) => ({ text: folded(text), sentence, layers: layers.map((of) => of[i]) }))
      .filter(({ text }) => /^[\p{L}\p{M}]+$/u.test(text)),
  );
  /** @type {[Float32Array[], Float32Array[]][]} */
  const pairs = [];
  for (let i = 0; pairs.length < PAIRS && i < 20 * PAIRS; i++) {
    const [a, b] = [words[(i * 7919) % words.length], words[(i * 104729 + 13) % words.length]];
    if (a.text !== b.text && a.sentence !== b.sentence) pairs.push([a.layers, b.layers]);
  }
  return { pairs, layers: range(read[0].layers.length).map((layer) => band(pairs.map(([a, b]) => cosine(a[layer], b[layer])))) };
}

/** Returns the band of the mix of the layers. @param {Unrelated} of @param {number[]} weights @returns {Band} */
export const unrelatedMix = ({ pairs }, weights) =>
  band(pairs.map(([a, b]) => cosine(mixed(a, weights, 1), mixed(b, weights, 1))));

/** @param {number[]} values @returns {Band} */
function band(values) {
  const order = values.toSorted((a, b) => a - b);
  const at = (/** @type {number} */ part) => order[Math.round(part * (order.length - 1))];
  return { low: at(0.05), mean: mean(values), high: at(0.95) };
}
