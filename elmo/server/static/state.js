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

const PAUSE = 200;
/** The milliseconds between two addresses: a slider makes more in a second than browsers accept. */

/** @type {State} */
let state = read(location.hash);
let timer = 0;

/** @param {string} hash @returns {State} */
function read(hash) {
  const found = new URLSearchParams(hash.slice(1));
  return Object.fromEntries(Object.entries(FIRST).map(([name, first]) => [name, found.get(name) ?? first]));
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

/** @returns {string} */
function address() {
  const kept = Object.entries(state).filter(([name, value]) => value !== FIRST[name]);
  const hash = new URLSearchParams(kept).toString();
  return hash.length > LONGEST ? "" : new URL(`#${hash}`, location.href).href;
}

/** @param {boolean} [isStep] whether Back returns to the address before */
function write(isStep = false) {
  clearTimeout(timer);
  timer = 0;
  const now = address() || location.pathname;
  try {
    if (isStep) history.pushState(null, "", now);
    else history.replaceState(null, "", now);
  } catch {
    timer = setTimeout(() => write(), 10 * PAUSE); // the browser refuses so many addresses in a second
  }
}

/** Writes the address of this view now and returns it; it is empty if it is too long. @returns {string} */
export function link() {
  write();
  return address();
}

/** Calls `changed` whenever another address is entered. @param {() => void} changed */
export function watch(changed) {
  addEventListener("hashchange", ({ newURL }) => {
    const { hash } = new URL(newURL);
    const isState = [...new URLSearchParams(hash.slice(1)).keys()].some((name) => Object.hasOwn(FIRST, name));
    if (hash && !isState) return; // the address names something else, such as an element of the page
    state = read(hash);
    changed();
  });
}
