// The state in the address, so that a link, the back button and a reload lead to the same sight.
// It stands after the "#": that part never leaves the browser, so no log on the way holds anybody's text.

import { change, onChange, state, UNTOUCHED, VIEWS } from "./state.js";

const LONGEST = 16_000; // characters of an address; beyond that a link is of no use in most places
const ATTENTIONS = ["encoder", "decoder", "cross"];
const KEPT = ["view", "text", "line", "model", "source", "target", "place", "changes"];
const WAIT = 250; // milliseconds; browsers refuse to rewrite an address at every keystroke or step of the pointer

let waiting = 0;
let known = null; // the address as we last read or wrote it

/** Take over what the address says, and from now on keep the two the same. `settle` completes what was read. */
export function start(settle) {
  const follow = () => location.hash !== known && change(ofItsText(settle(read())));
  follow();
  for (const event of ["popstate", "hashchange"]) window.addEventListener(event, follow);
  onChange(KEPT, ({ changed, step }) => {
    if (step) push();
    else if (changed.has("text") || changed.has("place")) later();
    else replace();
  });
}

/** The whole address of what is seen now; without the text when that is too long. */
export function link() {
  return new URL(hash(), location.href).href;
}

/** Whether the text fits into a link. */
export const fits = () => encodeURIComponent(state.text).length <= LONGEST;

function later() {
  clearTimeout(waiting);
  waiting = setTimeout(replace, WAIT);
}

function replace() {
  write("replaceState");
}

function push() {
  write("pushState");
}

/** Write the address, unless the reader has just changed it: then it is about to be read. */
function write(how) {
  clearTimeout(waiting);
  if (location.hash !== known || hash() === known) return;
  history[how](null, "", hash());
  known = location.hash;
}

function hash() {
  const parts = new URLSearchParams();
  const put = (name, value) => value !== null && value !== undefined && value !== "" && parts.set(name, value);
  put("from", state.source);
  put("to", state.target);
  put("model", state.models.length > 1 || !state.target ? state.model : null);
  if (fits()) put("text", state.text);
  put("line", state.line ? state.line + 1 : null);
  for (const name of ["stop", "attention", "layer", "head", "level"]) put(name, state.place[name]);
  put("off", state.changes.off.join(","));
  if (!state.changes.scale) put("scale", "off");
  if (!state.changes.mask) put("mask", "off");
  if (state.changes.positions !== "normal") put("positions", state.changes.positions);
  return `#${state.view}?${parts}`;
}

/** An alternative that was chosen belongs to its text and model: with others, none is. */
function ofItsText(changed) {
  const same = ["text", "model", "source", "target"].every((name) =>
    !(name in changed) || changed[name] === state[name]
  );
  return same ? changed : { ...changed, chosen: {} };
}

/** The state that the address tells; what it does not tell, or tells wrongly, is as at the beginning. */
function read() {
  known = location.hash;
  const [name, rest = ""] = splitOnce(location.hash.slice(1), "?");
  const parts = new URLSearchParams(rest);
  const changed = {
    view: VIEWS.includes(name) ? name : "translate",
    line: Math.max(0, (whole(parts.get("line")) ?? 1) - 1),
    source: parts.get("from"),
    target: parts.get("to"),
    model: parts.get("model"),
    place: placeOf(parts),
    changes: changesOf(parts),
  };
  if (parts.has("text") || fits()) changed.text = parts.get("text") ?? "";
  return changed;
}

function placeOf(parts) {
  const place = {};
  for (const name of ["stop", "layer", "head"]) {
    const value = whole(parts.get(name));
    if (value !== null) place[name] = value;
  }
  if (ATTENTIONS.includes(parts.get("attention"))) place.attention = parts.get("attention");
  if (["words", "pieces"].includes(parts.get("level"))) place.level = parts.get("level");
  return place;
}

function changesOf(parts) {
  const off = (parts.get("off") ?? "").split(",").filter((key) =>
    /^(encoder|decoder|cross)\.\d{1,3}\.\d{1,3}$/.test(key)
  );
  const positions = parts.get("positions");
  return {
    off: [...new Set(off)],
    scale: parts.get("scale") !== "off",
    mask: parts.get("mask") !== "off",
    positions: ["shuffled", "none"].includes(positions) ? positions : UNTOUCHED.positions,
  };
}

const whole = (value) => (value !== null && /^\d{1,6}$/.test(value) ? Number(value) : null);

function splitOnce(text, mark) {
  const place = text.indexOf(mark);
  return place < 0 ? [text] : [text.slice(0, place), text.slice(place + 1)];
}
