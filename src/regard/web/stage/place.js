// Where the reader stands: a stop of the walk, and what is looked at there.

import { moveLevel } from "./words.js";
import { stackOf, USES } from "./seen.js";

export const STOPS = [
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
];

/** A stop's number (1 … 15) from a number, a numeral or a name. */
export function stopNumber(stop) {
  const named = STOPS.indexOf(stop) + 1;
  const number = named || Math.round(Number(stop)) || 1;
  return Math.min(Math.max(number, 1), STOPS.length);
}

function within(value, n, otherwise) {
  if (value === null || value === undefined || value === "" || Number.isNaN(Number(value))) return otherwise;
  return Math.min(Math.max(Math.round(Number(value)), 0), n - 1);
}

/** The word that a newcomer should look at first: "it" where there is one, else the middle of the sentence. */
function firstRow(units) {
  const it = units.findIndex((unit) => /^▁?(it|es|sie|er)$/i.test(unit.text));
  return it >= 0 ? it : Math.floor((units.length - 1) / 2);
}

/** A whole, valid place from a part of one; rows and columns are those of the place's own level. */
export function settle(part, seen) {
  const stop = stopNumber(part.stop);
  let attention = USES.includes(part.attention) ? part.attention : "encoder";
  if (STOPS[stop - 1] === "masked") attention = "decoder";
  if (STOPS[stop - 1] === "cross") attention = "cross";
  const level = part.level === "pieces" ? "pieces" : "words";
  const rows = seen.rows(attention, level);
  const columns = seen.columns(attention, level);
  const layer = within(part.layer, seen.nLayers(attention), attention === "encoder" ? 0 : seen.nLayers(attention) - 1);
  const head = within(part.head, seen.model.n_heads, 0);
  return {
    stop,
    attention,
    layer,
    head,
    level,
    row: within(part.row, rows.length, firstRow(rows)),
    column: within(
      part.column,
      columns.length,
      strongest(seen, { attention, layer, head }, level, within(part.row, rows.length, firstRow(rows))),
    ),
    part: part.part === "feed_forward" ? "feed_forward" : "attention",
    step: within(part.step, seen.look.steps.length, 0),
  };
}

function strongest(seen, where, level, row) {
  const weights = seen.weights(where, level);
  const n = seen.columns(where.attention, level).length;
  let best = 0;
  for (let i = 1; i < n; i += 1) if (weights[row * n + i] > weights[row * n + best]) best = i;
  return best;
}

/** The place after a change: another level keeps the word, another sentence side forgets it. */
export function moved(place, change, seen) {
  const next = { ...place, ...change };
  next.stop = stopNumber(next.stop);
  const forced = { masked: "decoder", cross: "cross" }[STOPS[next.stop - 1]];
  if (forced) next.attention = forced;
  if (!USES.includes(next.attention)) next.attention = place.attention;
  if (next.attention !== place.attention) {
    if (!("row" in change)) next.row = rowElsewhere(place, next, seen);
    if (!("column" in change)) next.column = null;
    next.layer = Math.min(next.layer, seen.nLayers(next.attention) - 1);
  } else if (next.level !== place.level) {
    if (!("row" in change)) next.row = moveLevel(seen.querySide(place.attention), place.row, place.level, next.level);
    if (!("column" in change)) {
      next.column = moveLevel(seen.keySide(place.attention), place.column, place.level, next.level);
    }
  } else if ("row" in change && !("column" in change)) next.column = null;
  return settle(next, seen);
}

/** The same position when both attentions have the decoder's rows; else the newcomer's word. */
function rowElsewhere(place, next, seen) {
  const same = stackOf(place.attention) === stackOf(next.attention) && place.level === next.level;
  return same && place.row < seen.rows(next.attention, next.level).length ? place.row : null;
}

/** One step of the walk. The data's order: encoder first, so going on from it changes to the decoder. */
export function walked(place, direction, seen) {
  const stop = place.stop + direction;
  if (stop < 1 || stop > STOPS.length) return place;
  const back = direction < 0 && STOPS[place.stop - 1] === "masked";
  return moved(place, back ? { stop, attention: "encoder" } : { stop }, seen);
}
