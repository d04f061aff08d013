// Makes elements, shows messages, and runs work of which only the latest counts.

import { Trouble } from "./api.js";

const SVG = "http://www.w3.org/2000/svg";

/** @param {string} id @returns {any} the element, which the page has */
export const find = (id) => document.getElementById(id);

/**
 * Makes an HTML element. Attributes that begin with "on" are listeners; `true` sets an empty attribute, `false` none.
 * @param {string} tag @param {Record<string, any>} attributes @param {...(Node | string)} children
 * @returns {any}
 */
export function h(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/**
 * Makes an SVG element, with attributes as those of `h`.
 * @param {string} tag @param {Record<string, any>} attributes @param {...(Node | string)} children
 * @returns {any}
 */
export function s(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

/** @param {Element} element @param {Record<string, any>} attributes @param {(Node | string)[]} children */
function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name.startsWith("--")) /** @type {HTMLElement} */ (element).style.setProperty(name, value);
    else if (value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children);
  return element;
}

/**
 * Announces a message to screen readers and, if `isShown`, shows it for a moment.
 * @param {string | (Node | string)[]} message @param {boolean} [isShown] whether the message is also shown
 */
export function say(message, isShown = true) {
  find("said").replaceChildren(...[message].flat());
  find("said").classList.toggle("unseen", !isShown);
  hush();
}

const hush = calm(() => find("said").classList.add("unseen"), 4000);

/**
 * Returns a function that calls `work` once it has itself not been called for `wait` milliseconds.
 * @param {() => void} work @param {number} wait @returns {() => void}
 */
export function calm(work, wait = 350) {
  let timer = 0;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(work, wait);
  };
}

/**
 * Returns a function that runs work which may take long. A new run aborts the one before; errors are shown in `box`.
 * @param {HTMLElement} box
 * @param {(signal: AbortSignal) => Promise<void>} work
 * @returns {() => Promise<void>}
 */
export function latest(box, work) {
  let running = new AbortController();
  const run = async () => {
    running.abort();
    const mine = (running = new AbortController());
    const part = box.parentElement;
    part?.setAttribute("aria-busy", "true");
    try {
      await work(mine.signal);
      if (!mine.signal.aborted) box.hidden = true;
    } catch (error) {
      if (!mine.signal.aborted) complain(box, error, run);
    } finally {
      if (!mine.signal.aborted) part?.removeAttribute("aria-busy");
    }
  };
  return run;
}

/** Marks a section that still shows the answer to an earlier text. @param {HTMLElement} section */
export const waits = (section) => section.setAttribute("aria-busy", "true");

/** Shows an error on the page. @param {HTMLElement} box @param {any} error @param {() => unknown} again */
export function complain(box, error, again) {
  if (!(error instanceof Trouble)) console.error(error);
  if (error.kind === "key") {
    find("key").hidden = false;
    find("key-field").focus();
  }
  const message = error instanceof Trouble ? error.message : `This page made an error: ${error.message}`;
  const button =
    error.kind === "other"
      ? h("button", { type: "button", onclick: () => location.reload() }, "Reload the page")
      : h("button", { type: "button", onclick: again }, "Try again");
  box.replaceChildren(h("p", {}, message), button);
  box.hidden = false;
}

/**
 * Adds a row of radio buttons below the legend of a fieldset.
 * @param {HTMLElement} fieldset @param {[string, string][]} options values and their labels
 * @param {(value: string) => void} chosen
 */
export function choices(fieldset, options, chosen) {
  for (const [value, text] of options) {
    const radio = h("input", { type: "radio", name: fieldset.id, value, onchange: () => chosen(value) });
    fieldset.append(h("label", {}, radio, " ", text));
  }
}

/** @param {HTMLElement} fieldset @param {string} value */
export function check(fieldset, value) {
  for (const each of fieldset.querySelectorAll("input")) each.checked = each.value === value;
}

/**
 * Adds buttons that put an example into the fields.
 * @template T
 * @param {HTMLElement} box @param {T[]} all @param {(each: T) => string} named @param {(each: T) => void} chosen
 */
export function examples(box, all, named, chosen) {
  const button = (/** @type {T} */ each) => h("button", { type: "button", onclick: () => chosen(each) }, named(each));
  box.replaceChildren(h("span", {}, "Examples:"), ...all.map(button));
}
