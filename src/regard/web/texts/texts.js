// The texts of the page in the reader's language. Each language is written by hand in its own files.

import { LOOK_EN } from "./look.en.js";
import { LOOK_KO } from "./look.ko.js";
import { PAGE_EN } from "./page.en.js";
import { PAGE_KO } from "./page.ko.js";
import { STEPS_EN } from "./steps.en.js";
import { STEPS_KO } from "./steps.ko.js";

/** @type {Record<string, Record<string, any>>} */
const TEXTS = {
  en: flatten({ ...PAGE_EN, look: LOOK_EN, step: STEPS_EN }),
  ko: flatten({ ...PAGE_KO, look: LOOK_KO, step: STEPS_KO }),
};
/** @type {(() => void)[]} */
const languageListeners = [];
let current = "en";

/** The code of the language in use. */
export const language = () => current;

/** The codes of all languages. */
export const languages = () => Object.keys(TEXTS);

/** @param {string} code */
export function setLanguage(code) {
  current = code in TEXTS ? code : "en";
  for (const listener of languageListeners) listener();
}

/**
 * Calls `listener` after each change of the language; listeners run in the order in which they were added.
 * @param {() => void} listener
 */
export function onLanguage(listener) {
  languageListeners.push(listener);
}

/**
 * The text with this key; a text with values in it is a function of them.
 * @param {string} key such as "try.heads" or "step.softmax.title"
 * @param {...any} values
 * @returns {any} text, in almost all cases
 */
export function t(key, ...values) {
  const text = TEXTS[current][key] ?? TEXTS.en[key] ?? key;
  return typeof text === "function" ? text(...values) : text;
}

/**
 * Each key of a language with the type of its text, to compare languages in tests.
 * @param {string} code
 */
export function textTypes(code) {
  return Object.entries(TEXTS[code]).map(([key, text]) => `${key}: ${Array.isArray(text) ? text.length : typeof text}`);
}

/**
 * Writes the texts into elements that name theirs: data-text, data-label (aria-label), data-placeholder.
 * @param {Document | Element} root
 */
export function translateElements(root) {
  const marked = (
    /** @type {string} */ name,
  ) => /** @type {NodeListOf<any>} */ (root.querySelectorAll(`[data-${name}]`));
  for (const element of marked("text")) element.textContent = t(element.dataset.text);
  for (const element of marked("label")) element.setAttribute("aria-label", t(element.dataset.label));
  for (const element of marked("placeholder")) element.placeholder = t(element.dataset.placeholder);
}

/**
 * { a: { b: "text" } } → { "a.b": "text" }
 * @param {Record<string, any>} texts
 * @param {string} [prefix]
 * @returns {Record<string, any>}
 */
function flatten(texts, prefix = "") {
  return Object.fromEntries(
    Object.entries(texts).flatMap(([key, value]) =>
      value !== null && typeof value === "object" && !Array.isArray(value)
        ? Object.entries(flatten(value, `${prefix}${key}.`))
        : [[prefix + key, value]]
    ),
  );
}
