// What the page is about at this moment. Whoever shows a part of it listens for that part.

export const VIEWS = ["translate", "look", "try", "training"];
export const UNTOUCHED = Object.freeze({ off: [], scale: true, mask: true, positions: "normal" });

export const state = {
  view: "translate",
  text: "",
  line: 0, // which line of the text is looked into
  models: [], // what the service offers
  model: null, // the name of one of them
  source: null, // language codes; null where the model does not say
  target: null,
  place: {}, // where in the walk: stop, attention, layer, head, level, row, column
  changes: UNTOUCHED, // what "Try it" does to the model; off holds keys such as "encoder.0.3"
  shown: [], // the translation, line by line
  shownOf: { lines: [] }, // what it translates: { lines, model, target }; a line is null as long as the translation shown is an older one
  chosen: {}, // line → { place, text } of the alternative that was taken over
  language: "en",
};

const listeners = [];

/** Call `then` whenever one of these keys has changed. */
export function onChange(keys, then) {
  listeners.push({ keys, then });
}

/** Change some keys, and tell those who listen; `step` makes it a step that the back button takes back. */
export function change(values, { step = false } = {}) {
  const changed = new Set(Object.keys(values).filter((key) => !same(state[key], values[key])));
  if (!changed.size) return;
  Object.assign(state, values);
  for (const { keys, then } of listeners) if (keys.some((key) => changed.has(key))) then({ changed, step });
}

const same = (one, other) => one === other || JSON.stringify(one) === JSON.stringify(other);

/** The lines of the text, as the service counts them: only a line feed ends one. */
export const lines = () => state.text.split("\n");

/** The line that is looked into: the chosen one, or the first that is not blank. */
export function lookedAt() {
  const all = lines();
  const number = all[state.line]?.trim() ? state.line : all.findIndex((line) => line.trim());
  return { number, text: number < 0 ? "" : all[number].trim() };
}

/** The record of the model that is in use, or null as long as the service has not said. */
export const model = () => state.models.find((one) => one.name === state.model) ?? null;
