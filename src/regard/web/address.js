// Keeps the state in the address, so that a link, the back button and a reload lead to the same view.
// It is stored after the "#", which browsers never send: the text does not appear in anybody's log.

import { headKey, parseHeadKey } from "./look/head_key.js";
import { placeParameters, readPlace } from "./look/place.js";
import { change, onChange, state, UNCHANGED, VIEWS } from "./state.js";

const MAX_TEXT = 16_000; // encoded characters; longer addresses do not work everywhere
const WRITE_DELAY = 250; // milliseconds; browsers limit how often an address may be rewritten
/** @type {(keyof import("./state.js").State)[]} */
const STORED = [
  "view",
  "text",
  "line",
  "model",
  "source",
  "target",
  "chosen",
  "place",
  "changes",
  "depends",
  "importance",
];

let timer = 0;
let current = null; // the hash as last read or written

/**
 * Reads the state from the address and keeps both the same from now on.
 * @param {(values: Record<string, any>) => Record<string, any>} complete fills in what the address does not state
 */
export function startAddress(complete) {
  const follow = () => location.hash !== current && change(complete(read()));
  follow();
  for (const event of ["popstate", "hashchange"]) window.addEventListener(event, follow);
  onChange(STORED, ({ changed, addHistory }) => {
    clearTimeout(timer);
    if (addHistory) write("pushState");
    else if (changed.has("text") || changed.has("place")) timer = setTimeout(() => write("replaceState"), WRITE_DELAY);
    else write("replaceState");
  });
}

/** The address of the current view; without the text if that is too long. */
export function link() {
  return new URL(hash(), location.href).href;
}

/** Whether the text fits into a link. */
export const textFits = () => encodeURIComponent(state.text).length <= MAX_TEXT;

/**
 * Writes the address, unless the user has just changed it: then it is about to be read.
 * @param {"pushState" | "replaceState"} method
 */
function write(method) {
  clearTimeout(timer);
  if (location.hash !== current || hash() === current) return;
  history[method](null, "", hash());
  current = location.hash;
}

function hash() {
  const params = new URLSearchParams();
  const set = (name, value) => value !== null && value !== undefined && value !== "" && params.set(name, value);
  set("from", state.source);
  set("to", state.target);
  set("model", state.models.length > 1 || !state.target ? state.model : null);
  if (textFits()) set("text", state.text);
  set("line", state.line ? state.line + 1 : null);
  set("alternative", writeChosen(state.chosen));
  for (const [name, value] of placeParameters(state.place)) set(name, value);
  set("off", state.changes.off.map((key) => movedKey(key, 1)).join(","));
  if (!state.changes.scale) set("scale", "off");
  if (!state.changes.mask) set("mask", "off");
  if (state.changes.positions !== "normal") set("positions", state.changes.positions);
  if (state.depends) set("depends", "on");
  if (state.importance) set("importance", "on");
  return `#${state.view}?${params}`;
}

/** The state in the address, with defaults for what is missing or invalid. */
function read() {
  current = location.hash;
  const [name, query = ""] = splitOnce(location.hash.slice(1), "?");
  const params = new URLSearchParams(query);
  /** @type {Record<string, any>} */
  const values = {
    view: VIEWS.includes(name) ? name : "translate",
    line: Math.max(0, (parseIndex(params.get("line")) ?? 1) - 1),
    source: params.get("from"),
    target: params.get("to"),
    model: params.get("model"),
    chosen: readChosen(params),
    place: readPlace(params),
    changes: readChanges(params),
    depends: params.get("depends") === "on",
    importance: params.get("importance") === "on",
  };
  if (params.has("text") || textFits()) values.text = params.get("text") ?? "";
  return values;
}

/** The ranks of the selected alternatives, line by line: "2", or "0,0,1" for the first alternative of line 3. */
function writeChosen(chosen) {
  const nLines = 1 + Math.max(-1, ...Object.keys(chosen).map(Number));
  return Array.from({ length: nLines }, (_, line) => chosen[line]?.rank ?? 0).join(",");
}

/** Their texts become known with the translation. */
function readChosen(/** @type {URLSearchParams} */ params) {
  const ranks = (params.get("alternative") ?? "").split(",").map((rank) => parseIndex(rank) ?? 0);
  return Object.fromEntries(ranks.flatMap((rank, line) => (rank ? [[line, { rank, text: null }]] : [])));
}

/** @param {URLSearchParams} params */
function readChanges(params) {
  const isHead = (key) => /^(encoder|decoder|cross)\.[1-9]\d{0,2}\.[1-9]\d{0,2}$/.test(key);
  const positions = params.get("positions");
  const off = (params.get("off") ?? "").split(",").filter(isHead);
  return {
    off: [...new Set(off.map((key) => movedKey(key, -1)))],
    scale: params.get("scale") !== "off",
    mask: params.get("mask") !== "off",
    positions: ["shuffled", "none"].includes(positions) ? positions : UNCHANGED.positions,
  };
}

/** A head counted from 0 → the same counted from 1, as people count, or back. */
function movedKey(/** @type {string} */ key, /** @type {number} */ by) {
  const { attention, layer, head } = parseHeadKey(key);
  return headKey({ attention, layer: layer + by, head: head + by });
}

const parseIndex = (value) => (value !== null && /^\d{1,6}$/.test(value) ? Number(value) : null);

function splitOnce(text, separator) {
  const index = text.indexOf(separator);
  return index < 0 ? [text] : [text.slice(0, index), text.slice(index + 1)];
}
