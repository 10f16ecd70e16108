// Where the reader is: a step of the walk, and what is shown there; also how an address states it.

import { moveLevel } from "../words.js";
import { ATTENTION_KINDS, stackOf } from "./look_data.js";

/** @import { LookData } from "./look_data.js" */

/**
 * @typedef {object} Place
 * @property {number} step 1 … 16, the step of the walk; "stop" in addresses
 * @property {string} attention encoder, decoder or cross
 * @property {number} layer
 * @property {number} head
 * @property {"words" | "pieces"} level
 * @property {number} row index of the query, at this level
 * @property {number} column index of the key, at this level
 * @property {"attention" | "feed_forward"} part the sub-layer, at the step about residual connections
 * @property {string} switched what the switch of the step changes, "scale" or "mask"; "" if it is off
 * @property {"q" | "k" | "v"} vector whose matrix is shown, at the step about them
 * @property {number} outputStep the step of the search, at the step about the vocabulary
 * @property {number | null} position where the word was moved to, at the step about positions
 * @property {number | null} unit of the feed-forward layer, or column of W; null is the most active one, or the first
 * @property {number | null} beamStep how far the beam has grown; null is to the end
 * @property {string} guesses the words that the reader predicts in the two examples, "3,5"; 0 for none, "" before that
 * @property {string} answers which options the reader chose in the quiz, "02-1"; "-" for none
 */

// What an address calls the properties of a place; the values that it need not state; and what it counts from 1.
const PARAMETERS = {
  step: "stop",
  attention: "attention",
  layer: "layer",
  head: "head",
  level: "level",
  row: "row",
  column: "column",
  part: "part",
  switched: "switch",
  vector: "vector",
  outputStep: "output",
  position: "position",
  unit: "unit",
  beamStep: "beam",
  guesses: "guess",
  answers: "answers",
};
const UNSTATED = {
  level: "words",
  part: "attention",
  switched: "",
  vector: "q",
  outputStep: 0,
  guesses: "",
  answers: "",
};
/** @type {Record<string, RegExp>} */
const CODED = { guesses: /^\d{1,3},\d{1,3}$/, answers: /^[\d-]{1,20}$/ };
const FROM_ONE = ["layer", "head", "row", "column", "outputStep", "unit"];

/** The parameters of an address for a place. */
export function placeParameters(/** @type {Record<string, any>} */ place) {
  const stated = Object.keys(PARAMETERS).filter((name) =>
    (place[name] ?? null) !== null && place[name] !== UNSTATED[name]
  );
  return stated.map((name) => [PARAMETERS[name], String(FROM_ONE.includes(name) ? place[name] + 1 : place[name])]);
}

/**
 * The place that an address states, to be completed by `resolvePlace`.
 * @param {URLSearchParams} parameters
 */
export function readPlace(parameters) {
  /** @type {Record<string, any>} */
  const place = {};
  for (const [name, parameter] of Object.entries(PARAMETERS)) {
    const text = parameters.get(parameter) ?? "";
    if (name in CODED) place[name] = CODED[name].test(text) ? text : "";
    else if (/^\d{1,6}$/.test(text)) place[name] = Number(text) - (FROM_ONE.includes(name) ? 1 : 0);
    else if (/^[a-z_]+$/.test(text)) place[name] = text;
  }
  if ("step" in place) place.step = stepNumber(place.step);
  return place;
}

export const STEPS = [
  "pieces",
  "embedding",
  "position",
  "qkv",
  "scores",
  "softmax",
  "values",
  "heads",
  "residual",
  "feed_forward",
  "layers",
  "masked",
  "cross",
  "vocabulary",
  "beam",
  "quiz",
];

/**
 * The number (1 … 16) of a step given by number, numeral or name.
 * @param {any} step
 */
export function stepNumber(step) {
  const number = STEPS.indexOf(step) + 1 || Math.round(Number(step)) || 1;
  return Math.min(Math.max(number, 1), STEPS.length);
}

/** The name of the step at a place. */
export const stepName = (/** @type {{ step: number }} */ { step }) => STEPS[step - 1];

/**
 * @param {any} value
 * @param {number} n
 * @param {number} fallback if the value is missing or not a number
 */
function clamped(value, n, fallback) {
  if (value === null || value === undefined || value === "" || Number.isNaN(Number(value))) return fallback;
  return Math.min(Math.max(Math.round(Number(value)), 0), n - 1);
}

const MAX_COUNT = 1000; // in a link; the steps show fewer

/** The word that opens first: "it" if there is one, else the middle of the sentence. */
function defaultRow(/** @type {{ text: string }[]} */ units) {
  const it = units.findIndex((unit) => /^▁?(it|es|sie|er)$/i.test(unit.text));
  return it >= 0 ? it : Math.floor((units.length - 1) / 2);
}

/**
 * A complete, valid place; rows and columns count at the place's own level.
 * @param {Record<string, any>} partial
 * @param {LookData} data
 * @returns {Place}
 */
export function resolvePlace(partial, data) {
  const step = stepNumber(partial.step);
  let attention = ATTENTION_KINDS.includes(partial.attention) ? partial.attention : "encoder";
  if (STEPS[step - 1] === "masked") attention = "decoder";
  if (STEPS[step - 1] === "cross") attention = "cross";
  const level = partial.level === "pieces" ? "pieces" : "words";
  const rows = data.rows(attention, level);
  const columns = data.columns(attention, level);
  const nLayers = data.nLayers(attention);
  const layer = clamped(partial.layer, nLayers, attention === "encoder" ? 0 : nLayers - 1);
  const head = clamped(partial.head, data.model.n_heads, 0);
  const row = clamped(partial.row, rows.length, defaultRow(rows));
  return {
    step,
    attention,
    layer,
    head,
    level,
    row,
    column: clamped(partial.column, columns.length, strongestColumn(data, { attention, layer, head }, level, row)),
    part: partial.part === "feed_forward" ? "feed_forward" : "attention",
    switched: partial.switched && partial.switched === switchOf(STEPS[step - 1], data) ? partial.switched : "",
    vector: ["q", "k", "v"].includes(partial.vector) ? partial.vector : "q",
    outputStep: clamped(partial.outputStep, data.look.steps.length, 0),
    position: clamped(partial.position, MAX_COUNT, null),
    unit: clamped(partial.unit, data.model.d_ff, null),
    beamStep: clamped(partial.beamStep, MAX_COUNT, null),
    guesses: partial.guesses ?? "",
    answers: partial.answers ?? "",
  };
}

/** What the switch of a step changes in the softmax; undefined if the step has none. */
function switchOf(name, { model, look }) {
  if (name === "masked") return look.interventions.mask ? "mask" : undefined;
  return ["scores", "softmax"].includes(name) && model.attention !== "additive" ? "scale" : undefined;
}

function strongestColumn(data, head, level, row) {
  const weights = data.weights(head, level);
  const n = data.columns(head.attention, level).length;
  let best = 0;
  for (let i = 1; i < n; i += 1) if (weights[row * n + i] > weights[row * n + best]) best = i;
  return best;
}

/**
 * The place after a change. Changing the level keeps the word; changing to another sentence resets it.
 * @param {Place} place
 * @param {Record<string, any>} change
 * @param {LookData} data
 */
export function movePlace(place, change, data) {
  const next = { ...place, ...change };
  next.step = stepNumber(next.step);
  const required = { masked: "decoder", cross: "cross" }[stepName(next)];
  if (required) next.attention = required;
  if (!ATTENTION_KINDS.includes(next.attention)) next.attention = place.attention;
  if (next.attention !== place.attention) {
    if (!("row" in change)) next.row = rowInAttention(place, next, data);
    if (!("column" in change)) next.column = null;
    next.layer = Math.min(next.layer, data.nLayers(next.attention) - 1);
  } else if (next.level !== place.level) {
    if (!("row" in change)) next.row = moveLevel(data.querySide(place.attention), place.row, place.level, next.level);
    if (!("column" in change)) {
      next.column = moveLevel(data.keySide(place.attention), place.column, place.level, next.level);
    }
  } else if ("row" in change && !("column" in change)) next.column = null;
  // these belong to the word and the layer that are shown
  const sameWord = ["attention", "layer", "level", "row"].every((name) => next[name] === place[name]);
  if (!sameWord) { for (const name of ["position", "unit"]) if (!(name in change)) next[name] = null; }
  return resolvePlace(next, data);
}

/** The same row if both attentions have the decoder's positions as rows, else null for the default. */
function rowInAttention(place, next, data) {
  const same = stackOf(place.attention) === stackOf(next.attention) && place.level === next.level;
  return same && place.row < data.rows(next.attention, next.level).length ? place.row : null;
}

/**
 * The place one step further (1) or back (−1). The encoder comes first; back from the decoder's steps leads to it.
 * @param {Place} place
 * @param {number} direction
 * @param {LookData} data
 */
export function walkPlace(place, direction, data) {
  const step = place.step + direction;
  if (step < 1 || step > STEPS.length) return place;
  const toEncoder = direction < 0 && stepName(place) === "masked";
  return movePlace(place, toEncoder ? { step, attention: "encoder" } : { step }, data);
}
