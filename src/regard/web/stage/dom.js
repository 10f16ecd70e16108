// Elements are made by calls, and text is always a text node: nothing in a sentence can become markup,
// and a strict content security policy has nothing to forbid.

const SVG_NAMESPACE = "http://www.w3.org/2000/svg";

function furnish(element, options, children) {
  for (const [name, value] of Object.entries(options)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

/** make("p", {class: "say"}, "text", child …) */
export function make(tag, options = {}, ...children) {
  return furnish(document.createElement(tag), options, children);
}

/** The same for SVG. */
export function draw(tag, options = {}, ...children) {
  return furnish(document.createElementNS(SVG_NAMESPACE, tag), options, children);
}

/** Sets an attribute, or takes it away. */
export function put(element, name, value) {
  if (value === null || value === undefined || value === false) element.removeAttribute(name);
  else element.setAttribute(name, value === true ? "" : String(value));
}

/** Writes text only where it changed, so that a screen reader is not told twice. */
export function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

const START_MARK = "▁"; // what SentencePiece writes where a word starts

/** A word of the reader's in its own direction, and its language's colour. */
export function word(text, side = null) {
  const name = side ? `word of-${side}` : "word";
  if (!text.startsWith(START_MARK) || text === START_MARK) return make("bdi", { class: name }, text);
  return make("bdi", { class: name }, make("span", { class: "start-mark" }, START_MARK), text.slice(1));
}

/** The same inside a caption or a sentence, where only text can go: it can not turn the rest around. */
export const quoted = (text) => `\u2068${text.replace(/[\u2066-\u2069]/g, "")}\u2069`;

let made = 0;

/** An id that no other element of the page has. */
export function freshId(start) {
  made += 1;
  return `${start}-${made}`;
}

/** A list of rows as a table; cells are texts or elements. `head` names the columns. */
export function table(caption, head, rows) {
  return make(
    "table",
    {},
    make("caption", { class: "unseen" }, caption),
    make("thead", {}, make("tr", {}, head.map((cell) => make("th", { scope: "col" }, cell)))),
    make(
      "tbody",
      {},
      rows.map((row) => make("tr", {}, row.map((cell, i) => make(i ? "td" : "th", i ? {} : { scope: "row" }, cell)))),
    ),
  );
}
