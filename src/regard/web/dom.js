// Builds elements. Text is always inserted as a text node, so nothing that a user wrote can become markup.

const SVG_NAMESPACE = "http://www.w3.org/2000/svg";
const WORD_START = "▁"; // SentencePiece's mark for the start of a word

/** @typedef {string | Node | null | undefined} Child text or a node; null and undefined are skipped */

/**
 * The element of the page with this id.
 * @param {string} id
 * @returns {any} the concrete element type depends on the id
 */
export const byId = (id) => document.getElementById(id);

/**
 * An HTML element: make("p", { class: "note", onclick }, "text", child).
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Record<string, any>} [attributes] functions become listeners; null, undefined and false are left out
 * @param {...(Child | Child[])} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function make(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/**
 * The same for SVG.
 * @template {keyof SVGElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Record<string, any>} [attributes]
 * @param {...(Child | Child[])} children
 * @returns {SVGElementTagNameMap[Tag]}
 */
export function makeSvg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG_NAMESPACE, tag), attributes, children);
}

/**
 * @template {Element} T
 * @param {T} element
 * @param {Record<string, any>} attributes
 * @param {(Child | Child[])[]} children
 */
function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else setAttribute(element, name, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

/**
 * Sets an attribute; null, undefined and false remove it.
 * @param {Element} element
 * @param {string} name
 * @param {any} value
 */
export function setAttribute(element, name, value) {
  if (value === null || value === undefined || value === false) element.removeAttribute(name);
  else element.setAttribute(name, value === true ? "" : String(value));
}

/**
 * Sets the text only if it has changed, so that a screen reader does not announce it twice.
 * @param {Element} element
 * @param {string} text
 */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/**
 * A word of the sentence, isolated from the text direction around it and in the colour of its side.
 * @param {string} text
 * @param {string | null} [side]
 */
export function wordElement(text, side = null) {
  const name = side ? `word of-${side}` : "word";
  if (!text.startsWith(WORD_START) || text === WORD_START) return make("bdi", { class: name }, text);
  return make("bdi", { class: name }, make("span", { class: "start-mark" }, WORD_START), text.slice(1));
}

/**
 * The same where only plain text is possible: isolating characters keep a right-to-left word from reversing the line.
 * @param {string} text
 */
export const isolated = (text) => `\u2068${text.replace(/[\u2066-\u2069]/g, "")}\u2069`;

/**
 * A number as it is shown, which also has its exact value.
 * @param {number} value
 * @param {string} text
 * @param {Record<string, any>} [attributes]
 */
export const numberElement = (value, text, attributes = {}) => make("data", { ...attributes, value }, text);

let nIds = 0;

/**
 * An id that no other element of the page has.
 * @param {string} prefix
 */
export function uniqueId(prefix) {
  nIds += 1;
  return `${prefix}-${nIds}`;
}

/**
 * A table; the first cell of each row is its header.
 * @param {string} caption for screen readers only
 * @param {Child[]} head
 * @param {Child[][]} rows
 */
export function table(caption, head, rows) {
  return make(
    "table",
    {},
    make("caption", { class: "visually-hidden" }, caption),
    make("thead", {}, make("tr", {}, head.map((cell) => make("th", { scope: "col" }, cell)))),
    make(
      "tbody",
      {},
      rows.map((row) => make("tr", {}, row.map((cell, i) => make(i ? "td" : "th", i ? {} : { scope: "row" }, cell)))),
    ),
  );
}
