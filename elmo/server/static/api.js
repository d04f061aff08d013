// Sends requests to the server's routes; errors become `Trouble`, whose message is for the reader of the page.

/** @typedef {{tokens: string[], layers: Float32Array[][]}} Read a sentence: `layers[layer][token]` is a vector */
/** @typedef {{tokens: string[], sentence_ends: number[], forward: number[], backward: number[], known: boolean[]}} Scores */
/** @typedef {{word: string, log_probability: number, forward: number, backward: number}} Substitute */
/** @typedef {{layers: number, dim: number, scores: boolean, index_tokens: number | null}} Facts */
/** @typedef {{model_id: string, version: string, max_client_batch_size: number, elmo: Facts}} Info */

const KEY = "elmo-key";

/** An error that the reader of the page can mend; `kind` is "key", "gone" or "refused". */
export class Trouble extends Error {
  /** @param {string} message @param {"key" | "gone" | "refused"} kind */
  constructor(message, kind) {
    super(message);
    this.kind = kind;
  }
}

/** Keeps the key until the tab is closed. @param {string} key */
export const useKey = (key) => sessionStorage.setItem(KEY, key.trim());

/** @returns {boolean} whether a key was given */
export const hasKey = () => sessionStorage.getItem(KEY) !== null;

/**
 * @param {string} path
 * @param {{body?: unknown, signal?: AbortSignal, accept?: string}} [options]
 * @returns {Promise<Response>}
 */
async function ask(path, { body, signal, accept = "application/json" } = {}) {
  /** @type {Record<string, string>} */
  const headers = { accept };
  const key = sessionStorage.getItem(KEY);
  // No header can carry other letters, so the server would refuse such a key.
  if (key !== null && /^[ -~]+$/.test(key)) headers.authorization = `Bearer ${key}`;
  if (body !== undefined) headers["content-type"] = "application/json";
  /** @type {Response} */
  let response;
  try {
    response = await fetch(path, {
      method: body === undefined ? "GET" : "POST",
      headers,
      body: JSON.stringify(body),
      signal,
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Trouble("The server does not answer. Is elmo still running? Start it again, then try again.", "gone");
  }
  if (response.ok) return response;
  if (response.status === 401) throw new Trouble("The server asks for an API key.", "key");
  const content = await response.json().catch(() => ({}));
  const said = content.error ?? `The server answered ${response.status}.`;
  throw new Trouble(said[0].toUpperCase() + said.slice(1), "refused");
}

/** @returns {Promise<Info>} */
export const info = async () => (await ask("info")).json();

/** @returns {Promise<Record<string, unknown>>} the model's card */
export const card = async () => (await ask("card")).json();

/** @param {string[]} sentences @param {AbortSignal} [signal] @returns {Promise<Read[]>} */
export async function vectors(sentences, signal) {
  const response = await ask("vectors", { body: { sentences }, signal, accept: "application/x-safetensors" });
  return unpacked(await response.arrayBuffer());
}

/** @param {string[]} sentences @param {AbortSignal} signal @returns {Promise<Scores[]>} */
export async function scores(sentences, signal) {
  return (await (await ask("score", { body: { sentences }, signal })).json()).sentences;
}

/**
 * @param {string[]} sentence @param {number} position @param {string} side @param {AbortSignal} signal
 * @returns {Promise<Substitute[]>}
 */
export async function substitutes(sentence, position, side, signal) {
  const body = { sentence, position, side, k: 12 };
  return (await (await ask("substitutes", { body, signal })).json()).substitutes;
}

/**
 * Returns uses of a word in the index, taken evenly over its text, and their total number.
 * @param {string} word @param {number} most @param {AbortSignal} signal
 * @returns {Promise<{count: number, uses: {sentence: string[], position: number}[]}>}
 */
export async function indexed(word, most, signal) {
  return (await ask("uses", { body: { word, most }, signal })).json();
}

/**
 * Reads the sentences of a safetensors file: arrays "0", "1", ... of (layers, tokens, numbers), and their tokens.
 * @param {ArrayBuffer} buffer
 * @returns {Read[]}
 */
function unpacked(buffer) {
  const size = Number(new DataView(buffer).getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, size)));
  return JSON.parse(header.__metadata__.tokens).map((/** @type {string[]} */ tokens, /** @type {number} */ number) => {
    const {
      shape,
      data_offsets: [begin, end],
    } = header[number];
    const [nLayers, nTokens, dim] = shape;
    const all = new Float32Array(buffer.slice(8 + size + begin, 8 + size + end));
    const vector = (/** @type {number} */ at) => all.subarray(at * dim, (at + 1) * dim);
    const layers = range(nLayers).map((layer) => range(nTokens).map((token) => vector(layer * nTokens + token)));
    return { tokens, layers };
  });
}

/** @param {number} n @returns {number[]} 0 to n - 1 */
export const range = (n) => Array.from({ length: n }, (_, i) => i);
