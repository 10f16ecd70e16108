// The stage's own modules and style sheets, fetched once, when a view needs them.

import { make } from "./dom.js";

const BASE = new URL("./stage/", import.meta.url);
const SHEETS = ["stage.css", "stage_map.css", "stage_panels.css", "stage_pictures.css", "stage_wall.css"]; // in this order
let styled = null;

/** A module of the stage, with its style sheets in place. Ask the service something first: that waits until it is there. */
export async function stageModule(name) {
  styled ??= Promise.all(SHEETS.map(addSheet)).catch((error) => {
    styled = null;
    throw error;
  });
  const [module] = await Promise.all([import(new URL(name, BASE).href), styled]);
  return module;
}

/** Before the page's own sheet, which has the last word. */
function addSheet(name) {
  const pages = document.head.querySelector('link[rel=stylesheet][href*="page.css"]');
  return new Promise((done, fail) => {
    const failed = () => {
      sheet.remove();
      fail(new Error(name));
    };
    const sheet = make("link", { rel: "stylesheet", href: new URL(name, BASE).href, onload: done, onerror: failed });
    document.head.insertBefore(sheet, pages);
  });
}
