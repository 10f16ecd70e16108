// What the model computes for a line. One question a line: moving between heads, or from view to view, asks nothing again.

import { ask, onReturn } from "./service.js";
import { lookedAt, state, UNTOUCHED } from "./state.js";

const known = new Map(); // the last looks, by what was asked
const MOST = 6; // a look holds every number of a sentence: some megabytes

onReturn(() => known.clear());

/** The question for the line that is looked into; null when there is none. */
export function question(changes = UNTOUCHED) {
  const { number, text } = lookedAt();
  if (!text || !state.model) return null;
  return {
    text,
    model: state.model,
    target: state.target,
    translation: state.chosen[number]?.text ?? null,
    arrays: "base64",
    interventions: {
      heads_off: changes.off.map(headOf),
      scale: changes.scale,
      mask: changes.mask,
      positions: changes.positions,
    },
  };
}

/** The answer to it, kept for the next time. */
export async function look(body, signal) {
  const key = JSON.stringify(body);
  if (!known.has(key)) {
    const answer = await ask("v1/look", { body, signal });
    known.set(key, answer);
    if (known.size > MOST) known.delete(known.keys().next().value);
  }
  return known.get(key);
}

/** "encoder.0.3" → { attention, layer, head } */
export function headOf(key) {
  const [attention, layer, head] = key.split(".");
  return { attention, layer: Number(layer), head: Number(head) };
}

export const keyOf = ({ attention, layer, head }) => `${attention}.${layer}.${head}`;

export const touched = (changes) => JSON.stringify(changes) !== JSON.stringify(UNTOUCHED);
