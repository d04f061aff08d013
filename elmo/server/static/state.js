// The texts and choices of the page <-> its address behind the #, which no server sees. Initial values are left out.

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
/** Letters of an address: longer ones are cut by programs that send them. */

const PAUSE = 200;
/** Milliseconds between two addresses: browsers ignore or refuse more than some a second, as a slider makes them. */

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
 * Changes the state, and soon the address. A step is a choice, to which Back returns; typing and sliding are none.
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

/** @param {boolean} [isStep] whether Back is to return to the address before */
function write(isStep = false) {
  clearTimeout(timer);
  timer = 0;
  const now = address() || location.pathname;
  try {
    if (isStep) history.pushState(null, "", now);
    else history.replaceState(null, "", now);
  } catch {
    timer = setTimeout(() => write(), 10 * PAUSE); // too many for this browser
  }
}

/** The address of this view, written now; empty where it is too long. @returns {string} */
export function link() {
  write();
  return address();
}

/** Calls whenever another address is entered. @param {() => void} changed */
export function watch(changed) {
  addEventListener("hashchange", ({ newURL }) => {
    const { hash } = new URL(newURL);
    const isState = [...new URLSearchParams(hash.slice(1)).keys()].some((name) => Object.hasOwn(FIRST, name));
    if (hash && !isState) return; // such as an element of the page
    state = read(hash);
    changed();
  });
}
