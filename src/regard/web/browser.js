// What the browser offers around the page: stored settings and the clipboard.

import { make } from "./dom.js";

/** @typedef {"localStorage" | "sessionStorage"} Storage */

/**
 * A stored setting, or null; storage may be forbidden.
 * @param {string} name
 * @param {Storage} [storage]
 * @returns {string | null}
 */
export function loadSetting(name, storage = "localStorage") {
  try {
    return window[storage].getItem(`regard.${name}`);
  } catch {
    return null;
  }
}

/**
 * Stores a setting in this browser; null removes it.
 * @param {string} name
 * @param {string | null} value
 * @param {Storage} [storage]
 */
export function saveSetting(name, value, storage = "localStorage") {
  try {
    if (value === null) window[storage].removeItem(`regard.${name}`);
    else window[storage].setItem(`regard.${name}`, value);
  } catch {
    // The page works without stored settings.
  }
}

/**
 * Copies text, also over plain HTTP, where the browser offers no clipboard API.
 * @param {string} text
 * @returns {Promise<boolean>} whether it worked
 */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const field = make("textarea", { class: "visually-hidden", readonly: true });
    field.value = text;
    const focused = /** @type {HTMLElement | null} */ (document.activeElement);
    document.body.append(field);
    field.select();
    const copied = document.execCommand("copy");
    field.remove();
    focused?.focus();
    return copied;
  }
}
