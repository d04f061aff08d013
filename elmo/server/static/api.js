// Sends requests to the server's routes; errors become `Trouble`, whose message is for the reader of the page.

/** @typedef {{tokens: string[], layers: Float32Array[][]}} Read a sentence: `layers[layer][token]` is a vector */
/** @typedef {{tokens: string[], sentence_ends: number[], forward: number[], backward: number[], known: boolean[]}} Scores */
/** @typedef {{word: string, log_probability: number, forward: number, backward: number}} Substitute */
/** @typedef {{layers: number, dim: number, scores: boolean, index_tokens: number | null}} Sizes */
/** @typedef {Sizes & import("./texts.js").Reading} Facts the model and its way to read */
/** @typedef {{model_id: string, model_sha: string, version: string, max_client_batch_size: number, elmo: Facts}} Info */

const KEY = "elmo-key";
let model = ""; // the sum of the model that the page describes

/** An error that the reader of the page can mend; `kind` is "key", "gone", "refused" or "other" (another model). */
export class Trouble extends Error {
  /** @param {string} message @param {"key" | "gone" | "refused" | "other"} kind */
  constructor(message, kind) {
    super(message);
    this.kind = kind;
  }
}

let given = stored();

/** @returns {string | null} the key of this tab */
function stored() {
  try {
    return sessionStorage.getItem(KEY);
  } catch {
    return null; // the browser lets this page store nothing
  }
}

/** Keeps the key until the tab is closed, or until a reload if the browser stores nothing. @param {string} key */
export function useKey(key) {
  given = key.trim();
  try {
    sessionStorage.setItem(KEY, given);
  } catch {} // the page itself still knows it
}

/** @returns {boolean} whether a key was given */
export const hasKey = () => given !== null;

/** @typedef {{body?: unknown, signal?: AbortSignal, accept?: string}} Options */

/**
 * Returns what `read` finds in the answer to a request, which may break off or come from another program.
 * @template T
 * @param {string} path @param {Options} options @param {(response: Response) => Promise<T>} read
 * @returns {Promise<T>}
 */
async function answer(path, options, read) {
  const response = await ask(path, options);
  const sum = response.headers.get("x-model-sha");
  if (model && sum && sum !== model) throw new Trouble("This server has another model now.", "other");
  try {
    return await read(response);
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new Trouble("The answer broke off or is not elmo’s. Is elmo still running here? Then try again.", "gone");
  }
}

/** @param {string} path @param {Options} options @returns {Promise<Response>} */
async function ask(path, { body, signal, accept = "application/json" }) {
  /** @type {Record<string, string>} */
  const headers = { accept };
  // No header can carry other letters, so the server would refuse such a key.
  if (given !== null && /^[ -~]+$/.test(given)) headers.authorization = `Bearer ${given}`;
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
  const said = typeof content.error === "string" ? content.error : `the server answered ${response.status}; try again`;
  throw new Trouble(said[0].toUpperCase() + said.slice(1), "refused");
}

/** @returns {Promise<Info>} */
export async function info() {
  const found = await answer("info", {}, (response) => response.json());
  model = found.model_sha;
  return found;
}

/** @returns {Promise<Record<string, unknown>>} the model's card */
export const card = () => answer("card", {}, (response) => response.json());

/** @param {string[]} sentences @param {AbortSignal} [signal] @returns {Promise<Read[]>} */
export function vectors(sentences, signal) {
  const options = { body: { sentences }, signal, accept: "application/x-safetensors" };
  return answer("vectors", options, async (response) => unpacked(await response.arrayBuffer()));
}

/** @param {string[]} sentences @param {AbortSignal} signal @returns {Promise<Scores[]>} */
export function scores(sentences, signal) {
  return answer("score", { body: { sentences }, signal }, async (response) => (await response.json()).sentences);
}

/**
 * @param {string[]} sentence @param {number} position @param {string} side @param {AbortSignal} signal
 * @returns {Promise<Substitute[]>}
 */
export function substitutes(sentence, position, side, signal) {
  const body = { sentence, position, side, k: 12 };
  return answer("substitutes", { body, signal }, async (response) => (await response.json()).substitutes);
}

/**
 * Returns uses of a word in the index, taken evenly over its text, and their total number.
 * @param {string} word @param {number} most @param {AbortSignal} signal
 * @returns {Promise<{count: number, uses: {sentence: string[], position: number}[]}>}
 */
export function indexed(word, most, signal) {
  return answer("uses", { body: { word, most }, signal }, (response) => response.json());
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
