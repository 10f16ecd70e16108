// The stage's own modules and style sheet, fetched once, when a view needs them.

import { make } from "./dom.js";

const BASE = new URL("./stage/", import.meta.url);
let styled = null;

/** A module of the stage, with the style sheet in place. */
export async function stageModule(name) {
  styled ??= new Promise((done) => {
    const sheet = make("link", { rel: "stylesheet", href: new URL("stage.css", BASE).href, onload: done, onerror: done });
    document.head.insertBefore(sheet, document.head.querySelector("link[rel=stylesheet]"));
  });
  const [module] = await Promise.all([import(new URL(name, BASE).href), styled]);
  return module;
}
