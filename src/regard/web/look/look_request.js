// Requests for what the model computes for a line. Answers are cached: changing the view or the head needs no request.

import { onReconnect, request } from "../service.js";
import { selectedLine, state, UNCHANGED } from "../state.js";
import { parseHeadKey } from "./head_key.js";

/** @import { Changes } from "../state.js" */
/** @import { Head } from "./head_key.js" */

const MAX_CACHED = 6; // a look has every number of a sentence: some megabytes
const cache = new Map();

onReconnect(() => cache.clear());

/**
 * The body of a request for the selected line with the model's own translation; null if there is no line or no model.
 * @param {Changes} [changes]
 */
export function lookRequest(changes = UNCHANGED) {
  const { text } = selectedLine();
  if (!text || !state.model) return null;
  return {
    text,
    model: state.model,
    target: state.target,
    translation: null,
    arrays: "base64",
    interventions: {
      heads_off: changes.off.map(parseHeadKey),
      scale: changes.scale,
      mask: changes.mask,
      positions: changes.positions,
    },
  };
}

/**
 * The translation of the selected line that is on the screen, null if it is not there yet. It is not always the model's
 * own: it may be an alternative, searched again for a lost number, made of several sentences, or found with quantised
 * weights.
 */
export function shownTranslation() {
  const { index, text } = selectedLine();
  if (index in state.chosen) return state.chosen[index].text;
  const { model, target, lines } = state.shownFor;
  const isCurrent = model === state.model && target === state.target && lines[index]?.trim() === text;
  return (isCurrent && state.shown[index]) || null;
}

/**
 * The look at a translation; if it is not what the model's own search finds, it comes with that search, as `own`.
 * @param {NonNullable<ReturnType<typeof lookRequest>>} body
 * @param {string | null} translation null is the model's own
 * @param {AbortSignal} signal
 */
export async function fetchLookAt(body, translation, signal) {
  const own = await fetchLook(body, signal);
  if (translation === null || translation === own.target?.text) return own;
  const look = await fetchLook({ ...body, translation }, signal);
  return Object.assign(look, { beam: own.beam, own: own.target.text });
}

/**
 * The look for a request, from the cache if possible.
 * @param {NonNullable<ReturnType<typeof lookRequest>>} body
 * @param {AbortSignal} signal
 */
export async function fetchLook(body, signal) {
  const key = JSON.stringify(body);
  if (!cache.has(key)) {
    cache.set(key, await request("v1/look", { body, signal }));
    if (cache.size > MAX_CACHED) cache.delete(cache.keys().next().value);
  }
  return cache.get(key);
}

/**
 * How a head of the model in use gets its queries, keys and values in the sentence of a look.
 * @param {any} look
 * @param {Head} head
 */
export function fetchProjection({ source, target }, head) {
  const { model, target: language } = state;
  const body = { text: source.text, translation: target.text, head, model, target: language, arrays: "base64" };
  return request("v1/projection", { body });
}

/** @param {Changes} changes */
export const isChanged = (changes) => JSON.stringify(changes) !== JSON.stringify(UNCHANGED);
