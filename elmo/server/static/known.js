// What layers know: the figures of the results that the server was started with, if any.

import { figure, figures } from "./api.js";
import { find, h, latest } from "./dom.js";

/** @returns {{show: () => void, draw: () => void}} */
export function known() {
  const section = find("known");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  /** @type {string[]} */
  let addresses = [];
  let isShown = false; // they are of the server, not of the address

  const load = latest(section.querySelector(".trouble"), async (signal) => {
    const all = await figures();
    const pictures = await Promise.all(all.map(({ name }) => figure(name, dark.matches)));
    if (signal.aborted) return;
    isShown = true;
    addresses.forEach((address) => URL.revokeObjectURL(address));
    addresses = pictures.map((picture) => URL.createObjectURL(picture));
    find("known-note").textContent = all.length
      ? ""
      : "No results are served. Start the server with results of probes or tasks: elmo explore --results FOLDER.";
    const box = find("known-figures");
    box.replaceChildren();
    all.forEach(({ name, section: title, caption, alt }, i) => {
      if (title !== all[i - 1]?.section) box.append(h("h3", {}, title), h("div", { class: "drawings" }));
      const save = h("a", { href: addresses[i], download: `${name}.svg` }, "Save SVG");
      const image = h("img", { src: addresses[i], alt });
      box.lastElementChild.append(h("figure", {}, image, h("figcaption", {}, `${caption} `, save)));
    });
  });
  dark.addEventListener("change", load);
  return { show: () => (isShown ? undefined : load()), draw: () => {} };
}
