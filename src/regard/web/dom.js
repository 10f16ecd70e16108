// Elements from script: text only ever goes in as text, so nothing that a person wrote can become markup.

const SVG = "http://www.w3.org/2000/svg";

/** The element of the page with this id. */
export const byId = (id) => document.getElementById(id);

/** An element with attributes, listeners (functions under "onclick" and the like) and children. */
export function make(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** The same for SVG. */
export function draw(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** Somebody's words inside a sentence of ours: whatever their direction, they can not turn the rest of the line around. */
export const quoted = (text) => `\u2068${text.replace(/[\u2066-\u2069]/g, "")}\u2069`;

/** What this browser kept for us, or null; storage may be forbidden. */
export function kept(name, storage = "localStorage") {
  try {
    return window[storage].getItem(`regard.${name}`);
  } catch {
    return null;
  }
}

/** Keep a value in this browser; null forgets it. */
export function keep(name, value, storage = "localStorage") {
  try {
    if (value === null) window[storage].removeItem(`regard.${name}`);
    else window[storage].setItem(`regard.${name}`, value);
  } catch {
    // Nothing depends on it.
  }
}

/** Put text on the clipboard, also where the page came over plain http and the browser offers no clipboard. */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const field = make("textarea", { class: "unseen", readonly: true });
    field.value = text;
    const focused = document.activeElement;
    document.body.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    focused?.focus();
    return done;
  }
}
