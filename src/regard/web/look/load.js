// Loads the modules and style sheets of "Look inside" when a view first needs them.

import { make } from "../dom.js";

const STYLE_SHEETS = ["base.css", "figure.css", "panels.css", "pictures.css", "steps.css"]; // in this order
let styles = null;

/**
 * A module of this folder, once its style sheets are in place. Call it after a request to the service, which waits until
 * the server is there.
 * @param {string} name
 * @returns {Promise<any>}
 */
export async function loadModule(name) {
  styles ??= Promise.all(STYLE_SHEETS.map(addStyleSheet)).catch((error) => {
    styles = null;
    throw error;
  });
  const [module] = await Promise.all([import(new URL(name, import.meta.url).href), styles]);
  return module;
}

/** Before the page's own style sheet, which overrides it. */
function addStyleSheet(/** @type {string} */ name) {
  const pageSheet = document.head.querySelector('link[rel=stylesheet][href*="page.css"]');
  return new Promise((resolve, reject) => {
    const onerror = () => {
      sheet.remove();
      reject(new Error(name));
    };
    const href = new URL(name, import.meta.url).href;
    const sheet = make("link", { rel: "stylesheet", href, onload: resolve, onerror });
    document.head.insertBefore(sheet, pageSheet);
  });
}
