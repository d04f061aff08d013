// Keeps the texts and choices of the page in its address behind the #, which no server sees, without initial values.

import { EXAMPLES } from "./examples.js";

/** @typedef {Record<string, string>} State */

/** @type {State} */
const FIRST = {
  h: "0",
  t: "",
  s: EXAMPLES.word[0].text,
  w: EXAMPLES.word[0].word,
  mix: "",
  gamma: "1",
  heat: "",
  e: EXAMPLES.expects[0],
  place: "1.4",
  side: "both",
  from: "text",
  u: EXAMPLES.uses[0].text,
  x: EXAMPLES.uses[0].word,
  left: "",
  right: "",
  use: "",
  at: "",
};
const LONGEST = 8000;
/** The most letters of an address, since programs that send longer ones cut them. */

const EXAMPLE = new Set(["s", "w", "e", "place", "u", "x"]);
/** What a copied link holds even if it is unchanged, since the examples of another server may differ. */

const PAUSE = 200;
/** The milliseconds between two addresses: a slider makes more in a second than browsers accept. */

/** @type {State} */
let state = now();
let timer = 0;

/** @param {string} hash @returns {State} */
function read(hash) {
  const found = new URLSearchParams(hash.slice(1));
  return Object.fromEntries(Object.entries(FIRST).map(([name, first]) => [name, found.get(name) ?? first]));
}

/** Returns the state of the address. A state that is too long for an address is in the history. @returns {State} */
function now() {
  return { ...read(location.hash), ...history.state };
}

/** @param {string} name @returns {string} */
export const get = (name) => state[name];

/**
 * Changes the state and, soon, the address. A step is a choice, to which Back returns; typing and sliding are not.
 * @param {State} changes @param {boolean} [isStep]
 */
export function set(changes, isStep = false) {
  if (isStep && Object.entries(changes).some(([name, value]) => state[name] !== value)) {
    write();
    state = { ...state, ...changes };
    return write(true);
  }
  state = { ...state, ...changes };
  timer ||= setTimeout(() => write(), PAUSE);
}

/** @param {boolean} isWhole whether it holds unchanged examples, too @returns {string} empty if it is too long */
function address(isWhole) {
  const isKept = (/** @type {string} */ name) => state[name] !== FIRST[name] || (isWhole && EXAMPLE.has(name));
  const kept = Object.entries(state).filter(([name]) => isKept(name));
  const hash = new URLSearchParams(kept).toString();
  return hash.length > LONGEST ? "" : new URL(`#${hash}`, location.href).href;
}

/** @param {boolean} [isStep] whether Back returns to the address before @param {string} [given] the address */
function write(isStep = false, given = address(false)) {
  clearTimeout(timer);
  timer = 0;
  const held = given ? null : state;
  try {
    if (isStep) history.pushState(held, "", given || location.pathname);
    else history.replaceState(held, "", given || location.pathname);
  } catch {
    timer = setTimeout(() => write(), 10 * PAUSE); // the browser refuses so many addresses in a second
  }
}

/** Writes the address of this view now and returns it; it is empty if it is too long. @returns {string} */
export function link() {
  const whole = address(true) || address(false);
  write(false, whole);
  return whole;
}

/** Calls `changed` whenever another address or entry of the history is opened. @param {() => void} changed */
export function watch(changed) {
  addEventListener("popstate", () => {
    const { hash } = location;
    const isState = [...new URLSearchParams(hash.slice(1)).keys()].some((name) => Object.hasOwn(FIRST, name));
    if (hash && !isState) return; // the address names something else, such as an element of the page
    state = now();
    changed();
  });
}
