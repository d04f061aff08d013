// What is typed and chosen <-> the address behind the #, which no server sees. What is as it was at first is left out.

import { EXAMPLES } from "./examples.js";

/** @typedef {Record<string, string>} State */

/** @type {State} */
const FIRST = {
  s: EXAMPLES.word[0].text,
  w: EXAMPLES.word[0].word,
  mix: "",
  gamma: "1",
  heat: "",
  e: EXAMPLES.expects[0],
  place: "1.5",
  side: "both",
  from: "text",
  u: EXAMPLES.uses[0].text,
  x: EXAMPLES.uses[0].word,
  left: "",
  right: "",
  use: "",
  at: "",
};
export const LONGEST = 8000;
/** Letters of an address: longer ones are cut by programs that send them. */

/** @type {State} */
let state = read();

/** @returns {State} */
function read() {
  const found = new URLSearchParams(location.hash.slice(1));
  return Object.fromEntries(Object.entries(FIRST).map(([name, first]) => [name, found.get(name) ?? first]));
}

/** @param {string} name @returns {string} */
export const get = (name) => state[name];

/** Changes the state and the address. @param {State} changes */
export function set(changes) {
  state = { ...state, ...changes };
  const kept = Object.entries(state).filter(([name, value]) => value !== FIRST[name]);
  const hash = new URLSearchParams(kept).toString();
  history.replaceState(null, "", hash.length > LONGEST ? location.pathname : `#${hash}`);
}

/** Whether the address holds all of the state. @returns {boolean} */
export function isWhole() {
  const found = read();
  return Object.keys(FIRST).every((name) => found[name] === state[name]);
}

/** Calls whenever another address is entered. @param {() => void} changed */
export function watch(changed) {
  addEventListener("hashchange", () => {
    state = read();
    changed();
  });
}
